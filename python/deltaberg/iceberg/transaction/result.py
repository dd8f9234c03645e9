"""The result of a commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.write_metadata import version_of
from deltaberg.iceberg.transaction.summary import Tally
from deltaberg.iceberg.transaction.table_commit import Committed
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.transaction.operation import Operation, with_rows
from deltaberg.table.write.sources import WriteRoad

__all__ = ["commit_result"]


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
    moves: bool = False,
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
    moves
        Whether a branch or a tag moved to a snapshot that was there already: nobody counted which rows differ.
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
    result = with_rows(result, operations)
    return replace(result, inserted_rows=None, updated_rows=None, deleted_rows=None) if moves else result
