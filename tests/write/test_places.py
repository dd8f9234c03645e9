"""`create_table` and `write_table` where there is a table, none, or one by somebody who is faster.

Tables of both formats in directories, and those of a catalog, do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltaberg
from deltaberg import CommitPolicy, load_catalog, open_table, write_table
from deltaberg.delta.transaction.transaction import Transaction as DeltaTransaction
from deltaberg.errors import (
    ConcurrentAppendError,
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.transaction.transaction import Transaction as IcebergTransaction
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_TRANSACTIONS: tuple[Any, ...] = (DeltaTransaction, IcebergTransaction)
_WIDE = pa.schema([("id", pa.int64()), ("p", pa.string())])
_ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", "b"]}, schema=_WIDE)


class Place:
    """Where tests create a table and write to it."""

    def __init__(self, kind: str, root: Path) -> None:
        self.form = kind.partition(" ")[0]
        self.root = root
        self.target: Any = root / "t"
        self.more: dict[str, Any] = {"format": self.form}
        if kind.endswith("catalog"):
            catalog = load_catalog("c", type="sql", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}/w")
            catalog.create_namespace("db")
            self.target, self.more = "db.t", {"catalog": catalog}

    def write(self, rows: Any, **arguments: Any) -> Any:
        return deltaberg.write_table(self.target, rows, **self.more, **arguments)

    def create(self, schema: Any = ID, **arguments: Any) -> Any:
        create: Any = deltaberg.create_table
        return create(self.target, schema, **self.more, **arguments)

    def open(self) -> Any:
        catalog = self.more.get("catalog")
        return open_table(self.target) if catalog is None else catalog.load_table(self.target)

    def ids(self) -> list[int]:
        found: list[int] = sorted(self.open().scan().to_arrow()["id"].to_pylist())
        return found

    def data_files(self) -> int:
        return len(list(self.root.rglob("*.parquet")))


@pytest.fixture(params=["delta", "iceberg", "iceberg catalog"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


@pytest.fixture
def before_commit(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What others do before each of the next commits, which are not their own."""
    others: list[Callable[[], object]] = []
    at_work: list[Callable[[], object]] = []

    def patched(commit: Callable[..., Any]) -> Callable[..., Any]:
        def late(*arguments: Any, **named: Any) -> Any:
            if others and not at_work:
                at_work.append(others.pop(0))
                at_work[0]()
                at_work.clear()
            return commit(*arguments, **named)

        return late

    for transaction in _TRANSACTIONS:
        monkeypatch.setattr(transaction, "commit", patched(transaction.commit))
    return others


# Writing


@pytest.mark.parametrize("mode", ["error", "append", "overwrite", "ignore"])
def test_a_new_table_comes_with_its_rows(place: Place, mode: str) -> None:
    tell: list[int] = []
    described = {"description": "d", "properties": {"x": "y", "none": None}}
    result = place.write(
        _ROWS.to_reader(), mode=mode, partition_by="p", progress=lambda done: tell.append(done.rows), **described
    )
    assert (result.committed, result.added_rows, result.inserted_rows, tell[-1]) == (True, 3, 3, 3)
    table = place.open()
    assert place.ids() == [1, 2, 3]
    assert table.properties["x"] == "y"
    assert "none" not in table.properties
    assert len(table.history()) == 1
    parts = table.partition_columns if place.form == "delta" else [part.name for part in table.spec.fields]
    said = table.metadata.description if place.form == "delta" else table.properties["comment"]
    assert (parts, said) == (["p"], "d")
    if place.form == "delta":
        (made,) = table.history()
        spelled = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite", "ignore": "Ignore"}[mode]
        assert (made.operation, made.info["operationParameters"]["mode"]) == ("WRITE", spelled)


