"""Row ids for the files of a table that begins, or ends, to track its rows (Delta protocol, "Row Tracking").

The files are added again by the commit that enables row tracking or drops it. Their rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.domains import ROW_TRACKING_DOMAIN
from deltaberg.delta.data.statistics_text import counted_statistics
from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.delta.snapshot.live_files import files_without_row_ids
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.schema.arrow import count_up
from deltaberg.table.change.match import count_rows
from deltaberg.table.read.plan import Plan

__all__ = ["give_row_ids", "take_row_ids"]

_ID_MEMBERS = ("baseRowId", "defaultRowCommitVersion")


def give_row_ids(transaction: Transaction) -> None:
    """Assign ids to the rows of all files whose rows have none. The protocol must support row tracking."""
    # A file that another commit adds meanwhile might have no ids.
    transaction.read()
    table = transaction.snapshot
    files = table.live.table
    bare = files_without_row_ids(files.append_column("number", count_up(0, len(files))))
    rows = _without_own(bare, transaction)
    _add_again(transaction, table, rows, _uncounted(table, rows))


def take_row_ids(transaction: Transaction) -> None:
    """Take the ids of all rows away, and what is recorded of the highest one."""
    transaction.read()
    table = transaction.snapshot
    files = table.live.table
    numbered = files.append_column("number", count_up(0, len(files)))
    lacking = pc.and_(*(pc.is_null(files.column(name)) for name in _ID_MEMBERS))
    _add_again(transaction, table, _without_own(numbered.filter(pc.invert(lacking)), transaction), {})
    if ROW_TRACKING_DOMAIN in table.domains:
        transaction.set_domain(ROW_TRACKING_DOMAIN, None, system=True)


def _without_own(files: pa.Table, transaction: Transaction) -> pa.Int64Array:
    """Return the numbers of files, but for those whose ids are made with the commit."""
    own = pa.array(sorted(transaction.paths_without_row_ids), pa.string())
    kept = files.filter(pc.invert(pc.is_in(files.column("path"), value_set=own)))
    return pa.array(kept.column("number").to_pylist(), pa.int64())


def _uncounted(table: Snapshot, rows: pa.Int64Array) -> dict[int, int]:
    """Return the number of rows of each file whose statistics do not tell it, from the ends of the files."""
    source = SnapshotSource(table)
    files = source.select_files(TRUE).files.take(rows)
    plan = Plan(source, TRUE, files, pa.repeat(False, len(files)))
    unknown = pc.is_null(plan.record_counts).to_pylist()
    wanted = {number for number, lacks in zip(rows.to_pylist(), unknown, strict=True) if lacks}
    return count_rows(plan, wanted) if wanted else {}


def _add_again(transaction: Transaction, table: Snapshot, rows: pa.Int64Array, counts: Mapping[int, int]) -> None:
    """Add files again without row ids, which they get from the commit if the protocol asks for it."""
    actions = []
    for number, action in zip(rows.to_pylist(), recorded_adds(table.live, rows), strict=True):
        members: dict[str, Any] = {**dict.fromkeys(_ID_MEMBERS), "dataChange": False}
        if number in counts:
            members["stats"] = counted_statistics(action.members.get("stats"), counts[number])
        actions.append(action.with_members(members))
    if actions:
        transaction.add_actions(actions)
