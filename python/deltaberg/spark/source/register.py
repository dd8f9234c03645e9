"""Registration of the Python Data Sources with a session."""

from __future__ import annotations

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.spark.session import SessionFacts

__all__ = ["register"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, push_filters: bool = False) -> None:
    """Register ``spark.read.format("delta")`` and ``spark.read.format("iceberg")`` with a session.

    The session must not have the jar of delta-spark or iceberg-spark, which use the same names.

    Parameters
    ----------
    spark
        A session, either classic or of Spark Connect.
    push_filters
        Let Spark push the filters of a query into the scan. The session must allow this by its setting
        ``spark.sql.python.filterPushdown.enabled``. Spark keeps one plan for each ``load()``: the plan for the filters
        that it saw last. A frame must therefore not be used with different filters, or rows are lost silently. The
        option ``filter`` of the source skips the same files without this risk.

    Raises
    ------
    UnsupportedFeatureError
        If this version of Spark has no Python Data Sources.
    InvalidArgumentError
        If the object is not a Spark session, or if filters are to be pushed and the session does not allow it:
        every ``load()`` would fail.
    """
    facts = SessionFacts.of(spark)
    try:
        from deltaberg.spark.source.datasource import DATA_SOURCES, PUSHDOWN_DATA_SOURCES
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        raise UnsupportedFeatureError(
            f"Spark {pyspark.__version__} has no Python Data Sources",
            hint="use Spark 4.0 or newer, or scan.to_spark(spark)",
        ) from None
    if push_filters and str(facts.setting(_PUSHDOWN)).lower() != "true":
        raise InvalidArgumentError(
            "the session does not push filters into Python Data Sources",
            hint=f"set {_PUSHDOWN} to true (Spark 4.1 or newer), or use the option 'filter'",
        )
    for source in PUSHDOWN_DATA_SOURCES if push_filters else DATA_SOURCES:
        try:
            spark.dataSource.register(source)
        except PySparkException as error:
            # Spark 4.0 does not replace a source that it has found by itself. Ours is the same one.
            if push_filters or error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
