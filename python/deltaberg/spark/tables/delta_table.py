"""A Delta table with the methods of ``delta.tables.DeltaTable``, so that code for delta-spark runs without its jar."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from deltaberg.choices import GenerateMode
from deltaberg.convert.directory import convert_to_delta
from deltaberg.delta.place import DeltaPlace
from deltaberg.delta.properties.protocols import features_of_properties
from deltaberg.delta.table import DeltaTable as Table
from deltaberg.errors import InvalidArgumentError, StorageError, UnsupportedFeatureError
from deltaberg.hints import shown_value
from deltaberg.schema.columns import ColumnName
from deltaberg.signatures import public
from deltaberg.spark.hints import in_delta_words
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.tables.builder import DeltaTableBuilder
from deltaberg.spark.tables.frames import detail_frame, history_frame
from deltaberg.spark.tables.merge import DeltaMergeBuilder
from deltaberg.spark.tables.optimize import DeltaOptimizeBuilder
from deltaberg.spark.tables.texts import own_name, own_text, texts_of
from deltaberg.spark.types import output_schema, rows_schema
from deltaberg.storage.options.options import StoreOptions
from deltaberg.table.arguments import parse_instant, zone_of
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.open.opening import OpenOptions

__all__ = ["DeltaTable"]

#: The setting of delta-spark that lets a vacuum take a retention that is shorter than the table's.
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_RESTORED = (
    "table_size_after_restore bigint, num_of_files_after_restore bigint, num_removed_files bigint, "
    "num_restored_files bigint, removed_files_size bigint, restored_files_size bigint"
)
_VACUUMED = "path string, kind string, bytes bigint, modified timestamp, reason string"

_PARQUET = re.compile(r"\s*parquet\s*\.\s*`((?:[^`]|``)+)`\s*", re.IGNORECASE)


@public
class DeltaTable:
    """A Delta table, by the words of delta-spark. Every call sees the newest version of the table.

    Conditions and values are SQL text or Columns. They are evaluated by deltaberg, as Spark does in its ANSI mode, and
    not by the session. Columns may contain whatever has SQL text: names, literals, operators, casts and functions, but
    no columns of a certain DataFrame (``frame["id"]``), windows or functions of Python.

    Examples
    --------
    ::

        from deltaberg.spark import DeltaTable

        table = DeltaTable.forPath(spark, "/data/orders")
        table.delete("day < DATE '2020-01-01'")
        table.alias("t").merge(updates.alias("u"), "t.id = u.id").whenMatchedUpdateAll().execute()
    """

    def __init__(self, spark: SparkSession, table: Table, alias: str | None = None) -> None:
        self._facts = SessionFacts.of(spark)
        self._spark = spark
        self._table = table
        self._alias = alias

    def __repr__(self) -> str:
        return f"DeltaTable({self._table.location!r})"

    @classmethod
    @in_delta_words
    def forPath(
        cls,
        sparkSession: SparkSession,
        path: str,
        hadoopConf: Mapping[str, str] | None = None,
        *,
        storage_options: StoreOptions | None = None,
    ) -> DeltaTable:
        """Open the table in a directory.

        Parameters
        ----------
        sparkSession
            A session, either classic or of Spark Connect.
        path
            The directory: a local path, or the URL of an object store.
        hadoopConf, storage_options
            Options of the store, as for `deltaberg.open_table`. The settings of the session are not looked at.

        Raises
        ------
        TableNotFoundError
            There is no Delta table.
        """
        options = _store_options(hadoopConf, storage_options)
        return cls(sparkSession, Table(path, storage_options=options).on_spark(sparkSession))

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> NoReturn:
        """Refuse: tables have no names without a catalog of Spark.

        Raises
        ------
        UnsupportedFeatureError
            Always.
        """
        raise UnsupportedFeatureError(
            f"the table {tableOrViewName} is of a catalog of Spark, which this library does not ask",
            hint="open the table by its path: DeltaTable.forPath(spark, path)",
        )

    @classmethod
    def isDeltaTable(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        *,
        storage_options: StoreOptions | None = None,
    ) -> bool:
        """Return whether a directory is that of a Delta table.

        Parameters
        ----------
        identifier
            The directory.
        storage_options
            Options of the store, as for `forPath`.
        """
        SessionFacts.of(sparkSession)
        log = DeltaPlace(identifier, OpenOptions(storage_options=storage_options)).log
        return log.storage.has_objects(log.root.join("_delta_log").path)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to create a table; `DeltaTableBuilder.execute` fails if there is one."""
        return cls._builder(sparkSession, "error")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to create a table, unless there is one, which is then left as it is."""
        return cls._builder(sparkSession, "ignore")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to replace the rows, columns and properties of a table that is there."""
        return cls._builder(sparkSession, "must replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to create a table, or to replace the one that is there."""
        return cls._builder(sparkSession, "replace")

    @classmethod
    def _builder(cls, session: SparkSession | None, if_exists: str) -> DeltaTableBuilder[DeltaTable]:
        spark = SparkSession.getActiveSession() if session is None else session
        facts = SessionFacts.of(spark)
        return DeltaTableBuilder(
            facts, if_exists, lambda place, options: cls.forPath(facts.session, place, storage_options=options)
        )

    @classmethod
    @in_delta_words
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | StructType | None = None,
        collectStats: bool = True,
        *,
        storage_options: StoreOptions | None = None,
    ) -> DeltaTable:
        """Make a Delta table of the Parquet files in a directory; see `deltaberg.convert_to_delta`.

        Parameters
        ----------
        identifier
            The directory, as ``parquet.`path```.
        partitionSchema
            The columns that the directories are named by, as DDL text or a StructType.
        collectStats
            Record statistics of the footers.

        Raises
        ------
        InvalidArgumentError
            The identifier is of another kind.
        """
        SessionFacts.of(sparkSession)
        found = _PARQUET.fullmatch(identifier)
        if found is None:
            raise InvalidArgumentError(f"{identifier} names no directory", hint="pass parquet.`/path/of/the/directory`")
        path = found[1].replace("``", "`")
        columns = None if partitionSchema is None else rows_schema(output_schema(sparkSession, partitionSchema))
        convert_to_delta(path, partition_by=columns, collect_stats=collectStats, storage_options=storage_options)
        return cls.forPath(sparkSession, path, storage_options=storage_options)

    def toDF(self) -> DataFrame:
        """Return the rows of the newest version, under the alias if there is one."""
        frame: DataFrame = self._newest().scan().to_spark(self._spark)
        return frame if self._alias is None else frame.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """Return the table under a name by which conditions and values can qualify its columns.

        Raises
        ------
        InvalidArgumentError
            The name is no text.
        """
        if not isinstance(aliasName, str):
            raise InvalidArgumentError(f"{shown_value(aliasName)} is not an alias", hint='pass a name: alias("orders")')
        return DeltaTable(self._spark, self._table, aliasName)

    @in_delta_words
    def delete(self, condition: Any = None) -> CommitResult:
        """Delete the rows that match a condition, all rows by default; see `deltaberg.DeltaTable.delete`."""
        return self._newest().delete(None if condition is None else self._text(condition))

    @in_delta_words
    def update(self, condition: Any = None, set: Mapping[str, Any] | None = None) -> CommitResult:
        """Update the rows that match a condition; see `deltaberg.DeltaTable.update`.

        Parameters
        ----------
        condition
            The condition; None for all rows.
        set
            The new values by column, as SQL text or Columns.
        """
        values: dict[ColumnName, Any] = {
            own_name(name, self._alias): own_text(text, self._alias)
            for name, text in texts_of(set, "set", self._facts).items()
        }
        return self._newest().update(values, None if condition is None else self._text(condition))

    def merge(self, source: DataFrame, condition: Any) -> DeltaMergeBuilder:
        """Begin a merge of the rows of a DataFrame into the table.

        The source is computed once, by Spark's tasks; the driver reads it in bounded memory, finds the rows that match,
        and writes. Its alias qualifies its columns: ``updates.alias("u")``. Without aliases the names are ``target``
        and ``source``.

        Parameters
        ----------
        source
            The rows to merge.
        condition
            Which rows match, as SQL text or a Column.
        """
        return DeltaMergeBuilder(self._facts, self._newest, self._alias, source, condition)

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the commits, newest first, in the columns of delta-spark."""
        return history_frame(self._spark, self._newest().history(limit))

    def detail(self) -> DataFrame:
        """Return one row that describes the table, in the columns of delta-spark."""
        return detail_frame(self._spark, self._newest())

    @in_delta_words
    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Have the table support all features that protocol versions imply. Nothing is ever taken away.

        Raises
        ------
        InvalidArgumentError
            There is no such version.
        """
        wanted = {"delta.minReaderVersion": str(readerVersion), "delta.minWriterVersion": str(writerVersion)}
        table = self._newest()
        if not features_of_properties(wanted)[0] <= table.features:
            table.alter().set(wanted).commit()

    @in_delta_words
    def addFeatureSupport(self, featureName: str) -> None:
        """Have the table support a feature.

        Raises
        ------
        UnsupportedFeatureError
            The feature is unknown, or is not written by this library.
        """
        table = self._newest()
        if featureName not in table.features:
            table.alter().set({f"delta.feature.{featureName}": "supported"}).commit()

    def optimize(self) -> DeltaOptimizeBuilder:
        """Begin to put small files together."""
        return DeltaOptimizeBuilder(self._facts, self._newest)

    @in_delta_words
    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Take a feature from the protocol, and what the table holds of it; see `deltaberg.DeltaTable.drop_feature`.

        Parameters
        ----------
        featureName
            The name of the feature.
        truncateHistory
            Delete the versions that need it, a day after the table makes no use of it any more.
        """
        self._newest().drop_feature(featureName, truncate_history=False if truncateHistory is None else truncateHistory)

    @in_delta_words
    def generate(self, mode: str) -> None:
        """Write manifests of symlinks; see `deltaberg.DeltaTable.generate`.

        Parameters
        ----------
        mode
            ``symlink_format_manifest``.
        """
        self._newest().generate(cast(GenerateMode, mode))

    @in_delta_words
    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete the files that no version within the retention needs, at once; see `deltaberg.DeltaTable.vacuum`.

        Spark's tasks list and delete where there are many files. The setting
        ``spark.databricks.delta.retentionDurationCheck.enabled`` of the session switches the check of the retention
        off, as it does for delta-spark.

        Parameters
        ----------
        retentionHours
            How long removed files are kept, in hours.

        Returns
        -------
        DataFrame
            One row for each file: ``path``, ``kind``, ``bytes``, ``modified`` and ``reason``. It is delta-spark's that
            is empty. What went wrong beside the deletions is a warning of Python.

        Raises
        ------
        StorageError
            A file could not be deleted; the others are.
        """
        is_checked = str(self._spark.conf.get(_RETENTION_CHECK, "true")).strip().lower() != "false"
        done = self._newest().vacuum(retentionHours, dry_run=False, enforce_retention_duration=is_checked)
        if done.failed:
            path, reason = next(iter(done.failed.items()))
            raise StorageError(
                f"{len(done.failed)} files could not be deleted, {path} among them: {reason}",
                hint="call it again when the store permits it",
                table=self._table.location,
            )
        for sentence in done.warnings:
            warnings.warn(f"{self._table.location}: {sentence}", stacklevel=3)
        rows = done.files.to_pylist()
        return self._spark.createDataFrame([tuple(row.values()) for row in rows], _VACUUMED)

    @in_delta_words
    def restoreToVersion(self, version: int) -> DataFrame:
        """Set the table back to a version, by a new commit; see `deltaberg.DeltaTable.restore`.

        Returns
        -------
        DataFrame
            One row with the metrics that delta-spark returns, in its names.
        """
        return self._restore(version)

    @in_delta_words
    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Set the table back to the version that was the newest one at a time, in the zone of the session."""
        return self._restore(self._instant(timestamp))

    def _restore(self, target: Any) -> DataFrame:
        done = self._newest().restore(target)
        after = self._table.refresh().live_files.column("size").to_pylist()
        counts = (done.removed_files, done.restored_files, done.removed_bytes, done.restored_bytes)
        return self._spark.createDataFrame([(sum(after), len(after), *counts)], _RESTORED)

    @in_delta_words
    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Make another table of the newest version; see `deltaberg.DeltaTable.clone`.

        Spark's tasks copy where there are many files. Unlike that of delta-spark, which only makes shallow clones, it
        copies the files by default.

        Parameters
        ----------
        target
            The directory of the clone.
        isShallow
            Name the files where they are, in place of copies.
        replace
            Make a table that is there the clone, whatever it was.
        properties
            Properties of the clone, in addition to those of this table.

        Returns
        -------
        DeltaTable
            The clone.
        """
        return self._clone(target, isShallow, replace, properties)

    @in_delta_words
    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make another table of a version; see `clone`."""
        return self._clone(target, isShallow, replace, properties, version=version)

    @in_delta_words
    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make another table of the version that was the newest one at a time, in the zone of the session."""
        return self._clone(target, isShallow, replace, properties, timestamp=self._instant(timestamp))

    def _clone(
        self, target: str, shallow: bool, replace: bool, properties: Mapping[str, str] | None, **state: Any
    ) -> DeltaTable:
        table = self._newest()
        table.clone(target, shallow=shallow, replace=replace, properties=properties, **state)
        options = table._options.storage_options  # noqa: SLF001 - the clone is in a store of the same options
        return DeltaTable.forPath(self._spark, target, storage_options=options)

    def _instant(self, timestamp: str) -> dt.datetime:
        zone = zone_of(str(self._spark.conf.get("spark.sql.session.timeZone", "UTC")))
        return dt.datetime.fromtimestamp(parse_instant(timestamp, zone) / 1000, dt.timezone.utc)

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise UnsupportedFeatureError(f"{what} is not supported yet", hint=hint, table=self._table.location)

    def _newest(self) -> Table:
        return self._table.refresh()

    def _text(self, condition: Any) -> str:
        return own_text(texts_of({"condition": condition}, "condition", self._facts)["condition"], self._alias)


def _store_options(hadoop: Mapping[str, str] | None, given: StoreOptions | None) -> StoreOptions | None:
    return {**(hadoop or {}), **(given or {})} or None
