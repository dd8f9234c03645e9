"""Which delete files apply to which data files (Iceberg spec, "Scan Planning" and "Row-level Deletes").

This depends on sequence numbers, on partitions, and on the data file that a delete file can name. All of it stays in
columns: data files of one partition and one sequence number share one list of delete files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.manifests.fields import EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.partition.structs import one_nan
from deltaberg.schema.arrow import as_array

__all__ = ["AppliedDeletes", "apply_deletes", "row_codes"]


@dataclass(frozen=True)
class AppliedDeletes:
    """The deletes of each data file: a list of delete files, ``deletes``, and a deletion vector, both as numbers.

    The newest delete files come first, so that the lists of one partition begin alike, which readers make use of.
    """

    deletes: pa.ListArray
    vector: pa.Int32Array


def row_codes(columns: Sequence[pa.Array], rows: int) -> pa.Int64Array:
    """Return a number for each row, equal for rows that are equal in all columns.

    Null equals null, and NaN equals NaN, but 0.0 does not equal -0.0.
    """
    codes = pa.repeat(pa.scalar(0, pa.int64()), rows)
    for column in columns:
        part = one_nan(column).dictionary_encode(null_encoding="encode")
        width = pa.scalar(max(len(part.dictionary), 1), pa.int64())
        joined = pc.add(pc.multiply(codes, width), part.indices.cast(pa.int64()))
        codes = joined.dictionary_encode().indices.cast(pa.int64())
    return codes


def apply_deletes(data: pa.Table, deletes: pa.Table) -> AppliedDeletes:
    """Return which delete files apply to data files.

    Parameters
    ----------
    data
        The columns ``file_path``, ``sequence_number``, and ``group``: a number that stands for spec and partition.
    deletes
        Delete files with the same columns and ``content``, ``file_format``, ``referenced_data_file``, ``only_path``
        (the bound of the paths inside, if both bounds are the same) and ``is_global`` (whether the spec is
        unpartitioned, so that equality deletes apply to all partitions).

    Raises
    ------
    CorruptMetadataError
        If two deletion vectors are for one data file.
    """
    rows = len(data)
    numbers = pa.array(range(len(deletes)), pa.int32())
    is_vector = as_array(pc.equal(deletes.column("file_format"), "puffin"))
    is_position = as_array(pc.equal(deletes.column("content"), POSITION_DELETES))
    deletes = deletes.append_column("named", _named(data, deletes))
    names_file = pc.and_(is_position, as_array(deletes.column("named")).is_valid())
    vector = _vectors(data, deletes.filter(is_vector), numbers.filter(is_vector))
    general = pc.invert(pc.or_(is_vector, names_file))
    lists = _by_partition(data, deletes.filter(general), numbers.filter(general))
    single = pc.and_not(names_file, is_vector)
    lists = _with_named(data, lists, deletes.filter(single), numbers.filter(single))
    if vector.null_count < rows:
        lists = _without_positions(lists, vector, is_position)
    return AppliedDeletes(lists, vector)


def _named(data: pa.Table, deletes: pa.Table) -> pa.StringArray:
    """Return the data file that a delete file is for; null if it can be for several.

    A writer may have truncated the bound of the paths, unless it is the path of a data file.
    """
    bound = as_array(deletes.column("only_path"))
    is_file = pc.is_in(bound, value_set=as_array(data.column("file_path")), skip_nulls=True)
    proven = pc.if_else(is_file, bound, pa.scalar(None, pa.string()))
    return pc.coalesce(as_array(deletes.column("referenced_data_file")), proven)


def vector_files(vectors: pa.Table) -> pa.StringArray:
    """Return the path of the data file that each entry of a deletion vector is about.

    Raises
    ------
    CorruptMetadataError
        An entry names none.
    """
    named = as_array(vectors.column("referenced_data_file"))
    if named.null_count:
        raise CorruptMetadataError("a deletion vector does not name its data file (referenced_data_file)")
    return named


def _vectors(data: pa.Table, vectors: pa.Table, numbers: pa.Int32Array) -> pa.Int32Array:
    """Return the number of the deletion vector of each data file."""
    named = vector_files(vectors)
    if not len(vectors):
        return pa.nulls(len(data), pa.int32())
    if len(named.unique()) < len(named):
        twice = pc.value_counts(named)
        path = next(found["values"] for found in twice.to_pylist() if found["counts"] > 1)
        raise CorruptMetadataError("a data file has more than one deletion vector", file=path)
    place = pc.index_in(as_array(data.column("file_path")), value_set=named)
    newer = pc.greater_equal(as_array(vectors.column("sequence_number")).take(place), _sequences(data))
    return pc.if_else(newer.fill_null(False), numbers.take(place), pa.scalar(None, pa.int32()))


def _sequences(data: pa.Table) -> pa.Int64Array:
    return as_array(data.column("sequence_number"))


def _by_partition(data: pa.Table, deletes: pa.Table, numbers: pa.Int32Array) -> pa.ListArray:
    """Return the delete files that apply to each data file by partition and sequence number, or to all partitions."""
    if not len(deletes):
        return pa.nulls(len(data), pa.list_(pa.int32()))
    groups: dict[int | None, list[tuple[int, int]]] = {}
    found = deletes.select(["group", "sequence_number", "content", "is_global"]).to_pylist()
    for number, row in zip(numbers.to_pylist(), found, strict=True):
        is_equality = row["content"] == EQUALITY_DELETES
        # An equality delete applies to older files only, a position delete also to files of its own commit.
        last = row["sequence_number"] - (1 if is_equality else 0)
        groups.setdefault(None if is_equality and row["is_global"] else row["group"], []).append((last, number))
    for entries in groups.values():
        entries.sort(key=_newest_first)
    pairs = pa.table({"group": data.column("group"), "sequence": _sequences(data)})
    codes = row_codes([as_array(pairs.column(name)) for name in pairs.column_names], len(pairs))
    distinct = codes.dictionary_encode()
    first = pc.index_in(distinct.dictionary, value_set=codes)
    lists = []
    for pair in pairs.take(first).to_pylist():
        chosen = _not_before(groups.get(pair["group"], []), pair["sequence"])
        everywhere = _not_before(groups.get(None, []), pair["sequence"])
        if everywhere:
            chosen = sorted([*chosen, *everywhere], key=_newest_first)
        lists.append([number for _, number in chosen] or None)
    return pa.array(lists, pa.list_(pa.int32())).take(distinct.indices)


def _newest_first(entry: tuple[int, int]) -> tuple[int, int]:
    last, number = entry
    return -last, number


def _not_before(entries: list[tuple[int, int]], sequence: int) -> list[tuple[int, int]]:
    return entries[: bisect_right(entries, -sequence, key=lambda entry: -entry[0])]


def _with_named(data: pa.Table, lists: pa.ListArray, deletes: pa.Table, numbers: pa.Int32Array) -> pa.ListArray:
    """Return lists of delete files with those added that name their data file."""
    if not len(deletes):
        return lists
    by_path: dict[str, list[tuple[int, int | None, int]]] = {}
    found = deletes.select(["named", "sequence_number", "group", "referenced_data_file"]).to_pylist()
    for number, row in zip(numbers.to_pylist(), found, strict=True):
        # A file with referenced_data_file applies to that data file whatever its partition is.
        group = row["group"] if row["referenced_data_file"] is None else None
        by_path.setdefault(row["named"], []).append((row["sequence_number"], group, number))
    paths = as_array(data.column("file_path"))
    rows = pc.indices_nonzero(pc.is_in(paths, value_set=pa.array(list(by_path)))).to_pylist()
    sequences, groups = _sequences(data), as_array(data.column("group"))
    added = lists.to_pylist()
    for row in rows:
        sequence, mine = sequences[row].as_py(), groups[row].as_py()
        newer = [
            number
            for last, group, number in by_path[paths[row].as_py()]
            if last >= sequence and (group is None or group == mine)
        ]
        added[row] = [*(added[row] or []), *newer] or None
    return pa.array(added, pa.list_(pa.int32()))


def _without_positions(lists: pa.ListArray, vector: pa.Int32Array, is_position: pa.BooleanArray) -> pa.ListArray:
    """Return lists without the position deletes of files with a deletion vector, which includes them."""
    positions = frozenset(pc.indices_nonzero(is_position).to_pylist())
    kept = lists.to_pylist()
    for row in pc.indices_nonzero(vector.is_valid()).to_pylist():
        if kept[row] is not None:
            kept[row] = [number for number in kept[row] if number not in positions] or None
    return pa.array(kept, pa.list_(pa.int32()))
