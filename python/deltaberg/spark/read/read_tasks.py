"""The code that runs in Spark's Python workers: tasks arrive as rows, and the rows of the table leave as Arrow batches.

The workers import this module. Only one `ReadSpec` and the packed tasks are sent to them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError
from deltaberg.files.read.reader import ReadSpec, read_task
from deltaberg.files.read.task import pack_tasks, task_schema, tasks_of, unpack_tasks
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import Struct
from deltaberg.spark.arrays import fitted, for_spark
from deltaberg.spark.reused_workers import spare_next_task
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.sharing import grouped_tasks, scan_part

__all__ = [
    "MARK_COLUMN",
    "NUMBER_COLUMN",
    "SLOT_COLUMN",
    "TASK_COLUMN",
    "BatchFunction",
    "FusedTask",
    "PlanTask",
    "ReadTask",
    "batch_for_spark",
    "mark_rows",
    "read_packed",
    "task_groups",
]

#: The column of the key by which Spark partitions tasks.
SLOT_COLUMN = "slot"
#: The column of packed tasks.
TASK_COLUMN = "task"
#: The column of task numbers, where the tasks travel with the function.
NUMBER_COLUMN = "number"
#: The boolean column that `mark_rows` yields.
MARK_COLUMN = "row"

#: How many slots apart the groups of two neighbouring pieces start.
_STRIDE = 7919

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def read_packed(spec: ReadSpec, packed: bytes, limit: int | None) -> Iterator[pa.RecordBatch]:
    """Return the rows of one packed group of tasks, at most ``limit`` in total."""
    tasks = unpack_tasks(packed, task_schema(arrow_schema(spec.constants)))
    for task in tasks_of(tasks):
        for batch in read_task(spec, task):
            if limit is None:
                yield batch
                continue
            yield batch.slice(0, limit)
            limit -= min(limit, batch.num_rows)
            if limit == 0:
                return


@dataclass(frozen=True)
class PlanTask:
    """Plans parts of a scan inside `mapInArrow`: pieces of metadata come in, packed groups of tasks go out.

    ``slots`` are keys, each of which Spark's partitioning sends to a partition of its own.
    """

    scan: BoundScan
    slots: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the groups of tasks for batches of packed pieces."""
        for batch in batches:
            for number, packed in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                part = scan_part(self.scan, pa.ipc.open_stream(packed).read_all())
                for place, group in enumerate(grouped_tasks(part, 1), start=number * _STRIDE):
                    slot = self.slots[place % len(self.slots)]
                    yield pa.record_batch(
                        {SLOT_COLUMN: pa.array([slot], pa.int32()), TASK_COLUMN: pa.array([pack_tasks(group)])}
                    )


@dataclass(frozen=True)
class ReadTask:
    """Reads tasks inside `mapInArrow`; the rows go on to the JVM.

    The tasks arrive as rows; or they are ``carried`` here, and their numbers arrive as rows.
    """

    spec: ReadSpec
    limit: int | None = None
    carried: tuple[bytes, ...] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows of the tasks in the layout that Spark takes."""
        for batch in self.rows(batches):
            yield batch_for_spark(batch, self.spec.output)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """Return the rows of the tasks that batches hold or number."""
        for packed in self.groups(batches):
            yield from read_packed(self.spec, packed, self.limit)

    def groups(self, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
        """Return the packed groups of tasks that batches hold or number."""
        return task_groups(batches, self.carried)


def task_groups(batches: Iterable[pa.RecordBatch], carried: tuple[bytes, ...] | None) -> Iterator[bytes]:
    """Return the packed groups of tasks that batches hold; or their numbers, where a function carries the groups."""
    spare_next_task()
    for batch in batches:
        if carried is None:
            yield from batch.column(TASK_COLUMN).to_pylist()
        else:
            yield from (carried[number] for number in batch.column(NUMBER_COLUMN).to_pylist())


@dataclass(frozen=True)
class FusedTask:
    """Reads tasks and runs a user's function over their rows, both inside one `mapInArrow`.

    ``types`` are the columns to yield, with the Arrow types that Spark expects; None if the type is unknown here.
    """

    read: ReadTask
    function: BatchFunction
    types: Mapping[str, pa.DataType | None]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return what the function yields for the rows of the tasks; without tasks it is not called."""
        tasks = iter(batches)
        first = next(tasks, None)
        if first is None:
            return
        with contextlib.closing(self.read.rows(itertools.chain([first], tasks))) as rows:
            results = self.function(rows)
            if not isinstance(results, Iterable):
                raise InvalidArgumentError(
                    f"the function returned {type(results).__name__}",
                    hint="return an iterator of pyarrow record batches",
                )
            for batch in results:
                if not isinstance(batch, pa.RecordBatch):
                    raise InvalidArgumentError(
                        f"the function yielded {type(batch).__name__}", hint="yield pyarrow record batches"
                    )
                yield self._checked(batch)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Bring a batch to the schema by name; Spark takes columns by position, and would swap them silently."""
        found = batch.schema.names
        if sorted(found) != sorted(self.types):
            raise InvalidArgumentError(
                f"the function yielded the columns {', '.join(found)}",
                hint=f"the schema has {', '.join(self.types)}",
            )
        columns = [fitted(batch.column(name), wanted, name) for name, wanted in self.types.items()]
        return _batch(columns, list(self.types), batch)


def _batch(columns: list[pa.Array], names: list[str], like: pa.RecordBatch) -> pa.RecordBatch:
    # A batch that is made of no columns has no rows.
    return pa.RecordBatch.from_arrays(columns, names=names) if columns else like


def batch_for_spark(batch: pa.RecordBatch, schema: Struct) -> pa.RecordBatch:
    """Return a batch of these columns in the layout that Spark takes."""
    columns = [for_spark(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return _batch(columns, batch.schema.names, batch)


def mark_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return a null for each row: a scan of no columns still has rows."""
    for batch in batches:
        yield pa.record_batch({MARK_COLUMN: pa.nulls(batch.num_rows, pa.bool_())})
