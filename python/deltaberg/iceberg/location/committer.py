"""The interface of commits to a table, whatever keeps the pointer to its newest metadata: a directory or a catalog."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from deltaberg.errors import DeltabergError
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.updates.requirements import Requirement
from deltaberg.iceberg.updates.updates import AddSnapshot, SetSnapshotRef, Update, apply_updates
from deltaberg.storage.base import PutResult
from deltaberg.table.commit.commit import Fate

__all__ = [
    "Attempt",
    "Committer",
    "Proposal",
    "Trace",
    "fate_by_snapshots",
    "file_digest",
    "is_applied",
    "is_applied_below",
]


@dataclass(frozen=True)
class Proposal:
    """A change that fits on top of the newest metadata of a table.

    Parameters
    ----------
    base
        That metadata; for a table that is to be created, the one that `Committer.stage` returned.
    updates, requirements
        What is changed, and what must still hold.
    snapshot_id
        The snapshot that the updates add, which is the same in every attempt; None if they add none.
    is_new
        Whether the table is to be created.
    now_ms
        The time in milliseconds since 1970.
    """

    base: LoadedTable
    updates: tuple[Update, ...]
    requirements: tuple[Requirement, ...]
    snapshot_id: int | None
    is_new: bool
    now_ms: int


@dataclass(frozen=True)
class Trace:
    """The marks of a commit that later metadata still shows.

    Parameters
    ----------
    snapshot_id
        The snapshot that the commit added, if it added one.
    file
        The name of the metadata file that it wrote; None where that is not known.
    updated_ms
        The time of the last change in that file.
    digest
        The digest of its bytes, where others may give a file the same name.
    is_own_name
        Whether nobody else gives a file this name. In a directory two writers can write the same version in the same
        millisecond, or by clocks that are behind.
    """

    snapshot_id: int | None
    file: str | None
    updated_ms: int | None
    digest: str | None = None
    is_own_name: bool = False

    def is_in(self, metadata: TableMetadata) -> bool:
        """Return whether metadata that is read after the commit proves it."""
        if self.snapshot_id is not None and (
            self.snapshot_id in metadata.snapshots
            or any(entry.snapshot_id == self.snapshot_id for entry in metadata.snapshot_log)
        ):
            return True
        return self.is_own_name and self.is_named_in(metadata)

    def is_named_in(self, metadata: TableMetadata) -> bool:
        """Return whether the log of metadata files has one of this name and time."""
        return any(
            entry.metadata_file.rpartition("/")[2] == self.file and entry.timestamp_ms == self.updated_ms
            for entry in metadata.metadata_log
        )


def file_digest(data: bytes) -> str:
    """Return what tells a metadata file from others of its name."""
    return hashlib.sha256(data).hexdigest()[:16]


def fate_by_snapshots(proposal: Proposal, newest: TableMetadata) -> Fate:
    """Return what newer metadata tells of a proposal that it does not show.

    Each snapshot takes the next sequence number, so it is lost where another one has taken that. Where nobody has, it
    has not landed; since its id stays the same, an attempt that arrives late cannot land beside a later one. Version 1
    has no sequence numbers: there, it has not landed if none of the snapshots before it was expired.
    """
    own = next((update.snapshot for update in proposal.updates if isinstance(update, AddSnapshot)), None)
    if own is None:
        return Fate.HIDDEN
    snapshots = newest.snapshots.values()
    if newest.format_version == 1:
        return Fate.LOST if proposal.base.metadata.snapshots.keys() <= newest.snapshots.keys() else Fate.HIDDEN
    if newest.last_sequence_number == proposal.base.metadata.last_sequence_number:
        return Fate.LOST
    return Fate.LOST if any(found.sequence_number == own.sequence_number for found in snapshots) else Fate.HIDDEN


def is_applied(updates: Iterable[Update], metadata: TableMetadata) -> bool:
    """Return whether changes would leave metadata as it is, because they were made to it already."""
    moment = metadata.last_updated_ms
    try:
        found = apply_updates(metadata, tuple(updates), now_ms=moment)
    except DeltabergError:
        return False
    return bool(found.raw == apply_updates(metadata, (), now_ms=moment).raw)


def is_applied_below(updates: Iterable[Update], base: TableMetadata, later: TableMetadata) -> bool:
    """Return whether later metadata has the changes that were made to a base, also where others went on from them.

    A branch that was moved to a snapshot need not be there any more: others may have committed on top of it.
    """
    return is_applied([one for one in updates if not _has_gone_on(one, base, later)], later)


def _has_gone_on(update: Update, base: TableMetadata, later: TableMetadata) -> bool:
    """Return whether a branch has come to lead through the snapshot that it was moved to.

    Where it did so before, or was not there, others may have moved it to one of the snapshots of the base, which leads
    there as well. Then only snapshots that came later, on top of that one, prove the move.
    """
    if not isinstance(update, SetSnapshotRef) or update.ref.type != "branch":
        return False
    before, after = _branch_history(base, update.ref_name), _branch_history(later, update.ref_name)
    target = update.ref.snapshot_id
    if target not in after:
        return False
    is_new_there = bool(before) and target not in before
    return is_new_there or base.snapshots.keys().isdisjoint(after[: after.index(target)])


def _branch_history(metadata: TableMetadata, branch: str) -> list[int]:
    """Return the ids of the snapshots of a branch, from the newest one back."""
    ref = metadata.all_refs.get(branch)
    newest = None if ref is None else metadata.snapshots.get(ref.snapshot_id)
    return [] if newest is None else [one.snapshot_id for one in metadata.ancestors(newest)]


class Attempt(Protocol):
    """One attempt to commit a proposal, whose bytes are built once."""

    @property
    def trace(self) -> Trace:
        """The marks of the attempt that later metadata shows."""

    def send(self) -> PutResult:
        """Send the change. Repeated calls send the same bytes.

        Raises
        ------
        StorageError
            If surely nothing was changed.
        """

    def confirm(self) -> Fate:
        """Return what became of a change that was accepted."""

    def look(self) -> Fate:
        """Return what became of a change for which there was another answer, or none."""

    def discard(self) -> None:
        """Delete what the attempt has written. It is called only where it is known that the attempt is lost."""

    def finish(self) -> tuple[LoadedTable, list[str]]:
        """Return the table as it was committed, and what failed after the commit, a sentence each."""


class Committer(Protocol):
    """Commits changes to one table."""

    @property
    def applies_to_newer(self) -> bool:
        """Whether changes may be made to newer metadata than they were made for, if what they require still holds."""

    def load(self, cached: LoadedTable | None = None) -> LoadedTable | None:
        """Return the newest metadata, to commit on top of it; None if there is no table.

        ``cached`` is returned itself, without reading it again, if it still is the newest.
        """

    def stage(self, raw: Mapping[str, Any]) -> LoadedTable:
        """Return a table that is to be created with this metadata, so that files can be written for it.

        Nobody sees the table yet. A catalog may change its location and its properties.
        """

    def check(self, metadata: TableMetadata) -> None:
        """Refuse metadata that could not be committed, before any file is written.

        Raises
        ------
        InvalidArgumentError
            If a property has no meaning here, or no valid value.
        """

    def attempt(self, proposal: Proposal) -> Attempt:
        """Build what is sent for a proposal."""
