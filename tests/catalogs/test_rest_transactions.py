"""Transactions of several tables of a REST catalog: all changes become visible, or none."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import CommitConflictError, CommitUnknownError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.table.commit.commit import ClockedPolicy
from tests.catalogs.rest_writer import WritableServer
from tests.support.pages import run_blocks
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend

_POLICY = ClockedPolicy(retries=4, wait=lambda _: None)
_PATH = "/v1/transactions/commit"


@pytest.fixture
def catalog(writable: WritableServer) -> Any:
    """Our client of the catalog, with three tables, each of which has a row."""
    catalog: Any = deltaberg.load_catalog("far", uri=writable.uri)
    for name in "abc":
        catalog.create_table(f"sales.{name}", pa.schema({"id": pa.int64()})).append(ids(0))
    writable.asked.clear()
    return catalog


def _rows(catalog: Any) -> list[list[int]]:
    return [ids_of(catalog.load_table(f"sales.{name}")) for name in "abc"]


def _files(catalog: Any) -> set[Path]:
    places = [catalog.load_table(f"sales.{name}").location.removeprefix("file://") for name in "abc"]
    return {file for place in places for file in Path(place).rglob("*") if file.suffix in (".parquet", ".avro")}


@pytest.mark.parametrize(
    "faults", [[], ["lost"], ["never"], ["busy", "late"], ["doubled"], ["garbled"], ["cut"], ["refused"]]
)
def test_all_tables_change_once(writable: WritableServer, catalog: Any, faults: list[str]) -> None:
    writable.faults += faults
    with catalog.transaction(policy=_POLICY) as several:
        several.table("sales.a").append(ids(1))
        changed = several.table("sales.b", properties={"load": "7"})
        changed.append(ids(1, 2))
        changed.delete("id = 0")
        several.table("sales.c").alter().set({"owner": "ada"})
        assert several.table(("sales", "a")) is several.table("sales.a")
        assert _rows(catalog) == [[0], [0], [0]]
    assert _rows(catalog) == [[0, 1], [1, 2], [0]]
    assert {levels[-1]: (one.committed, one.added_rows) for levels, one in several.results.items()} == {
        "a": (True, 1),
        "b": (True, 2),
        "c": (True, 0),
    }
    assert catalog.load_table("sales.c").properties["owner"] == "ada"
    assert [len(catalog.load_table(f"sales.{name}").history()) for name in "abc"] == [2, 2, 1]
    newest = several.results["sales", "b"].snapshot_id
    assert catalog.load_table("sales.b").metadata.snapshots[newest].summary["load"] == "7"
    bodies = [json.loads(one.body)["table-changes"] for one in writable.asked if one.path == _PATH]
    assert {tuple(change["identifier"]["name"] for change in body) for body in bodies} == {("a", "b", "c")}
    assert writable.held == []


def test_another_commit_to_one_of_the_tables(writable: WritableServer, catalog: Any) -> None:
    """Appends fit on top of it. Where a change does not, nothing is committed, and the new files are deleted."""
    writable.before.append(lambda: catalog.load_table("sales.b").append(ids(9)))
    with catalog.transaction(policy=_POLICY) as several:
        several.table("sales.a").append(ids(1))
        several.table("sales.b").append(ids(1))
    assert _rows(catalog) == [[0, 1], [0, 1, 9], [0]]
    assert {one.retries for one in several.results.values()} == {1}
    writable.before.append(lambda: catalog.load_table("sales.b").append(ids(8)))
    before = _files(catalog)
    several = catalog.transaction(policy=_POLICY)
    several.table("sales.a").append(ids(2))
    several.table("sales.b").overwrite(ids(2))
    with pytest.raises(CommitConflictError, match="sales/b"):
        several.commit()
    assert _rows(catalog) == [[0, 1], [0, 1, 8, 9], [0]]
    # The other writer has added a data file, a manifest and a manifest list.
    assert len(_files(catalog) - before) == 3


@pytest.mark.parametrize("fault", ["late", "never"])
def test_a_late_request_and_changes_by_others(writable: WritableServer, catalog: Any, fault: str) -> None:
    """Somebody sets a property of one table while the request is on its way: it may still arrive, and is not lost."""
    writable.faults.append(fault)
    writable.before.append(lambda: catalog.load_table("sales.c").alter().set({"x": "y"}).commit())
    with catalog.transaction(policy=_POLICY) as several:
        several.table("sales.a").append(ids(1))
        several.table("sales.c").alter().set({"owner": "ada"})
    assert _rows(catalog) == [[0, 1], [0], [0]]
    assert len(catalog.load_table("sales.a").history()) == 2
    assert catalog.load_table("sales.c").properties == {"x": "y", "owner": "ada"}


def test_nobody_knows(writable: WritableServer, catalog: Any) -> None:
    """The files stay, since the commit may still arrive."""
    writable.faults += ["never"] * 5 + ["late"]
    several = catalog.transaction(policy=_POLICY)
    several.table("sales.a").append(ids(1))
    several.table("sales.b").append(ids(1))
    with pytest.raises(CommitUnknownError) as caught:
        several.commit()
    assert _rows(catalog) == [[0], [0], [0]]
    catalog.load_table("sales.c").append(ids(5))
    assert _rows(catalog) == [[0, 1], [0, 1], [0, 5]]
    found = deltaberg.find_commit("sales.a", caught.value.context["token"], catalog=catalog)
    assert found is not None


def test_a_server_that_carries_out_a_part(writable: WritableServer, catalog: Any) -> None:
    """The protocol forbids it. What is there is told, and no file is deleted."""
    writable.faults.append("never")

    def part() -> None:
        body = json.loads(next(one.body for one in reversed(writable.asked) if one.path == _PATH))
        writable._changed(("sales", "a"), json.dumps(body["table-changes"][0]))

    writable.before.append(part)
    several = catalog.transaction(policy=_POLICY)
    several.table("sales.a").append(ids(1))
    several.table("sales.b").append(ids(1))
    with pytest.raises(CommitUnknownError, match=r"in sales\.a, but not in the other tables"):
        several.commit()
    assert _rows(catalog) == [[0, 1], [0], [0]]


def test_blocks_that_fail(writable: WritableServer, catalog: Any) -> None:
    before = _files(catalog)

    def failing() -> None:
        with catalog.transaction() as several:
            several.table("sales.a").append(ids(1))
            raise ZeroDivisionError

    def giving_a_part_up() -> None:
        with catalog.transaction() as several:
            several.table("sales.b").append(ids(1))
            with suppress(ZeroDivisionError), several.table("sales.a") as part:
                part.append(ids(1))
                raise ZeroDivisionError

    def committing_a_part() -> None:
        with catalog.transaction() as several:
            several.table("sales.a").append(ids(1))
            several.table("sales.a").commit()

    def naming_a_branch_later() -> None:
        with catalog.transaction() as several:
            several.table("sales.a").append(ids(1))
            several.table("sales.a", branch="b")

    def having_a_part_decide_how_long_all_are_tried() -> None:
        with catalog.transaction() as several:
            several.table("sales.a", policy=_POLICY)

    def asking_a_part_for_what_the_format_lacks() -> None:
        with catalog.transaction() as several:
            several.table("sales.a", user_metadata="nightly")

    def going_on_after_the_end() -> None:
        with catalog.transaction() as several:
            pass
        several.table("sales.a")

    for work, error, message in (
        (failing, ZeroDivisionError, None),
        (giving_a_part_up, InvalidArgumentError, "has ended"),
        (committing_a_part, InvalidArgumentError, "a part of one of several tables"),
        (naming_a_branch_later, InvalidArgumentError, "a part of the transaction already"),
        (having_a_part_decide_how_long_all_are_tried, InvalidArgumentError, "policy is about the commit of all tables"),
        (
            asking_a_part_for_what_the_format_lacks,
            UnsupportedFeatureError,
            "user_metadata applies only to Delta",
        ),
        (going_on_after_the_end, InvalidArgumentError, "has ended"),
    ):
        with pytest.raises(error, match=message):
            work()
    assert (_rows(catalog), _files(catalog)) == ([[0], [0], [0]], before)
    with catalog.transaction() as several, several.table("sales.a") as part:
        part.append(ids(1))
    assert _rows(catalog) == [[0, 1], [0], [0]]
    with catalog.transaction() as several:
        several.table("sales.a")
    assert not several.results["sales", "a"].committed
    assert [one.path for one in writable.asked].count(_PATH) == 1


def test_catalogs_without_such_transactions(writable: WritableServer, tmp_path: Path) -> None:
    writable.config["endpoints"] = ["GET /v1/{prefix}/namespaces"]
    near: Any = deltaberg.load_catalog("near", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    far: Any = deltaberg.load_catalog("other", uri=writable.uri)
    for catalog in (near, far):
        with pytest.raises(UnsupportedFeatureError, match="no transactions of several tables") as caught:
            catalog.transaction()
        assert "one table after the other" in str(caught.value)


def test_the_example_of_the_page_runs(catalog: Any, writable: WritableServer) -> None:
    columns = pa.schema({"id": pa.int64(), "amount": pa.int64()})
    for name in ("orders", "stock"):
        catalog.create_table(f"sales.{name}", columns).append(pa.table({"id": [1, 2], "amount": [0, 3]}))
    names = {"load_catalog": deltaberg.load_catalog, "pa": pa}
    places = {"https://catalog.example": writable.uri}
    run_blocks("docs/catalogs.md", names, heading="## Several tables at once", places=places)
    assert [ids_of(catalog.load_table(f"sales.{name}")) for name in ("orders", "stock")] == [[1, 2, 3], [2]]
