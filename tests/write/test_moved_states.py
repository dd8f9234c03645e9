"""How many rows come and go where a table gets another state that is there already: what metadata alone tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import CommitResult, create_table
from deltaberg.delta.data.swapped_files import rows_of_swap
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.transaction.summary import rows_of
from deltaberg.table.transaction.operation import RowNumbers

_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int64())])
_FORMATS = pytest.mark.parametrize("form", ["delta", "iceberg"])
_Numbers = tuple[int | None, int | None, int | None]
_UNKNOWN: _Numbers = (None, None, None)


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "p": [number % 2 for number in ids]}, _SCHEMA)


def _table(root: Path, form: str, **layout: Any) -> Any:
    properties = {"format-version": "3"} if form == "iceberg" else {"delta.enableDeletionVectors": "true"}
    create: Any = create_table
    return create(root / "t", _SCHEMA, format=form, properties=properties, **layout)


def _state(table: Any) -> int:
    state: int = table.snapshot_id if hasattr(table, "snapshot_id") else table.version
    return state


def _numbers(commit: CommitResult | None) -> _Numbers:
    assert commit is not None
    return commit.inserted_rows, commit.updated_rows, commit.deleted_rows


def _states(table: Any) -> list[int]:
    """Append, append, hide a row, write it anew with another value; return the state after each."""
    states = []
    changes: tuple[Callable[[], object], ...] = (
        lambda: table.append(_rows(1, 2, 3, 4)),
        lambda: table.append(_rows(5, 6)),
        lambda: table.delete("id = 2", strategy="merge-on-read"),
        lambda: table.update({"p": "7"}, "id = 4", strategy="merge-on-read"),
    )
    for change in changes:
        change()
        states.append(_state(table))
    return states


@_FORMATS
def test_what_a_restore_brings_back_and_takes_away(tmp_path: Path, form: str) -> None:
    """The numbers are those of the rows that differ, or unknown, and never others."""
    for number, expected in ((2, {"delta": _UNKNOWN, "iceberg": _UNKNOWN}), (1, None), (0, None)):
        table = _table(tmp_path / str(number), form)
        states = _states(table)
        if expected is not None:
            assert _numbers(table.restore(states[number]).commit) == expected[form]
            continue
        table.restore(states[2])
        before = table.scan().count()
        came, changed, gone = _numbers(table.restore(states[number]).commit)
        assert (came, changed, gone) == ((1, 0, 0) if number == 1 else _UNKNOWN if form == "delta" else (1, 0, 2))
        if came is not None and gone is not None:
            assert before + came - gone == table.scan().count()


def test_a_delta_table_that_only_loses_files(tmp_path: Path) -> None:
    table = _table(tmp_path, "delta")
    first, second, *_ = _states(table)
    table.restore(second)
    assert _numbers(table.restore(first).commit) == (0, 0, 2)
    assert _numbers(table.restore(second).commit) == (2, 0, 0)
    table.restore(0)
    assert table.scan().count() == 0


def test_what_a_branch_brings(tmp_path: Path) -> None:
    table = _table(tmp_path, "iceberg")
    table.append(_rows(1, 2))
    staged = table.append(_rows(3, 4, 5), properties={"wap.id": "load"})
    assert _numbers(table.publish("load")) == (3, 0, 0)
    assert table.snapshot_id == staged.snapshot_id
    table.alter().create_branch("side").commit()
    table.append(_rows(6), branch="side")
    table.compact(rewrite_all=True, branch="side")
    table.delete("id = 1", branch="side", strategy="merge-on-read")
    table.delete("id = 2", branch="side", strategy="merge-on-read")
    assert _numbers(table.alter().fast_forward("main", "side").commit()) == (1, 0, 2)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [3, 4, 5, 6]
    back = table.alter().rollback_to_snapshot(staged.snapshot_id).commit()
    assert _numbers(back) == (2, 0, 1)
    table.update({"p": "9"}, "id = 6", branch="side")
    assert _numbers(table.alter().fast_forward("main", "side").commit()) == _UNKNOWN


def test_branches_that_do_not_lead_to_one_another(tmp_path: Path) -> None:
    table = _table(tmp_path, "iceberg")
    table.append(_rows(1))
    table.alter().create_branch("side").commit()
    table.append(_rows(2), branch="side")
    table.append(_rows(3))
    assert _numbers(table.alter().set_current_snapshot(ref="side").commit()) == _UNKNOWN


_COUNTS = {"total-records": "5", "total-position-deletes": "0", "total-equality-deletes": "0"}


@pytest.mark.parametrize(
    ("summary", "before", "expected"),
    [
        ({"operation": "append"}, {}, _UNKNOWN),
        ({"operation": "append", "added-records": "x", **_COUNTS}, {}, (None, 0, 0)),
        ({"operation": "append", **_COUNTS}, {}, (0, 0, 0)),
        ({"operation": "replace", "added-records": "9", "deleted-records": "9", **_COUNTS}, None, (0, 0, 0)),
        ({"operation": "overwrite", "added-records": "9", **_COUNTS}, _COUNTS, _UNKNOWN),
        ({"operation": "delete", "deleted-records": "4", **_COUNTS}, _COUNTS, (0, 0, 4)),
        ({"operation": "delete", "deleted-records": "4", **_COUNTS}, None, _UNKNOWN),
        ({"operation": "delete", "deleted-records": "4", **_COUNTS}, {"total-position-deletes": "1"}, (0, 0, None)),
        ({"operation": "delete", "deleted-records": "4", **_COUNTS}, {"total-equality-deletes": "1"}, (0, 0, None)),
        ({"operation": "delete", "added-data-files": "1", "deleted-records": "4", **_COUNTS}, _COUNTS, _UNKNOWN),
        (
            {
                "operation": "delete",
                "added-delete-files": "1",
                "added-dvs": "1",
                **_COUNTS,
                "added-position-deletes": "5",
                "removed-position-deletes": "3",
            },
            _COUNTS,
            (0, 0, 2),
        ),
        *(
            (
                {
                    "operation": "delete",
                    "added-delete-files": "2",
                    "added-dvs": "1",
                    **_COUNTS,
                    "added-position-deletes": "5",
                    name: "1",
                },
                _COUNTS,
                (0, 0, None),
            )
            for name in (
                *("deleted-records", "deleted-data-files", "added-position-delete-files"),
                *("removed-position-delete-files", "added-equality-delete-files", "removed-equality-delete-files"),
            )
        ),
    ],
)
def test_what_summaries_tell(summary: dict[str, str], before: dict[str, str] | None, expected: _Numbers) -> None:
    found = rows_of(Snapshot(7, 100, 1, summary=summary), before)
    assert (found.inserted, found.updated, found.deleted) == expected


def _files(*files: tuple[str, int | None, int | None]) -> pa.Table:
    paths, records, hidden = zip(*files, strict=True) if files else ((), (), ())
    vectors = pa.array([None if count is None else {"cardinality": count} for count in hidden], _VECTOR)
    return pa.table([pa.array(paths, pa.string()), pa.array(records, pa.int64()), vectors], _NAMES)


_VECTOR = pa.struct([("cardinality", pa.int64())])
_NAMES = ["path", "numRecords", "deletionVector"]


@pytest.mark.parametrize(
    ("added", "removed", "expected"),
    [
        ([], [], (0, 0, 0)),
        ([("a", 5, 2)], [], (3, 0, 0)),
        ([], [("a", 5, None), ("b", 2, 1)], (0, 0, 6)),
        ([("a", None, None)], [], (None, 0, 0)),
        ([("a", 5, None)], [("b", 5, None)], _UNKNOWN),
        ([("a", 5, None)], [("b", None, None)], _UNKNOWN),
        ([("a", 5, 2)], [("a", 5, None)], (0, 0, 2)),
        ([("a", 5, None)], [("a", 5, 2)], (2, 0, 0)),
        # One vector need not be a part of the other.
        ([("a", 5, 1)], [("a", 5, 2)], _UNKNOWN),
        ([("a", 5, None), ("b", 3, None)], [("a", 5, 2)], (5, 0, 0)),
        ([("a", 5, None)], [("a", 5, 2), ("b", 3, None)], _UNKNOWN),
    ],
)
def test_what_the_log_tells(added: list[Any], removed: list[Any], expected: _Numbers) -> None:
    found: RowNumbers = rows_of_swap(_files(*added), _files(*removed))
    assert (found.inserted, found.updated, found.deleted) == expected


@pytest.mark.parametrize(("version", "expected"), [("3", 2), ("2", None)])
def test_partitions_with_hidden_rows_are_counted(tmp_path: Path, version: str, expected: int | None) -> None:
    """Deletion vectors say how many rows they hide. Position delete files are not read."""
    create: Any = create_table
    properties = {"format-version": version}
    table = create(tmp_path / "t", _SCHEMA, format="iceberg", partition_by="p", properties=properties)
    table.append(_rows(1, 3, 5, 2))
    table.delete("id = 3", strategy="merge-on-read")
    done = table.overwrite(_rows(7), dynamic=True)
    assert (done.inserted_rows, done.deleted_rows) == (1, expected)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 7]