def test_modes_of_a_table_that_is_there(place: Place) -> None:
    place.write(ids(1))
    with pytest.raises(TableExistsError, match="there is a table already") as caught:
        place.write(ids(2))
    assert caught.value.hint == 'pass mode="append" or mode="overwrite"'
    before = place.open()
    ignored = place.write(ids(2), mode="ignore")
    assert (ignored.committed, place.data_files(), place.ids()) == (False, 1, [1])
    if place.form == "delta":
        assert ignored.version == before.version
    else:
        assert ignored.snapshot_id == before.snapshot_id
    assert place.write(ids(2), mode="append").version > ignored.version
    assert place.ids() == [1, 2]
    assert place.write(ids(3), mode="overwrite").removed_files == 2
    assert place.ids() == [3]


@pytest.mark.parametrize("mode", ["append", "overwrite", "ignore"])
def test_others_create_the_table_first(place: Place, mode: str, before_commit: list[Callable[[], object]]) -> None:
    before_commit.append(lambda: place.write(ids(1)))
    assert place.write(ids(2), mode=mode).committed is (mode != "ignore")
    assert place.ids() == {"append": [1, 2], "overwrite": [2], "ignore": [1]}[mode]


@pytest.mark.parametrize(("mode", "data"), [("error", ids(2)), ("append", ids(2).to_reader())])
def test_others_who_are_first_stay(
    place: Place, mode: str, data: Any, before_commit: list[Callable[[], object]]
) -> None:
    """A new table was asked for, or the rows of the stream are gone by then. No file of them stays."""
    before_commit.append(lambda: place.write(ids(1)))
    with pytest.raises(TableExistsError, match="there is a table already"):
        place.write(data, mode=mode)
    assert (place.ids(), place.data_files()) == ([1], 1)


def test_an_open_table_moves_to_what_was_written(place: Place) -> None:
    place.write(ids(1))
    table = place.open()
    deltaberg.write_table(table, ids(2), mode="append")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert deltaberg.write_table(table, ids(3), mode="ignore").committed is False
    with pytest.raises(TableExistsError, match="there is a table already"):
        deltaberg.write_table(table, ids(3))
    assert place.ids() == [1, 2]


def test_which_rows_are_replaced(place: Place) -> None:
    """By either name of the condition, also where there is no table yet, and without the check of new rows."""
    with pytest.raises(ConstraintViolationError, match="violates the filter of the rows to be replaced"):
        place.write(_ROWS, mode="overwrite", where="p = 'a'", partition_by="p")
    with pytest.raises(TableNotFoundError, match=r"there is no table|the catalog has no such table"):
        place.open()
    place.write(_ROWS, mode="overwrite", where="p = 'a'", check=False, partition_by="p")
    place.write(pa.table({"id": [9], "p": ["a"]}), mode="overwrite", predicate="p = 'a'")
    assert place.ids() == [2, 3, 9]
    place.write(pa.table({"id": [8], "p": ["b"]}), mode="overwrite", dynamic=True)
    assert place.ids() == [8, 9]
    with pytest.raises(InvalidArgumentError, match="where and dynamic exclude each other"):
        place.write(_ROWS, mode="overwrite", dynamic=True, where="p = 'a'")
    for name, value in {"where": "id = 1", "dynamic": True, "check": False}.items():
        with pytest.raises(InvalidArgumentError, match=f"{name} has no meaning if mode is append"):
            place.write(_ROWS, mode="append", **{name: value})
    with pytest.raises(InvalidArgumentError, match="predicate and where are the same"):
        place.write(_ROWS, mode="overwrite", where="id = 1", predicate="id = 1")
    assert place.ids() == [8, 9]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_the_partitioning_of_a_table_that_is_there(place: Place, mode: str) -> None:
    place.write(_ROWS, partition_by="p")
    place.write(_ROWS, mode=mode, partition_by=["p"])
    with pytest.raises(InvalidArgumentError, match="partitioned by p, but no column is asked for"):
        place.write(_ROWS, mode=mode, partition_by=[])
    place.write(_ROWS, mode="overwrite", schema_mode="overwrite", partition_by="id")
    place.write(_ROWS, mode=mode, partition_by="id")


