"""Following a table without Spark: every commit once, from any token on, on both formats."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import (
    DeltabergError,
    SchemaError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.support.pages import run_blocks


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([f"p{one % 2}" for one in ids], pa.string())})


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    create: Any = create_table
    properties = {"delta.enableChangeDataFeed": "true"} if request.param == "delta" else None
    return create(tmp_path / "t", _rows().schema, format=request.param, partition_by="p", properties=properties)


def _ids(commit: Any) -> list[int]:
    found: list[int] = sorted(commit.rows.to_arrow()["id"].to_pylist())
    return found


def test_rows_then_commits_each_once(table: Any) -> None:
    """From each token on, by another table object: what came before it is not given again."""
    table.append(_rows(1, 2))
    table.append(_rows(3))
    (first,) = table.follow()
    assert (_ids(first), first.is_initial) == ([1, 2, 3], True)
    table.append(_rows(4))
    table.compact()
    table.append(_rows())
    table.append(_rows(5, 6))
    commits = list(open_table(table.location).follow(first.token))
    assert [_ids(commit) for commit in commits] == [[4], [5, 6]]
    assert [commit.is_initial for commit in commits] == [False, False]
    assert [_ids(commit) for commit in table.follow(commits[0].token)] == [[5, 6]]
    assert list(table.follow(commits[1].token)) == []
    assert list(table.follow("latest")) == []
    named = [_ids(commit) for commit in table.follow(commits[1].version)]
    assert named == [[5, 6]]
    chosen = list(table.follow(first.token, filter="id > 5", columns=["id"]))
    assert [commit.rows.to_arrow().to_pydict() for commit in chosen] == [{"id": []}, {"id": [6]}]


def test_commits_are_given_as_they_come(table: Any) -> None:
    """Until an event is set."""
    stop, received = threading.Event(), []
    table.append(_rows(1))
    writer = open_table(table.location)
    for commit in table.follow(poll=0.001, stop=stop):
        received.append(_ids(commit))
        if len(received) < 4:
            writer.append(_rows(10 * len(received)))
        else:
            stop.set()
    assert received == [[1], [10], [20], [30]]


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize(
    "last",
    [lambda table: table.delete("id = 1"), lambda table: table.overwrite(_rows(2)), lambda table: table.compact()],
)
def test_latest_begins_after_any_commit(table: Any, last: Callable[[Any], Any], changes: bool) -> None:
    """Also after one that would end it."""
    table.append(_rows(1, 2))
    last(table)
    following = table.follow("latest", changes=changes)
    open_table(table.location).append(_rows(3))
    assert [_ids(commit) for commit in following] == [[3]]


def test_changed_rows(table: Any) -> None:
    table.append(_rows(1, 2))
    (first,) = table.follow()
    table.delete("id = 1")
    table.append(_rows(3))
    with pytest.raises(UnsupportedFeatureError) as raised:
        list(open_table(table.location).follow(first.token))
    assert raised.value.hint == "skip_changes passes over such commits; changes reads all changes"
    assert [_ids(commit) for commit in table.follow(first.token, skip_changes=True)] == [[3]]
    changes = [
        sorted(commit.rows.to_arrow().select(["_change_type", "id"]).to_pylist(), key=str)
        for commit in table.follow(first.token, changes=True)
    ]
    assert [[(row["_change_type"].lower(), row["id"]) for row in rows] for rows in changes] == [
        [("delete", 1)],
        [("insert", 3)],
    ]


def test_other_columns_end_it(table: Any) -> None:
    table.append(_rows(1))
    (first,) = table.follow()
    table.append(_rows(2))
    older = open_table(table.location)
    table.append(_rows(3).append_column("more", pa.array(["x"])), schema_mode="merge")
    following = older.follow(first.token)
    assert _ids(next(following)) == [2]
    with pytest.raises(SchemaError, match=r"columns? .*than the stream") as raised:
        next(following)
    assert "open the table again, and go on from the last token" in str(raised.value.hint)
    assert [_ids(commit) for commit in open_table(table.location).follow(first.token)] == [[2], [3]]


def test_a_table_that_is_made_anew_is_noticed(table: Any) -> None:
    table.append(_rows(1))
    (first,) = table.follow()
    other: Any = create_table(f"{table.location}-other", _rows().schema, format=_format_of(table))
    other.append(_rows(7))
    with pytest.raises(VersionNotFoundError, match=r"the stream began with another table|which was expired or removed"):
        list(other.follow(first.token))


def _format_of(table: Any) -> Any:
    return type(table).__name__.removesuffix("Table").lower()


@pytest.mark.parametrize(
    "given",
    [
        *({"start": text} for text in ("{", "{}", '{"version": 1}', "yesterday", -1, 1.5)),
        *({"poll": -1}, {"poll": "1"}, {"poll": float("nan")}),
        *({"stop": 1}, {"changes": 1}, {"skip_changes": "no"}, {"filter": 7}, {"columns": ["none"]}),
    ],
    ids=json.dumps,
)
def test_wrong_arguments_are_refused_at_once(table: Any, given: dict[str, Any]) -> None:
    table.append(_rows(1))
    with pytest.raises(DeltabergError) as raised:
        list(table.follow(**given))
    assert raised.value.context["table"] == table.location


def test_the_example_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_table(tmp_path / "orders", _rows().schema).append(_rows(1, 2))
    names = run_blocks("docs/streams.md", heading="## Without Spark", places={"/data": tmp_path})
    assert capsys.readouterr().out == "1 2\n"
    assert list(names["orders"].follow(names["token"])) == []
