"""Which rows of a data file Iceberg's delete files delete (Iceberg spec, "Delete Formats").

A delete file can apply to many data files, so its content is kept for the process, within a limit on memory. Position
deletes become bitmaps, like deletion vectors; equality deletes become sets of keys.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import CorruptDataFileError, DeltabergError, ObjectNotFoundError, TooLargeError
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.formats.open_file import open_data_file
from deltaberg.files.read.delete_cache import DeleteFileIdentities, Identity, KeptReads, gone
from deltaberg.files.read.task import DeleteFile, FileTask
from deltaberg.schema.arrow import arrow_schema, as_array
from deltaberg.schema.name_mapping import field_id
from deltaberg.schema.projection import plan_projection
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.storage.stores import StoreSpec

__all__ = [
    "POSITION_DELETE_COLUMNS",
    "KeySet",
    "count_nameless",
    "equality_deletes",
    "position_deletes",
    "stored_deletes",
    "stored_positions",
]

_FILE_PATH = Field("file_path", Primitive("string"), nullable=False, id=2147483546)
_POS = Field("pos", Primitive("long"), nullable=False, id=2147483545)
#: The column in which position delete files may keep the deleted rows.
_ROW_ID = 2147483544
#: The columns of position delete files.
POSITION_DELETE_COLUMNS = (_FILE_PATH, _POS)
_BATCH = 131_072
#: The most rows of a delete file: their positions take a gigabyte.
_MOST_ROWS = 1 << 27
#: Delete files are indexed in runs of powers of this base. A larger base means that a row is looked up in more indexes,
#: and that a key is in fewer of them.
_RUN_BASE = 8
#: Bytes that an index takes for each key in addition to the key itself.
_INDEX_ROW_BYTES = 32
#: Bytes that a path takes in a dictionary in addition to its characters.
_PATH_BYTES = 200


_kept = KeptReads()
_identities = DeleteFileIdentities()


def position_deletes(
    files: Sequence[DeleteFile], task: FileTask, store: StoreSpec, resolver: PathResolver | None
) -> bytes | None:
    """Return the positions that position delete files delete in a task's data file, as a portable bitmap."""
    named = [file for file in files if file.keys is None]
    if not named:
        return None
    spelling = None if resolver is None else pickle.dumps(resolver)
    parts: list[pa.UInt64Array] = []
    for file, identity in zip(named, _identities.of(named, store, resolver), strict=True):
        kept = _kept.get(identity, partial(_positions, file, store))
        paths = {task.recorded_path}
        if resolver is not None:
            places = _kept.get((identity, spelling), partial(_places, kept, resolver))
            paths.update(places.get(task.location, ()))
        parts += [kept.of(path) for path in paths if path in kept.ranges]
    positions = [part for part in parts if len(part)]
    if not positions:
        return None
    chunks = pa.chunked_array(positions, pa.uint64()) if len(positions) > 1 else positions[0]
    ascending = _ascending(chunks)
    bitmap, _ = kernels.unframe_bitmap(kernels.encode_bitmap(ascending, "delta-inline"), "delta-inline")
    return bitmap


class _Positions(NamedTuple):
    """The content of a position delete file: all positions, path by path, and the start and count of each path's."""

    positions: pa.UInt64Array
    ranges: dict[str, tuple[int, int]]

    def of(self, path: str) -> pa.UInt64Array:
        """Return the positions of a path."""
        start, count = self.ranges[path]
        return self.positions.slice(start, count)


def stored_positions(file: DeleteFile, store: StoreSpec) -> pa.Table:
    """Return the paths and positions in a position delete file, in their order, with each path once in a dictionary."""
    table = _read(file, store, POSITION_DELETE_COLUMNS, FileLayout(by_id=False), _compact)
    return table.unify_dictionaries().combine_chunks()


