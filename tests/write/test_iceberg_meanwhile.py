"""What other commits do to an Iceberg table while one is on its way: it fits, or it fails, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from deltaberg import IcebergTable, create_table, open_table
from deltaberg.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    InvalidArgumentError,
    MetadataChangedError,
)
from deltaberg.iceberg.manifests.write_manifest import encode_manifest
from deltaberg.iceberg.transaction import pending_source
from deltaberg.iceberg.transaction.pending import PendingFiles
from deltaberg.iceberg.write.add_files import add_existing_files
from tests.support.below_verbs import engine_of
from tests.support.racing import racing
from tests.support.rows import ids_of

_PARTS = pa.schema([("id", pa.int64()), ("p", pa.int32())])
_VERSION = "format-version"


def _rows(*ids: int, p: int = 1) -> pa.Table:
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, _PARTS)


def _table(root: Path, version: int = 2, more: Mapping[str, str] | None = None) -> IcebergTable:
    made = create_table(
        root, _PARTS, format="iceberg", properties={_VERSION: str(version), **(more or {})}, partition_by="p"
    )
    assert isinstance(made, IcebergTable)
    return made


def _other(root: Path) -> IcebergTable:
    return open_table(root, "iceberg")


def _by_pyiceberg(root: Path) -> list[int]:
    found: list[int] = StaticTable.from_metadata(_other(root).metadata_location).scan().to_arrow()["id"].to_pylist()
    return sorted(found)


@pytest.mark.req("ICE-SEQ-03", half="writer")
@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 3), (2, 3)])
@pytest.mark.parametrize("merges", [False, True])
def test_an_upgrade(tmp_path: Path, before: int, after: int, merges: bool) -> None:
    """Manifests that the first attempt has written of others leave out what those of a later version hold."""
    root = tmp_path / "t"
    least = "2" if merges else "100"
    table = _table(root, before, {"commit.manifest.min-count-to-merge": least})
    for number in range(4):
        table.append(_rows(number, number + 10, p=number))
    with racing(table, lambda: _other(root).alter().set({_VERSION: str(after)}).commit()) as transaction:
        transaction.delete("p = 1")
        transaction.append(_rows(20))
    assert transaction.result is not None
    assert transaction.result.retries == 1
    assert ids_of(_other(root)) == [0, 2, 3, 10, 12, 13, 20]
    assert _by_pyiceberg(root) == [0, 2, 3, 10, 12, 13, 20]
    written = {path.name for path in (root / "metadata").glob(f"*{transaction.token}*.avro")}
    assert len(written) == 1


@pytest.mark.req("BEY-35", half="writer")
@pytest.mark.parametrize("merges", [False, True])
def test_the_first_commit_of_version_3(tmp_path: Path, merges: bool) -> None:
    """It gives the rows that are there their ids, and a commit that it comes before keeps them."""
    root = tmp_path / "t"
    table = _table(root, 2, {"commit.manifest.min-count-to-merge": "2" if merges else "100"})
    table.append(_rows(1, 2, 3).set_column(1, "p", pa.array([1, 2, 3], pa.int32())))
    table.alter().set({_VERSION: "3"}).commit()

    def ids() -> dict[int, int]:
        rows = _other(root).scan(columns=["id", "_row_id"]).to_arrow().to_pylist()
        return {row["id"]: row["_row_id"] for row in rows}

    first_ids: dict[int, int] = {}

    def race() -> None:
        _other(root).append(_rows(9, p=9))
        first_ids.update(ids())

    with racing(table, race) as transaction:
        transaction.delete("p = 1")
    assert ids() == {number: first_ids[number] for number in (2, 3, 9)}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partitions_are_the_same_after_their_column_was_widened(tmp_path: Path, version: int) -> None:
    root = tmp_path / "t"
    table = _table(root, version)
    with table.transaction() as transaction:
        transaction.append(_rows(1))
        transaction.alter().widen("p", pa.int64())
        transaction.overwrite(_rows(2), dynamic=True)
    assert ids_of(table) == [2]
    table = _table(tmp_path / "u", version)

    def race() -> None:
        other = _other(tmp_path / "u")
        other.alter().widen("p", pa.int64()).commit()
        other.append(_rows(3))

    with (
        pytest.raises(ConcurrentAppendError, match="added data files that may hold rows to be replaced"),
        racing(table, race) as transaction,
    ):
        transaction.overwrite(_rows(4), dynamic=True)
    assert ids_of(_other(tmp_path / "u")) == [3]


def _add_a_required_column(root: Path) -> None:
    columns = pa.schema([*_PARTS, pa.field("k", pa.string(), nullable=False)])
    create_table(root, columns, format="iceberg", if_exists="replace")


def _replace_the_columns(root: Path) -> None:
    _other(root).overwrite(pa.table({"k": ["x"]}), schema_mode="overwrite", partition_by=[])


@pytest.mark.parametrize(
    ("race", "message"),
    [
        (lambda root: _other(root).alter().partition_by().drop("p").commit(), "removed the column p"),
        (_add_a_required_column, "made k a required column"),
        (_replace_the_columns, "removed the column id"),
    ],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda change: change.append(_rows(2)),
        lambda change: change.upsert(_rows(2), "id"),
        lambda change: change.merge(_rows(2), "source.id = target.id").when_not_matched_insert_all().execute(),
    ],
)
def test_columns_that_others_remove_or_require(
    tmp_path: Path, race: Callable[[Path], object], message: str, write: Callable[[Any], object]
) -> None:
    """Values are not lost in silence, and rows that no reader takes are not added."""
    root = tmp_path / "t"
    table = _table(root)
    with pytest.raises(MetadataChangedError) as caught, racing(table, lambda: race(root)) as transaction:
        write(transaction)
    assert message in str(caught.value)
    assert "refresh the table" in str(caught.value)
    assert list(root.glob("data/**/*.parquet")) == [] or race is _replace_the_columns


def test_columns_that_others_add_widen_and_rename_do_no_harm(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = _table(root)

    def race() -> None:
        _other(root).alter().add("more", pa.string()).widen("p", pa.int64()).rename("id", "number").commit()

    with racing(table, race) as transaction:
        transaction.append(_rows(1))
    assert _other(root).scan().to_arrow().to_pylist() == [{"number": 1, "p": 1, "more": None}]


@pytest.mark.parametrize(
    "where", [{"branch": "side"}, {"properties": {"wap.id": "w"}}, {"properties": {"wap.branch": "n"}}]
)
def test_columns_are_not_replaced_on_a_branch(tmp_path: Path, where: dict[str, Any]) -> None:
    """The rows of main would be read by the new columns before anything is published."""
    table = _table(tmp_path / "t")
    table.append(_rows(1))
    table.alter().create_branch("side").commit()
    with pytest.raises(InvalidArgumentError, match="columns of a table are those of all of its branches"):
        table.overwrite(pa.table({"k": ["x"]}), schema_mode="overwrite", **where)
    assert _by_pyiceberg(tmp_path / "t") == [1]


def test_branches_have_no_rows_without_a_required_column(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = _table(root)
    table.append(_rows(1))
    table.alter().create_branch("side").commit()
    with pytest.raises(InvalidArgumentError, match="k is required, and the rows of the branch 'side' lack it"):
        _add_a_required_column(root)
    required = pa.table({"k": ["x"]}, pa.schema([pa.field("k", pa.string(), nullable=False)]))
    with pytest.raises(InvalidArgumentError, match="'side' lack it"):
        table.overwrite(required, schema_mode="overwrite", partition_by=[])
    table.overwrite(pa.table({"id": [5], "k": ["x"]}), schema_mode="overwrite", partition_by=[])
    assert _other(root).scan().to_arrow().to_pylist() == [{"id": 5, "k": "x"}]
    side = open_table(root, "iceberg", ref="side").scan().to_arrow().to_pylist()
    assert side == [{"id": 1, "k": None}]


def test_names_of_columns_that_others_change_while_files_are_added(tmp_path: Path) -> None:
    """By the mapping of one commit, files that another one has added would be read with the values of other columns."""
    columns = pa.schema([("id", pa.int64()), ("a", pa.string())])
    root = tmp_path / "t"
    table: Any = create_table(root, columns, format="iceberg")
    for name, more in (("ours", {"a": ["a"]}), ("theirs", {"b": ["b"], "a": ["new"]})):
        pq.write_table(pa.table({"id": [len(more)], **more}), tmp_path / f"{name}.parquet")

    def race() -> None:
        other = _other(root)
        other.alter().rename("a", "b").commit()
        other.alter().add("a", pa.string()).commit()
        other.add_files([str(tmp_path / "theirs.parquet")])

    with pytest.raises(MetadataChangedError, match="the names by which they are found"), racing(table, race) as late:
        add_existing_files(engine_of(late), [str(tmp_path / "ours.parquet")])
    assert _other(root).scan().to_arrow().to_pylist() == [{"id": 2, "b": "b", "a": "new"}]

    def same() -> None:
        _other(tmp_path / "u").add_files([str(tmp_path / "theirs.parquet")])

    table = create_table(tmp_path / "u", {"id": pa.int64(), "a": pa.string(), "b": pa.string()}, format="iceberg")
    with racing(table, same) as transaction:
        add_existing_files(engine_of(transaction), [str(tmp_path / "ours.parquet")])
    assert ids_of(_other(tmp_path / "u")) == [1, 2]


def test_a_condition_is_not_evaluated_again_for_other_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "t"
    columns = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("r", pa.int64())])
    table: Any = create_table(root, columns, format="iceberg", partition_by=["p as f", "r as g"])
    table.append(pa.table({"id": [1, 2], "p": [1, 2], "r": [2, 1]}, columns))

    def race() -> None:
        other = _other(root)
        change = other.alter().rename("p", "x").rename("r", "p").rename("x", "r")
        change.commit()
        other.append(pa.table({"id": [3], "p": [3], "r": [1]}))

    transactions = [racing(table, race)]
    plain = type(table).transaction
    monkeypatch.setattr(
        type(table), "transaction", lambda self, **more: transactions.pop() if transactions else plain(self, **more)
    )
    with pytest.raises(ConcurrentAppendError, match="another commit added data files"):
        table.delete("p = 1")
    assert ids_of(_other(root)) == [1, 2, 3]


def test_many_overwrites_of_a_transaction_look_at_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltaberg.iceberg.transaction.pending import PendingFiles

    calls: list[int] = []
    plain = PendingFiles.drop_added

    def counted(self: PendingFiles, paths: Any) -> None:
        calls[-1] += 1
        plain(self, paths)

    monkeypatch.setattr(PendingFiles, "drop_added", counted)
    table = _table(tmp_path / "t")
    with table.transaction() as transaction:
        for number in range(6):
            calls.append(0)
            transaction.overwrite(_rows(number, p=number), dynamic=True)
    assert calls == [1] * 6
    assert ids_of(table) == list(range(6))


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_changed_in_a_file_that_is_deleted_as_a_whole(tmp_path: Path, mode: Any) -> None:
    """Rows that others change meanwhile are kept: the condition is evaluated again, unless the file itself is gone."""
    root = tmp_path / "t"

    def race() -> None:
        _other(root).update({"p": "p + 1"}, "id = 1", strategy=mode)

    table = _table(root, 2, {"write.delete.isolation-level": "snapshot"})
    table.append(_rows(1, 2))
    transaction = racing(table, race)
    transaction.delete("p = 1")
    if mode == "copy-on-write":
        with pytest.raises(ConcurrentDeleteDeleteError, match="another commit removed 1 data files that are to be"):
            transaction.commit()
        assert sorted(row["p"] for row in _other(root).scan().to_arrow().to_pylist()) == [1, 2]
        table.refresh().delete("p = 1")
    else:
        assert transaction.commit().committed
    assert ids_of(_other(root)) == [1]


def test_an_upgrade_after_deletes_of_the_same_transaction(tmp_path: Path) -> None:
    """It is refused at once, and not as if somebody else had upgraded the table."""
    table = _table(tmp_path / "t")
    table.append(_rows(1, 2))
    transaction = table.transaction()
    transaction.delete("id = 1", strategy="merge-on-read")
    with pytest.raises(InvalidArgumentError, match="commit the deletes first"):
        transaction.alter().set({_VERSION: "3"})
    transaction.abort()
    with table.transaction() as transaction:
        transaction.alter().set({_VERSION: "3"})
        transaction.delete("id = 1", strategy="merge-on-read")
    assert ids_of(_other(tmp_path / "t")) == [2]


def test_files_of_a_transaction_are_described_once_for_later_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(tmp_path / "t", 3)
    for number in range(6):
        table.append(_rows(number, number + 10, p=number))
    descriptions: list[int] = []

    def counted(*args: Any, **options: Any) -> bytes:
        descriptions.append(1)
        return encode_manifest(*args, **options)

    monkeypatch.setattr(pending_source, "encode_manifest", counted)
    with table.transaction() as transaction:
        for number in range(6):
            transaction.delete(f"id = {number}", strategy="merge-on-read")
    # The last one is looked at by nothing.
    assert len(descriptions) == 5
    assert ids_of(table) == list(range(10, 16))
