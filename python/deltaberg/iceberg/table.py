"""Iceberg tables, opened at one snapshot."""

from __future__ import annotations

import os

# What writes is loaded by the first write: it has more modules than all that reads.
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from deltaberg.choices import MetadataTable, PrefixMismatch
from deltaberg.expressions.build.filters import Filter
from deltaberg.iceberg.inspect.tables import inspect_table
from deltaberg.iceberg.location.pointer import FilePointer, LoadedTable, TablePointer
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.sort_orders import SortOrder
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.iceberg.scan.changelog import changes_of
from deltaberg.iceberg.scan.changes import ChangesSource, changed_range
from deltaberg.iceberg.scan.opened import opened_source
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.validate import validate_table
from deltaberg.iceberg.verbs import IcebergVerbs
from deltaberg.schema.columns import ColumnNames
from deltaberg.schema.types import Struct
from deltaberg.signatures import public, takes
from deltaberg.storage.location import parse_location
from deltaberg.table.arguments import (
    Instant,
    checked_flag,
    checked_limit,
    checked_number,
    has_attributes,
)
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import ICEBERG
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.read.scan import Scan
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.rows.shown_progress import receiver
from deltaberg.table.verbs.shared_arguments import (
    AttemptArguments,
    CommitArguments,
    DescribedArguments,
    IcebergStateArguments,
    MeasureArguments,
    RecordedArguments,
    RewriteArguments,
    ScanArguments,
    arguments_of,
)
from deltaberg.table.verbs.table import Table, operations_of, without_probe

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

    from deltaberg.choices import MaintenanceStep, VerifyDepth
    from deltaberg.iceberg.alter.alter import Alteration  # noqa: F401 - it is named in the bases of the class
    from deltaberg.iceberg.maintain.cleaning.expire import ExpiryResult
    from deltaberg.iceberg.maintain.copying.rewrite_table_path import RewriteTablePathResult
    from deltaberg.iceberg.maintain.manifest_rewriting.rewrite_manifests import ManifestRewriteResult
    from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeleteRewrite, DeletesRequest
    from deltaberg.iceberg.maintain.rewriting.rewritten import RewriteDeletesResult
    from deltaberg.iceberg.maintain.statistics.compute_partition_stats import PartitionStatsResult
    from deltaberg.iceberg.maintain.statistics.compute_table_stats import TableStatsResult
    from deltaberg.iceberg.maintain.statistics.named_file import StatsRequest
    from deltaberg.iceberg.refs.cherry_pick import Picks
    from deltaberg.iceberg.table_transaction import IcebergTransaction
    from deltaberg.table.maintain.cleanup import CleanupResult, OnProgress
    from deltaberg.table.maintain.cloning.cloned import CloneRequest, CloneResult
    from deltaberg.table.maintain.compact import Compaction
    from deltaberg.table.maintain.compact_result import CompactResult
    from deltaberg.table.maintain.maintenance import MaintenancePolicy, Step
    from deltaberg.table.maintain.restored import RestoreRequest, RestoreResult
    from deltaberg.table.maintain.verifying.findings import Finding, VerifyResult
    from deltaberg.table.maintain.verifying.repairs import RepairResult
    from deltaberg.table.rows.progress import Told
    from deltaberg.table.streaming.follow import FollowRequest
    from deltaberg.table.streaming.table_stream import TableStream

__all__ = ["IcebergTable", "open_iceberg_table"]


