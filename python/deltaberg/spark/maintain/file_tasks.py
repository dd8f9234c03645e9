"""Work on the files of a table in Spark's tasks: `FileTasks`. Shares and results pass the JVM as packed bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from deltaberg.errors import DeltabergError
from deltaberg.spark.jobs import run_job
from deltaberg.spark.read.planning import planned_tasks
from deltaberg.spark.read.read_tasks import task_groups
from deltaberg.spark.session import SessionFacts

__all__ = ["SparkFileTasks", "file_tasks"]

_Share = TypeVar("_Share")
_Result = TypeVar("_Result")

_REPLY = pa.schema([("reply", pa.binary())])
_REPLY_SCHEMA = st.StructType([st.StructField("reply", st.BinaryType())])


@dataclass(frozen=True)
class SparkFileTasks:
    """Has Spark's tasks work on the files of a table."""

    facts: SessionFacts

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""
        return self.facts.parallelism

    def run(self, work: Callable[[_Share], _Result], shares: Sequence[_Share]) -> list[_Result | DeltabergError]:
        """Return what some work makes of each share, or the error that it met."""
        packed = tuple(map(pickle.dumps, shares))
        planned = planned_tasks(self.facts, packed, 0, _REPLY_SCHEMA)
        tasks = planned.tasks.mapInArrow(_ShareTask(work, planned.carried), _REPLY_SCHEMA)
        # Our own workers sent them.
        return [pickle.loads(row["reply"]) for row in run_job(self.facts, tasks.collect)]  # noqa: S301


@dataclass(frozen=True)
class _ShareTask:
    """Does some work with the shares of a task inside `mapInArrow`."""

    work: Callable[[Any], Any]
    carried: tuple[bytes, ...] | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reply for each share."""
        for share in task_groups(batches, self.carried):
            try:
                # Our own driver packed it.
                reply = self.work(pickle.loads(share))  # noqa: S301
            except DeltabergError as error:
                reply = error
            yield pa.record_batch([[pickle.dumps(reply)]], _REPLY)


def file_tasks(spark: SparkSession) -> SparkFileTasks:
    """Return what has the tasks of a session work on the files of tables."""
    return SparkFileTasks(SessionFacts.of(spark))
