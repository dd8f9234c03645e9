"""Keeping the log of a Delta table short: checkpoints, compaction and clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaberg.delta.changing_table import ChangingTable
from deltaberg.delta.features import check_known_writers
from deltaberg.delta.log.checkpoint_files import CheckpointInfo
from deltaberg.errors import VersionNotFoundError
from deltaberg.signatures import public
from deltaberg.table import Instant, checked_number, parse_instant

if TYPE_CHECKING:
    from deltaberg.delta.checkpoint.layout import CheckpointLayout
    from deltaberg.delta.maintenance.log_cleanup import LogCleanup

__all__ = ["MaintainedTable"]


@public
class MaintainedTable(ChangingTable):
    """A table whose log can be kept short."""

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
        from deltaberg.delta.maintenance.checkpoints import write_checkpoint

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
        from deltaberg.delta.maintenance.log_cleanup import clean_up_log

        return clean_up_log(self._snapshot.newer(), at=instant)
