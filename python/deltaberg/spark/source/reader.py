"""Readers of the Data Sources: they plan where the query is planned, and read in the workers of executors.

A worker imports this module alone. What opens and plans a table, and what writes one, stays out of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from deltaberg.errors import ExpressionError, SchemaError
from deltaberg.spark.read.read_tasks import batch_for_spark, read_packed
from deltaberg.spark.source.raised import briefly, briefly_yielded

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter as SparkFilter

    from deltaberg.expressions.tree.tree import Value
    from deltaberg.spark.source.options import ReadOptions

__all__ = ["PushdownReader", "TableReader"]

#: Spark does not tell a Data Source how many tasks it can run.
_PARALLELISM = 8


class Partition(InputPartition):
    """The packed file tasks of one Spark task."""

    def __init__(self, packed: bytes) -> None:
        super().__init__(packed)


class TableReader(DataSourceReader):
    """Plans on the driver and reads on the executors; all that the executors need is found before it is pickled."""

    def __init__(self, settings: ReadOptions) -> None:
        from deltaberg.table.read.scan import bound_scan

        self._settings = settings
        self._pushed: Value | None = None
        self._spec = bound_scan(settings.scan()).read_spec

    def __getstate__(self) -> tuple[Any, bytes]:
        return self._spec, pickle.dumps((self._settings, self._pushed))

    def __setstate__(self, state: tuple[Any, bytes]) -> None:
        self._spec, self._unread = state

    def __getattr__(self, name: str) -> Any:
        # Who reads needs none of these, and would load all that opens and writes tables with them.
        if name not in ("_settings", "_pushed"):
            raise AttributeError(name)
        self._settings, self._pushed = pickle.loads(self._unread)  # noqa: S301 - from the same query
        return getattr(self, name)

    @briefly
    def partitions(self) -> Sequence[InputPartition]:
        """Plan the scan, and return a partition for each group of splits."""
        from deltaberg.files.read.task import pack_tasks
        from deltaberg.table.read.scan import bound_scan
        from deltaberg.table.read.sharing import grouped_tasks

        tasks = grouped_tasks(bound_scan(self._settings.scan(self._pushed)), _PARALLELISM)
        return [Partition(pack_tasks(group)) for group in tasks] or [Partition(b"")]

    @briefly_yielded
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of the splits of a partition."""
        packed = partition.value
        if packed:
            for batch in read_packed(self._spec, packed, None):
                yield batch_for_spark(batch, self._spec.output)


class PushdownReader(TableReader):
    """A reader that takes filters from Spark. Spark refuses such a source where pushing filters is switched off."""

    @briefly_yielded
    def pushFilters(self, filters: list[SparkFilter]) -> Iterator[SparkFilter]:  # noqa: N802
        """Take the filters that a scan can apply, and return the others."""
        from deltaberg.expressions.build.column import all_of
        from deltaberg.spark.source.from_spark_filters import from_spark
        from deltaberg.table.read.scan import bound_scan

        taken = []
        for pushed in filters:
            translated = from_spark(pushed)
            if translated is not None and self._fits(translated):
                taken.append(translated)
            else:
                yield pushed
        if taken:
            self._pushed = all_of(taken)
            self._spec = bound_scan(self._settings.scan(self._pushed)).read_spec

    def _fits(self, condition: Value) -> bool:
        try:
            self._settings.scan(condition)
        except (ExpressionError, SchemaError):
            return False
        return True
