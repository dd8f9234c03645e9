"""Spark's tasks that run in this process: what changes rows of a table, without a session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from deltaberg.spark.read.planning import PlannedTasks
from deltaberg.spark.read.read_tasks import NUMBER_COLUMN
from deltaberg.spark.write import item_tasks, row_tasks
from deltaberg.table.read.bound import BoundScan

__all__ = ["Workers"]


class Workers:
    """A cluster of one process.

    Parameters
    ----------
    monkeypatch
        Has `SparkRowTasks` run its tasks here, however little they read.
    slots
        How many tasks are made.
    twins
        Whether every task runs twice before its reply counts: once it is killed at its end, and once its reply is lost.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slots: int, *, twins: bool = False) -> None:
        self.slots = slots
        self.twins = twins
        #: The functions of the jobs that ran, and the replies to the driver.
        self.jobs: list[Any] = []
        self.replies: list[dict[str, Any]] = []
        monkeypatch.setattr(row_tasks, "_LEAST_BYTES", 0)
        for module in (row_tasks, item_tasks):
            monkeypatch.setattr(module, "planned_tasks", self._planned)

    @property
    def tasks(self) -> row_tasks.SparkRowTasks:
        """What changes rows."""
        # Remote sessions have no jobs that this process must cancel.
        facts: Any = SimpleNamespace(parallelism=self.slots, is_remote=True)
        return _LocalSearch(facts)

    def _planned(self, facts: Any, packed: tuple[bytes, ...], *_: Any) -> PlannedTasks:
        frame: Any = _Frame(self, len(packed))
        return PlannedTasks(frame, None, packed)

    def run(self, function: Any, number: int) -> list[dict[str, Any]]:
        """Run one task."""
        pickler: Any = cloudpickle
        sent = pickler.dumps(function)

        def attempt() -> Iterator[pa.RecordBatch]:
            return iter(pickler.loads(sent)(iter([pa.record_batch({NUMBER_COLUMN: [number]})])))

        for _ in range(2 if self.twins else 0):
            lost = attempt()
            next(lost, None)
            lost.close()  # type: ignore[attr-defined]
        return [row for reply in attempt() for row in reply.to_pylist()]


class _LocalSearch(row_tasks.SparkRowTasks):
    """Rows are looked for by this process."""

    def _planned(self, bound: BoundScan) -> None:
        return None


@dataclass
class _Frame:
    workers: Workers
    count: int
    function: Any = None

    def mapInArrow(self, function: Any, schema: Any) -> _Frame:  # noqa: N802 - the name of Spark
        return replace(self, function=function)

    def collect(self) -> list[dict[str, Any]]:
        self.workers.jobs.append(self.function)
        found = [reply for number in range(self.count) for reply in self.workers.run(self.function, number)]
        self.workers.replies += found
        return found
