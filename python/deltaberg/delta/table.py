"""A Delta table: a snapshot of it, and what can be asked of it."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from deltaberg.delta.actions import Metadata, Protocol, Transaction
from deltaberg.delta.changes import ChangesSource, change_range
from deltaberg.delta.checkpoint import ADD_COLUMNS
from deltaberg.delta.columns import (
    check_constraints,
    column_defaults,
    column_invariants,
    generation_expressions,
    identity_columns,
)
from deltaberg.delta.domains import clustering_columns, row_id_high_water_mark
from deltaberg.delta.features import supported_features
from deltaberg.delta.history import Commit, CommitTimes
from deltaberg.delta.retention import deleted_file_retention, expired
from deltaberg.delta.segment import CheckpointInfo, LogDirectory
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.source import SnapshotSource
from deltaberg.delta.validate import validate_table
from deltaberg.errors import ColumnNotFoundError, CorruptLogError, InvalidArgumentError
from deltaberg.expressions import Filter
from deltaberg.schema import ColumnName, Struct, arrow_schema
from deltaberg.storage import LocationMap, PathResolver, StoreOptions, StoreSpec, parse_location
from deltaberg.table import (
    Instant,
    Scan,
    ScanOptions,
    ScanSource,
    checked_flag,
    checked_limit,
    checked_map,
    checked_options,
    parse_instant,
    scan_options,
    zone_of,
)

if TYPE_CHECKING:
    from deltaberg.delta.columns import IdentityColumn

__all__ = ["DeltaTable"]

_T = TypeVar("_T")
_ROW_FIELDS = ("row_id", "row_commit_version")


class DeltaTable:
    """One snapshot of a Delta table.

    Parameters
    ----------
    location
        The directory of the table: a local path, or the URL of an object store.
    version
        The version to open; the newest by default.
    timestamp
        Open the newest version committed not later than this; without a zone it is in ``timezone``.
    storage_options
        What the store needs: credentials, endpoint and the like, as deltalake or pyiceberg spell them.
    location_map
        Recorded prefixes of absolute paths to where those files are now. Delta tables do not record their own
        location, so ``"auto"`` maps nothing.
    validate
        Report every violation of the protocol that a reader can see. By default only those raise that could make
        rows wrong.
    timezone
        The zone of timestamps without one: partition values, literals, and ``timestamp``.

    Raises
    ------
    TableNotFoundError
        Where there is no Delta table.
    VersionNotFoundError
        Where the table does not hold the version, or no version as old or as new as the timestamp.
    UnsupportedFeatureError
        Where the table needs a feature that this library does not have.
    CorruptTableError
        Where the log or a checkpoint is damaged.

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

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: Instant | None = None,
        storage_options: StoreOptions | None = None,
        location_map: LocationMap | str | None = None,
        validate: bool = False,
        timezone: str = "UTC",
    ) -> None:
        if version is not None and timestamp is not None:
            raise InvalidArgumentError("a table is opened by version or by timestamp, not by both")
        if version is not None and type(version) is not int:
            raise InvalidArgumentError(f"version is {version!r}", hint="pass a number")
        self._timezone = zone_of(timezone)
        root = parse_location(location)
        self._store = StoreSpec(checked_options(storage_options))
        mapped = checked_map(location_map)
        self._resolver = PathResolver(root, None if isinstance(mapped, str) else mapped)
        self._log = LogDirectory(root, self._store)
        if timestamp is not None:
            newest = Snapshot.load(self._log)
            version = CommitTimes(self._log, newest).version_at(parse_instant(timestamp, self._timezone))
            snapshot = newest if version == newest.version else Snapshot.load(self._log, version)
        else:
            snapshot = Snapshot.load(self._log, version)
        self._set(snapshot)
        if checked_flag("validate", validate):
            validate_table(snapshot, self._store, self._resolver)

    def _set(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._source = SnapshotSource(snapshot, self._store, self._resolver, str(self._timezone))

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
        """The columns as table types, with what the format keeps of them."""
        return self._snapshot.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow types."""
        return arrow_schema(self._snapshot.schema)

    @property
    def partition_columns(self) -> list[str]:
        """The columns by which the table is partitioned."""
        return [field.name for field in self._snapshot.partition_fields]

    @property
    def protocol(self) -> Protocol:
        """The versions and features that a client needs."""
        return self._snapshot.protocol

    @property
    def features(self) -> frozenset[str]:
        """The table features that are supported: those that the protocol lists, or that its versions imply."""
        return supported_features(self._snapshot.protocol)

    @property
    def active_features(self) -> frozenset[str]:
        """The supported features that the metadata makes use of, such as ``appendOnly`` where its property is set."""
        return self._snapshot.active_features

    @property
    def metadata(self) -> Metadata:
        """Id, name, description, format and configuration."""
        return self._snapshot.metadata

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return dict(self._snapshot.metadata.configuration)

    @property
    def domain_metadata(self) -> dict[str, str]:
        """The configuration of each live metadata domain, also of those that nobody here understands."""
        return dict(self._snapshot.domains)

    @property
    def transactions(self) -> dict[str, Transaction]:
        """The progress that applications have recorded, by their id."""
        return dict(self._snapshot.transactions)

    @property
    def clustering_columns(self) -> list[tuple[str, ...]]:
        """The columns by which a clustered table is clustered, each as a path of physical names."""
        return self._told(clustering_columns)

    @property
    def row_id_high_water_mark(self) -> int | None:
        """The highest row id that was assigned; None where none was recorded."""
        return self._told(row_id_high_water_mark)

    def _told(self, read: Callable[[Mapping[str, str]], _T]) -> _T:
        """Read a domain that the protocol gives a meaning to."""
        try:
            return read(self._snapshot.domains)
        except CorruptLogError as error:
            raise error.with_context(table=self.location, version=self.version) from None

    @property
    def check_constraints(self) -> dict[str, str]:
        """The CHECK constraints: name to SQL."""
        return check_constraints(self.properties)

    @property
    def invariants(self) -> dict[str, str]:
        """The column invariants: column, with dots into structs, to SQL."""
        return column_invariants(self.schema)

    @property
    def generated_columns(self) -> dict[str, str]:
        """The generation expressions: column to SQL."""
        return generation_expressions(self.schema)

    @property
    def column_defaults(self) -> dict[str, str]:
        """The default values that writers fill in: column to SQL. Reading does not use them."""
        return column_defaults(self.schema)

    @property
    def identity_columns(self) -> dict[str, IdentityColumn]:
        """The identity columns and how their values are made."""
        return identity_columns(self.schema)

    def history(self, limit: int | None = None) -> list[Commit]:
        """Give the commits up to this version, the newest first; those whose log entry was cleaned up are missing."""
        return list(CommitTimes(self._log, self._snapshot).commits(checked_limit(limit)))

    @property
    def timestamp(self) -> dt.datetime:
        """When the version was committed."""
        millis = CommitTimes(self._log, self._snapshot).time_of(self.version)
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=millis)

    @property
    def checkpoint(self) -> CheckpointInfo | None:
        """The checkpoint that the snapshot was read from; None where the log alone was read."""
        return CheckpointInfo.of(self._snapshot.checkpoint)

    @property
    def is_append_only(self) -> bool:
        """Whether the active feature ``appendOnly`` forbids to remove rows."""
        return "appendOnly" in self._snapshot.active_features

    @property
    def live_files(self) -> pa.Table:
        """The live files as the log records them: the fields of ``add`` but its statistics, a row a file.

        `scan` gives what is read of them: `Scan.files` has typed partition values and places.
        """
        return self._snapshot.live.select([child.name for child in ADD_COLUMNS])

    @property
    def tombstones(self) -> pa.Table:
        """The removed files that are still recorded, which vacuum must spare until they expire."""
        return self._snapshot.tombstones

    def expired_tombstones(self, at: Instant | None = None) -> pa.Table:
        """Give the removed files that vacuum may delete at an instant, now by default.

        The table's ``delta.deletedFileRetentionDuration`` decides, which is a week where it is not set.

        Examples
        --------
        >>> len(table.expired_tombstones("2026-01-01"))
        0
        """
        instant = dt.datetime.now(dt.timezone.utc) if at is None else at
        millis = parse_instant(instant, self._timezone)
        return expired(self.tombstones, millis, deleted_file_retention(self.properties))

    def refresh(self) -> DeltaTable:
        """Move to the newest version, reading only what is new; scans made before keep theirs.

        Raises
        ------
        TableNotFoundError
            Where the table was deleted meanwhile.
        VersionNotFoundError
            Where its log was deleted and written anew: this is another table, which has to be opened.
        """
        newer = self._snapshot.newer()
        if newer is not self._snapshot:
            self._set(newer)
        return self

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
            Names of columns; dots lead into structs. ``_metadata`` gives where rows come from.
        limit
            How many rows at most.
        options
            How the scan is executed; single options can be given by name instead, as ``batch_size=1000``.
        """
        chosen = scan_options(options, execution, str(self._timezone))
        return _scan(self._source, filter, columns, limit, chosen)

    def changes(
        self,
        start: int | Instant,
        end: int | Instant | None = None,
        filter: Filter | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        options: ScanOptions | None = None,
        **execution: Any,
    ) -> Scan:
        """Describe the rows that changed from one version to another, both included.

        Besides the table's columns there are ``_change_type`` (``insert``, ``delete``, ``update_preimage`` or
        ``update_postimage``), ``_commit_version`` and ``_commit_timestamp``. Where a commit recorded its changes
        they are read; else they are derived from the files that it added and removed, in which case an update
        shows as deletes and inserts.

        Parameters
        ----------
        start, end
            Versions, or instants: from the first commit not before ``start`` to the last not after ``end``. The end
            is this snapshot's version by default.
        """
        chosen = scan_options(options, execution, str(self._timezone))
        times = CommitTimes(self._log, self._snapshot)
        first, last = change_range(times, self._snapshot, start, end, self._timezone)
        snapshot = self._snapshot if last == self.version else Snapshot.load(self._log, last)
        source = ChangesSource(snapshot, self._store, self._resolver, str(self._timezone), first, times)
        return _scan(source, filter, columns, limit, chosen)


def _scan(
    source: ScanSource,
    filter: Filter | None,
    columns: Sequence[ColumnName] | None,
    limit: int | None,
    options: ScanOptions,
) -> Scan:
    try:
        return Scan(source, filter=filter, columns=columns, limit=limit, options=options)
    except ColumnNotFoundError as error:
        if str(error.context.get("column", "")).rpartition(".")[2] in _ROW_FIELDS:
            raise ColumnNotFoundError(
                "rows have no ids here: row tracking is not enabled, or these are changes",
                hint="set delta.enableRowTracking on the table",
                table=source.table,
                column=error.context["column"],
            ) from None
        raise
