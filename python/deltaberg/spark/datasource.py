"""The Python Data Sources ``delta`` and ``iceberg``: ``spark.read.format("delta")`` with no jar.

They are the compatible door. Spark tells a Python source nothing of the columns that a query needs, so all are read
unless the option ``columns`` names some; `Scan.to_spark` and `Scan.map_in_arrow` are the fast ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from deltaberg.errors import ExpressionError, InvalidArgumentError, SchemaError
from deltaberg.expressions import Expression, all_of
from deltaberg.files import pack_tasks
from deltaberg.spark.delta_options import DeltaReadOptions
from deltaberg.spark.filters import from_spark
from deltaberg.spark.iceberg_options import IcebergReadOptions
from deltaberg.spark.options import ReadOptions
from deltaberg.spark.tasks import read_packed, to_spark
from deltaberg.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter as SparkFilter

__all__ = ["DATA_SOURCES", "PUSHDOWN_DATA_SOURCES"]

#: Splits of the Data Source: Spark does not say how many tasks it can run.
_PARALLELISM = 8


class _Partition(InputPartition):
    """Packed tasks of one Spark task."""

    def __init__(self, packed: bytes) -> None:
        super().__init__(packed)


class _TableSource(DataSource):
    """A Data Source of tables: its options are all that Spark tells it."""

    settings: ClassVar[type[ReadOptions]]

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._settings = self.settings(options)

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return cls.settings.format

    def schema(self) -> StructType:
        """Give the columns that will be read."""
        return spark_schema(self._settings.scan().output)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader; a schema of the caller's must be the table's."""
        _check_schema(schema, self.schema())
        return _Reader(self._settings)


class DeltaDataSource(_TableSource):
    """Reads Delta tables.

    Options
    -------
    path
        Where the table is.
    versionAsOf, timestampAsOf
        The version to read; the newest one, when the frame is made, by default.
    readChangeFeed, startingVersion, startingTimestamp, endingVersion, endingTimestamp
        Read the changes of a range of versions.
    columns
        The columns to read: names separated by commas, or a JSON list.
    filter
        A condition as SQL text.
    batchSize, timezone
        As in `ScanOptions`.
    Every other option goes to the store.
    """

    settings = DeltaReadOptions


class IcebergDataSource(_TableSource):
    """Reads Iceberg tables.

    Options
    -------
    path
        Where the table, or a metadata file of it, is.
    snapshot-id, as-of-timestamp, branch, tag
        The snapshot to read (the timestamp in milliseconds since 1970); the newest one, when the frame is made, by
        default.
    start-snapshot-id, end-snapshot-id
        Read what was appended after one snapshot, up to another.
    changes
        ``true``: read all changes of the range, with the columns ``_change_type`` and so on.
    location-map
        ``auto``: the table was moved as a whole.
    columns, filter, batchSize, timezone
        As for Delta tables.
    Every other option goes to the store.
    """

    settings = IcebergReadOptions


class _Pushdown(_TableSource):
    """Takes filters from Spark.

    Spark keeps the reader of the filters that it saw last with the source, and reads by it whatever is asked of the
    same ``load()`` afterwards, or elsewhere in the query. Therefore these classes are chosen by hand.
    """

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader that takes filters."""
        super().reader(schema)
        return _PushdownReader(self._settings)


class PushdownDeltaDataSource(_Pushdown, DeltaDataSource):
    """Reads Delta tables, and takes filters from Spark."""


class PushdownIcebergDataSource(_Pushdown, IcebergDataSource):
    """Reads Iceberg tables, and takes filters from Spark."""


def _check_schema(wanted: StructType, found: StructType) -> None:
    # The short text has the types and no nullability, which Spark and a caller may see in different ways.
    if wanted.simpleString() != found.simpleString():
        raise InvalidArgumentError(
            f"the schema {wanted.simpleString()} is not that of the table, {found.simpleString()}",
            hint="leave the schema out, and choose columns with the option 'columns'",
        )


class _Reader(DataSourceReader):
    """Plans on the driver, reads on the executors: what the executors need is known before it is pickled."""

    def __init__(self, settings: ReadOptions) -> None:
        self._settings = settings
        self._pushed: Expression | None = None
        self._spec = settings.scan().read_spec

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the scan: a partition for each group of splits."""
        tasks = self._settings.scan(self._pushed).spark_tasks(_PARALLELISM)
        return [_Partition(pack_tasks(group)) for group in tasks] or [_Partition(b"")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the splits of a partition."""
        packed = partition.value
        if packed:
            for batch in read_packed(self._spec, packed, None):
                yield to_spark(batch, self._spec.output)


class _PushdownReader(_Reader):
    """A reader that takes filters from Spark; where pushing is switched off, such a source cannot be used."""

    def pushFilters(self, filters: list[SparkFilter]) -> Iterator[SparkFilter]:  # noqa: N802
        """Take the filters that a scan can apply, and give back the others."""
        taken = []
        for pushed in filters:
            translated = from_spark(pushed)
            if translated is not None and self._fits(translated):
                taken.append(translated)
            else:
                yield pushed
        if taken:
            self._pushed = all_of(taken)
            self._spec = self._settings.scan(self._pushed).read_spec

    def _fits(self, condition: Expression) -> bool:
        try:
            self._settings.scan(condition)
        except (ExpressionError, SchemaError):
            return False
        return True


#: What `deltaberg.spark.register` makes known to a session.
DATA_SOURCES = (DeltaDataSource, IcebergDataSource)
PUSHDOWN_DATA_SOURCES = (PushdownDeltaDataSource, PushdownIcebergDataSource)
