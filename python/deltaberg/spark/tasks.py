"""What runs inside Spark's Python workers: tasks arrive as rows, rows of the table leave as Arrow batches.

Everything here is found by import on the worker; what travels is a `ReadSpec`, once, and packed tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError
from deltaberg.files import ReadSpec, read_task, task_schema, tasks_of, unpack_tasks
from deltaberg.schema import arrow_schema
from deltaberg.spark.types import for_spark

__all__ = ["MARK_SCHEMA", "TASK_COLUMN", "BatchFunction", "FusedTask", "ReadTask", "mark_rows", "read_packed"]

#: The column of packed tasks.
TASK_COLUMN = "task"
#: What `mark_rows` yields, as DDL.
MARK_SCHEMA = "row boolean"

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def read_packed(spec: ReadSpec, packed: bytes, limit: int | None) -> Iterator[pa.RecordBatch]:
    """Read the tasks of one packed group, at most ``limit`` rows of them together."""
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
class ReadTask:
    """Reads tasks for `mapInArrow`: the rows go on to the JVM."""

    spec: ReadSpec
    limit: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks, for Spark."""
        for batch in self.rows(batches):
            yield self.to_spark(batch)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks in batches of packed tasks."""
        for batch in batches:
            for packed in batch.column(TASK_COLUMN).to_pylist():
                yield from read_packed(self.spec, packed, self.limit)

    def to_spark(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Bring a batch to the layout that Spark wants."""
        arrays = [for_spark(array, field.type) for array, field in zip(batch.columns, self.spec.output, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=self.spec.output.names)


@dataclass(frozen=True)
class FusedTask:
    """Reads tasks and runs a user's function over their rows, in one go."""

    read: ReadTask
    function: BatchFunction

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks and give what the function makes of their rows."""
        for made in self.function(self.read.rows(batches)):
            if not isinstance(made, pa.RecordBatch):
                raise InvalidArgumentError(
                    f"the function yielded {type(made).__name__}", hint="yield pyarrow record batches"
                )
            yield made


def mark_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give a null for each row, for scans that want rows and no column of them."""
    for batch in batches:
        yield pa.record_batch({"row": pa.nulls(batch.num_rows, pa.bool_())})
