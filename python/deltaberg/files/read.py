"""The one function that turns a task into rows, on this machine and inside a Spark executor alike.

Columns of the file are renamed, promoted and filled; columns that are constant in the file are added; deleted
rows are left out by their physical position; the rest of the filter is applied.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from deltaberg.errors import CorruptDataFileError, DataFileNotFoundError, DeltabergError, ObjectNotFoundError
from deltaberg.expressions import TRUE, Bound
from deltaberg.files.bitmaps import RowSelection
from deltaberg.files.columns import TaskColumns
from deltaberg.files.deletes import equality_deletes
from deltaberg.files.formats import open_data_file
from deltaberg.files.layout import FileLayout
from deltaberg.files.task import FileTask
from deltaberg.schema import Struct, arrow_schema
from deltaberg.storage import Counters, StoreSpec, parse_location

__all__ = ["ReadCounters", "ReadSpec", "read_task"]


@dataclass(frozen=True)
class ReadSpec:
    """What all tasks of a scan have in common. It pickles, and travels once.

    ``output`` are the wanted fields in order; ``constants`` are the columns that every file has one value for.
    ``memory`` bounds the bytes of a batch, and of the column chunks behind it; 0 does not.
    """

    table: str
    store: StoreSpec
    output: Struct
    constants: Struct
    layout: FileLayout = field(default_factory=FileLayout)
    residual: Bound = TRUE
    batch_size: int = 131_072
    memory: int = 0

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
        "it was vacuumed, or its snapshot expired: refresh the table, or open a newer version or snapshot; "
        "or the copy of the table is incomplete"
        if inside
        else "the table records it under another prefix: name that and where its files are now, as in "
        "location_map={'/old/place': '/new/place'}; \"auto\" knows it of Iceberg tables only"
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
    key_sets = [equality_deletes(files, spec.store, spec.layout) for files in (task.deletes, task.included)]
    plan = TaskColumns(spec.table, spec.output, spec.constants, spec.residual, spec.layout, task, *key_sets)
    selection = RowSelection(task, spec.store, spec.layout.resolver)
    remote = location.scheme != "file"
    size = task.size or None
    source = open_data_file(task.format, location, spec.store, size, counters)
    try:
        plan.resolve(source.schema_with(spec.layout.name_mapping))
        groups = source.row_groups(task.start, task.stop)
        counters.row_groups += len(groups)
        if task.filtered:
            kept = source.prune(groups, plan.condition, plan.constants, spec.layout)
            counters.row_groups_skipped += len(groups) - len(kept)
            groups = kept
        batch_size = spec.batch_size
        if spec.memory:
            batch_size = max(1, min(batch_size, spec.memory // source.row_bytes(groups, plan.leaves)))
            if source.compressed_bytes(groups, plan.leaves) > spec.memory:
                source.close()
                source = open_data_file(task.format, location, spec.store, size, counters, in_pieces=True)
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