def test_columns_of_rows(place: Place) -> None:
    """What becomes of columns that the table lacks does not matter to a new table that is overwritten."""
    place.write(ids(1), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaError, match="the rows have columns that the table does not have: p"):
        place.write(_ROWS, mode="append")
    place.write(_ROWS, mode="append", schema_mode="merge")
    assert place.ids() == [1, 1, 2, 3]
    place.write(ids(7), mode="overwrite", schema_mode="overwrite", compression="zstd", target_file_size=1 << 20)
    assert place.open().schema.names == ["id"]


def test_arguments_of_the_commit_of_a_write(place: Place) -> None:
    """They reach the commit that creates the table, and that of a table that is there."""
    policy = CommitPolicy(retries=1)
    words = deltalake.CommitProperties(custom_metadata={"job": "a"} if place.form == "iceberg" else {"team": "a"})
    name = "job" if place.form == "iceberg" else "team"
    for number, said in enumerate(({name: "a"}, words, {name: "a"})):
        place.write(ids(number), mode="append", commit_properties=said, policy=policy)
        history = place.open().history()
        found = history[0].info[name] if place.form == "delta" else history[0].summary[name]
        assert (found, len(history)) == ("a", number + 1)
    progress = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("app", 1)])
    lacking: dict[str, Any] = {"branch": "main"}
    if place.form == "iceberg":
        assert place.write(ids(3), mode="append", branch="main").committed
        lacking = {"name": "n", "cluster_by": "id", "user_metadata": "m"}
        with pytest.raises(UnsupportedFeatureError, match="app_transactions applies only to Delta tables"):
            place.write(ids(4), mode="append", commit_properties=progress)
    else:
        place.write(ids(3), mode="append", commit_properties=progress)
        assert place.open().transactions["app"].version == 1
        lacking["sort_by"] = "id"
    before = place.ids()
    for one, value in lacking.items():
        for mode in ("error", "append", "overwrite", "ignore"):
            with pytest.raises(UnsupportedFeatureError, match=f"^{one} applies only to .* tables; this is an? "):
                place.write(ids(9), mode=mode, **{one: value})
    with pytest.raises(InvalidArgumentError, match="commit_properties is of the type object"):
        place.write(ids(9), mode="append", commit_properties=object())
    assert place.ids() == before


def test_a_new_table_is_ordered_or_clustered(place: Place) -> None:
    if place.form == "delta":
        place.write(ids(2, 1), cluster_by="id")
        assert place.open().clustering_columns == [("id",)]
    else:
        place.write(ids(2, 1), sort_by="id desc")
        assert [one.direction for one in place.open().sort_order.fields] == ["desc"]
    assert place.ids() == [1, 2]


# Creating


def test_if_a_table_exists(place: Place) -> None:
    created = place.create(properties={"x": "y"})
    created.append(ids(1))
    with pytest.raises(TableExistsError, match="there is a table already") as caught:
        place.create(_WIDE)
    assert caught.value.hint == 'use if_exists="ignore" or if_exists="replace"'
    kept = place.create(_WIDE, if_exists="ignore")
    assert (kept.schema.names, kept.scan().count()) == (["id"], 1)
    with pytest.raises(InvalidArgumentError, match="if_exists must be 'error', 'ignore' or 'replace', not 'drop'"):
        place.create(_WIDE, if_exists="drop")
    assert place.ids() == [1]
    new = place.create(_WIDE, if_exists="replace", partition_by="p", description="new")
    assert (new.schema.names, new.scan().count()) == (["id", "p"], 0)
    assert "x" not in new.properties
    assert len(new.history()) > 1


def test_what_is_replaced_may_be_missing(place: Place) -> None:
    assert place.create(if_exists="replace").scan().count() == 0


