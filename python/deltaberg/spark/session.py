"""What is asked of a session: its settings, and that it knows the Data Source."""

from __future__ import annotations

import re

import pyspark
from pyspark.sql import SparkSession

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.table import processors

__all__ = ["is_remote", "parallelism", "register", "setting", "takes_arrow_tables"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
_DEFAULT_PARALLELISM = 8
_FIRST_WITH_ARROW = (4, 0)
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def register(spark: SparkSession, *, push_filters: bool = False) -> None:
    """Make ``spark.read.format("delta")`` and ``spark.read.format("iceberg")`` known to a session.

    The session must not have the jar of delta-spark or iceberg-spark, which take these names too.

    Parameters
    ----------
    spark
        A session, of Spark Connect too.
    push_filters
        Let the filters of a query reach the scan. The session must allow it by its setting
        ``spark.sql.python.filterPushdown.enabled``. Spark keeps one plan for each ``load()``, that of the filters it
        saw last: with this, a frame must not be used with different filters, or rows go missing without a word. The
        option ``filter`` of the source skips the same files and has no such trap.

    Raises
    ------
    UnsupportedFeatureError
        Where this version of Spark has no Python Data Sources.
    InvalidArgumentError
        Where filters shall be pushed, and the session does not allow it: every ``load()`` would fail.
    """
    try:
        from deltaberg.spark.datasource import DATA_SOURCES, PUSHDOWN_DATA_SOURCES
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        raise UnsupportedFeatureError(
            f"Spark {pyspark.__version__} has no Python Data Sources",
            hint="use Spark 4.0 or newer, or scan.to_spark(spark)",
        ) from None
    if push_filters and str(setting(spark, _PUSHDOWN)).lower() != "true":
        raise InvalidArgumentError(
            "the session does not push filters into Python sources",
            hint=f"set {_PUSHDOWN} to true (Spark 4.1 or newer), or use the option 'filter'",
        )
    for source in PUSHDOWN_DATA_SOURCES if push_filters else DATA_SOURCES:
        spark.dataSource.register(source)


def parallelism(spark: SparkSession) -> int:
    """Say how many tasks a session can run at a time, as far as its settings tell."""
    for name in ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism"):
        text = setting(spark, name)
        if text is not None and text.isdigit() and int(text) > 0:
            return int(text)
    local = _LOCAL_MASTER.fullmatch(setting(spark, "spark.master") or "")
    if local is not None:
        cores = local[1] or "1"
        return processors() if cores == "*" else int(cores)
    executors, cores = setting(spark, "spark.executor.instances"), setting(spark, "spark.executor.cores")
    if executors is not None and executors.isdigit():
        return int(executors) * (int(cores) if cores is not None and cores.isdigit() else 1)
    return _DEFAULT_PARALLELISM


def is_remote(spark: SparkSession) -> bool:
    """Say whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def takes_arrow_tables(spark: SparkSession) -> bool:
    """Say whether a session makes DataFrames of Arrow tables: PySpark fails where batches of any size are allowed."""
    minor = tuple(int(part) for part in spark.version.split(".")[:2] if part.isdigit())
    return minor >= _FIRST_WITH_ARROW and not re.fullmatch(r"-\d+|0+", setting(spark, _BATCH_ROWS) or "")


def setting(spark: SparkSession, name: str) -> str | None:
    """Give a setting of a session; None where it has none, or does not tell."""
    try:
        return spark.conf.get(name, None)
    except Exception:  # noqa: BLE001 - a session may refuse to tell, and a guess will do
        return None
