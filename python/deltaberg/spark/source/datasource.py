"""The Python Data Sources ``delta`` and ``iceberg``: ``spark.read.format("delta")`` with no jar.

They serve code that was written for delta-spark or iceberg-spark. Spark does not tell a Python source which columns a
query needs, so that all of them are read unless the option ``columns`` names some. `Scan.to_spark` and
`Scan.map_in_arrow` are faster.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from deltaberg.errors import DeltabergError, InvalidArgumentError
from deltaberg.spark.source.delta_options import DeltaReadOptions
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from deltaberg.spark.source.iceberg_options import IcebergReadOptions
from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
from deltaberg.spark.source.options import ReadOptions, WriteOptions
from deltaberg.spark.source.raised import briefly
from deltaberg.spark.source.reader import PushdownReader, TableReader
from deltaberg.spark.source.streaming.delta_stream_settings import DeltaStreamSettings
from deltaberg.spark.source.streaming.iceberg_stream_settings import IcebergStreamSettings
from deltaberg.spark.source.streaming.stream_reader import StreamReader
from deltaberg.spark.source.streaming.stream_settings import StreamSettings
from deltaberg.spark.source.streaming.stream_sink import stream_sink
from deltaberg.spark.source.writer import TableWriter
from deltaberg.spark.types import rows_schema, spark_schema
from deltaberg.table.read.scan import Scan, bound_scan

__all__ = ["DATA_SOURCES", "PUSHDOWN_DATA_SOURCES"]


class _TableSource(DataSource):
    """A Data Source of tables; its options are all that Spark tells it."""

    settings: ClassVar[type[ReadOptions]]
    stream_settings: ClassVar[type[StreamSettings]]
    write_settings: ClassVar[type[WriteOptions]]

    #: Whether Spark has sent the source from another process: only what commits the batches of a stream gets one so.
    _is_sent = False

    @briefly
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._settings = self.settings(options)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_sent": True}

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.settings.format

    @briefly
    def schema(self) -> StructType:
        """Return the columns to be read, by a query or by a stream: Spark does not say by which of them."""
        try:
            scan = self._settings.scan()
        except InvalidArgumentError as error:
            scan = self._stream_scan(error)
        return spark_schema(bound_scan(scan).output)

    def _stream_scan(self, error: InvalidArgumentError) -> Scan:
        """Return a scan with the columns of a stream, for options that a read does not have.

        Where a stream does not have them either, the error of the read is raised, unless a stream is surely meant.
        """
        settings = self.stream_settings(self.options)
        try:
            return settings.scan()
        except DeltabergError:
            if settings.is_meant:
                raise
            raise error from None

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
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark calls it so
        """Return what reads the table as a stream."""
        return StreamReader(self.stream_settings(self.options), schema)

    @briefly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - PySpark's name
        """Return what writes the batches of a stream, each of which makes one commit."""
        return stream_sink(self.write_settings, self.options, schema, overwrite=overwrite, commits=self._is_sent)


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

    Options of streams
    ------------------
    path, columns, filter, batchSize, timezone
        As above. A stream begins with the rows of the newest version, and goes on with those that later commits add.
    startingVersion, startingTimestamp
        The first version whose commit is read, or ``latest`` for none that there is yet; or the time from which on
        commits are read.
    readChangeFeed
        ``true``: read the changes in place of added rows.
    ignoreDeletes, ignoreChanges, skipChangeCommits
        ``true``: pass over commits that only delete rows; give the rows of files that were written anew again; pass
        over all commits that change or delete rows. Otherwise, such a commit stops a stream of added rows.
    maxFilesPerTrigger, maxBytesPerTrigger
        The most that a batch may hold; of changes, a batch has whole commits. Spark before 4.2 ends a query with
        ``Trigger.AvailableNow`` after one batch, so that these are refused there unless
        ``deltaberg.limitsWithoutAvailableNow`` is ``true``.
    excludeRegex
        A regular expression, in Python's spelling: files in whose path it is found are left out.
    failOnDataLoss
        ``false``: pass over commits that were cleaned up, and data files that were vacuumed, before they were read.

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
    stream_settings = DeltaStreamSettings
    write_settings = DeltaWriteOptions


class IcebergDataSource(_TableSource):
    """Reads and writes Iceberg tables.

    Options
    -------
    path
        The location of the table, or of one of its metadata files; with ``catalog``, its name, such as
        ``sales.orders``.
    catalog
        The name of the catalog that has the table. Spark's processes load it by its configuration, as `load_catalog`
        does by the environment and by ``.pyiceberg.yaml``, which also has the options of the store.
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

    Options of streams
    ------------------
    path, catalog, branch, location-map, columns, filter, batchSize, timezone
        As above. A stream begins with the rows of the newest snapshot, and goes on with those that later ones append.
    stream-from-timestamp
        Begin with what the first snapshot appended that is not older than this, in milliseconds since 1970.
    streaming-skip-overwrite-snapshots, streaming-skip-delete-snapshots
        ``true``: pass over snapshots that replace rows, or only delete some. Otherwise, such a snapshot stops a stream
        of appended rows.
    changes
        ``true``: read all changes in place of appended rows, with the columns that `IcebergTable.changes` adds.
    streaming-max-files-per-micro-batch, streaming-max-rows-per-micro-batch
        The most that a batch may hold, as for Delta tables.

    Options of writes
    -----------------
    path, catalog
        The location of the table, or its name in a catalog. It is created if there is none.
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
    stream_settings = IcebergStreamSettings
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