def stored_deletes(file: DeleteFile, store: StoreSpec, columns: Struct) -> pa.Table:
    """Return the paths and positions in a position delete file, and the deleted rows in some columns as ``row``.

    A row is null where the file does not keep it.
    """
    fields = (*POSITION_DELETE_COLUMNS, Field("row", columns, id=_ROW_ID))
    found = _read(file, store, fields, FileLayout(by_id=False))
    return found.filter(_names_a_row(found))


def _positions(file: DeleteFile, store: StoreSpec) -> tuple[_Positions, int]:
    """Read a position delete file."""
    table = stored_positions(file, store)
    lowest = pc.min(table.column("pos")).as_py()
    if lowest is not None and lowest < 0:
        raise CorruptDataFileError(f"a position delete has the position {lowest}", delete_file=file.location)
    paths = as_array(table.column("file_path"))
    positions = as_array(table.column("pos")).cast(pa.uint64())
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


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return position deletes with each path once: a path is as long as many positions.

    Like other readers, this one passes over deletes that name no row.
    """
    if any(column.null_count for column in batch.columns):
        batch = batch.filter(_names_a_row(batch))
    paths, positions = batch.columns
    return pa.RecordBatch.from_arrays([paths.dictionary_encode(), positions], names=batch.schema.names)


def _names_a_row(table: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    return pc.and_(table.column("file_path").is_valid(), table.column("pos").is_valid())


def count_nameless(file: DeleteFile, store: StoreSpec) -> int:
    """Return how many rows of a position delete file have no path or no position, so that they delete nothing."""
    table = _read(file, store, POSITION_DELETE_COLUMNS, FileLayout(by_id=False))
    return len(table) - int(pc.sum(_names_a_row(table)).as_py() or 0)


def _places(kept: _Positions, resolver: PathResolver) -> tuple[dict[str, list[str]], int]:
    """Return the paths in a delete file by the location that they lead to, which several spellings may share."""
    found: dict[str, list[str]] = {}
    for path in kept.ranges:
        with contextlib.suppress(DeltabergError):
            found.setdefault(str(resolver.resolve(path)), []).append(path)
    return found, sum(_PATH_BYTES + len(place) for place in found)


def _ascending(positions: pa.Array | pa.ChunkedArray) -> pa.UInt64Array:
    whole = as_array(positions)
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
        """Return, for each row, whether its values are a key. The time does not depend on the number of keys."""
        batch = _batch(columns)
        first, *others = self.indexes
        named = kernels.contains_keys(first, batch)
        for index in others:
            named = pc.or_(named, kernels.contains_keys(index, batch))
        return named


def _batch(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.RecordBatch:
    names = [str(number) for number in range(len(columns))]
    return pa.RecordBatch.from_arrays([_comparable(as_array(column)) for column in columns], names=names)


def _comparable(values: pa.Array) -> pa.Array:
    """Return floating-point numbers as their bits, with all NaNs alike."""
    bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(values.type)
    if bits is None:
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values).view(bits)


def equality_deletes(chosen: Sequence[DeleteFile], store: StoreSpec, layout: FileLayout) -> list[KeySet]:
    """Return the keys of equality delete files, one set for the files that compare the same columns.

    Each delete file is decoded once, however many data files it applies to. Planning lists the newest delete files
    first. Those of a newer data file are therefore the first of an older one's, and both use the same indexes.
    """
    by_columns: dict[tuple[int, ...], list[DeleteFile]] = {}
    for file in chosen:
        if file.keys is not None:
            by_columns.setdefault(tuple(sorted(set(file.keys))), []).append(file)
    key_sets = []
    for ids, files in by_columns.items():
        fields = tuple(_key_field(number, layout.keys, files[0]) for number in ids)
        reader = _KeyReader(fields, store, layout)
        known = list(zip(files, _identities.of(files, store, layout.resolver), strict=True))
        key_sets.append(KeySet(fields, tuple(reader.index(known[start:stop]) for start, stop in _runs(len(known)))))
    return key_sets


def _runs(count: int) -> list[tuple[int, int]]:
    """Divide the numbers below ``count`` into runs whose lengths are multiples of ever smaller powers of a base.

    There are as many runs as ``count`` has digits other than 0 in that base, and different counts have most runs in
    common.

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
    """Reads the keys of delete files over the same columns, each file once, and indexes them."""

    def __init__(self, fields: tuple[Field, ...], store: StoreSpec, layout: FileLayout) -> None:
        self._fields = fields
        self._store = store
        self._layout = layout
        # Together with the file, this determines what is read.
        self._as = (fields, layout.by_id, layout.name_mapping)

    def index(self, files: Sequence[tuple[DeleteFile, Identity]]) -> Any:
        """Return one index of the keys of some files."""
        return _kept.get((tuple(identity for _, identity in files), self._as), lambda: self._index(files))

    def _index(self, files: Sequence[tuple[DeleteFile, Identity]]) -> tuple[Any, int]:
        parts = [_kept.get((identity, self._as), partial(self._keys, file)) for file, identity in files]
        whole = pa.Table.from_batches(parts).combine_chunks()
        keys = pa.RecordBatch.from_arrays([as_array(column) for column in whole.columns], schema=whole.schema)
        return kernels.index_keys(keys), 2 * keys.nbytes + _INDEX_ROW_BYTES * len(whole)

    def _keys(self, file: DeleteFile) -> tuple[pa.RecordBatch, int]:
        table = _read(file, self._store, self._fields, self._layout).combine_chunks()
        columns = [leaf_of(as_array(column), child) for column, child in zip(table.columns, self._fields, strict=True)]
        keys = _batch(columns)
        return keys, keys.nbytes


