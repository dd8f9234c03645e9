"""Tables on Spark, without a jar: the executors read the data files in Python.

pyspark is imported here and nowhere else. Everything works over Spark Connect: py4j only reads Columns of classic
sessions, which are in the JVM (`columns`), and drives Spark's own Parquet writer (`write/spark_parquet.py`). The
executors need this package (the documentation lists the ways to bring it there).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltaberg.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401 - what is missing is said here, not by the first module that needs it
except ModuleNotFoundError as error:
    raise MissingDependencyError(
        "deltaberg.spark needs pyspark, which is not installed", hint="pip install 'deltaberg[spark]'"
    ) from error

from deltaberg.spark.read.roads import explain_roads, scan_map_in_arrow, scan_to_spark
from deltaberg.spark.source.register import register
from deltaberg.spark.write.frame_rows import FrameRows
from deltaberg.spark.write.row_tasks import row_tasks

__all__ = ["DeltaTable", "FrameRows", "explain_roads", "register", "row_tasks", "scan_map_in_arrow", "scan_to_spark"]

if TYPE_CHECKING:
    from deltaberg.spark.tables import DeltaTable


def __getattr__(name: str) -> Any:
    # Workers, which import this package anew, need no tables.
    if name != "DeltaTable":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from deltaberg.spark.tables import DeltaTable

    globals()[name] = DeltaTable
    return DeltaTable
