"""Branches and tags: creating, moving and dropping them (Iceberg spec, "Snapshot References")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

from deltaberg.choices import IfExists
from deltaberg.errors import CommitConflictError, InvalidArgumentError, VersionNotFoundError
from deltaberg.expressions.time.instants import format_instant
from deltaberg.hints import shown_value
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import MAIN, SnapshotRef
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.transaction.expiry_guard import check_not_guard
from deltaberg.iceberg.updates.updates import RemoveSnapshotRef, SetSnapshotRef
from deltaberg.table.arguments import checked_choice, checked_text

__all__ = [
    "Retention",
    "dropped_reference",
    "moved_branch",
    "new_reference",
    "renamed_branch",
    "retained_reference",
    "rollback_target",
    "set_branch",
]


@dataclass(frozen=True)
class Retention:
    """The retention of a reference: which snapshots it keeps, and when it expires itself. Ages are in milliseconds.

    None leaves it to the properties of the table, or to the reference as it is.
    """

    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None

    def of(self, ref: SnapshotRef, name: str) -> SnapshotRef:
        """Return a reference with this retention, where it is given.

        Raises
        ------
        InvalidArgumentError
            A number is not positive, or a tag is to keep snapshots.
        """
        limits: dict[str, Any] = {key: value for key, value in vars(self).items() if value is not None}
        for key, value in limits.items():
            if type(value) is not int or not 0 < value < 1 << (31 if key == "min_snapshots_to_keep" else 63):
                raise InvalidArgumentError(
                    f"{key} of the {ref.type} {name!r} is not a positive number: {shown_value(value)}"
                )
            if ref.type == "tag" and key != "max_ref_age_ms":
                raise InvalidArgumentError(f"the tag {name!r} is one snapshot, and has no {key}", hint="leave it out")
        return replace(ref, **limits)


def new_reference(
    metadata: TableMetadata, name: str, kind: str, snapshot_id: int | None, retention: Retention, if_exists: IfExists
) -> SetSnapshotRef | None:
    """Return the change that creates a branch or a tag, or puts one elsewhere; None if one that is there is left alone.

    Parameters
    ----------
    kind
        ``branch`` or ``tag``.
    snapshot_id
        The snapshot that it names; None for the newest one of the table.
    retention
        What it keeps. One that is replaced keeps what it kept, where this does not say otherwise.
    if_exists
        ``error``, ``ignore`` or ``replace``.

    Raises
    ------
    InvalidArgumentError
        There is such a reference, or an argument is not valid.
    VersionNotFoundError
        The table has no such snapshot.
    """
    checked_choice("if_exists", if_exists, get_args(IfExists), "leave it out to refuse a name that is taken")
    _checked_name(name)
    check_not_guard(name)
    old = metadata.all_refs.get(name)
    if old is not None and (if_exists == "error" or old.type != kind):
        raise InvalidArgumentError(f"the name {name!r} is that of another branch or tag")
    if old is not None and if_exists == "ignore":
        return None
    if snapshot_id is None:
        snapshot_id = metadata.current_snapshot_id
    if snapshot_id is None:
        raise InvalidArgumentError(f"the table has no snapshot yet, which the {kind} {name!r} would name")
    snapshot_id = metadata.snapshot_by_id(snapshot_id).snapshot_id
    ref = SnapshotRef(snapshot_id, kind) if old is None else replace(old, snapshot_id=snapshot_id)
    new = retention.of(ref, name)
    return SetSnapshotRef(name, new, if_exists == "ignore")


def retained_reference(metadata: TableMetadata, name: str, retention: Retention) -> SetSnapshotRef:
    """Return the change of what a branch or a tag keeps, even if it keeps that already.

    Raises
    ------
    InvalidArgumentError
        There is no such reference, or a number is not positive, or a tag is to keep snapshots.
    """
    return SetSnapshotRef(name, retention.of(_found(metadata, name), name))


def moved_branch(metadata: TableMetadata, name: str, to: str) -> SetSnapshotRef | None:
    """Return the change that moves a branch to the snapshot of another reference, which is a descendant of its own.

    A branch that does not exist is created.

    Raises
    ------
    InvalidArgumentError
        The name is that of a tag.
    VersionNotFoundError
        There is no reference ``to``.
    CommitConflictError
        The branch has snapshots that the other one does not have.
    """
    checked_text("the name of a branch", name, "pass text")
    target = metadata.snapshot_of_ref(to)
    if target is None:
        raise InvalidArgumentError(f"the table has no snapshot yet that {name!r} could move to")
    if name not in metadata.all_refs:
        return new_reference(metadata, name, "branch", target.snapshot_id, Retention(), "error")
    ref = _found(metadata, name, "branch")
    if ref.snapshot_id not in (found.snapshot_id for found in metadata.ancestors(target)):
        raise CommitConflictError(f"the branch {name!r} has snapshots that {to!r} does not have")
    return set_branch(metadata, name, target.snapshot_id)


def set_branch(metadata: TableMetadata, name: str, snapshot_id: int) -> SetSnapshotRef:
    """Return the change that moves a branch to a snapshot, even if it is there: another commit may move it meanwhile.

    Raises
    ------
    VersionNotFoundError
        The table has no such snapshot.
    """
    metadata.snapshot_by_id(snapshot_id)
    old = metadata.all_refs.get(name)
    return SetSnapshotRef(name, replace(old or SnapshotRef(snapshot_id, "branch"), snapshot_id=snapshot_id))


def rollback_target(
    metadata: TableMetadata, name: str, *, snapshot_id: int | None = None, before: int | None = None
) -> Snapshot:
    """Return the ancestor of the snapshot of a branch to which it is rolled back.

    Parameters
    ----------
    snapshot_id
        The number of the ancestor.
    before
        Without a number, the newest ancestor from before this time is chosen, in milliseconds since 1970.

    Raises
    ------
    VersionNotFoundError
        The table has no such snapshot, or none of the ancestors is that old.
    InvalidArgumentError
        The snapshot is not an ancestor.
    """
    current = metadata.snapshot_of_ref(name)
    ancestors = [] if current is None else list(metadata.ancestors(current))
    if snapshot_id is not None:
        target = metadata.snapshot_by_id(snapshot_id)
        if target not in ancestors:
            raise InvalidArgumentError(
                f"the snapshot {snapshot_id} is not an ancestor of the snapshot of {name!r}",
                hint="choose one of ⟪history()⟫, or use ⟪alter().set_current_snapshot(…)⟫",
            )
        return target
    older = [one for one in ancestors if before is not None and one.timestamp_ms < before]
    if not older:
        moment = "" if before is None else f" from before {format_instant(before)}"
        raise VersionNotFoundError(f"the branch {name!r} has no snapshot{moment}")
    return max(older, key=lambda one: one.timestamp_ms)


def renamed_branch(metadata: TableMetadata, name: str, to: str) -> tuple[SetSnapshotRef, RemoveSnapshotRef]:
    """Return the changes that give a branch another name.

    Raises
    ------
    InvalidArgumentError
        There is no such branch, it is ``main``, or the new name is taken.
    """
    _check_not_main(name, "renamed")
    ref = _found(metadata, name, "branch")
    if _checked_name(to) in metadata.all_refs:
        raise InvalidArgumentError(f"the name {to!r} is that of another branch or tag")
    check_not_guard(to)
    return SetSnapshotRef(to, ref), RemoveSnapshotRef(name)


def dropped_reference(metadata: TableMetadata, name: str, kind: str) -> RemoveSnapshotRef:
    """Return the change that drops a branch or a tag.

    Raises
    ------
    InvalidArgumentError
        There is no such reference, or it is ``main``.
    """
    _check_not_main(name, "dropped")
    _found(metadata, name, kind)
    return RemoveSnapshotRef(name)


def _check_not_main(name: str, done: str) -> None:
    if _checked_name(name) == MAIN:
        raise InvalidArgumentError(f"main is the state of the table, and cannot be {done}")


def _found(metadata: TableMetadata, name: str, kind: str | None = None) -> SnapshotRef:
    _checked_name(name)
    ref = metadata.all_refs.get(name)
    if ref is None or kind not in (None, ref.type):
        raise InvalidArgumentError(f"the table has no {kind or 'branch or tag'} {name!r}")
    return ref


def _checked_name(name: str) -> str:
    return checked_text("the name of a reference", name, "pass a name such as audit")
