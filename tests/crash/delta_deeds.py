"""What operations of the harness do to Delta tables, and merges of both formats."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import StorageError
from deltaberg.table.maintain import auto_compact
from tests.crash.starts import COLUMNS, PART_COLUMNS
from tests.crash.targets import Target
from tests.support.below_verbs import begin
from tests.support.meanwhile import while_files_are_written

__all__ = [
    "HIDING",
    "append_and_compact",
    "append_often",
    "compact_beside_delete",
    "merge_hiding",
    "merge_rows",
    "purge_a_column",
    "purge_rows",
    "rows",
    "several",
    "upgrade_for_iceberg",
    "vacuum",
    "values",
    "verbs",
]


def rows(*ids: int, part: str | None = None) -> pa.Table:
    columns = {"id": list(ids), "value": [10 * one for one in ids]}
    if part is None:
        return pa.table(columns, COLUMNS)
    return pa.table({**columns, "part": [part] * len(ids)}, PART_COLUMNS)


def values(*ids: int) -> dict[int, int]:
    return {one: 10 * one for one in ids}


def several(at: Target) -> None:
    """Change the description, remove a file and record progress in one transaction."""
    with begin(at.table) as transaction:
        transaction.read()
        live = transaction.snapshot.live.table
        first = live.column("path").to_pylist().index("old-1.parquet")
        transaction.remove_files(live.take([first]))
        transaction.set_metadata(at.table.metadata.with_members({"description": "changed"}))
        transaction.set_transaction("app", 1)


def verbs(at: Target) -> None:
    """Append, alter, overwrite and append again in one transaction."""
    with at.table.transaction() as transaction:
        transaction.append(rows(7))
        transaction.alter().set({"owner": "ada"})
        transaction.overwrite(rows(8))
        transaction.append(rows(9))


def append_often(at: Target) -> None:
    """Append until a checkpoint follows by itself, and the clean-up of entries that are years old."""
    for number in range(7, 10):
        at.table.append(rows(number))


def append_and_compact(at: Target) -> None:
    """Append to a table that puts its small files together, of which three are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto_compact, "MIN_FILES", 3)
        done = at.table.append(rows(7, 8))
    # The append stands, but whoever waits for the compaction as well has to hear that there is none.
    if done.warnings:
        raise StorageError("; ".join(done.warnings))


def vacuum(at: Target) -> None:
    """Delete the file that the table removed, whenever that was."""
    done = at.table.vacuum(0, dry_run=False, enforce_retention_duration=False, untracked_hours=0, logging=True)
    # What is said beside a result is no acknowledgement: the history lacks the end.
    if done.warnings or done.failed:
        raise StorageError("; ".join((*done.warnings, *done.failed.values())))


def merge_rows(at: Target) -> None:
    """Update, delete and insert rows by one merge."""
    source = pa.table({"id": [1, 4, 7], "value": [11, 0, 70]}, COLUMNS)
    merge = at.table.merge(source, "target.id = source.id").when_matched_delete("source.value = 0")
    merge.when_matched_update({"value": "source.value"}).when_not_matched_insert_all().execute()


HIDING = "merge-on-read"


def merge_hiding(at: Target) -> None:
    """Update, delete and insert rows by one merge that hides the old ones."""
    source = pa.table({"id": [1, 4, 7], "value": [11, 0, 70]}, COLUMNS)
    merge = at.table.merge(source, "target.id = source.id", strategy=HIDING).when_matched_delete("source.value = 0")
    merge.when_matched_update({"value": "source.value"}).when_not_matched_insert_all().execute()


def purge_rows(at: Target) -> Any:
    """Delete a row, and write its file anew without it."""
    at.table.delete("id = 3", strategy=HIDING)
    return at.table.reorg()


def purge_a_column(at: Target) -> Any:
    """Drop a column that rows have, and write the files that hold it anew."""
    at.table.alter().add("more", pa.int64()).commit()
    at.table.update({"more": "id"}, "id < 3")
    at.table.alter().drop("more").commit()
    return at.table.reorg()


def upgrade_for_iceberg(at: Target) -> Any:
    """Delete a row, and make the table compatible with Iceberg, which has no place for the vector."""
    at.table.delete("id = 3", strategy=HIDING)
    return at.table.reorg(upgrade_iceberg_compat=2)


def compact_beside_delete(at: Target) -> Any:
    """Put files together while a row of them is deleted, which is to be deleted from the new file, too."""
    with pytest.MonkeyPatch.context() as patch:
        while_files_are_written(patch, lambda: at.open().delete("id = 3", strategy=HIDING))
        return at.table.compact()
