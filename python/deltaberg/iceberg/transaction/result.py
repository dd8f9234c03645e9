"""The result of a commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.metadata.write_metadata import version_of
from deltaberg.iceberg.transaction.summary import Tally, rows_of
from deltaberg.iceberg.transaction.table_commit import Committed
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.transaction.operation import Operation, RowNumbers, with_rows
from deltaberg.table.write.sources import WriteRoad

__all__ = ["commit_result", "rows_of_moves"]


def commit_result(
    loaded: LoadedTable,
    outcome: Committed | None,
    tally: Tally,
    *,
    operation: str,
    token: str,
    snapshot_id: int | None,
    road: WriteRoad,
    operations: Sequence[Operation] = (),
    moved: RowNumbers | None = None,
) -> CommitResult:
    """Return the result of a commit.

    Parameters
    ----------
    loaded
        The table after the commit.
    outcome
        The commit; None if nothing was to be committed.
    tally
        What was counted of the files.
    operation, snapshot_id
        The operation, and the newest snapshot.
    token
        What finds the commit if it has no token of its own.
    road
        How rows came into data files.
    operations
        What the operations did, in numbers.
    moved
        The rows of branches that moved to snapshots that were there already; see `rows_of_moves`.
    """
    metrics: Counter[str] = Counter()
    for one in operations:
        metrics.update(one.metrics)
    result = CommitResult(
        version_of(loaded.file.path.rpartition("/")[2]) or 0,
        token if outcome is None else outcome.token,
        operation,
        committed=outcome is not None and outcome.committed,
        added_files=tally.added["data-files"],
        removed_files=tally.removed["data-files"],
        added_bytes=tally.added["files-size"],
        removed_bytes=tally.removed["files-size"],
        added_rows=tally.added["records"],
        retries=0 if outcome is None else outcome.retries,
        seconds=0.0 if outcome is None else outcome.seconds,
        warnings=() if outcome is None else outcome.warnings,
        road=road.name,
        why_not_native=road.why_not_native,
        snapshot_id=snapshot_id,
        metrics=dict(metrics),
    )
    if not result.committed:
        return result
    return with_rows(result, operations if moved is None else [*operations, Operation("move", rows=moved)])


def rows_of_moves(before: TableMetadata, after: TableMetadata) -> RowNumbers | None:
    """Return how many rows the branches and tags have got and lost that name other snapshots than before.

    The summaries of the snapshots in between tell, and nothing is read. Where a branch goes back, rows are gone that
    were inserted, and there again that were deleted. It is None if no branch or tag moved; one that is new moves if it
    is main.
    """
    known = {name: ref.snapshot_id for name, ref in before.all_refs.items()}
    refs = {name: ref.snapshot_id for name, ref in after.all_refs.items() if name in known or name == MAIN}
    moves = [(known.get(name), new) for name, new in refs.items() if known.get(name) != new]
    return RowNumbers.total(_rows_between(after, *move) for move in moves) if moves else None


def _rows_between(metadata: TableMetadata, old: int | None, new: int) -> RowNumbers:
    forward, back = _way(metadata, old, new), None if old is None else _way(metadata, new, old)
    if forward is not None:
        return RowNumbers.total(forward)
    if back is None:
        return RowNumbers.uncounted()
    rows = RowNumbers.total(back)
    return RowNumbers(rows.deleted, rows.updated, rows.inserted)


def _way(metadata: TableMetadata, start: int | None, end: int) -> list[RowNumbers] | None:
    """Return the rows of all snapshots after one that lead to another; None if not all of them are there."""
    last = metadata.snapshots.get(end)
    way = [] if last is None else list(takewhile(lambda one: one.snapshot_id != start, metadata.ancestors(last)))
    if last is None or (way and way[-1].parent_snapshot_id != start):
        return None
    summaries = {one.snapshot_id: one.summary for one in metadata.snapshots.values()}
    return [rows_of(one, summaries.get(parent) if (parent := one.parent_snapshot_id) else {}) for one in way]
