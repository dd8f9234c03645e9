"""The numbers of rows in results: those of a commit that is found again, and of verbs that only move rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import convert_to_delta, create_table, find_commit
from deltaberg.choices import Format
from deltaberg.table.commit.commit import CommitResult

pytestmark = pytest.mark.one_backend

_COUNTS = ("inserted_rows", "updated_rows", "deleted_rows", "copied_rows")
_Counts: TypeAlias = "tuple[int | None, ...]"
#: What is done one after the other, and how many rows `find_commit` says of it for Delta and for Iceberg.
_STEPS: list[tuple[Callable[[Any], Any], _Counts, _Counts]] = [
    (lambda table: table.append(_rows(1, 2, 3, 4)), (4, 0, 0, 0), (4, 0, 0, 0)),
    (lambda table: table.delete("id = 1"), (0, 0, 1, 3), (None, None, None, None)),
    (lambda table: table.update({"p": "'z'"}, "id = 2"), (0, 1, 0, 2), (None, None, None, None)),
    (lambda table: table.upsert(_rows(2, 9), "id"), (1, 1, 0, 2), (None, None, None, None)),
    (lambda table: table.overwrite(_rows(3, 7), where="id = 3", check=False), (2, 0, 1, 3), (None, None, None, None)),
    (lambda table: table.alter().set({"owner": "ada"}).commit(), (0, 0, 0, 0), (None, None, None, None)),
    (lambda table: table.delete(None), (0, 0, 5, 0), (None, None, None, None)),
]


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "p": ["a"] * len(ids)}, schema=pa.schema([("id", pa.int64()), ("p", pa.string())]))


def _counts(result: CommitResult | None) -> _Counts:
    assert result is not None
    return tuple(getattr(result, name) for name in _COUNTS)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_found_commit_says_only_what_was_counted(tmp_path: Path, format: Format) -> None:
    """A number that nobody recorded is None: zero would say that no row was touched."""
    table: Any = create_table(tmp_path / "t", _rows().schema, format=format)
    wrong = []
    for number, (step, delta, iceberg) in enumerate(_STEPS):
        result = step(table)
        found_again = find_commit(tmp_path / "t", result.token)
        assert found_again is not None
        expected = delta if format == "delta" else iceberg
        for name, count, known in zip(_COUNTS, expected, _counts(result), strict=True):
            if getattr(found_again, name) != count or count not in (None, known):
                wrong.append((number, name, getattr(found_again, name), count, known))
        assert (found_again.added_files, found_again.removed_files) == (result.added_files, result.removed_files)
    assert wrong == []


def test_a_commit_of_several_operations_says_nothing_of_rows(tmp_path: Path) -> None:
    """Its metrics and files are those of all together, and one operation may take back what another one did."""
    table: Any = create_table(tmp_path / "t", _rows().schema)
    table.append(_rows(*range(30)))
    with table.transaction() as twice:
        twice.overwrite(_rows(1), where="id < 12")
        twice.overwrite(_rows(2), where="id < 20")
    with table.transaction() as back:
        back.append(_rows(*range(10)))
        back.delete(None)
    for transaction in (twice, back):
        found = find_commit(tmp_path / "t", transaction.result.token)
        assert _counts(found) == (None, None, None, None)
    steps = table.alter().set({"owner": "ada"}).comment("id", "key").commit()
    assert _counts(find_commit(tmp_path / "t", steps.token)) == (0, 0, 0, 0)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_rows_that_go_where_the_table_goes_back(tmp_path: Path, format: Format) -> None:
    table: Any = create_table(tmp_path / "t", _rows().schema, format=format)
    first = table.append(_rows(1, 2))
    table.append(_rows(3))
    target = first.version if format == "delta" else first.snapshot_id
    restored = table.restore(target).commit
    copied = table.clone(tmp_path / "copy").commit
    assert _counts(restored)[:3] == (0, 0, 1)
    assert _counts(find_commit(tmp_path / "t", restored.token))[:3] == (None, None, None)
    for result in (copied, find_commit(tmp_path / "copy", copied.token)):
        assert _counts(result)[0] is None


def test_rows_that_come_where_another_branch_moves(tmp_path: Path) -> None:
    table: Any = create_table(tmp_path / "t", _rows().schema, format="iceberg")
    table.append(_rows(1))
    assert _counts(table.alter().create_branch("b").commit()) == (0, 0, 0, 0)
    table.append(_rows(2))
    moved = table.alter().fast_forward("b", "main").commit()
    assert _counts(moved)[:3] == (1, 0, 0)
    assert _counts(find_commit(tmp_path / "t", moved.token))[:3] == (None, None, None)


def test_rows_that_are_published(tmp_path: Path) -> None:
    table: Any = create_table(
        tmp_path / "t", _rows().schema, format="iceberg", properties={"write.wap.enabled": "true"}
    )
    table.append(_rows(1))
    table.append(_rows(2), properties={"wap.id": "load"})
    assert _counts(table.publish("load"))[:3] == (1, 0, 0)


def test_rows_that_only_move_are_copied(tmp_path: Path) -> None:
    table: Any = create_table(tmp_path / "t", _rows().schema, properties={"delta.columnMapping.mode": "name"})
    table.append(_rows(1, 2, 3))
    assert _counts(table.alter().partition_by("p").commit()) == (0, 0, 0, 3)
    assert _counts(table.alter().set({"delta.columnMapping.mode": "none"}).commit()) == (0, 0, 0, 3)


def test_rows_of_a_converted_directory_are_new(tmp_path: Path) -> None:
    pq.write_table(_rows(1, 2), tmp_path / "a.parquet")
    result = convert_to_delta(tmp_path)
    assert _counts(result) == (2, 0, 0, 0)
    assert str(result).endswith(f"inserted 2 rows; added 1 file, 2 rows, {result.added_bytes} bytes")
