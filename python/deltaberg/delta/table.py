"""A Delta table: one of its snapshots, and what it says about the table."""

from __future__ import annotations

import datetime as dt
import os
import time

# What writes is loaded by the first write: it has more modules than all that reads.
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import pyarrow as pa

from deltaberg.choices import GenerateMode
from deltaberg.delta.actions.columns import ADD_COLUMNS
from deltaberg.delta.actions.domains import clustering_columns, row_id_high_water_mark
from deltaberg.delta.actions.table_actions import Metadata, Protocol, Transaction
from deltaberg.delta.features import supported_features
from deltaberg.delta.log.checkpoint_files import CheckpointInfo, checkpoint_info
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.scan.changes import ChangesSource, change_range
from deltaberg.delta.scan.source import SnapshotSource, about_row_fields
from deltaberg.delta.schema.text_types import with_recorded_lengths
from deltaberg.delta.schema.writer_rules import (
    check_constraints,
    column_defaults,
    column_invariants,
    generation_expressions,
    identity_columns,
)
from deltaberg.delta.snapshot.history import Commit, CommitTimes, open_snapshot, snapshot_at
from deltaberg.delta.snapshot.retention import deleted_file_retention, expired
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.validate import validate_table
from deltaberg.errors import ColumnNotFoundError, CorruptLogError
from deltaberg.expressions.build.filters import Filter
from deltaberg.schema.columns import ColumnNames
from deltaberg.schema.types import Struct
from deltaberg.signatures import NEEDED, public, takes
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.table.arguments import (
    Instant,
    checked_choice,
    checked_flag,
    checked_limit,
    parse_instant,
)
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import DELTA
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.read.scan import Scan
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.read.source import ScanSource
from deltaberg.table.rows.shown_progress import receiver
from deltaberg.table.verbs.shared_arguments import (
    CommitArguments,
    DeltaTableArguments,
    NotedArguments,
    ProgressArguments,
    ScanArguments,
    StatisticsArguments,
    arguments_of,
)
from deltaberg.table.verbs.table import Table, operations_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.choices import MaintenanceStep, VerifyDepth
    from deltaberg.delta.after_commit.log_cleanup import LogCleanup
    from deltaberg.delta.after_commit.symlink_manifests import SymlinkManifests
    from deltaberg.delta.alter.alter import Alteration  # noqa: F401 - it is named in the bases of the class
    from deltaberg.delta.checkpoint.layout import CheckpointLayout
    from deltaberg.delta.log.checkpoint_files import CheckpointInfo
    from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions
    from deltaberg.delta.schema.writer_rules import IdentityColumn
    from deltaberg.delta.table_transaction import DeltaTransaction
    from deltaberg.expressions.build.filters import Filter
    from deltaberg.table.commit.commit import CommitResult
    from deltaberg.table.maintain.cleanup import CleanupResult, OnProgress
    from deltaberg.table.maintain.cloning.cloned import CloneRequest, CloneResult
    from deltaberg.table.maintain.compact import Compaction
    from deltaberg.table.maintain.compact_result import CompactResult
    from deltaberg.table.maintain.dropped_feature import DropFeatureResult
    from deltaberg.table.maintain.maintenance import MaintenancePolicy, Step
    from deltaberg.table.maintain.purge import Purge
    from deltaberg.table.maintain.restored import RestoreRequest, RestoreResult
    from deltaberg.table.maintain.verifying.findings import Finding, VerifyResult
    from deltaberg.table.maintain.verifying.repairs import RepairResult
    from deltaberg.table.rows.progress import Told
    from deltaberg.table.streaming.follow import FollowRequest
    from deltaberg.table.streaming.table_stream import TableStream

__all__ = ["DeltaTable", "open_delta_table"]

_T = TypeVar("_T")