@public
class IcebergTable(IcebergVerbs[CommitResult], Table["IcebergTransaction", "Alteration"]):
    """One snapshot of an Iceberg table.

    Parameters
    ----------
    location
        The directory of the table or a metadata file, as a local path or as the URL of an object store. Catalogs pass
        a pointer that finds the newest metadata of one of their tables.
    snapshot_id
        The snapshot to open; by default, the newest one of the main branch.
    ref
        The branch or tag to open.
    timestamp
        Open the snapshot that was current at this time, which is in ``timezone`` if it has no zone.
    storage_options
        Options of the store, such as credentials and endpoint, under the names that deltalake or pyiceberg use.
    location_map
        A map from recorded prefixes of paths to where those files are now. ``"auto"`` maps the location that the
        metadata records to the directory in which the metadata file was found, which is right for a table that was
        moved as a whole.
    validate
        Report every violation of the specification that a reader can see. By default, only violations that could make
        rows wrong raise.
    timezone
        The zone of timestamps that have none: of literals in filters, and of ``timestamp``.

    Raises
    ------
    TableNotFoundError
        If there is no Iceberg table.
    VersionNotFoundError
        If the table has no such snapshot, branch or tag, or had no snapshot at that time.
    UnsupportedFeatureError
        If the table needs a feature that this library does not support.
    CorruptTableError
        If the metadata is damaged.

    Examples
    --------
    >>> table = IcebergTable(iceberg_path)
    >>> table.format_version
    2
    >>> table.scan(filter="id >= 2", columns=["name"]).to_arrow().to_pylist()
    [{'name': 'b'}, {'name': 'c'}]
    """

    _source: IcebergSource

    @takes(IcebergStateArguments)
    def __init__(self, location: str | os.PathLike[str] | TablePointer, **state: Unpack[IcebergStateArguments]) -> None:
        self._open(location, OpenOptions.of(state))

    def _open(self, location: str | os.PathLike[str] | TablePointer, options: OpenOptions) -> None:
        options.refuse(("version",), ICEBERG, "use ⟪snapshot_id⟫")
        self._options = options
        if not (has_attributes(location, "load", "committer") and isinstance(location, TablePointer)):
            location = FilePointer(parse_location(cast("str", location)), options.store)
        self._pointer: TablePointer = location
        self._loaded = self._pointer.load()
        self._is_newest = options.snapshot_id is None and options.millis is None
        self._set(self._loaded, options.snapshot_id, options.millis)
        if options.validate:
            validate_table(self._source)

    def _set(self, loaded: LoadedTable, snapshot_id: int | None, millis: int | None) -> None:
        self._source = opened_source(loaded, self._options, snapshot_id, millis)
        self._loaded = loaded

    def _committed(self, loaded: LoadedTable) -> None:
        self._options = self._options.on_refs(loaded.metadata.all_refs)
        self._set(loaded, None, None)

    def __repr__(self) -> str:
        number = None if self.snapshot is None else self.snapshot.snapshot_id
        return f"IcebergTable({self.location!r}, snapshot_id={number})"

    @property
    def location(self) -> str:
        """Where the table is. The location that it records is in `metadata`."""
        return str(self._loaded.root)

    @property
    def metadata_location(self) -> str:
        """The metadata file that the table was read from."""
        return str(self._loaded.file)

    @property
    def metadata(self) -> TableMetadata:
        """The contents of the metadata file."""
        return self._source.metadata

    @property
    def format_version(self) -> int:
        """The version of the format: 1, 2 or 3."""
        return self.metadata.format_version

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is open; None if the table has no snapshot."""
        return self._source.snapshot

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot."""
        return None if self.snapshot is None else self.snapshot.snapshot_id

    @property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots that the table still has, the oldest first."""
        return sorted(self.metadata.snapshots.values(), key=lambda found: (found.timestamp_ms, found.sequence_number))

    def history(self, limit: int | None = None) -> list[Snapshot]:
        """Return the snapshots that led to this one, newest first, as far as the table still has them.

        `snapshots` has all of them, those of other branches included.
        """
        if self.snapshot is None:
            return []
        return list(islice(self.metadata.ancestors(self.snapshot), checked_limit(limit)))

    @property
    def refs(self) -> dict[str, SnapshotRef]:
        """The branches and tags."""
        return dict(self.metadata.all_refs)

    @property
    def schema(self) -> Struct:
        """The columns as table types, with their ids."""
        return self._source.schema

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec of new files."""
        return self.metadata.specs[self.metadata.default_spec_id]

    @property
    def sort_order(self) -> SortOrder:
        """The sort order of new files."""
        orders = self.metadata.sort_orders
        return orders.get(self.metadata.default_sort_order_id, SortOrder(0))

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return dict(self.metadata.properties)

    def refresh(self) -> IcebergTable:
        """Move to the newest snapshot of the branch, and return the table. Scans made before keep their snapshot.

        Raises
        ------
        CorruptMetadataError
            If another table has replaced this one (``table-uuid``).
        """
        loaded = self._newest_metadata()
        if loaded is self._loaded and self._is_newest:
            return self
        self._set(loaded, None, None)
        self._is_newest = True
        return self

    def _newest_metadata(self) -> LoadedTable:
        """Return the newest metadata, and refuse that of another table in the place of this one."""
        loaded = self._pointer.load(self._loaded)
        self._loaded.check_same(loaded)
        return loaded

    def inspect(self, name: MetadataTable) -> pa.Table:
        """Return a metadata table of the snapshot that is open.

        Parameters
        ----------
        name
            ``snapshots``, ``history``, ``refs``, ``metadata_log_entries``, ``manifests``, ``all_manifests``, ``files``,
            ``data_files``, ``delete_files``, ``entries``, ``partitions`` or ``position_deletes``, with the columns that
            iceberg-spark gives them. ``all_files``, ``all_data_files``, ``all_delete_files`` and ``all_entries`` are
            about all snapshots that the table has; a file is there as often as manifests list it.

        Examples
        --------
        >>> table = IcebergTable(iceberg_path)
        >>> table.inspect("snapshots")["operation"].to_pylist()
        ['append']
        """
        return inspect_table(self._source, name)

    @takes(ScanArguments)
    def changes(
        self,
        start: int | None,
        end: int | None = None,
        filter: Filter | None = None,
        columns: ColumnNames | None = None,
        limit: int | None = None,
        *,
        carry_over: bool = False,
        net_changes: bool = False,
        compute_updates: bool | None = None,
        identifier_columns: str | Iterable[str] | None = None,
        options: ScanOptions | None = None,
        **execution: Unpack[ScanArguments],
    ) -> Scan:
        """Return a scan of the rows that changed between two snapshots.

        In addition to the columns of the table, it has ``_change_type`` (``INSERT`` or ``DELETE``, as iceberg-spark
        spells them; an update appears as both), ``_change_ordinal`` (the number of the snapshot in the range),
        ``_commit_snapshot_id`` and ``_commit_timestamp``. Snapshots that only rewrote files change nothing. Rows that a
        snapshot wrote anew without a change are left out, as in the views of ``create_changelog_view``; to find them,
        planning reads the rows of the snapshots that both delete and insert.

        Parameters
        ----------
        start
            The snapshot after which changes begin, like ``start-snapshot-id`` of iceberg-spark; None for all changes
            since the table was created.
        end
            The last snapshot whose changes are returned; by default, the one that is open.
        filter, columns, limit, options
            As in `scan`.
        carry_over
            Keep rows that were written anew without a change, each as a delete and an insert, and read nothing to
            find them.
        net_changes
            Leave out changes that a later snapshot of the range undoes.
        compute_updates
            Return the delete and the insert of a row with the same identifier as ``UPDATE_BEFORE`` and
            ``UPDATE_AFTER``; by default, if ``identifier_columns`` are given.
        identifier_columns
            The names of the columns that identify rows; by default, the identifier fields of the table.

        Raises
        ------
        VersionNotFoundError
            If ``start`` is not an ancestor of ``end``, or if snapshots between them were expired.
        InvalidArgumentError
            If options contradict each other, there is no identifier, the table has a column of the name of one that
            describes changes, or a snapshot changed several rows that have the same identifier. The last is only known
            when the scan is executed.
        """
        source, snapshots = changed_range(self._source, start, end)
        changes = changes_of(source, snapshots, carry_over, net_changes, compute_updates, identifier_columns)
        return self._scan(changes, filter, columns, limit, options, execution)

    @takes(ScanArguments)
    def appends(
        self,
        start: int | None,
        end: int | None = None,
        filter: Filter | None = None,
        columns: ColumnNames | None = None,
        limit: int | None = None,
        *,
        options: ScanOptions | None = None,
        **execution: Unpack[ScanArguments],
    ) -> Scan:
        """Return a scan of the rows that were appended between two snapshots: the incremental append scan.

        Snapshots that are not appends are skipped. The parameters are those of `changes`.
        """
        source = ChangesSource(*changed_range(self._source, start, end), appends=True)
        return self._scan(source, filter, columns, limit, options, execution)

    @takes(CommitArguments)
    def publish(self, wap_id: str, **commit: Unpack[CommitArguments]) -> CommitResult:
        """Make a snapshot that was staged under a ``wap.id`` a part of the table, as `cherrypick_snapshot` does.

        Parameters
        ----------
        wap_id
            The ``wap.id`` that the snapshot was written with.
        **commit
            How the commit is made: see `Verbs`. The branch is ``main`` by default.

        Raises
        ------
        InvalidArgumentError
            No snapshot is staged under that id, or several are.
        CommitConflictError
            It was published already, or the table has changed, and the changes of the snapshot do not fit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/audited", {"id": pa.int64()}, format="iceberg")
        >>> staged = table.append(pa.table({"id": [1]}), properties={"wap.id": "load-7"})
        >>> table.scan().count(), table.publish("load-7").snapshot_id == staged.snapshot_id, table.scan().count()
        (0, True, 1)
        """
        from deltaberg.iceberg.refs.cherry_pick import publish_snapshot

        return publish_snapshot(self._picks(commit), wap_id)

    @takes(CommitArguments)
    def cherrypick_snapshot(self, snapshot_id: int, **commit: Unpack[CommitArguments]) -> CommitResult:
        """Make a snapshot that another branch or no branch has a part of the table.

        If the snapshot follows on the newest one, it becomes the newest one itself. Otherwise, a new snapshot makes the
        same changes: it adds the files of an append, or replaces partitions as ``overwrite(dynamic=True)`` did, if
        these have got no files since. Its summary names the other one as ``source-snapshot-id``.

        Parameters
        ----------
        snapshot_id
            The snapshot.
        **commit
            How the commit is made: see `Verbs`.

        Raises
        ------
        VersionNotFoundError
            The table has no such snapshot.
        CommitConflictError
            The branch has the snapshot or its changes already, or has moved on, and the changes do not fit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/picked", {"id": pa.int64()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1]}))
        >>> _ = table.alter().create_branch("audit").commit()
        >>> side = table.append(pa.table({"id": [2]}), branch="audit")
        >>> _ = table.append(pa.table({"id": [3]}))
        >>> result = table.cherrypick_snapshot(side.snapshot_id)
        >>> result.operation, sorted(table.scan().to_arrow()["id"].to_pylist())
        ('append', [1, 2, 3])
        """
        from deltaberg.iceberg.refs.cherry_pick import pick_snapshot

        return pick_snapshot(self._picks(commit), self.metadata.snapshot_by_id(snapshot_id))

    def _picks(self, commit: Mapping[str, Any]) -> Picks:
        from deltaberg.iceberg.refs.cherry_pick import Picks

        return Picks(
            lambda options: operations_of(self._transaction(options)).transaction,
            lambda: self.refresh().metadata,
            self.metadata,
            CommitOptions.of(commit),
        )

    def _rewrite_deletes(
        self, kind: type[DeleteRewrite], request: DeletesRequest, arguments: Mapping[str, Any], *, dry_run: bool
    ) -> RewriteDeletesResult:
        from deltaberg.iceberg.maintain.rewriting.delete_rewrite import rewrite_deletes

        self._options.require_newest()
        commit: Any = arguments_of(DescribedArguments, arguments)
        said = without_probe(commit) if checked_flag("dry_run", dry_run) else commit
        return rewrite_deletes(
            lambda: operations_of(self.transaction(**said)).transaction,
            self.refresh,
            lambda transaction: kind(transaction, request),
            dry_run=dry_run,
            policy=CommitOptions.of(commit).policy,
        )

    def _stats_request(self, snapshot_id: int | None, commit: Mapping[str, Any]) -> StatsRequest:
        from deltaberg.iceberg.maintain.statistics.named_file import StatsRequest

        self._options.require_newest()
        options = CommitOptions.of(commit)
        return StatsRequest(self._pointer, snapshot_id, self._options.ref, options, self._committed)

    @takes(AttemptArguments)
    def expire_snapshots(
        self,
        older_than: Instant | None = None,
        retain_last: int | None = None,
        snapshot_ids: int | Iterable[int] | None = None,
        *,
        clean_expired_metadata: bool = False,
        dry_run: bool = False,
        progress: OnProgress | bool | None = None,
        **commit: Unpack[AttemptArguments],
    ) -> ExpiryResult:
        """Forget old snapshots, and delete the files that only they need.

        Each branch keeps its snapshots that are young enough, and a least number of them, which the branch or the table
        may say; ``main`` and the newest snapshot of each branch always stay. A branch or a tag that is too old itself
        goes, and so do snapshots that no branch leads to, such as staged ones. (Iceberg spec, "Snapshot Retention
        Policy".) Files go if no snapshot that stays reaches them, whatever removed or added them, and if they are in a
        directory of the table. Nothing is deleted before the commit is known to have landed.

        **A table must have one name only**, since another one may need what this one forgets. A SQL catalog refuses the
        expiry of a table that it knows by two names. REST and other catalogs do not tell of a second name, and none
        tells of names in others.

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
            back then. Older metadata files that the log of metadata no longer names are left to `remove_orphan_files`.
        dry_run
            Only find out what would be done.
        progress
            What is told how far the deletion has come; True shows it at a terminal or in a notebook.
        **commit
            How the commit is made: see `Verbs`.

        Returns
        -------
        ExpiryResult
            The snapshots, branches and tags, and the files with the reason for each.

        Raises
        ------
        InvalidArgumentError
            The property ``gc.enabled`` is false, the directory is also a Delta table, there is newer metadata of the
            table beside it, a branch or a tag names a snapshot of ``snapshot_ids``, or an argument is not valid.
        VersionNotFoundError
            The table does not have one of ``snapshot_ids``.
        DataFileNotFoundError, CorruptTableError
            A manifest that a kept snapshot needs cannot be read, or another table has come in the place of this one.
            Nothing has expired.
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
        loaded, options = self._newest_metadata(), CommitOptions.of(commit)
        return expire_table(self._pointer, loaded, asked, options, self._file_tasks, self._committed)

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
        file and those of its log, statistics, what is hidden (a part of its path begins with ``_`` or ``.``) unless a
        killed writer of this library left it, other tables below the directory, and what was written lately.

        Parameters
        ----------
        older_than
            The time before which a file must have been written; by default three days ago. A time without a zone is in
            the zone that the table was opened with.
        location
            The directory that is looked through: the location of the table by default, one below it, or one that the
            table has its data or its metadata in by its properties, or had by older metadata of its log. Tables may
            share such ones, so that a warning names them and nothing else is done about them by default.
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
            The property ``gc.enabled`` is false, the directory is also that of another table or in one, files may
            belong to running writers, a file has the path of one in another store, or an argument is not valid.
        DataFileNotFoundError, CorruptMetadataError
            The table names files that are not there, or another table has come in the place of this one. Nothing was
            deleted.
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
        return remove_orphans(self._pointer, self._newest_metadata(), asked, self._file_tasks)

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
        options = CommitOptions.of(without_probe(commit) if dry_run else commit)
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
        return rewrite_table_path(self._newest_metadata(), asked)

    @takes(RewriteArguments)
    def convert_equality_deletes(
        self, where: Filter | None = None, *, dry_run: bool = False, **arguments: Unpack[RewriteArguments]
    ) -> RewriteDeletesResult:
        """Turn equality deletes into deletes by position, so that the table is read as fast as without them.

        The keys of equality deletes are compared once with the rows of all files that they apply to, of which only the
        compared columns are read. The rows that they delete get deletion vectors, or position delete files before
        version 3 of the format. Equality deletes leave the table that then apply to nothing. Keys that others delete
        meanwhile stay. If others add files meanwhile to which one of the removed equality deletes applies, or take
        vectors or files away, the work is planned anew.

        Parameters
        ----------
        where
            Only rows of files in which rows can match this filter are looked at. Equality deletes that apply to further
            files stay, too.
        dry_run
            Only say how many equality delete files would go, and how many data files would be looked at.
        **arguments
            How delete files are written, which tables of version 3 do not get, and how the commit is made: see `Verbs`.

        Returns
        -------
        RewriteDeletesResult
            The commit, and the delete files in numbers.

        Raises
        ------
        InvalidArgumentError
            An argument is not valid.
        UnsupportedFeatureError
            The table needs what is not written.
        CommitConflictError
            Others got in the way every time. Nothing was committed.
        CommitUnknownError
            It is not known whether the commit took effect.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> properties = {"format-version": "3"}
        >>> table = create_table(f"{new_path}/converted", {"id": pa.int64()}, format="iceberg", properties=properties)
        >>> _ = table.append(pa.table({"id": [1, 2, 3]}))
        >>> _ = table.delete_by_keys(pa.table({"id": [1, 3]}))
        >>> table.convert_equality_deletes()
        RewriteDeletesResult(1 delete files into 1, of 1 data files)
        >>> table.inspect("delete_files")["file_format"].to_pylist(), table.scan().to_arrow()["id"].to_pylist()
        (['PUFFIN'], [2])
        """
        from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeletesRequest
        from deltaberg.iceberg.maintain.rewriting.equality_conversion import EqualityConversion
        from deltaberg.table.rows.row_options import RowOptions

        request = DeletesRequest(where, options=RowOptions.of(arguments))
        return self._rewrite_deletes(EqualityConversion, request, arguments, dry_run=dry_run)

    @takes(RewriteArguments)
    def rewrite_position_delete_files(
        self,
        where: Filter | None = None,
        *,
        min_files: int = 5,
        rewrite_all: bool = False,
        dry_run: bool = False,
        **arguments: Unpack[RewriteArguments],
    ) -> RewriteDeletesResult:
        """Join small position delete files of a partition, and drop what they say of data files that are gone.

        A file is small below three quarters of ``write.delete.target-file-size-bytes``. If each delete file is to be
        about one data file (``write.delete.granularity``), those are joined of which a data file has several, and those
        are divided that are about several. From version 3 of the format on, deletion vectors take the place of all
        position delete files, such as those from before an upgrade. Delete files and deletion vectors that apply to no
        data file leave the table. Deletes of others meanwhile stay. If others add files meanwhile to which one of the
        removed files applies, or take vectors or files away, the work is planned anew.

        Parameters
        ----------
        where
            Only deletes of rows of files in which rows can match this filter. Delete files that apply to further files
            stay.
        min_files
            How many files are joined at least.
        rewrite_all
            Rewrite position delete files whatever their size and their number.
        dry_run
            Only say how many delete files would go, and how many data files they may be about.
        **arguments
            How delete files are written, which tables of version 3 do not get, and how the commit is made: see `Verbs`.

        Returns
        -------
        RewriteDeletesResult
            The commit, and the delete files in numbers.

        Raises
        ------
        InvalidArgumentError
            An argument, or a property of the table, is not valid.
        UnsupportedFeatureError
            The table needs what is not written.
        CommitConflictError
            Others got in the way every time. Nothing was committed.
        CommitUnknownError
            It is not known whether the commit took effect.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> properties = {"write.delete.granularity": "partition"}
        >>> table = create_table(f"{new_path}/joined", {"id": pa.int64()}, format="iceberg", properties=properties)
        >>> _ = table.append(pa.table({"id": list(range(10))}))
        >>> for number in range(5):
        ...     _ = table.delete(f"id = {number}", strategy="merge-on-read")
        >>> table.rewrite_position_delete_files()
        RewriteDeletesResult(5 delete files into 1, of 1 data files)
        """
        from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeletesRequest
        from deltaberg.iceberg.maintain.rewriting.position_rewrite import PositionRewrite
        from deltaberg.table.rows.row_options import RowOptions

        least = checked_number("min_files", min_files, 2, "a single file cannot be joined; pass ⟪rewrite_all⟫")
        request = DeletesRequest(where, least, checked_flag("rewrite_all", rewrite_all), RowOptions.of(arguments))
        return self._rewrite_deletes(PositionRewrite, request, arguments, dry_run=dry_run)

    @takes(AttemptArguments)
    def compute_partition_stats(
        self,
        snapshot_id: int | None = None,
        **commit: Unpack[AttemptArguments],
    ) -> PartitionStatsResult | None:
        """Compute how many files and rows each partition of a snapshot has, for engines that plan with that.

        The statistics are a Parquet file that the metadata names beside the snapshot (Iceberg spec, "Partition
        Statistics"). If an ancestor of the snapshot has such a file, only what later snapshots added is summed up, and
        the partitions that they removed files from. No data file is read.

        Parameters
        ----------
        snapshot_id
            The snapshot; by default the newest one.
        **commit
            How the commit is made: see `Verbs`.

        Returns
        -------
        PartitionStatsResult or None
            The file, and how many partitions there are. Without a commit, if the table had it already; None if the
            table has no snapshot.

        Raises
        ------
        InvalidArgumentError
            The table was never partitioned, or an argument is not valid.
        VersionNotFoundError
            The table has no such snapshot, or has it no more.
        DataFileNotFoundError, CorruptTableError
            A manifest cannot be read. Nothing was committed.
        CommitConflictError
            Other commits came first every time. Nothing was committed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> columns = {"id": pa.int64(), "day": pa.date32()}
        >>> table = create_table(f"{new_path}/counted", columns, format="iceberg", partition_by=["day"])
        >>> _ = table.append(pa.table({"id": [1, 2, 3], "day": pa.array([0, 0, 1], pa.date32())}))
        >>> table.compute_partition_stats().partitions
        2
        """
        from deltaberg.iceberg.maintain.statistics.compute_partition_stats import compute_partition_stats

        return compute_partition_stats(self._stats_request(snapshot_id, commit))

    @takes(MeasureArguments)
    def compute_table_stats(
        self,
        columns: ColumnNames | None = None,
        snapshot_id: int | None = None,
        **commit: Unpack[MeasureArguments],
    ) -> TableStatsResult | None:
        """Estimate how many distinct values columns of a snapshot have, for engines that plan joins with that.

        The statistics are a Puffin file that the metadata names beside the snapshot (Iceberg spec, "Table Statistics").
        It has a theta sketch for each column, as iceberg-spark writes it, of the values that are not null and not an
        empty text. What the file of the snapshot has already is taken over. Only the columns are read that are
        missing.

        Parameters
        ----------
        columns
            The names of the columns, where dots lead into structs; by default all columns outside of structs whose
            values have a single-value form, which all primitive types but variants and void have.
        snapshot_id
            The snapshot; by default the newest one.
        **commit
            How the commit is made, and ``progress``, which counts the rows that were read: see `Verbs`.

        Returns
        -------
        TableStatsResult or None
            The file, and the number of distinct values of each column (``ndv``). Without a commit, if the table had all
            of them already; None if the table has no snapshot.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        InvalidArgumentError
            Values of a column have no single-value form, or an argument is not valid.
        VersionNotFoundError
            The table has no such snapshot, branch or tag, or has it no more.
        DataFileNotFoundError, CorruptTableError
            A file cannot be read. Nothing was committed.
        CommitConflictError
            Other commits came first every time. Nothing was committed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/distinct", {"id": pa.int64(), "kind": pa.string()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1, 2, 3], "kind": ["a", "b", "a"]}))
        >>> table.compute_table_stats().ndv
        {'id': 3, 'kind': 2}
        """
        from deltaberg.iceberg.maintain.statistics.compute_table_stats import compute_table_stats

        return compute_table_stats(self._stats_request(snapshot_id, commit), columns, self._row_tasks)

    def _begin(self, options: CommitOptions) -> IcebergTransaction:
        from deltaberg.iceberg.maintain.auto_compact import compact_after
        from deltaberg.iceberg.operations import IcebergOperations
        from deltaberg.iceberg.table_transaction import IcebergTransaction
        from deltaberg.iceberg.transaction.transaction import Transaction

        committer = self._pointer.committer(unsafe_single_writer=options.unsafe_single_writer)
        asked = replace(options, branch=options.branch or self._options.ref)
        tell, zone = self._committed, self._options.timezone
        transaction = Transaction(self._loaded, committer, asked, timezone=zone, committed=tell)
        transaction.follow = partial(compact_after, committer=committer, tell=tell)
        return IcebergTransaction(IcebergOperations(transaction))

    def _compact(self, begin: Callable[[], Any], compaction: Compaction) -> CompactResult:
        from deltaberg.iceberg.maintain.compact import compact_iceberg

        return compact_iceberg(begin, self.refresh, compaction)

    def _maintenance(self, policy: MaintenancePolicy) -> Mapping[MaintenanceStep, Step]:
        from deltaberg.iceberg.maintain.iceberg_steps import iceberg_steps

        own = iceberg_steps(lambda: self.refresh().metadata, partial(getattr, self), policy)
        # A compaction writes files anew to which keys apply, however few rows these delete.
        first: MaintenanceStep = "convert_equality_deletes"
        return {first: own[first], **super()._maintenance(policy), **own}

    def _restore(self, begin: Callable[[], Any], asked: RestoreRequest) -> RestoreResult:
        from deltaberg.iceberg.maintain.rollback import roll_back
        from deltaberg.iceberg.operations import IcebergOperations

        return roll_back(begin, asked, lambda made: IcebergOperations(made).alter(is_part=False))

    def _clone(self, asked: CloneRequest) -> CloneResult:
        from deltaberg.iceberg.maintain.clone import clone_table

        return clone_table(self._source, asked, self._file_tasks)

    def _verify(self, depth: VerifyDepth, told: Told, *, is_pinned: bool) -> VerifyResult:
        from deltaberg.iceberg.maintain.verify import verify_table

        def newest() -> tuple[LoadedTable, IcebergSource]:
            opened = self if is_pinned else self._newest()
            return opened._loaded, opened._source  # noqa: SLF001 - it is of the same class

        with_refs = not is_pinned and self._options.ref is None
        return verify_table(newest, depth, self._file_tasks, told, is_pinned=is_pinned, with_refs=with_refs)

    def _repair(self, findings: list[Finding] | None, begin: Callable[[], Any], *, dry_run: bool) -> RepairResult:
        from deltaberg.iceberg.maintain.repair import repair_table

        return repair_table(findings, begin, self._file_tasks, dry_run=dry_run)

    def _follow(self, asked: FollowRequest) -> tuple[TableStream[Any], Any]:
        from deltaberg.iceberg.streams import followed

        return followed(self, asked)

    def _newest(self) -> IcebergTable:
        return open_iceberg_table(self._pointer, self._options)


def open_iceberg_table(location: str | os.PathLike[str] | TablePointer, options: OpenOptions) -> IcebergTable:
    """Open a table with arguments that were checked before."""
    table = IcebergTable.__new__(IcebergTable)
    table._open(location, options)  # noqa: SLF001 - another way to construct one
    return table
