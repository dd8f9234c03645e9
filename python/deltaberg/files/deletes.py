"""Delete files of Iceberg: which rows of a data file they delete (Iceberg spec, "Delete Formats").

A delete file serves many data files, so what was read of one is kept for the process, as far as a bound on memory
allows. Position deletes become bitmaps, as deletion vectors are; equality deletes become sets of keys.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import CorruptDataFileError, DataFileNotFoundError, DeltabergError, ObjectNotFoundError
from deltaberg.files.formats import open_data_file
from deltaberg.files.layout import FileLayout
from deltaberg.files.task import DeleteFile, FileTask
from deltaberg.schema import Field, Primitive, Struct, arrow_schema
from deltaberg.schema.projection import plan_projection
from deltaberg.storage import PathResolver, StoreSpec, parse_location

__all__ = ["KeySet", "equality_deletes", "position_deletes"]

#: Columns of position delete files.
_FILE_PATH = Field("file_path", Primitive("string"), nullable=False, id=2147483546)
_POS = Field("pos", Primitive("long"), nullable=False, id=2147483545)
#: Bytes of delete files that are kept.
_KEPT_BYTES = 512 << 20
_BATCH = 131_072


class _Kept:
    """The delete files that were read last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Any, pa.Table] = OrderedDict()
        self._bytes = 0

    def get(self, key: Any, read: Callable[[], pa.Table]) -> pa.Table:
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
                return found
        found = read()
        with self._lock:
            if key not in self._found:
                self._found[key] = found
                self._bytes += found.nbytes
            while self._bytes > _KEPT_BYTES and len(self._found) > 1:
                _, dropped = self._found.popitem(last=False)
                self._bytes -= dropped.nbytes
        return found


_kept = _Kept()


def position_deletes(
    files: Sequence[DeleteFile], task: FileTask, store: StoreSpec, resolver: PathResolver | None
) -> bytes | None:
    """Give the positions that position delete files delete in a task's data file, as a portable bitmap."""
    found = []
    for file in files:
        if file.keys is None:
            table = _kept.get((file.location, file.size, "positions"), partial(_positions, file, store))
            found.append(_of_file(table, task, resolver))
    positions = [part for part in found if len(part)]
    if not positions:
        return None
    chunks = pa.chunked_array(positions, pa.uint64()) if len(positions) > 1 else positions[0]
    ascending = _ascending(chunks)
    bitmap, _ = kernels.unframe_bitmap(kernels.encode_bitmap(ascending, "delta-inline"), "delta-inline")
    return bitmap


def _positions(file: DeleteFile, store: StoreSpec) -> pa.Table:
    """Read a position delete file: paths as dictionary codes, and positions."""
    table = _read(file, store, [_FILE_PATH, _POS], FileLayout(by_id=False))
    if table.column("file_path").null_count or table.column("pos").null_count:
        raise CorruptDataFileError("a position delete has no path or no position", delete_file=file.location)
    lowest = pc.min(table.column("pos")).as_py()
    if lowest is not None and lowest < 0:
        raise CorruptDataFileError(f"a position delete is at {lowest}", delete_file=file.location)
    paths = table.column("file_path").combine_chunks().dictionary_encode()
    return pa.table({"path": paths, "pos": table.column("pos").cast(pa.uint64())})


def _of_file(deletes: pa.Table, task: FileTask, resolver: PathResolver | None) -> pa.UInt64Array:
    """Give the positions of one data file."""
    paths = deletes.column("path").combine_chunks()
    codes = [
        code
        for code, path in enumerate(paths.dictionary.to_pylist())
        if path == task.recorded_path or _leads_to(path, task.location, resolver)
    ]
    positions = deletes.column("pos").combine_chunks()
    if len(codes) == len(paths.dictionary):
        return positions
    return positions.filter(pc.is_in(paths.indices, value_set=pa.array(codes, paths.indices.type)))


def _leads_to(path: str, location: str, resolver: PathResolver | None) -> bool:
    """Say whether a recorded path is another spelling of a place."""
    if resolver is None:
        return False
    try:
        return str(resolver.resolve(path)) == location
    except DeltabergError:
        return False


