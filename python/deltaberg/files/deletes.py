"""Delete files of Iceberg: which rows of a data file they delete (Iceberg spec, "Delete Formats").

A delete file serves many data files, so what was read of one is kept for the process, as far as a bound on memory
allows. Position deletes become bitmaps, as deletion vectors are; equality deletes become sets of keys.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import CorruptDataFileError, DeltabergError, ObjectNotFoundError
from deltaberg.files.delete_cache import DeleteFileIdentities, Identity, KeptReads, gone
from deltaberg.files.formats import open_data_file
from deltaberg.files.layout import FileLayout
from deltaberg.files.task import DeleteFile, FileTask
from deltaberg.schema import Field, Primitive, Struct, arrow_schema, field_id
from deltaberg.schema.projection import plan_projection
from deltaberg.storage import PathResolver, StoreSpec, parse_location

__all__ = ["KeySet", "equality_deletes", "position_deletes"]

#: Columns of position delete files.
_FILE_PATH = Field("file_path", Primitive("string"), nullable=False, id=2147483546)
_POS = Field("pos", Primitive("long"), nullable=False, id=2147483545)
_BATCH = 131_072
#: Delete files whose keys share an index where not all data files have the same ones. A larger base means fewer
#: indexes for a row to be looked up in, and more of them that a key is in.
_RUN_BASE = 8
#: What an index takes for each key beside its bytes.
_INDEX_ROW_BYTES = 32
#: What a path takes in a dictionary beside its letters.
_PATH_BYTES = 200


_kept = KeptReads()
_identities = DeleteFileIdentities()


def position_deletes(
    files: Sequence[DeleteFile], task: FileTask, store: StoreSpec, resolver: PathResolver | None
) -> bytes | None:
    """Give the positions that position delete files delete in a task's data file, as a portable bitmap."""
    named = [file for file in files if file.keys is None]
    if not named:
        return None
    spelling = None if resolver is None else pickle.dumps(resolver)
    found: list[pa.UInt64Array] = []
    for file, identity in zip(named, _identities.of(named, store, resolver), strict=True):
        kept = _kept.get(identity, partial(_positions, file, store))
        paths = {task.recorded_path}
        if resolver is not None:
            places = _kept.get((identity, spelling), partial(_places, kept, resolver))
            paths.update(places.get(task.location, ()))
        found += [kept.of(path) for path in paths if path in kept.ranges]
    positions = [part for part in found if len(part)]
    if not positions:
        return None
    chunks = pa.chunked_array(positions, pa.uint64()) if len(positions) > 1 else positions[0]
    ascending = _ascending(chunks)
    bitmap, _ = kernels.unframe_bitmap(kernels.encode_bitmap(ascending, "delta-inline"), "delta-inline")
    return bitmap


class _Positions(NamedTuple):
    """What a position delete file holds: the positions of one path after those of another, and where each's are."""

    positions: pa.UInt64Array
    ranges: dict[str, tuple[int, int]]

    def of(self, path: str) -> pa.UInt64Array:
        """Give the positions of a path."""
        start, count = self.ranges[path]
        return self.positions.slice(start, count)


def _positions(file: DeleteFile, store: StoreSpec) -> tuple[_Positions, int]:
    """Read a position delete file."""
    table = _read(file, store, [_FILE_PATH, _POS], FileLayout(by_id=False))
    if table.column("file_path").null_count or table.column("pos").null_count:
        raise CorruptDataFileError("a position delete has no path or no position", delete_file=file.location)
    lowest = pc.min(table.column("pos")).as_py()
    if lowest is not None and lowest < 0:
        raise CorruptDataFileError(f"a position delete is at {lowest}", delete_file=file.location)
    paths = _one(table.column("file_path")).dictionary_encode()
    positions = _one(table.column("pos")).cast(pa.uint64())
    codes = paths.indices
    # Codes count up with the first rows of their paths: they ascend where the file is sorted by path, as it should be.
    if len(codes) > 1 and pc.any(pc.less(codes[1:], codes[:-1])).as_py():
        order = pc.array_sort_indices(codes)
        codes, positions = codes.take(order), positions.take(order)
    counts = codes.value_counts().field("counts").to_pylist()
    ranges = dict(
        zip(paths.dictionary.to_pylist(), zip(accumulate(counts, initial=0), counts, strict=False), strict=True)
    )
    return _Positions(positions, ranges), positions.nbytes + paths.dictionary.nbytes + _PATH_BYTES * len(ranges)


