"""Columns of PySpark as SQL text, which the library evaluates by itself."""

from __future__ import annotations

from deltaberg.spark.columns.build import OfFrame, of_no_frame
from deltaberg.spark.columns.sql_text import column_text, is_column

__all__ = ["OfFrame", "column_text", "is_column", "of_no_frame"]
