"""An Iceberg table: a snapshot of it, and what can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from deltaberg.errors import CorruptMetadataError, DeltabergError, InvalidArgumentError, VersionNotFoundError
from deltaberg.expressions import Filter
from deltaberg.iceberg.changes import ChangesSource, snapshots_between
from deltaberg.iceberg.inspect import inspect_table
from deltaberg.iceberg.metadata import TableMetadata
from deltaberg.iceberg.pointer import FilePointer, LoadedTable, TablePointer
from deltaberg.iceberg.snapshots import Snapshot, SnapshotRef
from deltaberg.iceberg.source import IcebergSource
from deltaberg.iceberg.spec import PartitionSpec, SortOrder
from deltaberg.iceberg.validate import validate_table
from deltaberg.schema import ColumnName, Struct, arrow_schema
from deltaberg.storage import Location, LocationMap, PathResolver, StoreOptions, StoreSpec, parse_location
from deltaberg.table import (
    Instant,
    Scan,
    ScanOptions,
    checked_flag,
    checked_map,
    checked_options,
    checked_text,
    parse_instant,
    scan_options,
    zone_of,
)

__all__ = ["IcebergTable"]


class IcebergTable:
    """One snapshot of an Iceberg table.

    Parameters
    ----------
    location
        The directory of the table, or a metadata file: a local path, or the URL of an object store. Catalogs pass what
        finds the newest metadata of one of their tables.
    snapshot_id
        The snapshot to open; the newest of the main branch by default.
    ref
        The branch or tag to open.
    timestamp
        Open the snapshot that was current then; without a zone it is in ``timezone``.
    storage_options
        What the store needs: credentials, endpoint and the like, as deltalake or pyiceberg spell them.
    location_map
        Recorded prefixes of paths to where those files are now. ``"auto"`` maps the location that the metadata records
        to the directory that the metadata file was found in, which is right for a table that was moved as a whole.
    validate
        Report every violation of the specification that a reader can see. By default only those raise that could make
        rows wrong.
    timezone
        The zone of timestamps without one: literals, and ``timestamp``.

    Raises
    ------
    TableNotFoundError
        Where there is no Iceberg table.
    VersionNotFoundError
        Where the table does not hold the snapshot, branch or tag, or had no snapshot as old as the timestamp.
    UnsupportedFeatureError
        Where the table needs a feature that this library does not have.
    CorruptTableError
        Where the metadata is damaged.

    Examples
    --------
    >>> table = IcebergTable(iceberg_path)
    >>> table.format_version
    2
    >>> table.scan(filter="id >= 2", columns=["name"]).to_arrow().to_pylist()
    [{'name': 'b'}, {'name': 'c'}]
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | TablePointer,
        *,
        snapshot_id: int | None = None,
        ref: str | None = None,
        timestamp: Instant | None = None,
        storage_options: StoreOptions | None = None,
        location_map: LocationMap | str | None = None,
        validate: bool = False,
        timezone: str = "UTC",
    ) -> None:
        given = [
            name
            for name, value in (("snapshot_id", snapshot_id), ("ref", ref), ("timestamp", timestamp))
            if value is not None
        ]
        if len(given) > 1:
            raise InvalidArgumentError(f"a table is opened by {given[0]} or by {given[1]}, not by both")
        _check_snapshot("snapshot_id", snapshot_id)
        self._timezone = zone_of(timezone)
        self._location_map = checked_map(location_map)
        self._ref = None if ref is None else checked_text("ref", ref, "pass the name of a branch or a tag")
        self._pointer = location if isinstance(location, TablePointer) else _file_pointer(location, storage_options)
        self._loaded = self._pointer.load()
        millis = None if timestamp is None else parse_instant(timestamp, self._timezone)
        self._is_newest = snapshot_id is None and millis is None
        self._set(self._loaded, snapshot_id, millis)
        if checked_flag("validate", validate):
            validate_table(self._source)

    def _set(self, loaded: LoadedTable, snapshot_id: int | None, millis: int | None) -> None:
        metadata = loaded.metadata
        try:
            snapshot, schema = _choose(metadata, snapshot_id, self._ref, millis)
        except DeltabergError as error:
            raise error.with_context(table=str(loaded.root)) from None
        self._loaded = loaded
        resolver = _resolver(loaded.root, metadata, self._location_map)
        self._source = IcebergSource(
            metadata, snapshot, schema, loaded.store, resolver, str(loaded.root), str(loaded.file)
        )

    def __repr__(self) -> str:
        number = None if self.snapshot is None else self.snapshot.snapshot_id
        return f"IcebergTable({self.location!r}, snapshot_id={number})"

    @property
    def location(self) -> str:
        """Where the table is; `metadata` has the location that it records."""
        return str(self._loaded.root)

    @property
    def metadata_location(self) -> str:
        """The metadata file that the table was read from."""
        return str(self._loaded.file)

    @property
    def metadata(self) -> TableMetadata:
        """All that the metadata file says."""
        return self._source.metadata

    @property
    def format_version(self) -> int:
        """The version of the format: 1, 2 or 3."""
        return self.metadata.format_version

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is open; None where the table has none."""
        return self._source.snapshot

    @property
    def snapshot_id(self) -> int | None:
        """The number of the snapshot."""
        return None if self.snapshot is None else self.snapshot.snapshot_id

    @property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots that the table still holds, the oldest first."""
        return sorted(self.metadata.snapshots.values(), key=lambda found: (found.timestamp_ms, found.sequence_number))

    @property
    def refs(self) -> dict[str, SnapshotRef]:
        """The branches and tags."""
        return dict(self.metadata.refs)

    @property
    def schema(self) -> Struct:
        """The columns as table types, with their ids."""
        return self._source.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow types."""
        return arrow_schema(self._source.schema)

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
        """Move to the newest snapshot of the branch; scans made before keep theirs.

        Raises
        ------
        CorruptMetadataError
            Where another table has taken the place of this one (``table-uuid``).
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

    def inspect(self, name: str) -> pa.Table:
        """Give a metadata table of the snapshot that is open.

        Parameters
        ----------
        name
            ``snapshots``, ``history``, ``refs``, ``metadata_log_entries``, ``manifests``, ``all_manifests``, ``files``,
            ``data_files``, ``delete_files``, ``entries`` or ``partitions``, with the columns of iceberg-spark's.

        Examples
        --------
        >>> table = IcebergTable(iceberg_path)
        >>> table.inspect("snapshots")["operation"].to_pylist()
        ['append']
        """
        return inspect_table(self._source, name)

    def scan(
        self,
        filter: Filter | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        options: ScanOptions | None = None,
        **execution: Any,
    ) -> Scan:
        """Describe which rows and columns are wanted; nothing is read yet.

        Parameters
        ----------
        filter
            SQL text, an expression of `col`, or tuples as pyarrow takes them.
        columns
            Names of columns; dots lead into structs. The metadata columns ``_file``, ``_pos``, ``_spec_id``,
            ``_partition``, ``_deleted``, and from version 3 on ``_row_id`` and ``_last_updated_sequence_number``, are
            read where they are named; with ``_deleted``, deleted rows are given too.
        limit
            How many rows at most.
        options
            How the scan is executed; single options can be given by name instead, as ``batch_size=1000``.
        """
        chosen = scan_options(options, execution, str(self._timezone))
        return Scan(self._source, filter=filter, columns=columns, limit=limit, options=chosen)

    def changes(
        self,
        start: int | None,
        end: int | None = None,
        filter: Filter | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        options: ScanOptions | None = None,
        **execution: Any,
    ) -> Scan:
        """Describe the rows that changed from one snapshot to another.

        Besides the table's columns there are ``_change_type`` (``insert`` or ``delete``; an update shows as both),
        ``_change_ordinal`` (the number of the snapshot among those of the range), ``_commit_snapshot_id`` and
        ``_commit_timestamp``. Snapshots that only rewrote files change nothing.

        Parameters
        ----------
        start
            The snapshot after which changes are wanted, as iceberg-spark's ``start-snapshot-id``; None for all changes
            since the table was made.
        end
            The last snapshot whose changes are wanted; the one that is open by default.
        """
        return self._between(start, end, False, (filter, columns, limit), options, execution)

    def appends(
        self,
        start: int | None,
        end: int | None = None,
        filter: Filter | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        options: ScanOptions | None = None,
        **execution: Any,
    ) -> Scan:
        """Describe the rows that appends added after one snapshot, up to another: the incremental append scan.

        Snapshots that are no appends are passed over. Parameters are those of `changes`.
        """
        return self._between(start, end, True, (filter, columns, limit), options, execution)

    def _between(
        self,
        start: int | None,
        end: int | None,
        appends: bool,
        wanted: tuple[Filter | None, Sequence[ColumnName] | None, int | None],
        options: ScanOptions | None,
        execution: Mapping[str, Any],
    ) -> Scan:
        chosen = scan_options(options, execution, str(self._timezone))
        condition, columns, limit = wanted
        try:
            _check_snapshot("start", start)
            _check_snapshot("end", end)
            last = self.snapshot if end is None else self.metadata.snapshot_by_id(end)
            found = [] if last is None and start is None else self._range(start, last)
        except DeltabergError as error:
            raise error.with_context(table=self.location) from None
        source = ChangesSource(self._source.at(last), found, appends)
        return Scan(source, filter=condition, columns=columns, limit=limit, options=chosen)

    def _range(self, start: int | None, last: Snapshot | None) -> list[Snapshot]:
        if last is None:
            raise VersionNotFoundError(f"there is no snapshot {start}: the table has none")
        return snapshots_between(self.metadata, start, last)


