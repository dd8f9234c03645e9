"""What is asked of a session: its settings, and that it knows the Data Source."""

from __future__ import annotations

import os
import re

import pyspark
from pyspark.sql import SparkSession

from deltaberg.errors import UnsupportedFeatureError

__all__ = ["parallelism", "register"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
_DEFAULT_PARALLELISM = 8


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("delta")`` known to a session.

    The session must not have delta-spark's jar, which takes the name ``delta`` too. Where the session's setting
    ``spark.sql.python.filterPushdown.enabled`` is true, filters of a query reach the scan. Spark refuses a source
    that takes filters where it is false: register again after the setting was changed.

    Parameters
    ----------
    spark
        A session, of Spark Connect too.

    Raises
    ------
    UnsupportedFeatureError
        Where this version of Spark has no Python Data Sources.
    """
    try:
        from deltaberg.spark.datasource import DeltaDataSource, PushdownDeltaDataSource
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        raise UnsupportedFeatureError(
            f"Spark {pyspark.__version__} has no Python Data Sources",
            hint="use Spark 4.0 or newer, or scan.to_spark(spark)",
        ) from None
    spark.dataSource.register(PushdownDeltaDataSource if _pushes_filters(spark) else DeltaDataSource)


def _pushes_filters(spark: SparkSession) -> bool:
    try:
        # No default of ours: releases differ in theirs.
        return str(spark.conf.get(_PUSHDOWN)).lower() == "true"
    except Exception:  # noqa: BLE001 - Spark 4.0 does not know the setting
        return False


def parallelism(spark: SparkSession) -> int:
    """Say how many tasks a session can run at a time, as far as its settings tell."""
    for name in ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism"):
        text = _setting(spark, name)
        if text is not None and text.isdigit() and int(text) > 0:
            return int(text)
    local = _LOCAL_MASTER.fullmatch(_setting(spark, "spark.master") or "")
    if local is not None:
        cores = local[1] or "1"
        return os.cpu_count() or 1 if cores == "*" else int(cores)
    executors, cores = _setting(spark, "spark.executor.instances"), _setting(spark, "spark.executor.cores")
    if executors is not None and executors.isdigit():
        return int(executors) * (int(cores) if cores is not None and cores.isdigit() else 1)
    return _DEFAULT_PARALLELISM


def _setting(spark: SparkSession, name: str) -> str | None:
    try:
        return spark.conf.get(name, None)
    except Exception:  # noqa: BLE001 - a session may refuse to tell, and a guess will do
        return None
