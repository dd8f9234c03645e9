"""A guard in a catalog, so that an expiry and operations that go back to a snapshot notice each other.

Directories and SQL catalogs take a commit on the very metadata that it was made for. A REST catalog applies the changes
to newer metadata, as long as what they require still holds, and nothing can require that no branch or tag was added. So
an expiry first sets a tag of its own, and looks then at what has a name. Its commit requires that the tag is still
there, and removes it. Whoever goes back to a snapshot removes the tags of expiries that are there after the commit.
Either the expiry finds the new name, or its commit fails, or the snapshot is gone by then, which is said.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from deltaberg.errors import CommitConflictError, DeltabergError, InvalidArgumentError, VersionNotFoundError
from deltaberg.hints import Hint
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
from deltaberg.iceberg.transaction.table_commit import Committed, TableChange
from deltaberg.iceberg.updates.updates import RemoveSnapshotRef, SetSnapshotRef, Update
from deltaberg.table.commit.commit import ClockedPolicy

__all__ = [
    "ExpiryGuard",
    "GuardRemovedError",
    "check_not_guard",
    "check_returned",
    "check_snapshots",
    "guards_of",
    "named_refs",
    "required_snapshots",
    "returned_snapshots",
]

_PREFIX = "deltaberg-expiry-"
_NAME = re.compile(f"{_PREFIX}[0-9a-f]{{16}}")


class GuardRemovedError(CommitConflictError):
    """Somebody has gone back to a snapshot since an expiry looked at what has a name."""


def guards_of(metadata: TableMetadata) -> list[str]:
    """Return the tags that expiries have set, those that were interrupted as well."""
    return sorted(name for name, ref in metadata.all_refs.items() if _is_guard(name, ref))


def named_refs(metadata: TableMetadata) -> Mapping[str, SnapshotRef]:
    """Return the branches and tags that somebody else than an expiry has set."""
    return {name: ref for name, ref in metadata.all_refs.items() if not _is_guard(name, ref)}


def _is_guard(name: str, ref: SnapshotRef) -> bool:
    """Return whether a reference is exactly as expiries set it: whatever else users have given such a name stays."""
    return ref.type == "tag" and ref.max_ref_age_ms == 1 and _NAME.fullmatch(name) is not None


def check_not_guard(name: str) -> None:
    """Refuse the name of a new branch or tag that is one of those that expiries give.

    Raises
    ------
    InvalidArgumentError
        It is.
    """
    if _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"the name {name!r} is one of those that expiries give to tags, and remove", hint="choose another name"
        )


@dataclass
class ExpiryGuard:
    """The tag of one attempt to expire snapshots. If it is left over, any expiry finds it to be older than it may be.

    Parameters
    ----------
    committer
        What commits to the table.
    policy
        How long commits are tried.
    """

    committer: Committer
    policy: ClockedPolicy
    # No two attempts have the same one, so that one that is there again is not taken for one that was never removed.
    name: str = field(default_factory=lambda: f"{_PREFIX}{uuid.uuid4().hex[:16]}", init=False)

    def put(self, loaded: LoadedTable, snapshot_ids: Collection[int]) -> LoadedTable:
        """Set the tag, and return the table with it; without it if there is nothing left to expire.

        Parameters
        ----------
        loaded
            The newest metadata that is known.
        snapshot_ids
            The snapshots that are to expire.
        """

        def make(metadata: TableMetadata) -> tuple[list[SetSnapshotRef], None] | None:
            # Another expiry may be faster.
            left = next((one for one in snapshot_ids if one in metadata.snapshots), None)
            return (
                None
                if left is None
                else ([SetSnapshotRef(self.name, SnapshotRef(left, "tag", max_ref_age_ms=1))], None)
            )

        return TableChange(self.committer, make, planned=loaded).commit(self.policy).loaded

    def check(self, metadata: TableMetadata) -> None:
        """Refuse to expire anything if the tag was removed."""
        if self.name not in metadata.all_refs:
            raise GuardRemovedError(
                "a branch or a tag was set each time, after it was found out which snapshots have none",
                hint="expire the snapshots again later",
            )

    def drop(self, loaded: LoadedTable) -> None:
        """Remove the tag, if that is possible."""
        with suppress(DeltabergError):
            _without(self.committer, loaded, self.policy)


def _without(committer: Committer, loaded: LoadedTable, policy: ClockedPolicy | None) -> LoadedTable:
    """Remove the tags of expiries, and return the newest state of the table."""

    def make(metadata: TableMetadata) -> tuple[list[RemoveSnapshotRef], None] | None:
        found = [RemoveSnapshotRef(name) for name in guards_of(metadata)]
        return (found, None) if found else None

    return TableChange(committer, make, planned=loaded).commit(policy).loaded


def returned_snapshots(updates: Iterable[Update], picked: Collection[int]) -> set[int]:
    """Return the snapshots that changes go back to: by a branch or a tag, or because their files are added again."""
    return {*picked, *(one.ref.snapshot_id for one in updates if isinstance(one, SetSnapshotRef))}


def check_snapshots(metadata: TableMetadata, snapshot_ids: Iterable[int]) -> None:
    """Refuse to go back to snapshots that the table does not have any more."""
    for number in snapshot_ids:
        metadata.snapshot_by_id(number)


def required_snapshots(committer: Committer, snapshot_ids: Collection[int]) -> list[Update]:
    """Return changes that leave a table as it is, and that a catalog refuses where one of some snapshots is gone.

    No requirement of the protocol says that a snapshot is there, but no branch or tag may name one that is not.
    """
    if not committer.applies_to_newer:
        return []
    name = f"{_PREFIX}{uuid.uuid4().hex[:16]}"
    named = [(SetSnapshotRef(name, SnapshotRef(one, "tag")), RemoveSnapshotRef(name)) for one in snapshot_ids]
    return [update for pair in named for update in pair]


def check_returned(
    committer: Committer, done: Committed, snapshot_ids: Collection[int], policy: ClockedPolicy | None
) -> None:
    """Make sure that the snapshots that a commit went back to stay in the table.

    Parameters
    ----------
    committer
        What has committed to the table.
    done
        The commit.
    snapshot_ids
        The snapshots.
    policy
        How long the removal of tags of expiries is tried.

    Raises
    ------
    VersionNotFoundError
        A snapshot is not in the table any more. The commit has landed.
    """
    if not snapshot_ids:
        return
    loaded = done.loaded
    if committer.applies_to_newer and guards_of(loaded.metadata):
        loaded = _without(committer, loaded, policy)
    gone = sorted(set(snapshot_ids) - loaded.metadata.snapshots.keys())
    if gone:
        raise VersionNotFoundError(
            f"the change was committed, but it went back to the snapshot {gone[0]}, which another commit has expired "
            "at the same time, with its files",
            hint=Hint('choose one that ⟪inspect("snapshots")⟫ shows, and commit the change again for it'),
            token=done.token,
        )
