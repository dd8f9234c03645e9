"""Delta tables in the words of delta-spark: ``DeltaTable.forPath(spark, path)`` and its builders."""

from __future__ import annotations

from deltaberg.spark.tables.builder import DeltaTableBuilder, IdentityGenerator
from deltaberg.spark.tables.delta_table import DeltaTable
from deltaberg.spark.tables.merge import DeltaMergeBuilder
from deltaberg.spark.tables.optimize import DeltaOptimizeBuilder

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]
