"""Changes of the snapshots of a table, of the references to them, and of their statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from deltaberg.errors import ConstraintViolationError, InvalidArgumentError
from deltaberg.iceberg.metadata.draft import Draft
from deltaberg.iceberg.metadata.refs import MAIN, SnapshotRef, encode_ref
from deltaberg.iceberg.metadata.snapshots import Snapshot, encode_snapshot
from deltaberg.iceberg.metadata.update import Update
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE

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

    action = "add-snapshot"
    snapshot: Snapshot

    def _members(self) -> dict[str, Any]:
        return {"snapshot": encode_snapshot(self.snapshot)}

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
    """Create a branch or a tag, or move it. The branch ``main`` is the current state of the table."""

    action = "set-snapshot-ref"
    ref_name: str
    ref: SnapshotRef

    def _members(self) -> dict[str, Any]:
        return {"ref-name": self.ref_name, **encode_ref(self.ref)}

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

    action = "remove-snapshot-ref"
    ref_name: str

    def _members(self) -> dict[str, Any]:
        return {"ref-name": self.ref_name}

    def apply(self, draft: Draft) -> None:
        """Remove the reference, if it is there."""
        draft.raw["refs"] = {name: ref for name, ref in draft.refs.items() if name != self.ref_name}
        if self.ref_name == MAIN:
            draft.set_current(None)


@dataclass(frozen=True)
class RemoveSnapshots(Update):
    """Remove snapshots, with the references to them and their statistics."""

    action = "remove-snapshots"
    snapshot_ids: tuple[int, ...]

    def _members(self) -> dict[str, Any]:
        return {"snapshot-ids": list(self.snapshot_ids)}

    def apply(self, draft: Draft) -> None:
        """Remove those of the snapshots that are there."""
        draft.remove_snapshots(self.snapshot_ids)


class _OfSnapshot(Update):
    """A change of the statistics of a snapshot."""

    member: ClassVar[str]

    def _replace(self, draft: Draft, snapshot_id: Any, part: Mapping[str, Any] | None) -> None:
        draft.keep(self.member, lambda one: one.get("snapshot-id") != snapshot_id)
        if part is not None:
            draft.append(self.member, part)


@dataclass(frozen=True)
class SetStatistics(_OfSnapshot):
    """Set the statistics file of a snapshot, given as its JSON object."""

    action = "set-statistics"
    member = "statistics"
    statistics: Mapping[str, Any]

    def _members(self) -> dict[str, Any]:
        # Older servers want the id of the snapshot beside the file.
        return {"snapshot-id": self.statistics["snapshot-id"], "statistics": dict(self.statistics)}

    def apply(self, draft: Draft) -> None:
        """Set the statistics file."""
        self._replace(draft, self.statistics["snapshot-id"], self.statistics)


@dataclass(frozen=True)
class RemoveStatistics(_OfSnapshot):
    """Remove the statistics file of a snapshot."""

    action = "remove-statistics"
    member = "statistics"
    snapshot_id: int

    def _members(self) -> dict[str, Any]:
        return {"snapshot-id": self.snapshot_id}

    def apply(self, draft: Draft) -> None:
        """Remove the statistics file, if there is one."""
        self._replace(draft, self.snapshot_id, None)


@dataclass(frozen=True)
class SetPartitionStatistics(_OfSnapshot):
    """Set the file with partition statistics of a snapshot, given as its JSON object."""

    action = "set-partition-statistics"
    member = "partition-statistics"
    partition_statistics: Mapping[str, Any]

    def _members(self) -> dict[str, Any]:
        return {"partition-statistics": dict(self.partition_statistics)}

    def apply(self, draft: Draft) -> None:
        """Set the file."""
        self._replace(draft, self.partition_statistics["snapshot-id"], self.partition_statistics)


@dataclass(frozen=True)
class RemovePartitionStatistics(_OfSnapshot):
    """Remove the file with partition statistics of a snapshot."""

    action = "remove-partition-statistics"
    member = "partition-statistics"
    snapshot_id: int

    def _members(self) -> dict[str, Any]:
        return {"snapshot-id": self.snapshot_id}

    def apply(self, draft: Draft) -> None:
        """Remove the file, if there is one."""
        self._replace(draft, self.snapshot_id, None)