def _places(kept: _Positions, resolver: PathResolver) -> tuple[dict[str, list[str]], int]:
    """Give the paths of a delete file by the places that they lead to: one place may be spelled in several ways."""
    found: dict[str, list[str]] = {}
    for path in kept.ranges:
        with contextlib.suppress(DeltabergError):
            found.setdefault(str(resolver.resolve(path)), []).append(path)
    return found, sum(_PATH_BYTES + len(place) for place in found)


def _ascending(positions: pa.Array | pa.ChunkedArray) -> pa.UInt64Array:
    whole = _one(positions)
    if len(whole) > 1 and not pc.all(pc.less(whole[:-1], whole[1:])).as_py():
        unique = whole.unique()
        return unique.take(pc.array_sort_indices(unique))
    return whole


class KeySet(NamedTuple):
    """The keys of equality deletes over the same columns: rows that equal one of them in all columns are deleted.

    Null equals null, NaN equals NaN, and -0.0 does not equal 0.0. The keys lie in one index or in a few of them.
    """

    fields: tuple[Field, ...]
    indexes: tuple[Any, ...]

    def deleted(self, columns: Sequence[pa.Array]) -> pa.BooleanArray:
        """Say of each row whether its values are a key. The work is in proportion to the rows, however many keys."""
        batch = _batch(columns)
        first, *others = self.indexes
        named = kernels.contains_keys(first, batch)
        for index in others:
            named = pc.or_(named, kernels.contains_keys(index, batch))
        return named


def _batch(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.RecordBatch:
    names = [str(number) for number in range(len(columns))]
    return pa.RecordBatch.from_arrays([_comparable(_one(column)) for column in columns], names=names)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _comparable(values: pa.Array) -> pa.Array:
    """Give floating point numbers by their bits, with one NaN."""
    bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(values.type)
    if bits is None:
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values).view(bits)


def equality_deletes(chosen: Sequence[DeleteFile], store: StoreSpec, layout: FileLayout) -> list[KeySet]:
    """Give the keys of equality delete files, together where they are over the same columns.

    Each delete file is decoded once, whichever data files it is for. The delete files of an older data file are those
    of a newer one and more, since planning gives the newest first; so data files share the indexes of runs of them.
    """
    by_columns: dict[tuple[int, ...], list[DeleteFile]] = {}
    for file in chosen:
        if file.keys is not None:
            by_columns.setdefault(tuple(sorted(set(file.keys))), []).append(file)
    found = []
    for ids, files in by_columns.items():
        fields = tuple(_key_field(number, layout.keys, files[0]) for number in ids)
        reader = _KeyReader(fields, store, layout)
        known = list(zip(files, _identities.of(files, store, layout.resolver), strict=True))
        found.append(KeySet(fields, tuple(reader.index(known[start:stop]) for start, stop in _runs(len(known)))))
    return found


def _runs(count: int) -> list[tuple[int, int]]:
    """Divide the first ``count`` things into runs: one of whole powers of a base, and ever shorter ones for the rest.

    There are as many runs as digits that are not 0, and all counts together need few different ones.

    Examples
    --------
    >>> _runs(7), _runs(8), _runs(85)
    ([(0, 7)], [(0, 8)], [(0, 64), (64, 80), (80, 85)])
    """
    width = 1
    while width * _RUN_BASE <= count:
        width *= _RUN_BASE
    runs, start = [], 0
    while start < count:
        stop = start + (count - start) // width * width
        if stop > start:
            runs.append((start, stop))
        start, width = stop, width // _RUN_BASE
    return runs


