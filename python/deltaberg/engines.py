"""Engines that carry out scans and writes in place of this process, and where they are.

An engine stands above tables and imports them. Tables find it here, where the top of the package registers it, so that
nothing imports what stands above it. An engine is loaded when a table first asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkEngine", "register_engine", "spark_engine"]


class SparkEngine(Protocol):
    """The interface by which scans and tables use Spark."""

    #: The rows of a DataFrame, which Spark's tasks write: `deltaberg.table.write.sources.Rows`.
    FrameRows: Callable[[Any], Any]
    #: What finds and writes the rows that an operation changes: `deltaberg.table.change.changed_rows.RowTasks`.
    row_tasks: Callable[[SparkSession], Any]
    #: What lists and deletes the files of tables: `deltaberg.table.maintain.file_tasks.FileTasks`.
    file_tasks: Callable[[SparkSession], Any]

    def scan_to_spark(self, scan: Any, spark: SparkSession, road: Any) -> DataFrame:
        """Return the rows of a scan as a DataFrame."""

    def scan_map_in_arrow(self, scan: Any, spark: SparkSession, fn: Callable[..., Any], schema: Any) -> DataFrame:
        """Run a function over the rows of a scan in the tasks that read them."""

    def explain_roads(self, scan: Any, spark: SparkSession) -> str:
        """Return the roads that the files of a scan take on Spark, as text."""

    def current_batch(self) -> tuple[str, str, int]:
        """Return the query whose batch this thread runs, the run of the query, and the number of the batch."""


_MODULES: dict[str, str] = {}


def register_engine(name: str, module: str) -> None:
    """Say which module is the engine of a name."""
    _MODULES[name] = module


def spark_engine() -> SparkEngine:
    """Return Spark's engine.

    Raises
    ------
    MissingDependencyError
        pyspark is not installed.
    """
    return cast("SparkEngine", import_module(_MODULES["spark"]))
