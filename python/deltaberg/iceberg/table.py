"""Iceberg tables, opened at one snapshot."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from deltaberg.choices import MetadataTable
from deltaberg.errors import CorruptMetadataError, in_context
from deltaberg.expressions.build.filters import Filter
from deltaberg.iceberg.inspect.tables import inspect_table
from deltaberg.iceberg.location.pointer import FilePointer, LoadedTable, TablePointer
from deltaberg.iceberg.metadata.metadata import TableMetadata, state_of
from deltaberg.iceberg.metadata.snapshot_refs import MAIN, SnapshotRef
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.sort_orders import SortOrder
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.iceberg.rewriting_verbs import IcebergRewriting
from deltaberg.iceberg.scan.changelog import ChangelogSource, chosen_changelog, refuse_options
from deltaberg.iceberg.scan.changes import ChangesSource, snapshots_between
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.statistics_verbs import IcebergStatistics
from deltaberg.iceberg.upkeep import IcebergUpkeep
from deltaberg.iceberg.validate import validate_table
from deltaberg.iceberg.verbs import IcebergVerbs
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Struct
from deltaberg.signatures import public, takes
from deltaberg.storage.location import PathResolver, parse_location
from deltaberg.table.arguments import checked_flag, checked_integer, checked_limit, has_attributes
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import ICEBERG
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.read.scan import Scan
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.verbs.shared_arguments import CommitArguments, IcebergStateArguments, ScanArguments
from deltaberg.table.verbs.table import operations_of
from deltaberg.table.verbs.verification import VerifiedTable

# What writes is loaded by the first write: it has more modules than all that reads.
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.choices import MaintenanceStep, VerifyDepth
    from deltaberg.iceberg.alter.alter import Alteration  # noqa: F401 - it is named in the bases of the class
    from deltaberg.iceberg.table_transaction import IcebergTransaction
    from deltaberg.table.maintain.cloning.cloned import CloneRequest, CloneResult
    from deltaberg.table.maintain.compact import Compaction
    from deltaberg.table.maintain.compact_result import CompactResult
    from deltaberg.table.maintain.maintenance import MaintenancePolicy, Step
    from deltaberg.table.maintain.restored import RestoreRequest, RestoreResult
    from deltaberg.table.maintain.verifying.findings import Finding, VerifyResult
    from deltaberg.table.maintain.verifying.repairs import RepairResult
    from deltaberg.table.streaming.follow import FollowRequest
    from deltaberg.table.streaming.table_stream import TableStream

__all__ = ["IcebergTable", "open_iceberg_table"]


@public
class IcebergTable(
    IcebergVerbs[CommitResult],
    IcebergUpkeep,
    IcebergStatistics,
    IcebergRewriting["IcebergTransaction", "Alteration"],
    VerifiedTable["IcebergTransaction", "Alteration"],
):
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
        metadata = loaded.metadata
        with in_context(table=str(loaded.root)):
            snapshot, schema = state_of(metadata, snapshot_id, self._options.ref, millis)
        self._loaded = loaded
        chosen = self._options.location_map
        is_moved = isinstance(chosen, str)
        mapping = {metadata.location: str(loaded.root)} if isinstance(chosen, str) else chosen
        resolver = PathResolver(loaded.root, mapping, encoded=False, any_store=is_moved)
        self._source = IcebergSource.of(loaded, snapshot, schema, resolver)

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
        before = self.metadata.table_uuid
        loaded = self._pointer.load(self._loaded)
        if loaded is self._loaded and self._is_newest:
            return self
        if before is not None and loaded.metadata.table_uuid != before:
            raise CorruptMetadataError(
                f"the table-uuid changed from {before} to {loaded.metadata.table_uuid}: this is another table",
                hint="open the table again",
                table=self.location,
            )
        self._set(loaded, None, None)
        self._is_newest = True
        return self

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
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        carry_over: bool = False,
        net_changes: bool = False,
        compute_updates: bool | None = None,
        identifier_columns: Sequence[str] | None = None,
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
        last, found = self._range_of(start, end)
        source = self._source.at(last)
        if checked_flag("carry_over", carry_over):
            refuse_options(net_changes, compute_updates, identifier_columns)
            changes = ChangesSource(source, found)
        else:
            ids = self.metadata.current_schema.identifier_field_ids
            kinds = chosen_changelog(source.schema, ids, net_changes, compute_updates, identifier_columns)
            changes = ChangelogSource(source, found, kinds)
        return self._scan(changes, filter, columns, limit, options, execution)

    @takes(ScanArguments)
    def appends(
        self,
        start: int | None,
        end: int | None = None,
        filter: Filter | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        options: ScanOptions | None = None,
        **execution: Unpack[ScanArguments],
    ) -> Scan:
        """Return a scan of the rows that were appended between two snapshots: the incremental append scan.

        Snapshots that are not appends are skipped. The parameters are those of `changes`.
        """
        last, found = self._range_of(start, end)
        source = ChangesSource(self._source.at(last), found, appends=True)
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
        from deltaberg.iceberg.refs.cherry_pick import staged_snapshot

        branch = commit.get("branch")
        return self._pick(
            staged_snapshot(self.metadata, wap_id), {**commit, "branch": MAIN if branch is None else branch}
        )

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
        return self._pick(self.metadata.snapshot_by_id(snapshot_id), commit)

    def _pick(self, picked: Snapshot, commit: Mapping[str, Any]) -> CommitResult:
        from deltaberg.iceberg.refs.cherry_pick import about_pick, pick_snapshot

        said: Any = {**commit, "properties": about_pick(picked)}
        return pick_snapshot(
            lambda: operations_of(self.transaction(**said)).transaction, lambda: self.refresh().metadata, picked
        )

    def _begin(self, options: CommitOptions) -> IcebergTransaction:
        from deltaberg.iceberg.operations import IcebergOperations
        from deltaberg.iceberg.table_transaction import IcebergTransaction
        from deltaberg.iceberg.transaction.transaction import Transaction

        made = Transaction(
            self._loaded,
            self._pointer.committer(unsafe_single_writer=options.unsafe_single_writer),
            replace(options, branch=options.branch or self._options.ref),
            timezone=self._options.timezone,
            committed=lambda loaded: self._set(loaded, None, None),
        )
        return IcebergTransaction(IcebergOperations(made))

    def _compact(self, begin: Callable[[], Any], compaction: Compaction) -> CompactResult:
        from deltaberg.iceberg.maintain.compact import IcebergRewrite
        from deltaberg.table.maintain.compact import compact_table

        return compact_table(begin, self.refresh, compaction, IcebergRewrite)

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

    def _verify(self, depth: VerifyDepth, *, is_pinned: bool) -> VerifyResult:
        from deltaberg.iceberg.maintain.verify import verify_table

        def newest() -> tuple[LoadedTable, IcebergSource]:
            opened = self if is_pinned else self._newest()
            return opened._loaded, opened._source  # noqa: SLF001 - it is of the same class

        return verify_table(newest, depth, self._file_tasks, is_pinned=is_pinned)

    def _repair(self, findings: list[Finding] | None, begin: Callable[[], Any] | None) -> RepairResult:
        from deltaberg.iceberg.maintain.repair import repair_table

        return repair_table(lambda: self._newest()._source, findings, begin, self._file_tasks)  # noqa: SLF001 - same class

    def _follow(self, asked: FollowRequest) -> tuple[TableStream[Any], Any]:
        from deltaberg.iceberg.streams import followed

        return followed(self, asked)

    def _newest(self) -> IcebergTable:
        return open_iceberg_table(self._pointer, self._options)

    def _range_of(self, start: int | None, end: int | None) -> tuple[Snapshot | None, list[Snapshot]]:
        """Return the last snapshot of a range, and all of them after its start."""
        start = checked_integer("start", start, "pass the number of a snapshot, or None")
        end = checked_integer("end", end, "pass the number of a snapshot, or None")
        last = self.snapshot if end is None else self.metadata.snapshot_by_id(end)
        return last, snapshots_between(self.metadata, start, last)


def open_iceberg_table(location: str | os.PathLike[str] | TablePointer, options: OpenOptions) -> IcebergTable:
    """Open a table with arguments that were checked before."""
    table = IcebergTable.__new__(IcebergTable)
    table._open(location, options)  # noqa: SLF001 - another way to construct one
    return table
