"""Putting small files together, in the words of delta-spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from pyspark.sql import DataFrame

from deltaberg.delta.table import DeltaTable as Table
from deltaberg.errors import UnsupportedFeatureError
from deltaberg.signatures import public
from deltaberg.spark.hints import in_delta_words
from deltaberg.spark.session import SessionFacts

__all__ = ["DeltaOptimizeBuilder"]

_METRICS = ("numFilesAdded", "numFilesRemoved", "numBytesAdded", "numBytesRemoved", "numConflicts")
_SCHEMA = f"path string, metrics struct<{', '.join(f'{name}: bigint' for name in _METRICS)}>"


@public
class DeltaOptimizeBuilder:
    """A compaction, which may be limited to partitions."""

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
        """Compact the files on the driver; see `deltaberg.DeltaTable.compact`.

        Returns
        -------
        DataFrame
            One row with the location of the table, and what was done.
        """
        table = self._newest()
        done = table.compact(self._where)
        counts = (done.added_files, done.removed_files, done.added_bytes, done.removed_bytes, len(done.conflicts))
        return self._facts.session.createDataFrame([(table.location, counts)], _SCHEMA)

    def executeZOrderBy(self, *cols: str) -> NoReturn:
        """Refuse: rows are not ordered by several columns.

        Raises
        ------
        UnsupportedFeatureError
            Always.
        """
        raise UnsupportedFeatureError(
            f"rows cannot be ordered by {', '.join(cols)} yet", hint="call executeCompaction()", feature="Z-order"
        )
