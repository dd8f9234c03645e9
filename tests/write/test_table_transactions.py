"""Several operations of the public interface that become one version, or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import DeltaTable, create_table
from deltaberg.errors import (
    CommitUnknownError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    DeltabergError,
    InvalidArgumentError,
    SchemaError,
    StorageError,
    UnsupportedFeatureError,
)
from deltaberg.storage.base import PutOutcome, PutResult
from deltaberg.storage.local import LocalStorage
from deltaberg.table.commit.commit import ClockedPolicy
from tests.support.below_verbs import engine_of
from tests.support.log_entries import actions_at
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])


def _rows(*numbers: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [p] * len(numbers)})


def _data_files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*.parquet")}


def _live(table: DeltaTable) -> set[str]:
    return set(table.live_files.column("path").to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """A partitioned table of two rows in two files."""
    made = create_table(tmp_path / "t", _COLUMNS, partition_by="p", properties={"delta.columnMapping.mode": "name"})
    made.append(pa.table({"id": [1, 2], "p": ["a", "b"]}))
    return made


@pytest.mark.req("DL-GEN-04", "DL-LOG-02")
@pytest.mark.req("DL-ACT-23", half="writer")
def test_later_operations_see_earlier_ones(tmp_path: Path, table: DeltaTable) -> None:
    old = _data_files(tmp_path / "t")
    with table.transaction(user_metadata="nightly") as transaction:
        transaction.append(_rows(3, p="a"))
        transaction.append(_rows(4, p="c").append_column("x", pa.array([0.5])), schema_mode="merge")
        transaction.alter().rename("x", "y").set({"owner": "ada"})
        # It replaces the row that was there, and the one that the transaction has added.
        transaction.overwrite(_rows(5, p="a").append_column("y", pa.array([1.5])), where="p = 'a'")
        assert ids_of(DeltaTable(tmp_path / "t")) == [1, 2]
        assert table.version == 1
    result = transaction.result
    assert result is not None
    assert (result.version, result.added_files, result.removed_files, result.added_rows) == (2, 2, 1, 2)
    opened = DeltaTable(tmp_path / "t", validate=True)
    for reader in (table, opened):
        rows = sorted(reader.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        assert rows == [
            {"id": 2, "p": "b", "y": None},
            {"id": 4, "p": "c", "y": 0.5},
            {"id": 5, "p": "a", "y": 1.5},
        ]
        assert reader.properties["owner"] == "ada"
    actions = actions_at(tmp_path / "t", 2)
    assert sorted(name for action in actions for name in action) == [
        *("add", "add", "commitInfo", "metaData", "remove"),
    ]
    # The file that was replaced at once is gone.
    assert _data_files(tmp_path / "t") == old | _live(table)
    info = actions[0]["commitInfo"]
    assert (info["operation"], info["userMetadata"]) == ("TRANSACTION", "nightly")
    named = [one["operation"] for one in json.loads(info["operationParameters"]["operations"])]
    assert named == ["WRITE", "WRITE", "RENAME COLUMN", "SET TBLPROPERTIES", "WRITE"]


def test_one_operation_is_recorded_as_itself(tmp_path: Path, table: DeltaTable) -> None:
    with table.transaction() as transaction:
        transaction.append(_rows(3))
    info = actions_at(tmp_path / "t", 2)[0]["commitInfo"]
    assert (info["operation"], info["operationParameters"]) == ("WRITE", {"mode": "Append", "partitionBy": '["p"]'})
    assert info["isBlindAppend"] is True


@pytest.mark.req("DL-LOG-03", half="writer")
def test_an_exception_leaves_nothing(tmp_path: Path, table: DeltaTable) -> None:
    old = _data_files(tmp_path / "t")

    def fail() -> None:
        with table.transaction() as transaction:
            transaction.append(_rows(3))
            transaction.overwrite(_rows(4))
            assert len(_data_files(tmp_path / "t")) > len(old)
            raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        fail()
    assert _data_files(tmp_path / "t") == old
    assert DeltaTable(tmp_path / "t").version == 1


def test_an_abort_by_hand(tmp_path: Path, table: DeltaTable) -> None:
    old = _data_files(tmp_path / "t")
    transaction = table.transaction()
    transaction.append(_rows(3))
    transaction.abort()
    assert _data_files(tmp_path / "t") == old
    with pytest.raises(InvalidArgumentError, match="not committed, and has ended"):
        transaction.append(_rows(4))
    assert _data_files(tmp_path / "t") == old


def test_an_operation_that_fails_has_changed_nothing(tmp_path: Path, table: DeltaTable) -> None:
    with table.transaction() as transaction:
        transaction.append(_rows(3))
        before = engine_of(transaction).snapshot
        files = _data_files(tmp_path / "t")
        wrong = pa.table({"id": ["seven"], "p": ["a"], "new": [1]})
        with pytest.raises(SchemaError, match="string cannot be written to a column of the type long"):
            transaction.append(wrong, schema_mode="merge")
        with pytest.raises(SchemaError, match="the rows have columns that the table does not have: new"):
            transaction.overwrite(wrong)
        after = engine_of(transaction).snapshot
        assert after.schema == before.schema
        assert after.live.table == before.live.table
        assert _data_files(tmp_path / "t") == files
    assert (ids_of(table), table.schema.names) == ([1, 2, 3], ["id", "p"])
    assert sorted(name for action in actions_at(tmp_path / "t", 2) for name in action) == ["add", "commitInfo"]


def test_a_lost_race_leaves_no_files(tmp_path: Path, table: DeltaTable) -> None:
    other = DeltaTable(tmp_path / "t")
    transaction = table.transaction(isolation="WriteSerializable")
    transaction.append(_rows(3))
    transaction.overwrite(_rows(4), where="p = 'a'")
    other.overwrite(_rows(), where="p = 'a'")
    with pytest.raises(ConcurrentDeleteDeleteError, match=r"version 2 .* removed a file that this change removes, too"):
        transaction.commit()
    assert transaction.result is None
    assert len(_data_files(tmp_path / "t")) == 2
    assert ids_of(DeltaTable(tmp_path / "t")) == [2]


@pytest.mark.parametrize("is_known", [False, True])
def test_files_stay_unless_the_commit_surely_failed(
    tmp_path: Path, table: DeltaTable, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    def put(*_arguments: Any, **_options: Any) -> PutResult:
        if is_known:
            raise StorageError("denied")
        return PutResult(PutOutcome.UNKNOWN, StorageError("no answer"))

    transaction = table.transaction(policy=ClockedPolicy(sends=2, wait=lambda _: None))
    transaction.append(_rows(3))
    written = _data_files(tmp_path / "t")
    monkeypatch.setattr(LocalStorage, "put", put)
    with pytest.raises(StorageError if is_known else CommitUnknownError, match=r"denied|no answer"), transaction:
        pass
    assert len(written) == 3
    assert (_data_files(tmp_path / "t") == written) == (not is_known)


@pytest.mark.req("DL-ACT-25", half="writer")
def test_progress_that_is_recorded_already(tmp_path: Path, table: DeltaTable) -> None:
    for number in range(2):
        with table.transaction(txn=("app", 7)) as transaction:
            transaction.append(_rows(3))
            transaction.overwrite(_rows(4), where="p = 'a'")
        assert transaction.result is not None
        assert transaction.result.committed == (number == 0)
    assert (table.version, ids_of(table)) == (2, [2, 4])
    assert _data_files(tmp_path / "t") >= _live(table)


def test_nothing_after_the_end(table: DeltaTable) -> None:
    with table.transaction() as transaction:
        transaction.append(_rows(3))
    for change in (transaction.append, transaction.overwrite):
        with pytest.raises(InvalidArgumentError, match="committed already"):
            change(_rows(4))
    with pytest.raises(InvalidArgumentError, match="committed already"):
        transaction.alter().add("z", pa.int8())
    with pytest.raises(InvalidArgumentError, match="committed already"), transaction:
        pass
    assert ids_of(table) == [1, 2, 3]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_transaction_is_entered_again(tmp_path: Path, format: Any) -> None:
    table = create_table(tmp_path / "again", {"id": pa.int64()}, format=format)
    transaction = table.transaction()
    with transaction:
        transaction.append(pa.table({"id": [1]}))
    with pytest.raises(InvalidArgumentError, match="committed already, and has ended"), transaction:
        pass
    stopped = table.transaction()
    stopped.abort()
    with pytest.raises(InvalidArgumentError, match="not committed, and has ended"), stopped:
        pass
    assert table.scan().count() == 1


def test_a_part_has_no_commit_of_its_own(table: DeltaTable) -> None:
    with table.transaction() as transaction:
        altered = transaction.alter().add("z", pa.int8())
        with pytest.raises(InvalidArgumentError, match="leave out commit"):
            altered.commit()
    assert (table.version, table.schema.names) == (2, ["id", "p", "z"])


def test_row_ids_of_one_commit(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ids().schema, properties={"delta.enableRowTracking": "true"})
    with table.transaction() as transaction:
        transaction.append(ids(1, 2))
        transaction.append(ids(3))
        transaction.overwrite(ids(4, 5))
        transaction.append(ids(6))
    files = table.live_files.select(["baseRowId", "defaultRowCommitVersion"]).to_pylist()
    assert sorted(tuple(file.values()) for file in files) == [(0, 1), (2, 1)]
    assert table.row_id_high_water_mark == 2
    assert ids_of(table) == [4, 5, 6]


def test_a_filter_that_means_something_else_before(tmp_path: Path, table: DeltaTable) -> None:
    """A filter on a column that the transaction has renamed claims the whole table, so that no commit is overlooked."""
    other = DeltaTable(tmp_path / "t")
    transaction = table.transaction()
    transaction.alter().rename("p", "q")
    transaction.overwrite(_rows(4, p="b").rename_columns(["id", "q"]), where="q = 'b'")
    other.append(_rows(9, p="c"))
    with pytest.raises(ConcurrentAppendError, match="the whole table was read"):
        transaction.commit()
    assert ids_of(DeltaTable(tmp_path / "t")) == [1, 2, 9]


@pytest.mark.parametrize("strategy", ["merge-on-read", "copy-on-write"])
@pytest.mark.req("DL-ACT-22", "DL-ACT-23", half="writer")
def test_rows_are_deleted_twice(tmp_path: Path, strategy: Any) -> None:
    """Each path is added and removed at most once, and rows that the transaction has added can be deleted."""
    table = create_table(tmp_path / "t", ids().schema, properties={"delta.enableDeletionVectors": "true"})
    table.append(ids(*range(10)))
    with table.transaction() as transaction:
        transaction.delete("id = 1", strategy=strategy)
        transaction.append(ids(20, 21, 22))
        transaction.delete("id IN (2, 21)", strategy=strategy)
        transaction.delete("id = 3", strategy=strategy)
        transaction.append(ids(3))
    assert ids_of(table) == [0, 3, 4, 5, 6, 7, 8, 9, 20, 22]
    assert ids_of(DeltaTable(tmp_path / "t", validate=True)) == ids_of(table)
    for kind in ("add", "remove"):
        paths = [action[kind]["path"] for action in actions_at(tmp_path / "t", 2) if kind in action]
        assert len(paths) == len(set(paths)) > 0
    assert _data_files(tmp_path / "t") >= _live(table)
    assert len(_data_files(tmp_path / "t") - _live(table)) == (strategy == "copy-on-write")


def test_changes_of_rows_are_never_hidden_from_the_change_data_feed(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ids().schema, properties={"delta.enableChangeDataFeed": "true"})
    table.append(ids(1, 2))
    with table.transaction() as transaction:
        transaction.append(ids(3))
        with pytest.raises(UnsupportedFeatureError, match="commit them on their own"):
            transaction.delete("id = 1")
    assert ids_of(table) == [1, 2, 3]
    with table.transaction() as transaction:
        transaction.alter().set({"owner": "ada"})
        transaction.delete("id = 1")
    changed = table.changes(2, 3).to_arrow().select(["id", "_change_type"]).to_pylist()
    assert sorted(tuple(row.values()) for row in changed) == [(1, "delete"), (3, "insert")]


def test_progress_is_told(tmp_path: Path, table: DeltaTable) -> None:
    told: list[tuple[int, int]] = []
    batches = [_rows(*range(start, start + 5)).to_batches()[0] for start in range(10, 40, 5)]
    with table.transaction(progress=told.append) as transaction:
        transaction.append(pa.Table.from_batches(batches))
    assert [rows for rows, _ in told] == [5, 10, 15, 20, 25, 30]
    assert told[-1][1] <= 1

    def stop(_: object) -> None:
        raise KeyError("stop")

    before = _data_files(tmp_path / "t")
    with pytest.raises(KeyError, match="stop"), table.transaction(progress=stop) as transaction:
        transaction.append(_rows(50))
    assert _data_files(tmp_path / "t") == before


def test_a_result_says_what_was_done(table: DeltaTable) -> None:
    result = table.append(_rows(3))
    size = result.added_bytes
    assert str(result) == f"version 2: operation WRITE; inserted 1 row; added 1 file, 1 row, {size} bytes"
    shown = repr(result)
    assert shown.startswith(f"CommitResult(version=2, token='{result.token}', operation='WRITE', added_files=1, ")
    assert "removed" not in shown
    assert "warnings" not in shown
    replaced = table.overwrite(_rows(4))
    assert "removed 3 files" in str(replaced)
    with table.transaction(txn=("app", 1)) as transaction:
        transaction.append(_rows(5))
    assert "there was nothing to do" in str(table.append(_rows(5), txn=("app", 1)))


@pytest.mark.parametrize("verb", ["delete", "update"])
def test_rows_that_match_only_later_are_a_conflict(table: DeltaTable, verb: str) -> None:
    """An operation that finds no rows relies on there being none."""

    def commit() -> None:
        with table.transaction() as transaction:
            if verb == "delete":
                transaction.delete("p = 'z'")
            else:
                transaction.update({"id": 0}, "p = 'z'")
            transaction.append(_rows(9))
            DeltaTable(table.location).append(_rows(10, p="z"))

    with pytest.raises(
        ConcurrentAppendError, match=r"version 2 .* added a file that had to be read: the filter p = 'z'"
    ):
        commit()
    assert ids_of(DeltaTable(table.location)) == [1, 2, 10]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_that_move_before_they_have_ids(tmp_path: Path, vectors: str) -> None:
    """They get their ids from the file where they end, even if another commit takes the ids that came next first."""
    properties = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": vectors}
    table = create_table(tmp_path, _COLUMNS, properties=properties)
    table.append(_rows(1, 2))
    with table.transaction() as transaction:
        transaction.append(_rows(3, 4, 5, p="b"))
        transaction.update({"p": "'c'"}, "id in (2, 4, 5)")
        transaction.delete("id in (1, 3, 5)")
        transaction.update({"p": "'d'"}, "id = 4")
        DeltaTable(tmp_path).append(_rows(7, 8))
        transaction.commit()
    found = DeltaTable(tmp_path).scan(columns=["id", "p", "_metadata.row_id", "_metadata.row_commit_version"])
    rows = {row["id"]: (row["p"], *row["_metadata"].values()) for row in found.to_arrow().to_pylist()}
    (first, last) = rows.pop(2), rows.pop(4)
    assert (first, last[0], last[2]) == (("c", 1, 3), "d", 3)
    assert rows == {7: ("a", 2, 2), 8: ("a", 3, 2)}
    assert last[1] > 3


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_what_is_raised_names_the_table(kind: Any, tmp_path: Path) -> None:
    table = create_table(tmp_path / "named", _COLUMNS, format=kind)
    calls: tuple[Callable[[], object], ...] = (
        lambda: table.append({"id": 1}),
        lambda: table.delete("none = 1"),
        lambda: table.alter().rename("none", "one"),
        lambda: table.restore(99),
        lambda: table.maintain(deltaberg.MaintenancePolicy(steps=["vacuum", "expire_snapshots"])),
    )
    table.append(_rows(1))
    for call in calls:
        with pytest.raises(DeltabergError) as raised:
            call()
        assert raised.value.context["table"] == table.location
    with table.transaction() as transaction:
        with pytest.raises(InvalidArgumentError) as refused:
            transaction.append({"id": 1})
        assert refused.value.context["table"] == table.location
        transaction.update({"p": "'b'"})
        deltaberg.open_table(tmp_path / "named").update({"p": "'c'"})
        with pytest.raises(ConcurrentAppendError) as lost:
            transaction.commit()
    assert lost.value.context["table"] == table.location
