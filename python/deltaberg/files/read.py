"""The one function that turns a task into rows, on this machine and inside a Spark executor alike.

Columns of the file are renamed, promoted and filled; columns that are constant in the file are added; deleted
rows are left out by their physical position; the rest of the filter is applied.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CorruptDataFileError, DataFileNotFoundError, DeltabergError, ObjectNotFoundError
from deltaberg.expressions import TRUE, Bound, bound_paths, evaluate
from deltaberg.files.bitmaps import RowSelection
from deltaberg.files.metadata import METADATA, MetadataColumns
from deltaberg.files.parquet import ParquetSource, PositionedBatch
from deltaberg.files.task import FileTask
from deltaberg.pruning import StatsKey
from deltaberg.schema import Field, Struct, arrow_schema
from deltaberg.schema.projection import plan_projection
from deltaberg.storage import Counters, StoreSpec, parse_location

__all__ = ["ReadCounters", "ReadSpec", "read_task"]

#: Column chunks larger than this are read in pieces where memory is bounded.
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class ReadSpec:
    """What all tasks of a scan have in common. It pickles, and travels once.

    ``output`` are the wanted fields in order; ``constants`` are those of the table's columns that every file has one
    value for, but a file stores those of them that are named in ``stored`` where its task has none. ``row_id`` and
    ``row_commit_version`` are the hidden columns that may hold materialized ones. ``memory`` bounds the bytes of a
    batch, and of the column chunks behind it; 0 does not.
    """

    table: str
    store: StoreSpec
    output: Struct
    constants: Struct
    stored: frozenset[str] = frozenset()
    residual: Bound = TRUE
    by_id: bool = False
    batch_size: int = 131_072
    memory: int = 0
    row_id: str | None = None
    row_commit_version: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        return arrow_schema(self.output)


@dataclass
class ReadCounters(Counters):
    """What reading took."""

    requests: int = 0
    bytes_read: int = 0
    rows_read: int = 0
    rows: int = 0
    row_groups: int = 0
    row_groups_skipped: int = 0


def read_task(
    spec: ReadSpec, task: FileTask, counters: ReadCounters | None = None, threads: bool = False
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a task in batches of ``spec.schema``, in the order of the file, none of them empty.

    Raises
    ------
    DataFileNotFoundError
        Where the file is gone.
    CorruptDataFileError, SchemaError
        Where it cannot be decoded, or its columns cannot be read as the table's.
    """
    try:
        yield from _limited(_read(spec, task, counters or ReadCounters(), threads), task.limit)
    except ObjectNotFoundError as error:
        raise _missing(spec, task) from error
    except DeltabergError as error:
        raise error.with_context(table=spec.table, file=task.location) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptDataFileError(
            f"the data file cannot be decoded: {_first_line(error)}", table=spec.table, file=task.location
        ) from error


def _missing(spec: ReadSpec, task: FileTask) -> DataFileNotFoundError:
    inside = task.location.startswith(spec.table.rstrip("/") + "/")
    hint = (
        "it was vacuumed while this snapshot was open, or the copy of the table is incomplete; refresh the table"
        if inside
        else "the table records it under another prefix; say where the files are now with location_map"
    )
    return DataFileNotFoundError("a live data file is gone", hint=hint, table=spec.table, file=task.location)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    with contextlib.closing(batches):  # type: ignore[type-var]
        while limit > 0:
            batch = next(batches, None)
            if batch is None:
                return
            yield batch.slice(0, limit)
            limit -= min(batch.num_rows, limit)


