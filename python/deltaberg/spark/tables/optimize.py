"""Putting small files together, in the words of delta-spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from deltaberg.delta.table import DeltaTable as Table
from deltaberg.schema.columns import column_names
from deltaberg.signatures import public
from deltaberg.spark.hints import in_delta_words
from deltaberg.spark.session import SessionFacts

__all__ = ["DeltaOptimizeBuilder"]

_METRICS = ("numFilesAdded", "numFilesRemoved", "numBytesAdded", "numBytesRemoved", "numConflicts")
_SCHEMA = f"path string, metrics struct<{', '.join(f'{name}: bigint' for name in _METRICS)}>"


@public
class DeltaOptimizeBuilder:
    """A compaction or a Z-order, which may be limited to partitions."""

    def __init__(self, facts: SessionFacts, newest: Callable[[], Table]) -> None:
        self._facts = facts
        self._newest = newest
        self._where: str | None = None

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Limit the compaction to files in which rows can match a filter, which may name partition columns only."""
        self._where = partitionFilter
        return self

    @in_delta_words
    def executeCompaction(self) -> DataFrame:
        """Compact the files, by Spark's tasks if there are at least 2 GiB; see `deltaberg.DeltaTable.compact`.

        Returns
        -------
        DataFrame
            One row with the location of the table, and what was done.
        """
        return self._compacted()

    @in_delta_words
    def executeZOrderBy(self, *cols: str) -> DataFrame:
        """Order the rows of each partition along the Z-order curve through some columns.

        Spark's tasks do so if there are at least 2 GiB of files.

        Returns
        -------
        DataFrame
            As for `executeCompaction`.

        Raises
        ------
        UnsupportedFeatureError
            A column has no statistics, or is a partition column.
        """
        return self._compacted(z_order_by=[name for given in cols for name in column_names(given)])

    def _compacted(self, **order: Any) -> DataFrame:
        table = self._newest()
        done = table.compact(self._where, **order)
        counts = (done.added_files, done.removed_files, done.added_bytes, done.removed_bytes, len(done.conflicts))
        return self._facts.session.createDataFrame([(table.location, counts)], _SCHEMA)
