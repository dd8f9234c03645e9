"""Work on the files of a table in Spark's tasks: `FileTasks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession

from deltaberg.errors import DeltabergError
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.write.item_tasks import run_items

__all__ = ["SparkFileTasks", "file_tasks"]

_Share = TypeVar("_Share")
_Result = TypeVar("_Result")


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
        return run_items(self.facts, work, shares, is_repeated=False)


def file_tasks(spark: SparkSession) -> SparkFileTasks:
    """Return what has the tasks of a session work on the files of tables."""
    return SparkFileTasks(SessionFacts.of(spark))
