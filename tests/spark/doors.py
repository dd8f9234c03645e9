"""The three ways into Spark, by one call: each must give the rows that were written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import deltaberg
import deltaberg.spark
from deltaberg.spark.types import spark_schema
from tests.support.roads import Road, collect

__all__ = [
    "DOORS",
    "VERSION",
    "needs_connect",
    "needs_data_sources",
    "needs_native",
    "needs_variants",
    "read",
    "register",
    "unchanged",
]

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
#: Whether this Spark has Python Data Sources, the native road and a server of Spark Connect.
_SPARK_4 = VERSION >= (4, 0)
needs_connect = pytest.mark.skipif(not _SPARK_4, reason="PySpark 3.5 comes without the server of Spark Connect")
needs_native = pytest.mark.skipif(not _SPARK_4, reason="the native road needs Spark 4.0")
needs_variants = pytest.mark.skipif(not _SPARK_4, reason="variants came with Spark 4.0")
needs_data_sources = pytest.mark.skipif(not _SPARK_4, reason="Python Data Sources came with Spark 4.0")
DOORS = ["to_spark", "map_in_arrow", pytest.param("format", marks=needs_data_sources)]


def read(door: str, spark: Any, location: Any, columns: list[str] | None = None, **options: Any) -> pa.Table:
    """Read a table by a door; options are those of `deltaberg.open_table`.

    By ``to_spark`` it is read by the arrow road and by the native one, and must be the same.
    """
    if door == "format":
        return collect(_source(spark, location, columns, options))
    scan = deltaberg.open_table(location, **options).scan(columns=columns)
    if door == "to_spark":
        return Road("spark", spark).table(scan)
    return collect(scan.map_in_arrow(spark, unchanged, spark_schema(scan.output)))


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the batches that come, as a function over Arrow batches."""
    yield from batches


def _source(spark: Any, location: Any, columns: list[str] | None, options: dict[str, Any]) -> Any:
    reader = register(spark).read.format("delta")
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    if "version" in options:
        reader = reader.option("versionAsOf", options["version"])
    for name, value in options.get("storage_options", {}).items():
        reader = reader.option(name, value)
    return reader.load(str(location))


def register(spark: Any) -> Any:
    """Register the Data Source, and give the session."""
    deltaberg.spark.register(spark)
    return spark
