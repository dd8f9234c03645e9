"""Tables on Spark, without a jar: the executors read the data files in Python.

pyspark is imported here and nowhere else. Nothing uses py4j, so that everything works over Spark Connect; the
executors need this package (the documentation lists the ways to bring it there).
"""

from __future__ import annotations

from deltaberg.spark.read.roads import explain_roads, scan_map_in_arrow, scan_to_spark
from deltaberg.spark.source.register import register
from deltaberg.spark.write.frame_rows import FrameRows

__all__ = ["FrameRows", "explain_roads", "register", "scan_map_in_arrow", "scan_to_spark"]