def _ascending(positions: pa.Array | pa.ChunkedArray) -> pa.UInt64Array:
    whole = positions.combine_chunks() if isinstance(positions, pa.ChunkedArray) else positions
    if len(whole) > 1 and not pc.all(pc.less(whole[:-1], whole[1:])).as_py():
        unique = whole.unique()
        return unique.take(pc.array_sort_indices(unique))
    return whole


class KeySet(NamedTuple):
    """The keys of equality deletes over the same columns: rows that equal one of them in all columns are deleted."""

    fields: tuple[Field, ...]
    keys: pa.Table

    def deleted(self, columns: Sequence[pa.Array]) -> pa.BooleanArray:
        """Say of each row whether its values, null equal to null, are a key.

        The work is in proportion to the keys and the rows.
        """
        found = None
        codes: pa.Array = None
        key_codes: pa.Array = None
        for number, values in enumerate(columns):
            keys = self.keys.column(number).combine_chunks()
            distinct = keys.unique()
            row = pc.index_in(values, value_set=distinct, skip_nulls=False)
            known = row.is_valid()
            found = known if found is None else pc.and_(found, known)
            if len(columns) == 1:
                break
            key = pc.index_in(keys, value_set=distinct, skip_nulls=False).cast(pa.int64())
            row = row.cast(pa.int64())
            if number:
                width = pa.scalar(len(distinct), pa.int64())
                key = pc.add(pc.multiply(key_codes, width), key)
                row = pc.add(pc.multiply(codes, width), row)
                combined = key.unique()
                row = pc.index_in(row, value_set=combined, skip_nulls=True).cast(pa.int64())
                key = pc.index_in(key, value_set=combined).cast(pa.int64())
                found = pc.and_(found, row.is_valid())
            codes, key_codes = row, key
        return found


def equality_deletes(chosen: Sequence[DeleteFile], store: StoreSpec, layout: FileLayout) -> list[KeySet]:
    """Give the keys of equality delete files, together where they are over the same columns."""
    by_columns: dict[tuple[int, ...], list[DeleteFile]] = {}
    for file in chosen:
        if file.keys is not None:
            by_columns.setdefault(tuple(sorted(set(file.keys))), []).append(file)
    found = []
    for ids, files in by_columns.items():
        fields = tuple(_key_field(number, layout.keys, files[0]) for number in ids)
        tables = [
            _kept.get((file.location, file.size, ids), partial(_read, file, store, fields, layout)) for file in files
        ]
        keys = _flat(pa.concat_tables(tables), fields)
        found.append(KeySet(fields, keys))
    return found


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


def _flat(table: pa.Table, fields: Sequence[Field]) -> pa.Table:
    columns = [leaf_of(table.column(number).combine_chunks(), child) for number, child in enumerate(fields)]
    return pa.table(columns, names=[str(number) for number in range(len(columns))])


def leaf_of(array: pa.Array, child: Field) -> pa.Array:
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
            projection = plan_projection(fields, source.schema_with(layout.name_mapping), layout.by_id)
            groups = source.row_groups(0, (1 << 63) - 1)
            batches = [
                pa.RecordBatch.from_arrays(projection.apply(found.batch, found.rows), schema=schema)
                for found in source.batches(groups, projection.leaves, _BATCH, threads=False)
            ]
        finally:
            source.close()
    except ObjectNotFoundError as error:
        raise DataFileNotFoundError(
            "a delete file is gone: expired, or left behind when the table was moved",
            hint="open the newest snapshot, or say where the files are now with location_map",
            delete_file=file.location,
        ) from error
    except DeltabergError as error:
        raise error.with_context(delete_file=file.location) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptDataFileError(f"the delete file cannot be decoded: {error}", delete_file=file.location) from error
    missing = [child.name for child, column in zip(fields, projection.sources, strict=True) if column is None]
    if missing:
        raise CorruptDataFileError(f"the delete file has no column {missing[0]}", delete_file=file.location)
    return pa.Table.from_batches(batches, schema)
