"""The one function that turns a task into rows, on this machine and inside a Spark executor alike.

It renames, promotes and fills in the columns of the file, adds the columns that have one value in the whole file, drops
deleted rows by their physical position or by key, and applies what remains of the filter.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from deltaberg.errors import (
    CorruptDataFileError,
    DataFileNotFoundError,
    DeltabergError,
    ObjectNotFoundError,
    first_line,
)
from deltaberg.expressions.compute.bound import Bound
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.formats.open_file import open_data_file
from deltaberg.files.read.bitmaps import RowSelection
from deltaberg.files.read.columns import TaskColumns
from deltaberg.files.read.deletes import equality_deletes
from deltaberg.files.read.selected import rows_of
from deltaberg.files.read.task import FileTask
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.projection import Projections
from deltaberg.schema.types import Struct
from deltaberg.storage.base import Counters
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec

__all__ = ["ReadCounters", "ReadSpec", "read_task"]


@dataclass(frozen=True)
class ReadSpec:
    """The part of a scan that all of its tasks share. It pickles, and travels once.

    ``output`` holds the wanted fields in order, and ``constants`` the columns that have one value in each file.
    ``memory`` limits the bytes of a batch and of the column chunks that it is decoded from; 0 sets no limit. Where it
    ``may_lose`` rows, data files that are gone from the table are passed over, with a warning.
    """

    table: str
    store: StoreSpec
    output: Struct
    constants: Struct
    layout: FileLayout = field(default_factory=FileLayout)
    residual: Bound = TRUE
    batch_size: int = 131_072
    memory: int = 0
    may_lose: bool = False
    #: How columns were found in the files that were read before.
    projections: Projections = field(default_factory=Projections, compare=False, repr=False)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        return arrow_schema(self.output)


@dataclass
class ReadCounters(Counters):
    """The amounts that were requested, read and decoded."""

    requests: int = 0
    bytes_read: int = 0
    rows_read: int = 0
    rows: int = 0
    row_groups: int = 0
    row_groups_skipped: int = 0
    #: All tasks of the scan, and those of which all rows were taken.
    tasks: int = 0
    tasks_read: int = 0


def read_task(
    spec: ReadSpec,
    task: FileTask,
    counters: ReadCounters | None = None,
    threads: bool = False,
    check: Callable[[pa.Schema], object] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a task in non-empty batches of ``spec.schema``, in the order of the file.

    Parameters
    ----------
    spec, task
        What is read.
    counters
        Counts what was read.
    threads
        Whether several threads may decode the file.
    check
        Called with the schema of the file, and with the ids that the file itself has, before its columns are looked
        for. What it raises is raised.

    Raises
    ------
    DataFileNotFoundError
        If the file no longer exists.
    CorruptDataFileError, SchemaError
        If it cannot be decoded, or its columns cannot be read as the table's.
    """
    try:
        batches = _read(spec, task, counters or ReadCounters(), threads, check)
        yield from batches if task.limit is None else _limited(batches, task.limit)
    except DeltabergError as error:
        if spec.may_lose and _is_vacuumed(spec, task):
            warnings.warn(f"rows of {spec.table} are lost: {task.location} is gone", stacklevel=2)
            return
        if isinstance(error, ObjectNotFoundError):
            raise _missing(spec, task) from error
        raise error.with_context(table=spec.table, file=task.location) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptDataFileError(
            f"the data file cannot be decoded: {first_line(error)}", table=spec.table, file=task.location
        ) from error


def _is_vacuumed(spec: ReadSpec, task: FileTask) -> bool:
    """Return whether a data file is gone from its table: not one that is elsewhere, nor one whose vector is lost."""
    location = parse_location(task.location)
    try:
        spec.store.open(location).head(location.path)
    except ObjectNotFoundError:
        return _is_inside(spec, task)
    return False


def _is_inside(spec: ReadSpec, task: FileTask) -> bool:
    return task.location.startswith(spec.table.rstrip("/") + "/")


def _missing(spec: ReadSpec, task: FileTask) -> DataFileNotFoundError:
    hint = (
        "it was vacuumed, or its snapshot expired: refresh the table, or open a newer version or snapshot; "
        "or the copy of the table is incomplete"
        if _is_inside(spec, task)
        else "the table records it under another prefix: say where files with that prefix are now, as in "
        "⟪location_map={'/old/place': '/new/place'}⟫; \"auto\" finds it out for Iceberg tables only"
    )
    return DataFileNotFoundError("a live data file is gone", hint=hint, table=spec.table, file=task.location)


def _limited(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    with contextlib.closing(batches):  # type: ignore[type-var]
        while limit > 0:
            batch = next(batches, None)
            if batch is None:
                return
            yield batch.slice(0, limit)
            limit -= min(batch.num_rows, limit)


def _read(
    spec: ReadSpec,
    task: FileTask,
    counters: ReadCounters,
    threads: bool,
    check: Callable[[pa.Schema], object] | None,
) -> Iterator[pa.RecordBatch]:
    location = parse_location(task.location)
    keys = [
        equality_deletes(files, spec.store, spec.layout) for files in (task.delete_files, task.only_in_delete_files)
    ]
    plan = TaskColumns(
        spec.table, spec.output, spec.constants, spec.residual, spec.layout, task, *keys, schema=spec.schema
    )
    selection = RowSelection(task, spec.store, spec.layout.resolver)
    remote = location.scheme != "file"
    size = task.size or None
    source = open_data_file(task.format, location, spec.store, size, counters)
    try:
        if check is not None:
            check(source.schema_with(None))
        plan.resolve(source.schema_with(spec.layout.name_mapping), spec.projections)
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
        for until, rows, batch in rows_of(source, plan, selection, groups, batch_size, threads, task.limit is not None):
            counters.rows_read += rows
            while uncounted and not remote and uncounted[0].start < until:
                counters.bytes_read += source.compressed_bytes([uncounted.popleft()], plan.leaves)
            if batch.num_rows:
                counters.rows += batch.num_rows
                yield batch
    finally:
        source.close()
