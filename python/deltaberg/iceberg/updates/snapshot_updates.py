"""Changes of the snapshots of a table, and of the references to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import ConstraintViolationError, InvalidArgumentError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import MAIN, SnapshotRef, encode_ref
from deltaberg.iceberg.metadata.snapshots import Snapshot, encode_snapshot
from deltaberg.iceberg.metadata.statistics_files import read_statistics_file
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE
from deltaberg.iceberg.updates.draft import Draft
from deltaberg.iceberg.updates.update import Update, protocol_name

__all__ = [
    "AddSnapshot",
    "RemovePartitionStatistics",
    "RemoveSnapshotRef",
    "RemoveSnapshots",
    "RemoveStatistics",
    "SetPartitionStatistics",
    "SetSnapshotRef",
    "SetStatistics",
]


@dataclass(frozen=True)
class AddSnapshot(Update):
    """Add a snapshot, which no branch or tag names yet."""

    snapshot: Snapshot

    def apply(self, draft: Draft) -> None:
        """Add the snapshot, and move on the sequence number and the next row id."""
        new, raw = self.snapshot, draft.raw
        if draft.find("snapshots", "snapshot-id", new.snapshot_id) is not None:
            raise ConstraintViolationError(f"the table has a snapshot {new.snapshot_id} already")
        if draft.version > 1:
            last = raw["last-sequence-number"]
            if new.sequence_number <= last and not (new.parent_snapshot_id is None and new.sequence_number == last):
                raise ConstraintViolationError(
                    f"the sequence number {new.sequence_number} of a new snapshot is not above {last}"
                )
            raw["last-sequence-number"] = new.sequence_number
        if draft.version >= ROW_LINEAGE:
            following = raw.get("next-row-id") or 0
            if new.first_row_id is None or new.added_rows is None or new.first_row_id < following:
                raise ConstraintViolationError(
                    f"first-row-id of a new snapshot is {new.first_row_id} and added-rows {new.added_rows}, "
                    f"but the next row id is {following}"
                )
            raw["next-row-id"] = new.first_row_id + new.added_rows
        draft.append("snapshots", encode_snapshot(new))


@dataclass(frozen=True)
class SetSnapshotRef(Update):
    """Create a branch or a tag, or move it. The branch ``main`` is the current state of the table.

    Parameters
    ----------
    if_absent
        Whether one that others create meanwhile is left alone.
    """

    ref_name: str
    ref: SnapshotRef
    if_absent: bool = False

    def is_left(self, metadata: TableMetadata) -> bool:
        """Return whether metadata has such a branch or tag, which is left alone."""
        known = metadata.all_refs.get(self.ref_name)
        return self.if_absent and known is not None and known.type == self.ref.type

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the change, which is that of the reference with its name."""
        return {"action": protocol_name(self), "ref-name": self.ref_name, **encode_ref(self.ref)}

    def apply(self, draft: Draft) -> None:
        """Set the reference."""
        if draft.find("snapshots", "snapshot-id", self.ref.snapshot_id) is None:
            raise InvalidArgumentError(f"the table has no snapshot {self.ref.snapshot_id}")
        if self.ref_name == MAIN:
            if self.ref.type != "branch":
                raise InvalidArgumentError("main is a branch, and cannot become a tag")
            draft.set_current(self.ref.snapshot_id)
        draft.raw["refs"] = {**draft.refs, self.ref_name: encode_ref(self.ref)}


@dataclass(frozen=True)
class RemoveSnapshotRef(Update):
    """Remove a branch or a tag. Without ``main`` the table has no current snapshot."""

    ref_name: str

    def apply(self, draft: Draft) -> None:
        """Remove the reference, if it is there."""
        draft.raw["refs"] = {name: ref for name, ref in draft.refs.items() if name != self.ref_name}
        if self.ref_name == MAIN:
            draft.set_current(None)


@dataclass(frozen=True)
class RemoveSnapshots(Update):
    """Remove snapshots, with the references to them and their statistics."""

    snapshot_ids: tuple[int, ...]

    def apply(self, draft: Draft) -> None:
        """Remove those of the snapshots that are there."""
        draft.remove_snapshots(self.snapshot_ids)


@dataclass(frozen=True)
class RemoveStatistics(Update):
    """Removes the statistics of a snapshot."""

    snapshot_id: int

    def apply(self, draft: Draft) -> None:
        """Remove the snapshot's statistics, if it has any."""
        draft.keep("statistics", lambda part: read_statistics_file(part).snapshot_id != self.snapshot_id)


@dataclass(frozen=True)
class RemovePartitionStatistics(Update):
    """Removes the statistics of the partitions of a snapshot."""

    snapshot_id: int

    def apply(self, draft: Draft) -> None:
        """Remove the snapshot's statistics, if it has any."""
        draft.keep("partition-statistics", lambda part: read_statistics_file(part).snapshot_id != self.snapshot_id)


@dataclass(frozen=True)
class SetStatistics(Update):
    """Name the file of statistics of a snapshot, in place of another one."""

    statistics: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the change; servers of older protocols want the snapshot beside the entry, too."""
        return {**super().to_json(), "snapshot-id": self.statistics["snapshot-id"]}

    def apply(self, draft: Draft) -> None:
        """Set the entry of the snapshot."""
        _set(draft, "statistics", self.statistics)


@dataclass(frozen=True)
class SetPartitionStatistics(Update):
    """Name the file of partition statistics of a snapshot, in place of another one."""

    partition_statistics: Mapping[str, Any]

    def apply(self, draft: Draft) -> None:
        """Set the entry of the snapshot."""
        _set(draft, "partition-statistics", self.partition_statistics)


def _set(draft: Draft, member: str, entry: Mapping[str, Any]) -> None:
    number = entry["snapshot-id"]
    draft.keep(member, lambda part: read_statistics_file(part).snapshot_id != number)
    draft.append(member, dict(entry))
