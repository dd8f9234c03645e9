"""Branches and tags: creating, moving and dropping them (Iceberg spec, "Snapshot References")."""

from __future__ import annotations

from dataclasses import replace

from deltaberg.errors import CommitConflictError, InvalidArgumentError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.refs import MAIN, SnapshotRef
from deltaberg.iceberg.metadata.updates import RemoveSnapshotRef, SetSnapshotRef

__all__ = ["dropped_reference", "moved_branch", "new_reference", "set_branch"]


def new_reference(
    metadata: TableMetadata,
    name: str,
    kind: str,
    snapshot_id: int | None,
    retention: tuple[int | None, int | None, int | None],
) -> SetSnapshotRef:
    """Return the change that creates a branch or a tag.

    Parameters
    ----------
    kind
        ``branch`` or ``tag``.
    snapshot_id
        The snapshot that it names; None for the newest one of the table.
    retention
        How many snapshots a branch keeps, and how old its snapshots and the reference become, in milliseconds.

    Raises
    ------
    InvalidArgumentError
        There is such a reference, or no such snapshot, or a number is not positive.
    """
    if not name or name in metadata.all_refs:
        raise InvalidArgumentError(f"the name {name!r} is empty, or that of another branch or tag")
    if snapshot_id is None:
        snapshot_id = metadata.current_snapshot_id
    if snapshot_id is None or snapshot_id not in metadata.snapshots:
        what = "no snapshot yet" if snapshot_id is None else f"no snapshot {snapshot_id}"
        raise InvalidArgumentError(f"the table has {what}, which the {kind} {name!r} would name")
    if any(number is not None and (type(number) is not int or number < 1) for number in retention):
        raise InvalidArgumentError(f"what the {kind} {name!r} keeps is not a positive number: {retention}")
    return SetSnapshotRef(name, SnapshotRef(snapshot_id, kind, *retention))


def moved_branch(metadata: TableMetadata, name: str, to: str) -> SetSnapshotRef:
    """Return the change that moves a branch to the snapshot of another reference, which is a descendant of its own.

    Raises
    ------
    InvalidArgumentError, VersionNotFoundError
        There is no such reference.
    CommitConflictError
        The branch has snapshots that the other one does not have.
    """
    ref, target = _found(metadata, name, "branch"), metadata.snapshot_of_ref(to)
    if target is None:
        raise InvalidArgumentError(f"the table has no branch or tag {to!r}")
    if ref.snapshot_id not in (found.snapshot_id for found in metadata.ancestors(target)):
        raise CommitConflictError(f"the branch {name!r} has snapshots that {to!r} does not have")
    return set_branch(metadata, name, target.snapshot_id)


def set_branch(metadata: TableMetadata, name: str, snapshot_id: int) -> SetSnapshotRef:
    """Return the change that moves a branch to a snapshot."""
    ref = metadata.all_refs.get(name) or SnapshotRef(snapshot_id, "branch")
    return SetSnapshotRef(name, replace(ref, snapshot_id=snapshot_id))


def dropped_reference(metadata: TableMetadata, name: str, kind: str) -> RemoveSnapshotRef:
    """Return the change that drops a branch or a tag.

    Raises
    ------
    InvalidArgumentError
        There is no such reference, or it is ``main``.
    """
    if name == MAIN:
        raise InvalidArgumentError("main is the state of the table, and cannot be dropped")
    _found(metadata, name, kind)
    return RemoveSnapshotRef(name)


def _found(metadata: TableMetadata, name: str, kind: str) -> SnapshotRef:
    ref = metadata.all_refs.get(name)
    if ref is None or ref.type != kind:
        raise InvalidArgumentError(f"the table has no {kind} {name!r}")
    return ref
