"""The Python Data Sources ``delta`` and ``iceberg``: ``spark.read.format("delta")`` with no jar.

They serve code that was written for delta-spark or iceberg-spark. Spark does not tell a Python source which columns a
query needs, so that all of them are read unless the option ``columns`` names some. `Scan.to_spark` and
`Scan.map_in_arrow` are faster.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.spark.source.delta_options import DeltaReadOptions
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from deltaberg.spark.source.iceberg_options import IcebergReadOptions
from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
from deltaberg.spark.source.options import ReadOptions, WriteOptions
from deltaberg.spark.source.raised import briefly
from deltaberg.spark.source.reader import PushdownReader, TableReader
from deltaberg.spark.source.stream_sink import stream_sink
from deltaberg.spark.source.writer import TableWriter
from deltaberg.spark.types import rows_schema, spark_schema
from deltaberg.table.read.scan import bound_scan

__all__ = ["DATA_SOURCES", "PUSHDOWN_DATA_SOURCES"]


class _TableSource(DataSource):
    """A Data Source of tables; its options are all that Spark tells it."""

    settings: ClassVar[type[ReadOptions]]
    write_settings: ClassVar[type[WriteOptions]]

    @briefly
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._settings = self.settings(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.settings.format

    @briefly
    def schema(self) -> StructType:
        """Return the columns to be read."""
        return spark_schema(bound_scan(self._settings.scan()).output)

    @briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader; a schema that the caller gives must be that of the table."""
        _check_schema(schema, self.schema())
        return TableReader(self._settings)

    @briefly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with this schema, which makes one commit."""
        columns = rows_schema(schema)
        staged = self.write_settings(self.options).stage(columns, overwrite=overwrite)
        return TableWriter(staged, tuple(columns.names))

    @briefly
    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802 - PySpark calls it so
        """Refuse: streams are not read."""
        raise UnsupportedFeatureError(
            f'format("{self.name()}") is no source of streams',
            hint="read the changes since a version by changes(version)",
        )

    @briefly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - PySpark's name
        """Return what writes the batches of a stream, each of which makes one commit."""
        return stream_sink(self.write_settings, self.options, schema, overwrite=overwrite)


class DeltaDataSource(_TableSource):
    """Reads and writes Delta tables.

    Options
    -------
    path
        The location of the table.
    versionAsOf, timestampAsOf
        The version to read. The default is the newest version at the time when the frame is made.
    readChangeFeed, startingVersion, startingTimestamp, endingVersion, endingTimestamp
        Read the changes of a range of versions.
    derived
        ``true``: derive the changes of versions without a change data feed from their files.
    columns
        The columns to read: names separated by commas, or a JSON list.
    filter
        A condition as SQL text, by which files are skipped.
    batchSize, timezone
        As in `ScanOptions`.
    Every other option is passed on to the store.

    Options of writes
    -----------------
    path
        The location of the table, which is created if there is none.
    mergeSchema, overwriteSchema
        ``true``: add columns that the table lacks, or replace its columns.
    replaceWhere
        A condition as SQL text: only rows that match it are overwritten.
    partitionOverwriteMode
        ``dynamic``: overwrite the partitions that the new rows are in; ``static``, the default: overwrite all rows.
    partitionBy
        The partition columns of a new table: names separated by commas, or a JSON list.
    txnAppId, txnVersion
        An application and its progress: what it has recorded before is not written again.
    userMetadata
        Text that the history keeps.
    snapshot-property.*
        What the history says of the commit in addition.
    compression
        The codec of the data files.
    """

    settings = DeltaReadOptions
    write_settings = DeltaWriteOptions


class IcebergDataSource(_TableSource):
    """Reads and writes Iceberg tables.

    Options
    -------
    path
        The location of the table, or of one of its metadata files.
    snapshot-id, as-of-timestamp, branch, tag
        The snapshot to read; the timestamp is in milliseconds since 1970. The default is the newest snapshot at the
        time when the frame is made.
    start-snapshot-id, end-snapshot-id
        Read the rows that were appended after one snapshot, up to and including another.
    changes
        ``true``: read all changes of the range, with the columns that `IcebergTable.changes` adds.
    carry-over, net-changes, compute-updates, identifier-columns
        Arguments of `IcebergTable.changes`.
    location-map
        ``auto``: the table was moved as a whole, and its recorded paths are resolved in its new place.
    columns, filter, batchSize, timezone
        As for Delta tables.
    Every other option is passed on to the store.

    Options of writes
    -----------------
    path
        The location of the table, which is created if there is none.
    branch
        The branch that gets the rows.
    overwrite-mode
        ``dynamic``: overwrite the partitions that the new rows are in; ``static``, the default: overwrite all rows.
    merge-schema
        ``true``: add columns that the table lacks.
    snapshot-property.*
        What the summary of the snapshot says in addition.
    write-format, target-file-size-bytes, compression-codec, compression-level, compression-strategy
        How data files are written.
    partitionBy
        The partitioning of a new table: columns and transforms separated by commas, or a JSON list.
    fanout-enabled, distribution-mode, check-nullability, check-ordering, isolation-level, delete-granularity
        Taken as far as they ask for what is done anyway.
    """

    settings = IcebergReadOptions
    write_settings = IcebergWriteOptions


class _Pushdown(_TableSource):
    """A Data Source that takes filters from Spark.

    Spark keeps one reader with the source, that of the filters that it saw last, and uses it for every later query on
    the same ``load()``, and for other parts of the same query. These classes are therefore used on request only.
    """

    @briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader that takes filters."""
        super().reader(schema)
        return PushdownReader(self._settings)


class PushdownDeltaDataSource(_Pushdown, DeltaDataSource):
    """Reads Delta tables, and takes filters from Spark."""


class PushdownIcebergDataSource(_Pushdown, IcebergDataSource):
    """Reads Iceberg tables, and takes filters from Spark."""


def _check_schema(wanted: StructType, found: StructType) -> None:
    # The simple string leaves out nullability, on which Spark and the caller may differ.
    if wanted.simpleString() != found.simpleString():
        raise InvalidArgumentError(
            f"the schema {wanted.simpleString()} is not that of the table, which is {found.simpleString()}",
            hint="omit the schema, and select columns with the option 'columns'",
        )


#: The sources that `deltaberg.spark.register` registers: without and with filters from Spark.
DATA_SOURCES = (DeltaDataSource, IcebergDataSource)
PUSHDOWN_DATA_SOURCES = (PushdownDeltaDataSource, PushdownIcebergDataSource)
