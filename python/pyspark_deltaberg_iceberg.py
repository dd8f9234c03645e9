"""Lets PySpark find ``format("iceberg")`` by itself: it looks into every module whose name begins so."""

import os
from contextlib import suppress

if os.environ.get("DELTABERG_SPARK_SOURCES") != "off":
    with suppress(ImportError):
        from deltaberg.spark.source.discovery import IcebergSource as DefaultSource  # noqa: F401 - PySpark asks for this name