class _KeyReader:
    """Reads keys as the same columns, each file once, and indexes them."""

    def __init__(self, fields: tuple[Field, ...], store: StoreSpec, layout: FileLayout) -> None:
        self._fields = fields
        self._store = store
        self._layout = layout
        # What decides what is read of a file.
        self._as = (fields, layout.by_id, layout.name_mapping)

    def index(self, files: Sequence[tuple[DeleteFile, Identity]]) -> Any:
        """Give the index of the keys of some files together."""
        return _kept.get((tuple(identity for _, identity in files), self._as), lambda: self._index(files))

    def _index(self, files: Sequence[tuple[DeleteFile, Identity]]) -> tuple[Any, int]:
        parts = [_kept.get((identity, self._as), partial(self._keys, file)) for file, identity in files]
        whole = pa.Table.from_batches(parts).combine_chunks()
        keys = pa.RecordBatch.from_arrays([_one(column) for column in whole.columns], schema=whole.schema)
        return kernels.index_keys(keys), 2 * keys.nbytes + _INDEX_ROW_BYTES * len(whole)

    def _keys(self, file: DeleteFile) -> tuple[pa.RecordBatch, int]:
        table = _read(file, self._store, self._fields, self._layout).combine_chunks()
        columns = [leaf_of(_one(column), child) for column, child in zip(table.columns, self._fields, strict=True)]
        keys = _batch(columns)
        return keys, keys.nbytes


def _key_field(number: int, known: Sequence[Field], file: DeleteFile) -> Field:
    """Give the top-level field that leads to the column of an id, and to nothing else."""
    for child in known:
        path = _path_to(child, number)
        if path:
            return path
    raise CorruptDataFileError(
        f"an equality delete file compares a column of id {number}, which no schema of the table has",
        delete_file=file.location,
    )


def _path_to(child: Field, number: int) -> Field | None:
    if child.id == number:
        return child
    if isinstance(child.type, Struct):
        for part in child.type:
            found = _path_to(part, number)
            if found is not None:
                return Field(child.name, Struct((found,)), id=child.id, physical_name=child.physical_name)
    return None


def leaf_of(array: pa.Array | pa.ChunkedArray, child: Field) -> pa.Array:
    """Give the only leaf of a nested column; it is null where a struct around it is."""
    while isinstance(child.type, Struct):
        child = child.type.fields[0]
        array = pc.struct_field(array, 0)
    return array


def _read(file: DeleteFile, store: StoreSpec, fields: Sequence[Field], layout: FileLayout) -> pa.Table:
    """Read columns of a delete file."""
    location = parse_location(file.location)
    schema = arrow_schema(Struct(tuple(fields)))
    try:
        source = open_data_file(file.format, location, store, file.size or None)
        try:
            found_schema = source.schema_with(layout.name_mapping)
            # Columns of position deletes have ids and names that are the same for all tables.
            by_id = layout.by_id or {child.id for child in fields} <= {field_id(child) for child in found_schema}
            projection = plan_projection(fields, found_schema, by_id)
            groups = source.row_groups(0, (1 << 63) - 1)
            batches = [
                pa.RecordBatch.from_arrays(projection.apply(found.batch, found.rows), schema=schema)
                for found in source.batches(groups, projection.leaves, _BATCH, threads=False)
            ]
        finally:
            source.close()
    except ObjectNotFoundError as error:
        raise gone(file) from error
    except DeltabergError as error:
        raise error.with_context(delete_file=file.location) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptDataFileError(f"the delete file cannot be decoded: {error}", delete_file=file.location) from error
    missing = [child.name for child, column in zip(fields, projection.sources, strict=True) if column is None]
    if missing:
        raise CorruptDataFileError(f"the delete file has no column {missing[0]}", delete_file=file.location)
    return pa.Table.from_batches(batches, schema)
