"""Publishing staged snapshots: write, audit, publish."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CommitConflictError, InvalidArgumentError
from deltaberg.iceberg.manifests.entries import entry_columns
from deltaberg.iceberg.manifests.fields import ADDED, DATA, WHOLE_ENTRIES
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.refs import MAIN
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.operations.references import set_branch
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.target import PUBLISHED, WAP_ID
from deltaberg.iceberg.transaction.transaction import Transaction

__all__ = ["publish_snapshot", "staged_snapshot"]

#: What an entry inherits from the manifest list that it is committed with.
_INHERITED = ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")


def staged_snapshot(metadata: TableMetadata, wap_id: str) -> Snapshot:
    """Return the snapshot that was staged under an id.

    Raises
    ------
    InvalidArgumentError
        There is none.
    CommitConflictError
        It was published already.
    """
    found = [one for one in metadata.snapshots.values() if (one.summary or {}).get(WAP_ID) == wap_id]
    if not found:
        raise InvalidArgumentError(f"no snapshot is staged under the {WAP_ID} {wap_id!r}", table=metadata.location)
    current = metadata.snapshot_of_ref(MAIN)
    for one in () if current is None else metadata.ancestors(current):
        summary = one.summary or {}
        if wap_id in (summary.get(WAP_ID), summary.get(PUBLISHED)):
            raise CommitConflictError(
                f"the snapshot with the {WAP_ID} {wap_id!r} is published already", table=metadata.location
            )
    return max(found, key=lambda one: (one.sequence_number, one.timestamp_ms))


def publish_snapshot(transaction: Transaction, staged: Snapshot) -> None:
    """Make a staged snapshot, or the files that it added, a part of the table.

    Raises
    ------
    CommitConflictError
        The table has moved on since, and the snapshot does more than to append.
    """
    current = transaction.planned
    with transaction.operation("publish"):
        if staged.parent_snapshot_id == (None if current is None else current.snapshot_id):
            transaction.change_metadata(set_branch(transaction.metadata, MAIN, staged.snapshot_id))
            return
        if staged.operation != "append":
            raise CommitConflictError(
                f"the table has other snapshots since {staged.snapshot_id} was staged, which is of the operation "
                f"{staged.operation}; only appends can be published then",
                hint="stage it again",
                table=transaction.metadata.location,
            )
        for files in _added(transaction, staged):
            transaction.add_files(files)


def _added(transaction: Transaction, staged: Snapshot) -> list[AddedFiles]:
    """Return the files that a snapshot added, as a new snapshot adds them."""
    source = transaction.source_of(staged)
    rows = [row for row in source.manifests.to_pylist() if row["content"] == DATA]
    own = [row for row in rows if row["added_snapshot_id"] == staged.snapshot_id]
    made = []
    for found in source.reader.read(own, WHOLE_ENTRIES) if own else []:
        table = found.table
        is_new = pc.and_(
            pc.equal(table.column("status"), ADDED), pc.equal(table.column("snapshot_id"), staged.snapshot_id)
        )
        entries = table.filter(is_new).select(entry_columns(found.partition).names)
        for name in _INHERITED:
            place = entries.schema.get_field_index(name)
            entries = entries.set_column(place, name, pa.nulls(len(entries), entries.schema.field(place).type))
        made.append(AddedFiles(found.spec, found.partition, entries))
    return made
