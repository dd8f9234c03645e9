"""Table metadata: everything about a table but its files (Iceberg spec, "Table Metadata")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from deltaberg.errors import VersionNotFoundError
from deltaberg.expressions.time.instants import format_instant
from deltaberg.hints import shown_value, verbatim
from deltaberg.iceberg.metadata.snapshot_refs import MAIN, SnapshotRef
from deltaberg.iceberg.metadata.snapshots import LogEntry, MetadataLogEntry, Snapshot
from deltaberg.iceberg.metadata.sort_orders import SortOrder
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING, read_name_mapping
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.schema.name_mapping import NameMapping
from deltaberg.schema.types import Struct
from deltaberg.table.arguments import checked_integer, checked_text

__all__ = ["TableMetadata", "say_the_same", "state_of"]


@dataclass(frozen=True)
class TableMetadata:
    """The metadata of a table. Times are in milliseconds since 1970.

    ``raw`` is the whole JSON object, and the other members are what was understood of it: a change is made to a copy of
    ``raw``, from which the members are then read again, so that what is not understood survives. ``statistics``,
    ``partition_statistics`` and ``encryption_keys`` are kept as they are. ``refs`` are the references that are
    recorded, `all_refs` those that the table has.
    """

    format_version: int
    location: str
    last_updated_ms: int
    table_uuid: str | None
    last_column_id: int | None
    last_partition_id: int | None
    last_sequence_number: int
    schemas: Mapping[int, Schema]
    current_schema_id: int
    specs: Mapping[int, PartitionSpec]
    default_spec_id: int
    sort_orders: Mapping[int, SortOrder]
    default_sort_order_id: int
    properties: Mapping[str, str]
    snapshots: Mapping[int, Snapshot]
    current_snapshot_id: int | None
    refs: Mapping[str, SnapshotRef]
    snapshot_log: tuple[LogEntry, ...]
    metadata_log: tuple[MetadataLogEntry, ...]
    next_row_id: int | None
    statistics: tuple[Mapping[str, Any], ...]
    partition_statistics: tuple[Mapping[str, Any], ...]
    encryption_keys: tuple[Mapping[str, Any], ...]
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def current_schema(self) -> Schema:
        """The schema that new rows are written with."""
        return self.schemas[self.current_schema_id]

    @property
    def known_columns(self) -> list[Struct]:
        """The columns of all schemas, the current one first and then the newest: some may have been dropped since."""
        older = [self.schemas[number].struct for number in sorted(self.schemas, reverse=True)]
        return [self.current_schema.struct, *older]

    @cached_property
    def all_refs(self) -> Mapping[str, SnapshotRef]:
        """The branches and tags, with the main branch that a current snapshot implies where none is recorded."""
        if self.current_snapshot_id is None or MAIN in self.refs:
            return self.refs
        return {**self.refs, MAIN: SnapshotRef(self.current_snapshot_id, "branch")}

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot of the main branch; None if the table has none."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]

    @cached_property
    def name_mapping(self) -> NameMapping | None:
        """The field ids of columns in files that hold no ids; None if the table has no name mapping."""
        return read_name_mapping(self.properties.get(NAME_MAPPING))

    def schema_of(self, snapshot: Snapshot | None) -> Schema:
        """Return the schema that a snapshot was written with; the current one if it does not say."""
        if snapshot is None or snapshot.schema_id is None:
            return self.current_schema
        return self.schemas.get(snapshot.schema_id, self.current_schema)

    def snapshot_by_id(self, number: int) -> Snapshot:
        """Return a snapshot.

        Raises
        ------
        VersionNotFoundError
            If the table does not have it.
        """
        checked = checked_integer("the id of a snapshot", number, "pass one that ⟪history()⟫ shows")
        snapshot = None if checked is None else self.snapshots.get(checked)
        if snapshot is None:
            shown = ", ".join(map(str, sorted(self.snapshots, key=lambda key: self.snapshots[key].timestamp_ms)[-10:]))
            raise VersionNotFoundError(
                f"there is no snapshot {number}: it was expired, or never existed",
                hint=f"the newest snapshots are {shown}" if shown else "the table has no snapshot",
            )
        return snapshot

    def snapshot_of_ref(self, name: str) -> Snapshot | None:
        """Return the snapshot of a branch or a tag; None for the main branch of a table without snapshots.

        Raises
        ------
        VersionNotFoundError
            If the table has no such branch or tag, or not its snapshot.
        """
        checked_text("the name of a reference", name, "pass a name such as main")
        reference = self.all_refs.get(name)
        if reference is None:
            if name == MAIN:
                return self.current_snapshot
            names = ", ".join(sorted({MAIN, *self.refs}))
            raise VersionNotFoundError(
                f"there is no branch or tag {shown_value(name)}", hint=f"the table has {verbatim(names)}"
            )
        return self.snapshot_by_id(reference.snapshot_id)

    def snapshot_as_of(self, millis: int) -> Snapshot:
        """Return the snapshot that was current at a time.

        Raises
        ------
        VersionNotFoundError
            If the snapshot log begins later, or if the time is after the last entry: which snapshot will have been
            current then is not known before it has passed.
        """
        entry = next((found for found in reversed(self.snapshot_log) if found.timestamp_ms <= millis), None)
        times = [candidate.timestamp_ms for candidate in self.snapshot_log]
        if entry is None or millis > max(times):
            hint = "the table has no snapshot log"
            if times:
                hint = f"the snapshot log covers {format_instant(min(times))} to {format_instant(max(times))}"
                hint += "; leave the time out for the newest" if millis > max(times) else ""
            when = format_instant(millis)
            what = f"no snapshot was current at {when}" if entry is None else f"{when} is after the last snapshot"
            raise VersionNotFoundError(what, hint=hint)
        return self.snapshot_by_id(entry.snapshot_id)

    def ancestors(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        """Yield a snapshot, its parent, and so on, as far back as they are still recorded."""
        seen: set[int] = set()
        ancestor: Snapshot | None = snapshot
        while ancestor is not None and ancestor.snapshot_id not in seen:
            yield ancestor
            seen.add(ancestor.snapshot_id)
            parent = ancestor.parent_snapshot_id
            ancestor = None if parent is None else self.snapshots.get(parent)


def state_of(
    metadata: TableMetadata, snapshot_id: int | None, ref: str | None, millis: int | None
) -> tuple[Snapshot | None, Struct]:
    """Return the snapshot that is chosen by its number, its branch or tag, or a time, and the columns to read it by.

    The newest snapshot and branches are read with the current schema of the table, and all others with their own.

    Raises
    ------
    VersionNotFoundError
        If there is no such snapshot, branch or tag.
    """
    if snapshot_id is not None:
        snapshot: Snapshot | None = metadata.snapshot_by_id(snapshot_id)
    elif millis is not None:
        snapshot = metadata.snapshot_as_of(millis)
    elif ref is not None:
        snapshot = metadata.snapshot_of_ref(ref)
        if ref not in metadata.all_refs or metadata.all_refs[ref].type == "branch":
            return snapshot, metadata.current_schema.struct
    else:
        return metadata.current_snapshot, metadata.current_schema.struct
    return snapshot, metadata.schema_of(snapshot).struct


def say_the_same(one: TableMetadata, other: TableMetadata) -> bool:
    """Return whether a table is the same by two metadata, whenever they were written."""
    return one is other or replace(one, last_updated_ms=other.last_updated_ms, raw=other.raw) == other