def _key_field(number: int, known: Sequence[Field], file: DeleteFile) -> Field:
    """Return the top-level field narrowed to the column of an id."""
    for child in known:
        path = _path_to(child, number)
        if path:
            return path
    raise CorruptDataFileError(
        f"an equality delete file compares the column with id {number}, which no schema of the table has",
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
    """Return the only leaf of a nested column; it is null if an enclosing struct is."""
    while isinstance(child.type, Struct):
        child = child.type.fields[0]
        array = pc.struct_field(array, 0)
    return array


def _read(
    file: DeleteFile,
    store: StoreSpec,
    fields: Sequence[Field],
    layout: FileLayout,
    compact: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
) -> pa.Table:
    """Read columns of a delete file; ``compact`` is applied to each batch.

    Raises
    ------
    TooLargeError
        If it has more rows than are held at once, which a few bytes of Parquet can be.
    CorruptDataFileError, DataFileNotFoundError
        If it is damaged, or gone.
    """
    location = parse_location(file.location)
    schema = arrow_schema(Struct(tuple(fields)))
    try:
        source = open_data_file(file.format, location, store, file.size or None)
        try:
            found_schema = source.schema_with(layout.name_mapping)
            # The columns of position deletes have the same ids and names in all tables.
            found_ids = {field_id(child) for child in found_schema}
            by_id = layout.by_id or {child.id for child in fields} - {_ROW_ID} <= found_ids
            projection = plan_projection(fields, found_schema, by_id)
            groups = source.row_groups(0, (1 << 63) - 1)
            rows = sum(group.rows for group in groups)
            if rows > _MOST_ROWS:
                raise TooLargeError(
                    f"a delete file has {rows:,} rows, and at most {_MOST_ROWS:,} are held at once",
                    hint="have the engine that wrote it rewrite the table's delete files, or its data files",
                )
            empty = pa.RecordBatch.from_arrays([pa.array([], child.type) for child in schema], schema=schema)
            batches = [compact(empty)] + [
                compact(pa.RecordBatch.from_arrays(projection.apply(found.batch, found.rows), schema=schema))
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
    sources = zip(fields, projection.sources, strict=True)
    missing = [child.name for child, column in sources if column is None and child.id != _ROW_ID]
    if missing:
        raise CorruptDataFileError(f"the delete file has no column {missing[0]}", delete_file=file.location)
    return pa.Table.from_batches(batches)
