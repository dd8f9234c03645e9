"""Tables on Spark, without a jar: the executors read the data files in Python.

pyspark is imported here and nowhere else. Nothing uses py4j, so that everything works over Spark Connect; only
Columns of classic sessions are read from the JVM, where they are (`columns`). The executors need this package (the
documentation lists the ways to bring it there).
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
from deltaberg.spark.write.search import row_search

__all__ = ["DeltaTable", "FrameRows", "explain_roads", "register", "row_search", "scan_map_in_arrow", "scan_to_spark"]

if TYPE_CHECKING:
    from deltaberg.spark.tables import DeltaTable


def __getattr__(name: str) -> Any:
    # Workers, which import this package anew, need no tables.
    if name != "DeltaTable":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from deltaberg.spark.tables import DeltaTable

    globals()[name] = DeltaTable
    return DeltaTable
