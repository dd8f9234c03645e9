"""The Python Data Source named ``delta``: ``spark.read.format("delta")`` with no jar.

It is the compatible door. Spark tells a Python source nothing of the columns that a query needs, so all are read
unless the option ``columns`` names some; `Scan.to_spark` and `Scan.map_in_arrow` are the fast ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from deltaberg.delta import DeltaTable
from deltaberg.errors import DeltabergError, InvalidArgumentError
from deltaberg.expressions import Expression, all_of, as_expression
from deltaberg.files import pack_tasks
from deltaberg.spark.filters import from_spark
from deltaberg.spark.tasks import ReadTask, read_packed
from deltaberg.spark.types import spark_schema
from deltaberg.table import Scan, ScanOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter as SparkFilter

__all__ = ["DeltaDataSource", "PushdownDeltaDataSource", "register"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
#: Splits of the Data Source: Spark does not say how many tasks it can run.
_PARALLELISM = 8
_FALSE = ("false", "0", "no", "")


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("delta")`` known to a session.

    The session must not have delta-spark's jar, which takes the name ``delta`` too. Where the session's setting
    ``spark.sql.python.filterPushdown.enabled`` is true, filters of a query reach the scan: a source that takes them
    cannot be used where it is false.

    Parameters
    ----------
    spark
        A session, of Spark Connect too.
    """
    pushdown = str(spark.conf.get(_PUSHDOWN, "false")).lower() == "true"
    spark.dataSource.register(PushdownDeltaDataSource if pushdown else DeltaDataSource)


class _Partition(InputPartition):
    """Packed tasks of one Spark task."""

    def __init__(self, packed: bytes) -> None:
        super().__init__(packed)


class DeltaDataSource(DataSource):
    """Reads Delta tables.

    Options
    -------
    path
        Where the table is.
    versionAsOf, timestampAsOf
        The version to read.
    readChangeFeed, startingVersion, startingTimestamp, endingVersion, endingTimestamp
        Read the changes of a range of versions.
    columns
        The columns to read: names separated by commas, or a JSON list.
    filter
        A condition as SQL text.
    Every other option goes to the store.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._settings = _Settings(dict(options))

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return "delta"

    def schema(self) -> StructType:
        """Give the columns that will be read."""
        return spark_schema(self._scan().output)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader; a schema of the caller's must be the table's."""
        scan = self._scan()
        _check_schema(schema, spark_schema(scan.output))
        return _Reader(self._settings)

    def _scan(self) -> Scan:
        return self._settings.scan(None)


class PushdownDeltaDataSource(DeltaDataSource):
    """Reads Delta tables, and takes filters from Spark."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader that takes filters."""
        super().reader(schema)
        return _PushdownReader(self._settings)


def _check_schema(wanted: StructType, found: StructType) -> None:
    if [field.name for field in wanted] != [field.name for field in found]:
        raise InvalidArgumentError(
            f"the schema {wanted.simpleString()} is not that of the table, {found.simpleString()}",
            hint="leave the schema out, and choose columns with the option 'columns'",
        )


class _Settings:
    """The options of a read.

    They travel with the reader, and with them the version that was found first: Spark asks for the schema, the plan
    and the rows in processes of their own, which must see one version.
    """

    _OWN = frozenset(
        {
            "path",
            "versionasof",
            "timestampasof",
            "readchangefeed",
            "readchangedata",
            "startingversion",
            "startingtimestamp",
            "endingversion",
            "endingtimestamp",
            "columns",
            "filter",
            "batchsize",
            "timezone",
        }
    )

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items() if name.lower() in self._OWN}
        self._store = {name: value for name, value in options.items() if name.lower() not in self._OWN}
        self._version: int | None = None

    def scan(self, pushed: Expression | None) -> Scan:
        """Describe the rows that are wanted."""
        columns = self._columns()
        condition = self._condition(pushed)
        options = ScanOptions(timezone=self._timezone)
        if "batchsize" in self._options:
            options = ScanOptions(batch_size=self._integer("batchsize"), timezone=self._timezone)
        if self._flag("readchangefeed") or self._flag("readchangedata"):
            table = self._open(None)
            start = self._bound("starting")
            if start is None:
                raise InvalidArgumentError("changes need the option startingVersion or startingTimestamp")
            end = self._bound("ending")
            return table.changes(start, end, filter=condition, columns=columns, options=options)
        version = self._integer("versionasof") if "versionasof" in self._options else None
        table = self._open(version)
        return table.scan(filter=condition, columns=columns, options=options)

    def _open(self, version: int | None) -> DeltaTable:
        path = self._options.get("path")
        if not path:
            raise InvalidArgumentError(
                'format("delta") needs a path',
                hint="use load(path), or CREATE TEMPORARY VIEW ... USING delta OPTIONS (path '...'); Spark gives a "
                "Python source nothing of CREATE TABLE's LOCATION, nor of delta.`/path`",
            )
        chosen = version if self._version is None else self._version
        timestamp = self._options.get("timestampasof") if chosen is None else None
        if version is not None and "timestampasof" in self._options:
            raise InvalidArgumentError("versionAsOf and timestampAsOf exclude each other")
        table = DeltaTable(
            path, version=chosen, timestamp=timestamp, storage_options=self._store, timezone=self._timezone
        )
        self._version = table.version
        return table

    @property
    def _timezone(self) -> str:
        return self._options.get("timezone", "UTC")

    def _columns(self) -> Sequence[str] | None:
        text = self._options.get("columns")
        if text is None:
            return None
        if text.lstrip().startswith("["):
            try:
                names = json.loads(text)
            except ValueError:
                raise InvalidArgumentError(f"option columns is {text!r}, no JSON list") from None
            return [str(name) for name in names]
        return [name.strip() for name in text.split(",") if name.strip()]

    def _condition(self, pushed: Expression | None) -> Expression | None:
        parts = [pushed] if pushed is not None else []
        if "filter" in self._options:
            parts.append(as_expression(self._options["filter"]))
        return all_of(parts) if parts else None

    def _bound(self, side: str) -> int | str | None:
        if f"{side}version" in self._options:
            return self._integer(f"{side}version")
        return self._options.get(f"{side}timestamp")

    def _integer(self, name: str) -> int:
        try:
            return int(self._options[name])
        except ValueError:
            raise InvalidArgumentError(f"option {name} is {self._options[name]!r}, no number") from None

    def _flag(self, name: str) -> bool:
        return self._options.get(name, "false").strip().lower() not in _FALSE


class _Reader(DataSourceReader):
    """Plans on the driver, reads on the executors: what the executors need is known before it is pickled."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings
        self._pushed: Expression | None = None
        self._read = ReadTask(settings.scan(None).read_spec)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the scan: a partition for each group of splits."""
        tasks = self._settings.scan(self._pushed).spark_tasks(_PARALLELISM)
        return [_Partition(pack_tasks(group)) for group in tasks] or [_Partition(b"")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the splits of a partition."""
        packed = partition.value
        if packed:
            for batch in read_packed(self._read.spec, packed, None):
                yield self._read.to_spark(batch)


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
            self._read = ReadTask(self._settings.scan(self._pushed).read_spec)

    def _fits(self, condition: Expression) -> bool:
        try:
            self._settings.scan(condition)
        except DeltabergError:
            return False
        return True
