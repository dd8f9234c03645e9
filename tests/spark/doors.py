"""The three ways to read a table on Spark, behind one function; each must return the rows that were written."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

import deltaberg
import deltaberg.spark
from deltaberg.spark.types import spark_schema
from deltaberg.table.read.scan import bound_scan
from tests.support.roads import Road, collect

if TYPE_CHECKING:
    from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
    from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
    from deltaberg.spark.source.writer import TableWriter

__all__ = [
    "DOORS",
    "VERSION",
    "SourceWrites",
    "needs_connect",
    "needs_data_sources",
    "needs_native",
    "needs_native_writes",
    "needs_variants",
    "own_calls",
    "read",
    "register",
    "unchanged",
]

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
#: Only Spark 4 has Python Data Sources, the native road and the server of Spark Connect in PySpark.
_SPARK_4 = VERSION >= (4, 0)
needs_connect = pytest.mark.skipif(not _SPARK_4, reason="PySpark 3.5 comes without the server of Spark Connect")
needs_native = pytest.mark.skipif(not _SPARK_4, reason="the native road needs Spark 4.0")
needs_native_writes = pytest.mark.skipif(
    VERSION not in ((4, 0), (4, 1), (4, 3)), reason="native writes need Spark 4.0, 4.1 or 4.3"
)
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
    return collect(scan.map_in_arrow(spark, unchanged, spark_schema(bound_scan(scan).output)))


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged; a function for `Scan.map_in_arrow`."""
    yield from batches


def own_calls(error: BaseException) -> set[str]:
    """Return the functions of this library in the tracebacks that an error of Spark quotes."""
    return set(re.findall(r'File "[^"]*/deltaberg/[^"]*", line \d+, in (\w+)', str(error)))


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
    """Register the Data Sources, and return the session."""
    deltaberg.spark.register(spark)
    return spark


class SourceWrites:
    """Writes of a Data Source as Spark's processes do them, without Spark.

    Parameters
    ----------
    options
        The class of the options of the source.
    """

    def __init__(self, options: type[DeltaWriteOptions | IcebergWriteOptions]) -> None:
        self._options = options

    def writer(self, root: Path, columns: pa.Schema, mode: str = "append", **options: str) -> TableWriter:
        """Return a writer as the processes get it."""
        from deltaberg.spark.source.writer import TableWriter

        staged = self._options({"path": str(root), **options}).stage(columns, overwrite=mode == "overwrite")
        writer: TableWriter = pickle.loads(pickle.dumps(TableWriter(staged, tuple(columns.names))))
        return writer

    def write(self, rows: pa.Table, root: Path, mode: str = "append", **options: str) -> None:
        """Write and commit rows, a task for each batch."""
        writer = self.writer(root, rows.schema, mode, **options)
        writer.commit(pickle.loads(pickle.dumps([writer.write(iter([batch])) for batch in rows.to_batches()])))
