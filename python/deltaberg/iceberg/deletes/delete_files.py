"""The delete files of a snapshot, attached to its data files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.files.read.task import BITMAP, DELETE_FILES
from deltaberg.iceberg.deletes.index import apply_deletes, row_codes
from deltaberg.iceberg.deletes.key_fields import key_fields
from deltaberg.iceberg.manifests.fields import EQUALITY_DELETES, ManifestPart
from deltaberg.iceberg.manifests.metrics import Metrics, entry_numbers
from deltaberg.iceberg.manifests.reader import Entries, ManifestReader
from deltaberg.pruning.evaluate import may_match
from deltaberg.pruning.stats import stats_key
from deltaberg.schema.arrow import as_array, with_columns
from deltaberg.schema.types import Field

__all__ = ["DeleteFiles", "bitmap_sizes"]

#: The column of position deletes that names data files ("Reserved Field IDs").
_PATH_ID = 2147483546
_PART = ManifestPart(
    metrics=("lower_bounds", "upper_bounds"),
    ids=frozenset((_PATH_ID,)),
    rest=("equality_ids", "referenced_data_file", "content_offset", "content_size_in_bytes"),
)
#: The bytes of a blob beside the bitmap and its magic number: a length and a checksum.
_BLOB_FRAME = 8
_LARGEST_BLOB = (1 << 31) - 1
#: The group of delete files that apply to no data file.
_NO_GROUP = -1


@dataclass(frozen=True)
class DeleteFiles:
    """Delete files, grouped by spec, and numbered through all of the groups.

    ``key_fields`` are the columns that equality deletes compare, as top-level fields.
    """

    entries: Sequence[Entries]
    manifests: pa.Table
    reader: ManifestReader
    key_fields: tuple[Field, ...] = field(default=())

    @classmethod
    def read(cls, manifests: pa.Table, reader: ManifestReader) -> DeleteFiles:
        """Read the delete files of manifests."""
        entries = reader.read(manifests.to_pylist(), _PART)
        return cls(entries, manifests, reader, key_fields(entries, reader))

    def __len__(self) -> int:
        return sum(len(found.table) for found in self.entries)

    def attach(self, files: pa.Table, data: Sequence[Entries], condition: Bound) -> pa.Table:
        """Add ``deletion_vector`` and ``delete_files`` to the file table of the entries ``data``, in their order.

        Equality deletes whose keys cannot match the condition are left out.
        """
        if not len(self):
            return files.append_column("deletion_vector", pa.nulls(len(files), BITMAP))
        table = self.table
        both = _groups([*data, *self.entries])
        mine = pa.table(
            {
                "file_path": files.column("path"),
                "sequence_number": files.column("row_commit_version"),
                "group": both.slice(0, len(files)),
            }
        )
        idle = self._idle(table, condition)
        table = with_columns(table, is_global=pc.and_not(as_array(table.column("is_global")), idle))
        groups = pc.if_else(idle, pa.scalar(_NO_GROUP, pa.int64()), both.slice(len(files)))
        table = table.append_column("only_path", self.only_paths)
        applied = apply_deletes(mine, table.append_column("group", groups))
        vectors = table.take(applied.vector.fill_null(0))
        parts = {
            "location": vectors.column("file_path"),
            "offset": vectors.column("content_offset"),
            "size": bitmap_sizes(as_array(vectors.column("content_size_in_bytes"))),
            "framing": pa.repeat(pa.scalar("puffin"), len(files)),
            "inline": pa.nulls(len(files), pa.binary()),
            "cardinality": vectors.column("record_count"),
        }
        arrays = [as_array(parts[child.name]) for child in BITMAP]
        vector = pa.StructArray.from_arrays(arrays, fields=list(BITMAP), mask=applied.vector.is_null())
        return files.append_column("deletion_vector", vector).append_column("delete_files", applied.deletes)

    def _idle(self, table: pa.Table, condition: Bound) -> pa.BooleanArray:
        """Return for each delete file whether it is one of equality deletes whose keys cannot match a filter.

        Only bounds of compared columns count: what else a file holds proves nothing.
        """
        idle = pa.repeat(False, len(table))
        lists = as_array(table.column("equality_ids")).to_pylist()
        compared = [frozenset(ids or ()) for ids in lists]
        known = frozenset().union(*compared)
        paths = [path for path in bound_paths(condition) if path[-1].id in known]
        if not paths:
            return idle
        stats = Metrics(self.reader).read(self.manifests, entry_numbers(table), paths)
        for ids in {found for found in compared if found}:
            keys = {stats_key(path) for path in paths if path[-1].id in ids}
            part = replace(stats, columns={key: found for key, found in stats.columns.items() if key in keys})
            mine = pa.array([found == ids for found in compared])
            idle = pc.or_(idle, pc.and_not(mine, may_match(condition, part)))
        return idle

    @cached_property
    def table(self) -> pa.Table:
        """All delete files, in the order of their numbers: the columns of `ManifestReader`, without partitions."""
        parts = []
        for found in self.entries:
            is_global = pa.repeat(not found.spec.is_partitioned, len(found.table))
            parts.append(found.table.drop_columns(["partition"]).append_column("is_global", is_global))
        return pa.concat_tables(parts).combine_chunks()

    @cached_property
    def only_paths(self) -> pa.StringArray:
        """The path of each delete file that names a single one in its bounds, else null; they may be cut."""
        lower, upper = (
            kernels.parse_bounds(as_array(self.table.column(name)), [(_PATH_ID, "string")]).column(0)
            for name in ("lower_bounds", "upper_bounds")
        )
        return pc.if_else(pc.equal(lower, upper).fill_null(False), lower, pa.scalar(None, pa.string()))

    def locate(self, files: pa.Table) -> dict[str, pa.Array]:
        """Return ``deletion_vector``, ``only_in_vector`` and the lists of delete files for rows of a file table."""
        rows = len(files)
        columns: dict[str, pa.Array] = {"only_in_vector": pa.nulls(rows, BITMAP)}
        vectors = as_array(files.column("deletion_vector"))
        if vectors.null_count < rows:
            recorded = pc.struct_field(vectors, "location")
            distinct = recorded.drop_null().unique().to_pylist()
            places = {path: str(self.reader.resolver.resolve(path)) for path in distinct}
            located = pa.array([None if path is None else places[path] for path in recorded.to_pylist()], pa.string())
            children = [
                located if child.name == "location" else pc.struct_field(vectors, child.name) for child in BITMAP
            ]
            vectors = pa.StructArray.from_arrays(children, fields=list(BITMAP), mask=vectors.is_null())
        columns["deletion_vector"] = vectors
        for name in ("delete_files", "only_in_delete_files"):
            if name in files.column_names:
                columns[name] = self._located_deletes(as_array(files.column(name)))
        return columns

    def _located_deletes(self, lists: pa.ListArray) -> pa.ListArray:
        table = self.table
        used = pc.list_flatten(lists).unique()
        paths = table.column("file_path").take(used).to_pylist()
        places = dict(zip(used.to_pylist(), (str(self.reader.resolver.resolve(path)) for path in paths), strict=True))
        located = pa.array([places.get(number) for number in range(len(table))], pa.string())
        is_equality = as_array(pc.equal(table.column("content"), EQUALITY_DELETES))
        ids = as_array(table.column("equality_ids"))
        files = pa.StructArray.from_arrays(
            [
                located,
                as_array(table.column("file_format")),
                as_array(table.column("file_size_in_bytes")),
                pc.if_else(is_equality, ids, pa.scalar(None, ids.type)).cast(pa.list_(pa.int32())),
            ],
            fields=list(DELETE_FILES.value_type),
        )
        flat = files.take(pc.list_flatten(lists))
        lengths = pc.fill_null(pc.list_value_length(lists), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        return pa.ListArray.from_arrays(offsets, flat, type=DELETE_FILES)


def bitmap_sizes(blobs: pa.Int64Array) -> pa.Int32Array:
    """Return the sizes of bitmaps from the sizes of their blobs; -1 if no blob can have that size."""
    possible = pc.and_(pc.greater_equal(blobs, _BLOB_FRAME), pc.less_equal(blobs, _LARGEST_BLOB)).fill_null(False)
    return pc.if_else(possible, pc.subtract(blobs, _BLOB_FRAME), -1).cast(pa.int32())


def _groups(entries: Sequence[Entries]) -> pa.Int64Array:
    """Return a number for each file, equal for files of one spec with equal partition values."""
    parts = []
    by_spec: dict[int, list[int]] = {}
    for number, part in enumerate(entries):
        by_spec.setdefault(part.spec.spec_id, []).append(number)
    codes: dict[int, pa.Int64Array] = {}
    first = 0
    for numbers in by_spec.values():
        tables = [entries[number].table for number in numbers]
        chunks = [chunk for table in tables for chunk in table.column("partition").chunks]
        partition = as_array(pa.chunked_array(chunks, tables[0].schema.field("partition").type))
        rows = sum(len(table) for table in tables)
        values = [pc.struct_field(partition, index) for index in range(partition.type.num_fields)] if rows else []
        joined = pc.add(row_codes(values, rows), first)
        first += rows
        start = 0
        for number, table in zip(numbers, tables, strict=True):
            codes[number] = joined.slice(start, len(table))
            start += len(table)
    parts = [codes[number] for number in range(len(entries))]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.int64())
