"""Changes of branches and tags, and of the snapshot that a branch is at; no files are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, cast

from deltaberg.choices import IfExists
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.iceberg.alter.altered_columns import AlteredColumns
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.refs.references import (
    Retention,
    dropped_reference,
    moved_branch,
    new_reference,
    renamed_branch,
    retained_reference,
    rollback_target,
    set_branch,
)
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.updates import Update
from deltaberg.signatures import public
from deltaberg.table.arguments import Instant, checked_number, parse_instant, zone_of
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.verbs.alteration import TableAlteration

if TYPE_CHECKING:
    from deltaberg.iceberg.alter.alter import Alteration

__all__ = ["ReferenceChanges"]

_NUMBER = "pass the number of a snapshot"
_Changes: TypeAlias = "Update | Iterable[Update] | None"


@public
class ReferenceChanges(TableAlteration[Transaction]):
    """The part of `Alteration` that is about branches, tags and snapshots."""

    def __init__(self, transaction: Transaction, *, is_part: bool = False) -> None:
        super().__init__(transaction, is_part=is_part)
        self._altered = AlteredColumns(transaction, is_shared=is_part)

    @property
    def _metadata(self) -> TableMetadata:
        """The metadata of the table as the changes leave it."""
        self._altered.settle()
        return self._transaction.metadata

    def _commit(self) -> CommitResult:
        self._altered.settle()
        return self._transaction.commit()

    @contextmanager
    def _step(self, name: str, *, waits: bool = False) -> Iterator[None]:
        if not waits:
            self._altered.settle()
        with self._altered.restored_by_failure(), self._transaction.operation(name, writes_files=False):
            yield

    def _reference(self, name: str, change: Callable[..., _Changes], *arguments: object) -> Alteration:
        """Make the changes that a function returns for the metadata and some arguments."""
        with self._step(name):
            made = change(self._metadata, *arguments)
            updates = () if made is None else (made,) if isinstance(made, Update) else tuple(made)
            if updates:
                self._transaction.change_metadata(*updates)
        self._steps.append(name)
        return cast("Alteration", self)

    def create_branch(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        if_exists: IfExists = "error",
        max_ref_age_ms: int | None = None,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
    ) -> Alteration:
        """Create a branch, which can be read by ``ref=`` and written to by ``branch=``.

        Parameters
        ----------
        name
            Its name.
        snapshot_id
            The snapshot that it begins with; by default the newest one of the table.
        if_exists
            What is done if there is such a branch: ``error``, ``ignore``, or ``replace``, which puts it to the
            snapshot. It then keeps what it kept, unless the arguments below say otherwise.
        max_ref_age_ms, min_snapshots_to_keep, max_snapshot_age_ms
            What the branch keeps when old snapshots expire.

        Raises
        ------
        InvalidArgumentError
            There is such a branch or tag, or the table has no snapshot yet.
        VersionNotFoundError
            The table has no such snapshot.
        """
        kept = Retention(min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms)
        return self._reference("create branch", new_reference, name, "branch", snapshot_id, kept, if_exists)

    def create_tag(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        if_exists: IfExists = "error",
        max_ref_age_ms: int | None = None,
    ) -> Alteration:
        """Create a tag, a name of one snapshot. The parameters are those of `create_branch`."""
        kept = Retention(max_ref_age_ms=max_ref_age_ms)
        return self._reference("create tag", new_reference, name, "tag", snapshot_id, kept, if_exists)

    def set_retention(
        self,
        name: str,
        *,
        max_ref_age_ms: int | None = None,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
    ) -> Alteration:
        """Set what a branch keeps when old snapshots expire, and when a branch or a tag itself does.

        Numbers that are left out stay as they are.

        Raises
        ------
        InvalidArgumentError
            There is no such branch or tag, a number is not positive, or a tag is to keep snapshots.
        """
        kept = Retention(min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms)
        return self._reference("set retention", retained_reference, name, kept)

    def rename_branch(self, name: str, to: str) -> Alteration:
        """Rename a branch.

        Raises
        ------
        InvalidArgumentError
            There is no such branch, it is ``main``, or the new name is taken.
        """
        return self._reference("rename branch", renamed_branch, name, to)

    def fast_forward(self, name: str, to: str) -> Alteration:
        """Move a branch forward to the snapshot of another branch, which was made from it.

        If there is no branch of this name, it is created.

        Raises
        ------
        VersionNotFoundError
            There is no branch or tag ``to``.
        CommitConflictError
            The branch has snapshots that the other one does not have.
        """
        return self._reference("fast forward", moved_branch, name, to)

    def drop_branch(self, name: str) -> Alteration:
        """Drop a branch. Its snapshots stay until they expire."""
        return self._reference("drop branch", dropped_reference, name, "branch")

    def drop_tag(self, name: str) -> Alteration:
        """Drop a tag. Its snapshot stays until it expires."""
        return self._reference("drop tag", dropped_reference, name, "tag")

    def rollback_to_snapshot(self, snapshot_id: int) -> Alteration:
        """Roll the table back to one of the snapshots that led to its newest one.

        What is rolled back is ``main``, or the branch that the table was opened with. No snapshot is lost: later ones
        can still be read and returned to by their numbers. If another commit comes first, `commit` raises
        `CommitConflictError`, so that nobody's commit is rolled back unseen.

        Raises
        ------
        VersionNotFoundError
            The table has no such snapshot.
        InvalidArgumentError
            It is not an ancestor of the newest one.
        """
        number = checked_number("snapshot_id", snapshot_id, 0, _NUMBER)
        return self._move_branch(
            "rollback", lambda: rollback_target(self._metadata, self._branch, snapshot_id=number).snapshot_id
        )

    def rollback_to_timestamp(self, timestamp: Instant) -> Alteration:
        """Roll the table back to the newest of its snapshots from before a time, as `rollback_to_snapshot` does.

        Parameters
        ----------
        timestamp
            A datetime, a date, or text; without a zone, it is in the zone that the table was opened with.

        Raises
        ------
        VersionNotFoundError
            The table has no snapshot from before that time.
        """
        before = parse_instant(timestamp, zone_of(self._transaction.timezone))
        return self._move_branch(
            "rollback", lambda: rollback_target(self._metadata, self._branch, before=before).snapshot_id
        )

    def set_current_snapshot(
        self,
        snapshot_id: int | None = None,
        *,
        ref: str | None = None,
    ) -> Alteration:
        """Let the table be at any of its snapshots, whether that led to the newest one or not.

        Parameters
        ----------
        snapshot_id
            The snapshot.
        ref
            Instead of a number, the branch or tag that names the snapshot.

        Raises
        ------
        VersionNotFoundError
            The table has no such snapshot, branch or tag.
        InvalidArgumentError
            Neither a number nor a reference is passed, or both are.
        """
        if (snapshot_id is None) == (ref is None):
            raise InvalidArgumentError(
                Hint("⟪alter().set_current_snapshot(…)⟫ needs ⟪snapshot_id⟫ or ⟪ref⟫"), hint="pass one of them"
            )

        def target() -> int:
            if ref is None:
                return checked_number("snapshot_id", snapshot_id, 0, _NUMBER)
            found = self._metadata.snapshot_of_ref(ref)
            if found is None:
                raise InvalidArgumentError("the table has no snapshot yet")
            return found.snapshot_id

        return self._move_branch("set current snapshot", target)

    @property
    def _branch(self) -> str:
        return self._transaction.branch

    def _move_branch(self, name: str, target: Callable[[], int]) -> Alteration:
        """Move the branch of the transaction."""
        return self._reference(name, lambda metadata: set_branch(metadata, self._branch, target()))