@pytest.mark.parametrize(("if_exists", "names"), [("ignore", ["id", "p"]), ("replace", ["id"])])
def test_others_create_an_empty_table_first(
    place: Place, if_exists: str, names: list[str], before_commit: list[Callable[[], object]]
) -> None:
    before_commit.append(lambda: place.create(_WIDE))
    assert place.create(if_exists=if_exists).schema.names == names


def test_others_who_create_an_empty_table_first_keep_it(
    place: Place, before_commit: list[Callable[[], object]]
) -> None:
    before_commit.append(lambda: place.create(_WIDE))
    with pytest.raises(TableExistsError, match="there is a table already"):
        place.create()
    assert place.open().schema.names == ["id", "p"]


def test_a_table_is_replaced_that_others_change(place: Place, before_commit: list[Callable[[], object]]) -> None:
    """Rows and columns that come meanwhile go as well, however often."""
    place.write(ids(1))
    before_commit.append(lambda: place.write(ids(2), mode="append"))
    before_commit.append(lambda: place.open().alter().add("x", pa.int32()).commit())
    new = place.create(_WIDE, if_exists="replace")
    assert (new.schema.names, new.scan().count(), before_commit) == (["id", "p"], 0, [])
    assert place.open().schema.names == ["id", "p"]


def test_a_table_that_others_never_stop_to_change_is_not_replaced(
    place: Place, monkeypatch: pytest.MonkeyPatch, before_commit: list[Callable[[], object]]
) -> None:
    monkeypatch.setattr("deltaberg.table.verbs.place._ATTEMPTS", 2)
    place.write(ids(1))
    before_commit.extend([lambda: place.write(ids(2), mode="append")] * 3)
    with pytest.raises(ConcurrentAppendError, match=r"another commit added data files|and it added a file"):
        place.create(_WIDE, if_exists="replace")
    assert place.ids() == [1, 2, 2]
    assert len(before_commit) == 1


def test_arguments_of_the_commit_that_creates_or_replaces(place: Place) -> None:
    place.create(policy=CommitPolicy(retries=1), commit_properties={"team": "a"})
    if place.form == "delta":
        assert place.open().history()[0].info["team"] == "a"
        for _ in range(2):
            replaced = place.create(if_exists="replace", txn=("app", 1), user_metadata="m")
        assert (replaced.version, replaced.history()[0].info["userMetadata"]) == (1, "m")
        lacking: dict[str, Any] = {"sort_by": "id", "branch": "b"}
    else:
        with pytest.raises(InvalidArgumentError, match="a new table has no branches"):
            place.create(if_exists="replace", branch="main")
        lacking = {"name": "n", "cluster_by": "id", "user_metadata": "m"}
    for one, value in lacking.items():
        for if_exists in ("error", "ignore", "replace"):
            with pytest.raises(UnsupportedFeatureError, match=f"^{one} applies only to .* tables; this is an? "):
                place.create(if_exists=if_exists, **{one: value})


def test_words_of_deltalake(place: Place) -> None:
    place.create(configuration={"a": "b"})
    assert place.open().properties["a"] == "b"
    with pytest.raises(InvalidArgumentError, match="configuration and properties are the same"):
        place.create(configuration={"a": "b"}, properties={"a": "b"})
    with pytest.raises(InvalidArgumentError, match="has no argument mod"):
        place.write(ids(1), mod="append")


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("argument", ["partition_by", "cluster_by", "sort_by"])
@pytest.mark.parametrize("names", [b"x", [1], [None], ["\ud800"], [("a", 1)], 7])
def test_names_of_columns_are_checked_whether_there_is_a_table(
    tmp_path: Path, format: Any, argument: str, names: Any
) -> None:
    write_table(tmp_path / "t", ids(1), format=format)
    for place, mode in (("t", "append"), ("t", "ignore"), ("new", "append")):
        call: Any = write_table
        with pytest.raises(InvalidArgumentError, match=r"is not a column name|does not name columns"):
            call(tmp_path / place, ids(2), format=format, mode=mode, **{argument: names})
    assert ids_of(open_table(tmp_path / "t")) == [1]
