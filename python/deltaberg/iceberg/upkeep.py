"""The verbs that keep an Iceberg table in order: expiry, orphans, the rewrite of manifests and of paths."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltaberg.choices import PrefixMismatch
from deltaberg.iceberg.location.pointer import LoadedTable, TablePointer
from deltaberg.signatures import public, takes
from deltaberg.table.arguments import Instant
from deltaberg.table.commit.commit import CommitPolicy
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.rows.shown_progress import receiver
from deltaberg.table.verbs.shared_arguments import RecordedArguments
from deltaberg.table.verbs.table import operations_of

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

    from deltaberg.iceberg.maintain.cleaning.expire import ExpiryResult
    from deltaberg.iceberg.maintain.copying.rewrite_table_path import RewriteTablePathResult
    from deltaberg.iceberg.maintain.manifest_rewriting.rewrite_manifests import ManifestRewriteResult
    from deltaberg.iceberg.operations import IcebergOperations
    from deltaberg.table.maintain.cleanup import CleanupResult, OnProgress
    from deltaberg.table.maintain.file_tasks import FileTasks
    from deltaberg.table.verbs.table_transaction import TableTransaction

__all__ = ["IcebergUpkeep"]


@public
class IcebergUpkeep:
    """The upkeep of an Iceberg table. No verb of it changes a row of the newest snapshot."""

    _options: OpenOptions
    _pointer: TablePointer
    _file_tasks: FileTasks | None

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the table is."""

    @abstractmethod
    def _set(self, loaded: LoadedTable, snapshot_id: int | None, millis: int | None) -> None:
        """Move to a snapshot of some metadata."""

    @abstractmethod
    def _begin(self, options: CommitOptions) -> TableTransaction[IcebergOperations, Any]:
        """Begin a transaction on this state."""

    def expire_snapshots(
        self,
        older_than: Instant | None = None,
        retain_last: int | None = None,
        snapshot_ids: Sequence[int] | None = None,
        *,
        clean_expired_metadata: bool = False,
        dry_run: bool = False,
        progress: OnProgress | bool | None = None,
        policy: CommitPolicy | None = None,
        unsafe_single_writer: bool = False,
    ) -> ExpiryResult:
        """Forget old snapshots, and delete the files that only they need.

        Each branch keeps its snapshots that are young enough, and a least number of them, which the branch or the table
        may say; ``main`` and the newest snapshot of each branch always stay. A branch or a tag that is too old itself
        goes, and so do snapshots that no branch leads to, such as staged ones. (Iceberg spec, "Snapshot Retention
        Policy".) Files go if no snapshot that stays reaches them, whatever removed or added them, and if they are in a
        directory of the table. Nothing is deleted before the commit is known to have landed.

        Parameters
        ----------
        older_than
            The time before which snapshots expire. By default they do after the property
            ``history.expire.max-snapshot-age-ms``, which is five days where it is not set. A time without a zone is in
            the zone that the table was opened with.
        retain_last
            How many snapshots each branch keeps at least; by default the property
            ``history.expire.min-snapshots-to-keep`` says so, which is 1 where it is not set.
        snapshot_ids
            Snapshots that expire whatever their age. If nothing else is passed, no others do.
        clean_expired_metadata
            Also forget schemas and partition specs that nothing uses any more. Columns that were dropped cannot be put
            back then.
        dry_run
            Only find out what would be done.
        progress
            What is told how far the deletion has come; True shows it at a terminal or in a notebook.
        policy, unsafe_single_writer
            How the commit is made: see `Verbs`.

        Returns
        -------
        ExpiryResult
            The snapshots, branches and tags, and the files with the reason for each.

        Raises
        ------
        InvalidArgumentError
            The property ``gc.enabled`` is false, the directory is also a Delta table, a branch or a tag names a
            snapshot of ``snapshot_ids``, or an argument is not valid.
        VersionNotFoundError
            The table does not have one of ``snapshot_ids``.
        DataFileNotFoundError, CorruptTableError
            A manifest that a kept snapshot needs cannot be read. Nothing has expired.
        CommitConflictError
            Other commits came first every time. Nothing has expired.
        CommitUnknownError
            It is not known whether the snapshots have expired. No file was deleted.
        StorageError
            The store failed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/expiring", {"id": pa.int64()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1]}))
        >>> _ = table.overwrite(pa.table({"id": [2]}))
        >>> result = table.expire_snapshots(older_than="9999-12-31", retain_last=1)
        >>> len(result.snapshot_ids), result.files["kind"].to_pylist().count("data file"), len(table.snapshots)
        (1, 1, 1)
        """
        from deltaberg.iceberg.maintain.cleaning.expire import expire_table
        from deltaberg.iceberg.maintain.cleaning.snapshot_retention import ExpiryRequest

        tell = receiver(progress, "CleanupProgress")
        self._options.require_newest()
        asked = ExpiryRequest(
            older_than,
            retain_last,
            snapshot_ids,
            clean_expired_metadata,
            dry_run,
            tell,
            self._options.zone,
        )
        options = CommitOptions(policy=policy, unsafe_single_writer=unsafe_single_writer)

        def committed(loaded: LoadedTable) -> None:
            if self._options.ref is not None and self._options.ref not in loaded.metadata.all_refs:
                # The branch or tag that the table was opened with has expired.
                self._options = replace(self._options, ref=None)
            self._set(loaded, None, None)

        return expire_table(self._pointer, asked, options, self._file_tasks, committed)

    def remove_orphan_files(
        self,
        older_than: Instant | None = None,
        location: str | os.PathLike[str] | None = None,
        dry_run: bool = True,
        *,
        prefix_mismatch: PrefixMismatch = "error",
        enforce_retention_duration: bool = True,
        progress: OnProgress | bool | None = None,
    ) -> CleanupResult:
        """Delete the files in the directory of the table that nothing names, or find out which those are.

        Such files are left by writers that were interrupted. Everything stays that a snapshot reaches, the metadata
        file and those of its log, statistics, what is hidden (a part of its path begins with ``_`` or ``.``), other
        tables below the directory, and what was written lately.

        Parameters
        ----------
        older_than
            The time before which a file must have been written; by default three days ago. A time without a zone is in
            the zone that the table was opened with.
        location
            The directory that is looked through: the location of the table by default, one below it, or one that the
            table has its data or its metadata in by its properties.
        dry_run
            Only find the files. Pass False to delete them.
        prefix_mismatch
            What becomes of a file whose path the table names in another store: ``error``; ``ignore``, where that is
            another name of the same store, so that the file stays; or ``delete``, where it is another file.
        enforce_retention_duration
            Refuse to take files that are less than a day old.
        progress
            What is told how far it has come; True shows it at a terminal or in a notebook.

        Returns
        -------
        CleanupResult
            The files, and how many stay, by the reason.

        Raises
        ------
        InvalidArgumentError
            The property ``gc.enabled`` is false, the directory is also a Delta table, files may belong to running
            writers, a file has the path of one in another store, or an argument is not valid.
        DataFileNotFoundError
            The table names files that are not there. Nothing was deleted.
        StorageError
            The store failed.

        Examples
        --------
        >>> from deltaberg import IcebergTable
        >>> result = IcebergTable(iceberg_path).remove_orphan_files()
        >>> result.deleted_files, result.dry_run
        (0, True)
        """
        from deltaberg.iceberg.maintain.cleaning.orphans import OrphanRequest, remove_orphans

        tell = receiver(progress, "CleanupProgress")
        self._options.require_newest()
        asked = OrphanRequest(
            older_than,
            location,
            prefix_mismatch,
            enforce_retention_duration,
            dry_run,
            tell,
            self._options.zone,
        )
        return remove_orphans(self._pointer, asked, self._file_tasks)

    @takes(RecordedArguments)
    def rewrite_manifests(
        self,
        *,
        spec_id: int | None = None,
        rewrite_all: bool = False,
        target_size: int | None = None,
        min_manifests: int = 2,
        dry_run: bool = False,
        **commit: Unpack[RecordedArguments],
    ) -> ManifestRewriteResult:
        """Put the entries of manifests into fewer ones, each for a range of partitions, so that planning reads less.

        Rewritten are small manifests, if that leaves fewer, those that are much too large, and those whose partitions
        are also those of several others, by the first partition field. Manifests of data files and of delete files, and
        those of different partition specs, stay apart. The snapshot has the same files, each with the sequence numbers,
        the snapshot and the row ids that it had. Files that others add meanwhile do not matter.

        Parameters
        ----------
        spec_id
            Only manifests of this partition spec are looked at; by default those of all specs.
        rewrite_all
            Also rewrite manifests that are in order.
        target_size
            Bytes of a new manifest, approximately; by default the property ``commit.manifest.target-size-bytes``, which
            is 8 MiB where it is not set.
        min_manifests
            How many small manifests a new one stands for at least.
        dry_run
            Say how many manifests would be rewritten, and into how many, and write nothing.
        **commit
            How the commit is made, and what it records: see `Verbs`.

        Returns
        -------
        ManifestRewriteResult
            How many manifests were rewritten, and into how many.

        Raises
        ------
        InvalidArgumentError
            The table has no such spec, or an argument is not valid.
        CorruptMetadataError
            A manifest does not hold as many files and rows as the manifest list says. Nothing was committed.
        CommitConflictError
            Other commits replaced the manifests every time. Nothing was committed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/listed", {"id": pa.int64()}, format="iceberg")
        >>> for number in range(3):
        ...     _ = table.append(pa.table({"id": [number]}))
        >>> table.rewrite_manifests()
        ManifestRewriteResult(rewrote 3 manifests into 1, 3 entries)
        >>> table.rewrite_manifests().rewritten_manifests
        0
        """
        from deltaberg.iceberg.maintain.manifest_rewriting.manifest_plan import ManifestRewrite
        from deltaberg.iceberg.maintain.manifest_rewriting.rewrite_manifests import rewrite_manifests

        asked = ManifestRewrite(spec_id, rewrite_all, target_size, min_manifests, dry_run)
        options = CommitOptions.of(commit)
        if dry_run:
            # Nothing is put, so that the store need not be probed, which would write an object.
            options = replace(options, unsafe_single_writer=True)
        self._options.require_newest()
        return rewrite_manifests(lambda: operations_of(self._begin(options)).transaction, asked)

    def rewrite_table_path(
        self,
        source_prefix: str | os.PathLike[str],
        target_prefix: str | os.PathLike[str],
        start_version: str | None = None,
        end_version: str | None = None,
        staging_location: str | os.PathLike[str] | None = None,
    ) -> RewriteTablePathResult:
        """Prepare a copy of the table in another place, which any tool can then make file by file.

        The metadata of Iceberg tables has whole paths, so that a table that is copied as it is still reads the old
        files. This call writes all files anew that have paths in them, with those of the copy: metadata files, manifest
        lists, manifests, position delete files and deletion vectors. They wait in a directory, beside a list of all
        files to copy. The table itself stays as it is.

        Parameters
        ----------
        source_prefix
            The directory above all files of the table, usually its location.
        target_prefix
            What takes its place in all paths.
        start_version
            The name of the newest metadata file of an earlier copy. Data files, equality delete files and statistics
            that this copy has are not in the list then.
        end_version
            The name of the metadata file that the copy ends with; by default the newest one.
        staging_location
            Where rewritten files wait, which must be empty; by default a new directory beside the metadata.

        Returns
        -------
        RewriteTablePathResult
            Where the list is, the list itself, and the metadata file of the copy.

        Raises
        ------
        InvalidArgumentError
            The table names a file that is not below ``source_prefix``, or an argument is not valid.
        DataFileNotFoundError, CorruptTableError
            A file that has paths in it cannot be read.
        UnsupportedFeatureError
            The table is encrypted.
        StorageError
            A store failed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> place = f"{new_path}/planned"
        >>> table = create_table(place, {"id": pa.int64()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1]}))
        >>> plan = table.rewrite_table_path(place, "s3://backup/planned")
        >>> plan.metadata_location, len(plan.files)
        ('s3://backup/planned/metadata/v2.metadata.json', 5)
        """
        from deltaberg.iceberg.maintain.copying.rewrite_table_path import CopyRequest, rewrite_table_path

        self._options.require_newest()
        asked = CopyRequest(source_prefix, target_prefix, start_version, end_version, staging_location)
        return rewrite_table_path(self._pointer, asked)
