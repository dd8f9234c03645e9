"""Cherry-picking snapshots that are on no branch or on another one, and so publishing staged ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from deltaberg.errors import CommitConflictError, InvalidArgumentError
from deltaberg.iceberg.manifests.entries import entry_columns
from deltaberg.iceberg.manifests.fields import ADDED, DELETED, WHOLE_ENTRIES
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.refs.references import set_branch
from deltaberg.iceberg.transaction.conflict import Claims, check_conflicts
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.summary import REPLACES_PARTITIONS
from deltaberg.iceberg.transaction.target import PUBLISHED, SOURCE, WAP_ID
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import with_columns
from deltaberg.table.arguments import checked_text
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions

__all__ = ["Picks", "about_pick", "cherry_pick", "pick_snapshot", "publish_snapshot", "staged_snapshot"]

#: What an entry inherits from the manifest list that it is committed with.
_INHERITED = ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")


def staged_snapshot(metadata: TableMetadata, wap_id: str) -> Snapshot:
    """Return the snapshot that was staged under an id.

    Raises
    ------
    InvalidArgumentError
        There is none, or there is more than one, or the id is no text.
    """
    checked_text("wap_id", wap_id, "pass the id that the snapshot was written with")
    staged = [one for one in metadata.snapshots.values() if one.summary.get(WAP_ID) == wap_id]
    if len(staged) != 1:
        what = f"{len(staged)} snapshots are" if staged else "no snapshot is"
        raise InvalidArgumentError(
            f"{what} staged under the {WAP_ID} {wap_id!r}",
            hint="name the snapshot, with ⟪cherrypick_snapshot(snapshot_id)⟫" if staged else None,
        )
    return staged[0]


@dataclass(frozen=True)
class Picks:
    """How snapshots of a table are picked.

    Parameters
    ----------
    begin
        What begins the transaction, on the newest state that is known.
    newest
        What looks for a newer state, and returns its metadata.
    metadata
        That of the state that is open.
    options
        How the commit is made.
    """

    begin: Callable[[CommitOptions], Transaction]
    newest: Callable[[], TableMetadata]
    metadata: TableMetadata
    options: CommitOptions


def publish_snapshot(picks: Picks, wap_id: str) -> CommitResult:
    """Commit a snapshot that was staged under an id, as `pick_snapshot` does: to ``main``, if no branch is named.

    Raises
    ------
    InvalidArgumentError
        There is no such snapshot, or more than one.
    CommitConflictError
        As for `cherry_pick`.
    """
    options = replace(picks.options, branch=picks.options.branch or MAIN)
    return pick_snapshot(replace(picks, options=options), staged_snapshot(picks.metadata, wap_id))


def pick_snapshot(picks: Picks, picked: Snapshot) -> CommitResult:
    """Commit a snapshot, or what it changed, as a part of a branch.

    Raises
    ------
    CommitConflictError
        As for `cherry_pick`.
    """
    options = replace(picks.options, properties={**(picks.options.properties or {}), **about_pick(picked)})
    transaction = picks.begin(options)
    try:
        return _commit(transaction, picked)
    except CommitConflictError:
        branch = transaction.branch
        was_next = _follows(picked, transaction.planned_metadata, branch)
        if not was_next or _follows(picked, picks.newest(), branch):
            raise
    # The branch has moved meanwhile, so that the snapshot is no longer the next one.
    return _commit(picks.begin(options), picked)


def _commit(transaction: Transaction, picked: Snapshot) -> CommitResult:
    with transaction:
        cherry_pick(transaction, picked)
        return transaction.commit()


def about_pick(picked: Snapshot) -> dict[str, str]:
    """Return what the summary of a new snapshot says about the one that it was picked from."""
    wap_id = picked.summary.get(WAP_ID)
    return {SOURCE: str(picked.snapshot_id), **({PUBLISHED: wap_id} if wap_id else {})}


def _follows(picked: Snapshot, metadata: TableMetadata, branch: str) -> bool:
    """Return whether a snapshot follows on the newest one of a branch, so that the branch can move to it."""
    current = metadata.snapshot_of_ref(branch)
    return picked.parent_snapshot_id == (None if current is None else current.snapshot_id)


def cherry_pick(transaction: Transaction, picked: Snapshot) -> None:
    """Make a snapshot, or what it changed, a part of the branch of a transaction.

    Raises
    ------
    CommitConflictError
        The branch has the snapshot or its changes already, or it has moved on since, so that the changes do not fit.
    """
    with transaction.operation("cherry-pick") as operation:
        _check_new(transaction.metadata, transaction.branch, picked)
        transaction.require(lambda newest: _check_new(newest, transaction.branch, picked))
        if _follows(picked, transaction.metadata, transaction.branch):
            transaction.change_metadata(set_branch(transaction.metadata, transaction.branch, picked.snapshot_id))
            return
        transaction.claims.picked.add(picked.snapshot_id)
        replaces = picked.operation == "overwrite" and picked.summary.get(REPLACES_PARTITIONS) == "true"
        if picked.operation != "append" and not replaces:
            raise CommitConflictError(
                f"the table has other snapshots since {picked.snapshot_id} was made, which is of the operation "
                f"{picked.operation}; only appends, and overwrites of whole partitions, can be picked then",
                hint="repeat the operation on the newest snapshot",
            )
        changed = list(_changed(transaction, picked))
        if replaces:
            _replace(transaction, picked, changed)
        added = [_status(files, ADDED) for files in changed]
        operation.rows.inserted, operation.rows.deleted = sum(files.rows for files in added), None if replaces else 0
        for files in added:
            transaction.add_entries(files)


def _check_new(metadata: TableMetadata, branch: str, picked: Snapshot) -> None:
    """Refuse to pick what a branch has already."""
    current = metadata.snapshot_of_ref(branch)
    wap_id = picked.summary.get(WAP_ID)
    for one in () if current is None else metadata.ancestors(current):
        if wap_id and wap_id in (one.summary.get(WAP_ID), one.summary.get(PUBLISHED)):
            raise CommitConflictError(f"the snapshot with the {WAP_ID} {wap_id!r} is published already")
        if picked.snapshot_id == one.snapshot_id or one.summary.get(SOURCE) == str(picked.snapshot_id):
            raise CommitConflictError(
                f"the branch {branch!r} has the changes of the snapshot {picked.snapshot_id} already, "
                f"in its snapshot {one.snapshot_id}"
            )


def _replace(transaction: Transaction, picked: Snapshot, changed: list[AddedFiles]) -> None:
    """Remove the files that a snapshot has replaced, unless their partitions have got others since."""
    planned, metadata = transaction.planned, transaction.metadata
    known = {} if planned is None else {one.snapshot_id: one for one in metadata.ancestors(planned)}
    parent = None if picked.parent_snapshot_id is None else known.get(picked.parent_snapshot_id)
    if parent is None and picked.parent_snapshot_id is not None:
        raise CommitConflictError(
            f"the snapshot {picked.snapshot_id} replaces files of a snapshot that is not an ancestor of the newest one",
            hint="repeat the operation on the newest snapshot",
        )
    partitions = {
        (files.spec.spec_id, key) for files in (_status(files, ADDED) for files in changed) for key in files.keys
    }
    check_conflicts(Claims(partitions=partitions), parent, transaction.source)
    transaction.claims.partitions.update(partitions)
    paths = [path for files in changed for path in _status(files, DELETED).entries.column("file_path").to_pylist()]
    if paths:
        transaction.remove_files(paths, transaction.source.data_manifests)


def _changed(transaction: Transaction, picked: Snapshot) -> Iterator[AddedFiles]:
    """Yield the entries of the data files that a snapshot added and removed."""
    source = transaction.source.at(picked)
    own = [row for row in source.data_manifests.to_pylist() if row["added_snapshot_id"] == picked.snapshot_id]
    for found in source.reader.read(own, WHOLE_ENTRIES):
        is_own = pc.equal(found.table.column("snapshot_id"), picked.snapshot_id)
        yield AddedFiles(found.spec, found.partition, found.table.filter(is_own))


def _status(files: AddedFiles, status: int) -> AddedFiles:
    """Return the entries with a status, as a new snapshot adds them."""
    entries = files.entries.filter(pc.equal(files.entries.column("status"), status))
    entries = entries.select(entry_columns(files.partition).names)
    return AddedFiles(files.spec, files.partition, with_columns(entries, **dict.fromkeys(_INHERITED)))