def _read(spec: ReadSpec, task: FileTask, counters: ReadCounters, threads: bool) -> Iterator[pa.RecordBatch]:
    location = parse_location(task.location)
    plan = _Columns(spec, task)
    selection = RowSelection(task, spec.store)
    file = spec.store.open(location).open(location.path, task.size or None, counters)
    remote = location.scheme != "file"
    source = ParquetSource(file, prefetch=remote)
    try:
        plan.resolve(source.schema)
        groups = source.row_groups(task.start, task.stop)
        counters.row_groups += len(groups)
        if task.filtered:
            kept = source.prune(groups, plan.condition, plan.constants, spec.by_id)
            counters.row_groups_skipped += len(groups) - len(kept)
            groups = kept
        batch_size = spec.batch_size
        if spec.memory:
            batch_size = max(1, min(batch_size, spec.memory // source.row_bytes(groups, plan.leaves)))
            if source.compressed_bytes(groups, plan.leaves) > spec.memory:
                source.close()
                file = spec.store.open(location).open(location.path, task.size or None, counters)
                source = ParquetSource(file, buffered=_PIECE_BYTES)
        uncounted = deque(groups)
        for positioned in source.batches(groups, plan.leaves, batch_size, threads):
            counters.rows_read += positioned.rows
            while uncounted and not remote and uncounted[0].start < positioned.start + positioned.rows:
                counters.bytes_read += source.compressed_bytes([uncounted.popleft()], plan.leaves)
            batch = plan.rows(positioned, selection)
            if batch.num_rows:
                counters.rows += batch.num_rows
                yield batch
    finally:
        source.close()


class _Columns:
    """How the columns of one task are made."""

    def __init__(self, spec: ReadSpec, task: FileTask) -> None:
        self._spec = spec
        self._task = task
        constants = [
            child for child in spec.constants if child.name not in spec.stored or task.constants[child.name].is_valid
        ]
        self._constants = frozenset(child.name for child in constants)
        #: The values of the constants, by the key of their statistics.
        self.constants: dict[StatsKey, pa.Scalar] = {
            (child.physical_name,): task.constants[child.name] for child in constants
        }
        metadata = next((child for child in spec.output if child.name == METADATA), None)
        self._metadata = MetadataColumns(spec.table, task, metadata, spec.row_id, spec.row_commit_version)
        self.condition = spec.residual if task.filtered else TRUE
        self._from_file = [child for child in spec.output if self._is_in_file(child)]
        self._filter_fields = self._fields_of_filter()
        self._output_schema = spec.schema

    def _is_in_file(self, child: Field) -> bool:
        return child.name not in self._constants and child.name != METADATA

    def _fields_of_filter(self) -> list[Field]:
        """Give the columns of the filter that come from the file, each as a field with that column alone."""
        fields: list[Field] = []
        for path in bound_paths(self.condition):
            narrow = path[-1]
            for outer in reversed(path[:-1]):
                narrow = replace(outer, type=Struct((narrow,)))
            if self._is_in_file(path[0]) and narrow not in fields:
                fields.append(narrow)
        return fields

    def resolve(self, file_schema: pa.Schema) -> None:
        """Plan against the schema of the file."""
        self._hidden = self._metadata.file_fields
        wanted = [*self._from_file, *self._filter_fields, *self._hidden]
        self._projection = plan_projection(wanted, file_schema, self._spec.by_id)
        self.leaves = self._projection.leaves

    def rows(self, positioned: PositionedBatch, selection: RowSelection) -> pa.RecordBatch:
        """Give the wanted rows of a batch of the file."""
        start, count, _ = positioned
        arrays = self._projection.apply(positioned.batch, count)
        made = len(self._from_file)
        from_file = dict(zip((child.name for child in self._from_file), arrays[:made], strict=True))
        for_filter = arrays[made : made + len(self._filter_fields)]
        hidden = arrays[made + len(self._filter_fields) :]
        metadata = self._metadata.build(start, count, hidden)
        mask = selection.mask(start, count)
        if self._task.filtered:
            matches = self._matches(for_filter, metadata, count)
            mask = matches if mask is None else pc.and_kleene(mask, matches)
        columns = [self._column(child, from_file, metadata, count) for child in self._spec.output]
        batch = _record_batch(columns, self._output_schema, count)
        return batch if mask is None else batch.filter(mask)

    def _column(
        self, child: Field, from_file: dict[str, pa.Array], metadata: pa.StructArray | None, count: int
    ) -> pa.Array:
        if child.name in self._constants:
            return self._constant(child.name, count)
        if child.name == METADATA and metadata is not None:
            return metadata
        return from_file[child.name]

    def _constant(self, name: str, count: int) -> pa.Array:
        value = self._task.constants[name]
        return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)

    def _matches(self, for_filter: Sequence[pa.Array], metadata: pa.StructArray | None, count: int) -> pa.BooleanArray:
        narrow = dict(zip(self._filter_fields, for_filter, strict=True))

        def column(path: tuple[Field, ...]) -> pa.Array:
            top = path[0]
            if top.name in self._constants:
                array = self._constant(top.name, count)
            elif top.name == METADATA and metadata is not None:
                array = metadata
            else:
                field = path[-1]
                for outer in reversed(path[:-1]):
                    field = replace(outer, type=Struct((field,)))
                array = narrow[field]
            for part in path[1:]:
                array = pc.struct_field(array, array.type.get_field_index(part.name))
            return array

        return evaluate(self.condition, column, count)


def _record_batch(columns: list[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None], children=[]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
