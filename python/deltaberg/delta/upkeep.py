"""The verbs that keep a Delta table in order: the upkeep of its log, and the clean-up of its files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

from deltaberg.choices import GenerateMode
from deltaberg.delta.features import check_known_writers
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CommitConflictError, VersionNotFoundError
from deltaberg.signatures import NEEDED, public, takes
from deltaberg.table.arguments import Instant, checked_choice, checked_flag, checked_number, parse_instant
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.rows.shown_progress import receiver
from deltaberg.table.verbs.shared_arguments import CommitArguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.delta.after_commit.log_cleanup import LogCleanup
    from deltaberg.delta.after_commit.symlink_manifests import SymlinkManifests
    from deltaberg.delta.checkpoint.layout import CheckpointLayout
    from deltaberg.delta.log.checkpoint_files import CheckpointInfo
    from deltaberg.delta.maintain.feature_drop import FeatureDrop
    from deltaberg.expressions.build.filters import Filter
    from deltaberg.table.commit.commit import CommitResult
    from deltaberg.table.maintain.cleanup import CleanupResult, OnProgress
    from deltaberg.table.maintain.dropped_feature import DropFeatureResult
    from deltaberg.table.maintain.file_tasks import FileTasks

__all__ = ["DeltaUpkeep"]

#: How often a vacuum tries to record its beginning or its end where others change the table.
_ATTEMPTS = 10


@public
class DeltaUpkeep:
    """The upkeep of a Delta table. No verb of it changes a row."""

    _log: LogDirectory
    _options: OpenOptions
    _snapshot: Snapshot
    _file_tasks: FileTasks | None

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the table is."""

    @abstractmethod
    def _set(self, snapshot: Snapshot) -> None:
        """Move to a version."""

    @abstractmethod
    def _newest(self) -> Snapshot:
        """Move to the newest version, and return it."""

    @abstractmethod
    def _transaction_of(self, said: Any) -> Any:
        """Return a transaction on the newest version, by a commit that says something of itself."""

    @abstractmethod
    def _drop_of(self, name: str, truncate_history: bool, said: Any) -> FeatureDrop:
        """Return what drops a feature by commits that say something of themselves."""

    def checkpoint(self, layout: CheckpointLayout | None = None) -> CheckpointInfo:
        """Write a checkpoint of this version, so that readers need not replay the log up to it.

        The properties ``delta.checkpoint.writeStatsAsJson`` and ``delta.checkpoint.writeStatsAsStruct`` choose how it
        holds statistics (Delta protocol, "Checkpoints").

        Parameters
        ----------
        layout
            The form of the checkpoint; by default the one that the property ``delta.checkpointPolicy`` asks for.

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

        return write_checkpoint(self._snapshot, layout)

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
        check_known_writers(self._snapshot.protocol)
        hint = "pass two different versions, the earlier one first"
        first, last = checked_number("first", first, 0, hint), checked_number("last", last, 0, hint)
        if last > self._snapshot.version:
            raise VersionNotFoundError(f"version {self._snapshot.version} is open, so {last} cannot be compacted")
        from deltaberg.delta.log.compaction import compact_commits

        return compact_commits(self._log, first, last)

    def cleanup_metadata(self, at: Instant | None = None) -> LogCleanup:
        """Delete entries of the log that are older than its retention, up to a checkpoint that is as old.

        The property ``delta.logRetentionDuration`` decides; it is 30 days by default. Versions before that checkpoint
        cannot be opened any more (Delta protocol, "Metadata Cleanup"). Data files are not touched. Commits do this by
        themselves unless ``delta.enableExpiredLogCleanup`` is false.

        Parameters
        ----------
        at
            The time by which entries have expired; now by default.

        Raises
        ------
        UnsupportedFeatureError
            If the table needs a writer feature that this library does not know.
        CorruptTableError
            If the time of a commit is not recorded.
        StorageError
            If the store fails, or does not permit deleting.

        Examples
        --------
        >>> table.cleanup_metadata().files
        ()
        """
        instant = None if at is None else parse_instant(at, self._options.zone)
        from deltaberg.delta.after_commit.log_cleanup import clean_up_log

        return clean_up_log(self._snapshot.newer(), at=instant)

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

    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = True,
        *,
        enforce_retention_duration: bool = True,
        full: bool | None = None,
        keep_versions: Sequence[int] | None = None,
        inventory: Any = None,
        untracked_hours: float = 24,
        logging: bool | None = None,
        progress: OnProgress | bool | None = None,
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
        from deltaberg.delta.maintain.cleaning.vacuum import vacuum_table
        from deltaberg.delta.maintain.cleaning.vacuum_options import VacuumOptions
        from deltaberg.delta.transaction.transaction import Transaction

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
        self._options.require_newest()

        def record(operation: str, parameters: Mapping[str, str], metrics: Mapping[str, int]) -> None:
            # It depends on nothing that others may change: a restore by deltalake changes protocol and metadata each
            # time.
            for left in reversed(range(_ATTEMPTS)):
                made = Transaction(self._log, self._newest(), timezone=self._options.timezone, committed=self._set)
                with suppress(*((CommitConflictError,) if left else ())):
                    made.commit(operation, parameters, metrics=metrics, even_if_empty=True)
                    return

        return vacuum_table(self._newest(), options, record, self._file_tasks)

    @takes(CommitArguments)
    def compute_statistics(self, where: Filter | None = None, **commit: Unpack[CommitArguments]) -> CommitResult:
        """Compute the statistics of data files from their rows, for files that lack them or have some of other columns.

        Filters leave out files by their statistics, and some writers record none. The columns are those that new files
        get statistics of: see ``delta.dataSkippingNumIndexedCols`` and ``delta.dataSkippingStatsColumns``. Rows do not
        change, nor do files: the log states them anew (Delta protocol, "Per-file Statistics"). This process reads the
        files.

        Parameters
        ----------
        where
            Only files in which rows can match this condition; by default all.
        **commit
            How the commit is made, from ``user_metadata`` on: see `Verbs`.

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

        return recompute_statistics(self._transaction_of(commit), where)

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
            The steps that it took, and the commit that dropped the feature.

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
        checked_flag("dry_run", dry_run)
        return self._drop_of(name, checked_flag("truncate_history", truncate_history), commit).run(dry_run=dry_run)
