"""Tables on Spark, without a jar: the executors read the data files in Python.

pyspark is imported here and nowhere else. Everything works over Spark Connect: py4j only reads Columns of classic
sessions, which are in the JVM (`columns`), and drives Spark's own Parquet writer (`write/spark_parquet.py`). The
executors need this package (the documentation lists the ways to bring it there).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.errors import MissingDependencyError
from deltaberg.lazy_names import lazy_names

try:
    import pyspark  # noqa: F401 - what is missing is said here, not by the first module that needs it
except ModuleNotFoundError as error:
    raise MissingDependencyError(
        "deltaberg.spark needs pyspark, which is not installed", hint="pip install 'deltaberg[spark]'"
    ) from error

if TYPE_CHECKING:
    from deltaberg.spark.maintain.file_tasks import file_tasks
    from deltaberg.spark.read.roads import explain_roads, scan_map_in_arrow, scan_to_spark
    from deltaberg.spark.source.register import register
    from deltaberg.spark.source.streaming.current_batch import current_batch
    from deltaberg.spark.source.streaming.read_stream import StreamRead, read_stream
    from deltaberg.spark.tables.delta_table import DeltaTable
    from deltaberg.spark.write.frame_rows import FrameRows
    from deltaberg.spark.write.row_tasks import row_tasks

__all__ = [
    "DeltaTable",
    "FrameRows",
    "StreamRead",
    "current_batch",
    "explain_roads",
    "file_tasks",
    "read_stream",
    "register",
    "row_tasks",
    "scan_map_in_arrow",
    "scan_to_spark",
]

_HOMES = {
    "DeltaTable": "tables",
    "FrameRows": "write.frame_rows",
    "StreamRead": "source.streaming.read_stream",
    "current_batch": "source.streaming.current_batch",
    "explain_roads": "read.roads",
    "file_tasks": "maintain.file_tasks",
    "read_stream": "source.streaming.read_stream",
    "register": "source.register",
    "row_tasks": "write.row_tasks",
    "scan_map_in_arrow": "read.roads",
    "scan_to_spark": "read.roads",
}

# Workers, which import this package anew, and processes that only look for Data Sources need few of its modules.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