@public
class DeltaTable(Table["DeltaTransaction", "Alteration"]):
    """One snapshot of a Delta table.

    Parameters
    ----------
    location
        The directory of the table, as a local path or as the URL of an object store.
    version
        The version to open; by default, the newest one.
    timestamp
        Open the version that was the newest one at this time, which is in ``timezone`` if it has no zone.
    storage_options
        Options of the store, such as credentials and endpoint, under the names that deltalake or pyiceberg use.
    location_map
        A map from recorded prefixes of absolute paths to where those files are now. Delta tables do not record their
        own location, so ``"auto"`` maps nothing.
    validate
        Report every violation of the protocol that a reader can see. By default, only violations that could make rows
        wrong raise.
    timezone
        The zone of timestamps that have none: of partition values, of literals in filters, and of ``timestamp``.

    Raises
    ------
    TableNotFoundError
        If there is no Delta table.
    VersionNotFoundError
        If the table does not have this version, or the timestamp is before its first or after its last commit.
    UnsupportedFeatureError
        If the table needs a feature that this library does not support.
    CorruptTableError
        If the log or a checkpoint is damaged.

    Examples
    --------
    >>> table = DeltaTable(table_path)
    >>> table.version
    0
    >>> table.schema.names
    ['id', 'name']
    >>> table.scan(filter="name = 'b'").to_arrow().to_pylist()
    [{'id': 2, 'name': 'b'}]
    """

    _source: SnapshotSource

    @takes(DeltaTableArguments)
    def __init__(self, location: str | os.PathLike[str] = NEEDED, **state: Unpack[DeltaTableArguments]) -> None:
        self._open(location, OpenOptions.of(state))

    def _open(self, location: str | os.PathLike[str], options: OpenOptions) -> None:
        options.refuse(("snapshot_id", "ref"), DELTA, "use ⟪version⟫")
        # Delta tables do not record their own location.
        mapped = None if isinstance(options.location_map, str) else options.location_map
        self._options = replace(options, location_map=mapped)
        root = parse_location(location)
        self._resolver = PathResolver(root, mapped)
        self._log = LogDirectory(root, options.store)
        snapshot = open_snapshot(self._log, options.version, options.millis)
        self._set(snapshot)
        if options.validate:
            validate_table(snapshot, self._resolver)

    def _newest(self) -> Snapshot:
        self.refresh()
        return self._snapshot

    def _set(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._source = SnapshotSource(snapshot, self._options.timezone, self._resolver)

    def __repr__(self) -> str:
        return f"DeltaTable({self.location!r}, version={self.version})"

    @property
    def location(self) -> str:
        """Where the table is."""
        return str(self._log.root)

    @property
    def version(self) -> int:
        """The version of the snapshot."""
        return self._snapshot.version

    @property
    def schema(self) -> Struct:
        """The columns as table types, with their metadata."""
        return self._snapshot.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow types. The metadata of fields holds the lengths of texts, CHAR(n) and VARCHAR(n)."""
        return with_recorded_lengths(super().arrow_schema, self.schema)

    @property
    def partition_columns(self) -> list[str]:
        """The names of the partition columns."""
        return [field.name for field in self._snapshot.partition_fields]

    @property
    def protocol(self) -> Protocol:
        """The protocol versions and features that a client needs."""
        return self._snapshot.protocol

    @property
    def features(self) -> frozenset[str]:
        """The table features that are supported: those that the protocol lists, or that its versions imply."""
        return supported_features(self._snapshot.protocol)

    @property
    def active_features(self) -> frozenset[str]:
        """The supported features that the metadata makes use of, such as ``appendOnly`` where its property is true."""
        return self._snapshot.active_features

    @property
    def metadata(self) -> Metadata:
        """The metadata: id, name, description, format and configuration, among others."""
        return self._snapshot.metadata

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return dict(self._snapshot.metadata.configuration)

    @property
    def domain_metadata(self) -> dict[str, str]:
        """The configuration of each live metadata domain by name, including unknown domains."""
        return dict(self._snapshot.domains)

    @property
    def transactions(self) -> dict[str, Transaction]:
        """The progress that applications have recorded, by application id.

        If the property ``delta.setTransactionRetentionDuration`` is set, progress that is older does not count.
        """
        return self._snapshot.transactions_at(time.time_ns() // 1_000_000)

    @property
    def clustering_columns(self) -> list[tuple[str, ...]]:
        """The columns by which a clustered table is clustered, each as a path of physical names."""
        return self._read_domain(clustering_columns)

    @property
    def row_id_high_water_mark(self) -> int | None:
        """The highest row id that was assigned; None if the table records none."""
        return self._read_domain(row_id_high_water_mark)

    def _read_domain(self, read: Callable[[Mapping[str, str]], _T]) -> _T:
        """Read a domain that the protocol defines."""
        try:
            return read(self._snapshot.domains)
        except CorruptLogError as error:
            raise error.with_context(table=self.location, version=self.version) from None

    @property
    def check_constraints(self) -> dict[str, str]:
        """The CHECK constraints, as SQL by name."""
        return check_constraints(self.properties)

    @property
    def invariants(self) -> dict[str, str]:
        """The column invariants, as SQL by column, with dots for fields of structs."""
        return column_invariants(self.schema)

    @property
    def generated_columns(self) -> dict[str, str]:
        """The generation expressions, as SQL by column."""
        return generation_expressions(self.schema)

    @property
    def column_defaults(self) -> dict[str, str]:
        """The default values that writers fill in, as SQL by column. Reading does not use them."""
        return column_defaults(self.schema)

    @property
    def identity_columns(self) -> dict[str, IdentityColumn]:
        """The identity columns, and how their values are generated."""
        return identity_columns(self.schema)

    def history(self, limit: int | None = None) -> list[Commit]:
        """Return the commits up to this version, newest first, except those whose log entries were cleaned up.

        Raises
        ------
        CorruptLogError
            If a commit is missing between others. Pass a limit to see those after it.
        """
        return list(CommitTimes(self._log, self._snapshot).commits(checked_limit(limit)))

    @property
    def timestamp(self) -> dt.datetime:
        """When the version was committed."""
        millis = CommitTimes(self._log, self._snapshot).time_of(self.version)
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=millis)

    @property
    def base_checkpoint(self) -> CheckpointInfo | None:
        """The checkpoint that the snapshot was read from; None if only the log was read."""
        return checkpoint_info(self._snapshot.checkpoint)

    @property
    def is_append_only(self) -> bool:
        """Whether the active feature ``appendOnly`` forbids removing rows."""
        return "appendOnly" in self._snapshot.active_features

    @property
    def live_files(self) -> pa.Table:
        """The live files as the log records them: a row per file, with the fields of ``add`` except statistics.

        `Scan.files` has typed partition values and locations of the files that a scan reads.
        """
        return self._snapshot.live.table.select([child.name for child in ADD_COLUMNS])

    @property
    def tombstones(self) -> pa.Table:
        """The removed files that are still recorded. Vacuum must keep them until they expire."""
        return self._snapshot.tombstones

    def expired_tombstones(self, at: Instant | None = None) -> pa.Table:
        """Return the removed files that vacuum may delete at an instant, now by default.

        The table property ``delta.deletedFileRetentionDuration`` decides; it is a week by default.

        Examples
        --------
        >>> len(table.expired_tombstones("2026-01-01"))
        0
        """
        instant = dt.datetime.now(dt.timezone.utc) if at is None else at
        millis = parse_instant(instant, self._options.zone)
        return expired(self.tombstones, millis, deleted_file_retention(self.properties))

    def refresh(self) -> DeltaTable:
        """Move to the newest version, reading only what is new. Scans that were made before keep their version.

        Raises
        ------
        TableNotFoundError
            If the table was deleted meanwhile.
        VersionNotFoundError
            If its log was replaced by another one: that is another table, which has to be opened.
        """
        newer = self._snapshot.newer()
        if newer is not self._snapshot:
            self._set(newer)
        return self

    @takes(ScanArguments)
    def changes(
        self,
        start: int | Instant,
        end: int | Instant | None = None,
        filter: Filter | None = None,
        columns: ColumnNames | None = None,
        limit: int | None = None,
        *,
        derived: bool = False,
        options: ScanOptions | None = None,
        **execution: Unpack[ScanArguments],
    ) -> Scan:
        """Return a scan of the rows that changed from one version to another, both included.

        In addition to the columns of the table, it has ``_change_type`` (``insert``, ``delete``, ``update_preimage`` or
        ``update_postimage``), ``_commit_version`` and ``_commit_timestamp``. The table must have kept a change data
        feed (``delta.enableChangeDataFeed``) in all of these versions.

        As in delta-spark, the columns of the table are those of this snapshot, and null in versions that lacked them;
        with column mapping they are those of the last version of the range. They are those of that version, too, where
        this snapshot has lost one of them, or has it with another type.

        Parameters
        ----------
        start, end
            Versions or instants: the changes are those of the first commit not before ``start`` to the last commit not
            after ``end``; by default, to the version of this snapshot. From the version after this snapshot on there
            are no changes yet, so that a loop can ask for them.
        filter, columns, limit, options
            As in `scan`.
        derived
            Derive the changes of versions without a change data feed from the files that they added and removed. An
            update then appears as deletes and inserts, and so does every other row of a file that was written anew.

        Raises
        ------
        InvalidArgumentError
            If the range ends before it starts, or the table has a column of the name of one that describes changes.
        ChangesNotRecordedError
            If a version has no change data feed, and ``derived`` is false. The scan raises it when it is executed,
            unless the last version is one of them.
        VersionNotFoundError
            If the table does not have the versions.
        """
        checked_flag("derived", derived)
        times = CommitTimes(self._log, self._snapshot)
        first, last = change_range(times, self._snapshot, start, end, self._options.zone)
        own = (snapshot_at(self._snapshot, last), self._options.timezone, self._resolver)
        source = ChangesSource(*own, self._snapshot, first, times, derived=derived)
        return self._scan(source, filter, columns, limit, options, execution)

    @takes(ProgressArguments)
    def checkpoint(self, layout: CheckpointLayout | None = None, **shown: Unpack[ProgressArguments]) -> CheckpointInfo:
        """Write a checkpoint of this version, so that readers need not replay the log up to it.

        The properties ``delta.checkpoint.writeStatsAsJson`` and ``delta.checkpoint.writeStatsAsStruct`` choose how it
        holds statistics (Delta protocol, "Checkpoints").

        Parameters
        ----------
        layout
            The form of the checkpoint; by default the one that the property ``delta.checkpointPolicy`` asks for.
        **shown
            ``progress``, as for `Verbs`: it counts the files of the table that the checkpoint has so far.

        Returns
        -------
        CheckpointInfo
            The version, and the names and the size of what was written.

        Raises
        ------
        VersionNotFoundError
            If the log entry of the version was cleaned up.
        InvalidArgumentError
            If the table's protocol does not allow the form.
        UnsupportedFeatureError
            If the table needs a writer feature that this library does not know.
        CorruptTableError
            If the log, or the checkpoint that the snapshot was read from, is damaged.
        StorageError
            If the store fails, or does not permit the writing.

        Examples
        --------
        >>> table.checkpoint().files
        ('00000000000000000000.checkpoint.parquet',)
        """
        from deltaberg.delta.after_commit.checkpoints import write_checkpoint
        from deltaberg.table.rows.progress import summed

        with summed(shown.get("progress")) as total:
            return write_checkpoint(self._snapshot, layout, told=total.add)

    def compact_log(self, first: int, last: int) -> str:
        """Write one file to the log that stands in for the commits of a range of versions, both included.

        Readers that know log compaction files open it in place of these commits, which stay.

        Returns
        -------
        str
            The name of the file.

        Raises
        ------
        InvalidArgumentError
            If the range holds fewer than two versions, or one of the two is not a number.
        VersionNotFoundError
            If the log does not hold one of the commits, or the range ends after this version.
        UnsupportedFeatureError
            If the table needs a writer feature that this library does not know.
        StorageError
            If the store fails, or does not permit the writing.
        """
        from deltaberg.delta.after_commit.compacted_log import compact_log

        return compact_log(self._snapshot, first, last)

    def cleanup_metadata(
        self, at: Instant | None = None, *, dry_run: bool = False, progress: OnProgress | bool | None = None
    ) -> LogCleanup:
        """Delete entries of the log that are older than its retention, up to a checkpoint that is as old.

        The property ``delta.logRetentionDuration`` decides; it is 30 days by default. Versions before that checkpoint
        cannot be opened any more (Delta protocol, "Metadata Cleanup"). Temporary files that killed writers left in the
        log go once they are a day old. Data files are not touched. Commits do this by themselves unless
        ``delta.enableExpiredLogCleanup`` is false.

        Parameters
        ----------
        at
            The time by which entries have expired; now by default.
        dry_run
            Only find the files that would be deleted.
        progress
            What is told how far it has come; True shows it at a terminal or in a notebook.

        Returns
        -------
        LogCleanup
            The files with the reason for each, what could not be deleted, and the version that the log begins with
            then.

        Raises
        ------
        UnsupportedFeatureError
            If the table needs a writer feature that this library does not know.
        CorruptTableError
            If the time of a commit is not recorded.
        StorageError
            If the store cannot be listed or read.

        Examples
        --------
        >>> table.cleanup_metadata(dry_run=True)
        LogCleanup(would delete 0 files of 0 bytes)
        """
        instant = None if at is None else parse_instant(at, self._options.zone)
        checked_flag("dry_run", dry_run)
        from deltaberg.delta.after_commit.log_cleanup import clean_up_log

        told = receiver(progress, "CleanupProgress")
        return clean_up_log(self._snapshot.newer(), at=instant, dry_run=dry_run, progress=told)

    def generate(self, mode: GenerateMode = "symlink_format_manifest") -> SymlinkManifests:
        """Write manifests of symlinks, by which Athena, Presto and Hive read the newest version without its log.

        They are text files in ``_symlink_format_manifest`` with the locations of the data files, one for each
        partition, as delta-spark's ``GENERATE symlink_format_manifest`` writes them. Manifests of partitions that have
        no data files any more are deleted. They show later versions only once they are generated again. Where the
        property ``delta.compatibility.symlinkFormatManifest.enabled`` is true, each commit writes those of the
        partitions that it has changed.

        Parameters
        ----------
        mode
            What is generated.

        Returns
        -------
        SymlinkManifests
            The version, and the paths of what was written.

        Raises
        ------
        UnsupportedFeatureError
            The table has deletion vectors or column mapping, which these readers do not know, or needs a writer feature
            that this library does not know.
        StorageError
            If the store fails, or does not permit the writing.

        Examples
        --------
        >>> table.generate().manifests
        ('_symlink_format_manifest/manifest',)
        """
        checked_choice("mode", mode, get_args(GenerateMode), "leave it out")
        self._options.require_newest()
        from deltaberg.delta.after_commit.symlink_manifests import write_manifests

        return write_manifests(self._newest())

    @takes(NotedArguments)
    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = True,
        *,
        enforce_retention_duration: bool = True,
        full: bool | None = None,
        keep_versions: int | Iterable[int] | None = None,
        inventory: Any = None,
        untracked_hours: float = 24,
        logging: bool | None = None,
        progress: OnProgress | bool | None = None,
        **commit: Unpack[NotedArguments],
    ) -> CleanupResult:
        """Delete the files that no version within the retention needs, or find out which those are.

        Files that the log removed longer ago than the retention go, their deletion vectors, change data files of
        commits as old, and files that no version names, such as leftovers of interrupted writes. Versions older than
        the retention cannot be read afterwards. Hidden files stay, whose path has a part that begins with ``_`` or
        ``.``, and so does whatever was written within the retention.

        **A shallow clone reads files of its source, which does not know its clones**: a vacuum of the source takes from
        a clone what the source has removed. Give the source a longer retention, or make deep clones.

        Parameters
        ----------
        retention_hours
            How long removed files are kept. By default the property ``delta.deletedFileRetentionDuration`` decides,
            which is a week where it is not set.
        dry_run
            Only find the files, as in deltalake. Pass False to delete them.
        enforce_retention_duration
            Refuse a retention that is shorter than the table's.
        full
            False takes only what the log says was removed since the last vacuum, and lists no directory. Otherwise the
            directory of the table is listed.
        keep_versions
            Versions that must stay readable, whatever their age. The property ``deltaberg.keepVersions`` (``3, 17``)
            says so for every vacuum of this library and for its clean-up of the log.
        inventory
            A table or a frame of the files to look at, in place of a listing: ``path``, ``length``, ``isDir`` and
            ``modificationTime`` in milliseconds since 1970.
        untracked_hours
            How old a file must be at least that no version names. It may belong to a writer that has yet to commit.
        logging
            Whether the beginning and the end become versions without changes, ``VACUUM START`` and ``VACUUM END``, as
            delta-spark makes them. By default they do, except on S3.
        progress
            What is told how far it has come; True shows it at a terminal or in a notebook.
        **commit
            How those versions are made, and what they note: see `Verbs`.

        Returns
        -------
        CleanupResult
            The files with the reason for each, and what could not be deleted.

        Raises
        ------
        UnsupportedFeatureError
            The table needs a writer feature that is not supported.
        InvalidArgumentError
            The retention is shorter than the table's, or an argument is not valid.
        DataFileNotFoundError
            The table names files that are not there. Nothing was deleted.
        VersionNotFoundError
            The log does not reach back as far as ``full=False`` needs it.
        CommitUnknownError
            It is not known whether the beginning was recorded. Nothing was deleted.
        StorageError
            The store failed.

        Examples
        --------
        >>> result = table.vacuum()
        >>> result.deleted_files, result.dry_run
        (0, True)
        """
        from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions

        options = VacuumOptions(
            retention_hours,
            dry_run,
            enforce_retention_duration,
            full,
            keep_versions,
            inventory,
            untracked_hours,
            logging,
            receiver(progress, "CleanupProgress"),
        )
        return self._vacuum(options, CommitOptions.of(commit))

    def _vacuum(self, options: VacuumOptions, said: CommitOptions) -> CleanupResult:
        from deltaberg.delta.maintain.cleaning.vacuum import vacuum_table
        from deltaberg.delta.transaction.transaction import Transaction

        self._options.require_newest()

        def begin() -> Transaction:
            zone = self._options.timezone
            return Transaction(self._log, self._newest(), said, timezone=zone, committed=self._set)

        return vacuum_table(self._newest(), options, begin, self._file_tasks)

    @takes(StatisticsArguments)
    def compute_statistics(self, where: Filter | None = None, **arguments: Unpack[StatisticsArguments]) -> CommitResult:
        """Compute the statistics of data files from their rows, for files that lack them or have some of other columns.

        Filters leave out files by their statistics, and some writers record none. The columns are those that new files
        get statistics of: see ``delta.dataSkippingNumIndexedCols`` and ``delta.dataSkippingStatsColumns``. Rows do not
        change, nor do files: the log states them anew (Delta protocol, "Per-file Statistics"). This process reads the
        files.

        Parameters
        ----------
        where
            Only files in which rows can match this condition; by default all.
        **arguments
            The zone of timestamps without one in the condition, and how the commit is made: see `Verbs`.

        Returns
        -------
        CommitResult
            The commit; ``metrics`` says how many files were read (``numFilesRead``), and of how many the statistics
            have changed (``numFilesUpdated``). Where that is none, nothing was committed.

        Raises
        ------
        CorruptDataFileError, DataFileNotFoundError
            A data file is damaged, or gone.
        CommitConflictError
            Another commit has removed one of the files meanwhile, or deleted rows of it.

        Examples
        --------
        >>> table.compute_statistics().metrics["numFilesUpdated"]
        0
        """
        self._options.require_newest()
        from deltaberg.delta.alter.recomputed_statistics import recompute_statistics
        from deltaberg.table.rows.row_options import RowOptions

        zone, commit = RowOptions.of(arguments).timezone, arguments_of(CommitArguments, arguments)
        return recompute_statistics(self._transaction_of(commit), where, zone)

    @takes(CommitArguments)
    def drop_feature(
        self,
        name: str = NEEDED,
        *,
        truncate_history: bool = False,
        dry_run: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> DropFeatureResult:
        """Take a table feature from the protocol, so that clients that lack it can read and write the table again.

        First everything goes that the newest version needs the feature for: its property is set to false, and files
        with deleted rows (``deletionVectors``) or columns of older types (``typeWidening``) are written anew. Older
        versions still need it. By default three checkpoints keep readers from them, and the feature
        ``checkpointProtection``, which only writers must know, keeps the checkpoints. With ``truncate_history``, the
        older versions go instead.

        Features that only writers know are dropped by one commit, as by ``alter().drop_feature(name)``. Constraints,
        default values and the like are not: drop these first.

        Parameters
        ----------
        name
            The name of the feature, as `features` has it.
        truncate_history
            Delete the versions that need the feature, once the first one that does not is older than
            ``delta.dropFeatureTruncateHistory.retentionDuration``, which is 24 hours by default. Until then this raises
            an error that says when to call it again. No reader or writer of the table must take longer than that.
        dry_run
            Only return what would be done, or raise what the drop would raise before it changes anything.
        **commit
            How the commits are made, from ``user_metadata`` on: see `Verbs`.

        Returns
        -------
        DropFeatureResult
            The steps that it took, and its commits, of which the last one dropped the feature.

        Raises
        ------
        InvalidArgumentError
            The table does not support the feature, makes use of it in a way that you have to end, or supports another
            one that depends on it.
        UnsupportedFeatureError
            Nothing can take the feature away, or it is too early to cut off the history.
        CommitConflictError
            Others change the table again and again.

        Examples
        --------
        >>> table.alter().set({"delta.enableDeletionVectors": "true"}).commit().committed
        True
        >>> table.drop_feature("deletionVectors", dry_run=True).steps[0]
        'set delta.enableDeletionVectors to false'
        >>> _ = table.drop_feature("deletionVectors")
        >>> "deletionVectors" in table.features, table.protocol.min_reader_version
        (False, 1)
        """
        from deltaberg.delta.maintain.feature_drop import FeatureDrop
        from deltaberg.table.rows.progress import shared_progress

        self._options.require_newest()
        with shared_progress(commit) as next_commit:

            def compact(asked: Compaction) -> CompactResult:
                self.refresh()
                return self._rewrite(asked, next_commit())

            drop = FeatureDrop(
                name,
                truncate_history,
                dry_run,
                self._newest,
                lambda: self._transaction_of(next_commit()),
                lambda: self.refresh().alter(**next_commit()),
                compact,
            )
            return drop.run()

    def _begin(self, options: CommitOptions) -> DeltaTransaction:
        from deltaberg.delta.maintain.auto_compact import compact_after
        from deltaberg.delta.operations import DeltaOperations
        from deltaberg.delta.table_transaction import DeltaTransaction
        from deltaberg.delta.transaction.transaction import Transaction

        zone = self._options.timezone
        made = Transaction(self._log, self._snapshot, options, timezone=zone, committed=self._set)
        made.follow = compact_after
        return DeltaTransaction(DeltaOperations(made))

    def _compact(self, begin: Callable[[], Any], compaction: Compaction) -> CompactResult:
        from deltaberg.delta.maintain.compact import DeltaRewrite
        from deltaberg.table.maintain.compact import compact_table

        DELTA.refuse(compaction, self.location)
        return compact_table(begin, self.refresh, compaction, DeltaRewrite)

    def _upgrade(
        self, to: int, asked: Compaction, next_commit: Callable[[], Any], rewrite: Callable[[Purge], CompactResult]
    ) -> CompactResult:
        from deltaberg.delta.alter.compatibility_upgrade import CompatibilityUpgrade

        upgrade = CompatibilityUpgrade(to, self._newest, lambda: self.refresh().alter(**next_commit()), rewrite)
        return upgrade.run(dry_run=asked.dry_run)

    def _transaction_of(self, said: Any) -> Any:
        return operations_of(self.refresh().transaction(**said)).transaction

    def _maintenance(self, policy: MaintenancePolicy) -> Mapping[MaintenanceStep, Step]:
        from deltaberg.delta.maintain.upkeep_steps import upkeep_steps

        return {**super()._maintenance(policy), **upkeep_steps(self._newest, self._vacuum, policy)}

    def _restore(self, begin: Callable[[], Any], asked: RestoreRequest) -> RestoreResult:
        from deltaberg.delta.maintain.restore import restore_table

        return restore_table(begin, self._newest(), asked, self._resolver, self._file_tasks)

    def _clone(self, asked: CloneRequest) -> CloneResult:
        from deltaberg.delta.maintain.cloning.clone import clone_table

        DELTA.refuse(asked, self.location)
        return clone_table(self._snapshot, self._resolver, asked, self._file_tasks)

    def _verify(self, depth: VerifyDepth, told: Told, *, is_pinned: bool) -> VerifyResult:
        from deltaberg.delta.maintain.verify import verify_table

        return verify_table(self._snapshot, self._resolver, depth, self._file_tasks, told, is_pinned=is_pinned)

    def _repair(self, findings: list[Finding] | None, begin: Callable[[], Any], *, dry_run: bool) -> RepairResult:
        from deltaberg.delta.maintain.repair import repair_table

        return repair_table(self._snapshot, self._resolver, findings, begin, self._file_tasks, dry_run=dry_run)

    def _follow(self, asked: FollowRequest) -> tuple[TableStream[Any], Any]:
        from deltaberg.delta.streams import followed

        return followed(self, asked), None

    def _scan(self, source: ScanSource, *arguments: Any) -> Scan:
        try:
            return super()._scan(source, *arguments)
        except ColumnNotFoundError as error:
            raise about_row_fields(error, source) from None


def open_delta_table(location: str | os.PathLike[str], options: OpenOptions) -> DeltaTable:
    """Open a table with arguments that were checked before."""
    table = DeltaTable.__new__(DeltaTable)
    table._open(location, options)  # noqa: SLF001 - another way to construct one
    return table