def _file_pointer(location: str | os.PathLike[str], storage_options: StoreOptions | None) -> TablePointer:
    return FilePointer(parse_location(location), StoreSpec(checked_options(storage_options)))


def _check_snapshot(name: str, value: int | None) -> None:
    """Refuse what is no number of a snapshot."""
    if value is not None and type(value) is not int:
        raise InvalidArgumentError(f"{name} is {value!r:.200}", hint="pass the number of a snapshot, or None")


def _resolver(root: Location, metadata: TableMetadata, location_map: LocationMap | str | None) -> PathResolver:
    mapping = {metadata.location: str(root)} if isinstance(location_map, str) else location_map
    return PathResolver(root, mapping, encoded=False, any_store=isinstance(location_map, str))


def _choose(
    metadata: TableMetadata, snapshot_id: int | None, ref: str | None, millis: int | None
) -> tuple[Snapshot | None, Struct]:
    """Give the snapshot that was asked for, and the schema to read it with.

    A branch is read with the table's schema, as is the newest snapshot; what is past with the schema of its time.
    """
    if snapshot_id is not None:
        found: Snapshot | None = metadata.snapshot_by_id(snapshot_id)
    elif millis is not None:
        found = metadata.snapshot_as_of(millis)
    elif ref is not None:
        found = metadata.snapshot_of_ref(ref)
        if ref not in metadata.refs or metadata.refs[ref].type == "branch":
            return found, metadata.current_schema.struct
    else:
        return metadata.current_snapshot, metadata.current_schema.struct
    return found, metadata.schema_of(found).struct
