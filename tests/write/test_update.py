"""Updating rows: new values in their places or in new files, with row ids and the change data feed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import (
    ColumnNotFoundError,
    ConcurrentAppendError,
    ConstraintViolationError,
    DeltabergError,
    EvaluationError,
    ExpressionError,
    InvalidArgumentError,
    UnsupportedExpressionError,
)
from tests.support.effort import tries
from tests.support.log_entries import named_actions

_VECTORS = {"delta.enableDeletionVectors": "true"}
_FEED = {"delta.enableChangeDataFeed": "true"}
_TRACKING = {"delta.enableRowTracking": "true"}
_SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("p", pa.string())])

both_ways = pytest.mark.parametrize("way", [{}, _VECTORS], ids=["rewritten", "vectors"])


def _rows(*ids: int) -> pa.Table:
    columns = {"id": list(ids), "x": [10 * one for one in ids], "p": ["a" if one % 2 else "b" for one in ids]}
    return pa.table(columns, _SCHEMA)


def _values(table: DeltaTable) -> dict[int, tuple[Any, Any]]:
    found = DeltaTable(table.location).scan().to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["x"], row["p"]) for row in found}


def test_values_that_are_no_dict(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _SCHEMA)
    table.append(_rows(1))
    others: list[Any] = [None, "x = 1", [("x", 1)]]
    for wrong in others:
        with pytest.raises(InvalidArgumentError, match=r"the new values are of the type \w+, not a dict of columns"):
            table.update(wrong)
    with pytest.raises(InvalidArgumentError, match=r"no column gets a new value .*\nhint: pass columns with SQL"):
        table.update({})
    assert _values(table) == {1: (10, "a")}


@both_ways
def test_values_of_some_rows(tmp_path: Path, way: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", _SCHEMA, properties=way)
    table.append(_rows(1, 2, 3))
    table.append(_rows(4, 5, 6))
    table.append(_rows(7, 8, 9))
    result = table.update({"x": "x + id", "p": "CASE WHEN p = 'a' THEN 'a!' ELSE 'b!' END"}, "id BETWEEN 3 AND 5")
    assert (result.version, result.operation, result.committed) == (4, "UPDATE", True)
    assert _values(table) == {
        **{one: (10 * one, "a" if one % 2 else "b") for one in (1, 2, 6, 7, 8, 9)},
        3: (33, "a!"),
        4: (44, "b!"),
        5: (55, "a!"),
    }
    metrics = result.metrics
    assert (metrics["numUpdatedRows"], metrics["numCopiedRows"]) == (3, 0 if way else 3)
    assert (metrics["numRemovedFiles"], metrics["numDeletionVectorsAdded"]) == ((0, 2) if way else (2, 0))
    # Any condition that has a value, and all rows.
    assert table.update({"x": 0}, "(id % 3) * 2 = 0 AND p IN ('a', 'b')").metrics["numUpdatedRows"] == 2
    assert {one for one, (x, _) in _values(table).items() if x == 0} == {6, 9}
    assert table.update({"x": None}).metrics["numUpdatedRows"] == 9
    assert {x for x, _ in _values(table).values()} == {None}
    assert table.history()[0].info["operationParameters"] == {"predicate": "[]"}
    assert table.update({"x": 1}, "id > 100").committed is False


def test_rows_keep_their_places(tmp_path: Path) -> None:
    """A file that is written anew has its rows in their order."""
    table = create_table(tmp_path / "t", _SCHEMA)
    table.append(_rows(*range(100)))
    table.update({"x": "-x"}, "id % 7 = 3")
    found = table.scan().to_arrow()
    assert found.column("id").to_pylist() == list(range(100))
    assert found.column("x").to_pylist() == [-10 * one if one % 7 == 3 else 10 * one for one in range(100)]


@both_ways
def test_rows_move_between_partitions(tmp_path: Path, way: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", _SCHEMA, partition_by="p", properties={**way, **_FEED})
    table.append(_rows(1, 2, 3, 4))
    table.update({"p": "'c'"}, "x >= 30")
    assert _values(table) == {1: (10, "a"), 2: (20, "b"), 3: (30, "c"), 4: (40, "c")}
    assert table.scan("p = 'c'").count() == 2
    changes = table.changes(2, 2).to_arrow().to_pylist()
    assert sorted((row["id"], row["_change_type"], row["p"]) for row in changes) == [
        (3, "update_postimage", "c"),
        (3, "update_preimage", "a"),
        (4, "update_postimage", "c"),
        (4, "update_preimage", "b"),
    ]
    # Whole files are read all the same, since their rows are wanted.
    table.update({"x": "x + 1"}, "p = 'c'")
    assert _values(table) == {1: (10, "a"), 2: (20, "b"), 3: (31, "c"), 4: (41, "c")}
    assert len(table.changes(3, 3).to_arrow()) == 4


@pytest.mark.req("DL-CDF-01", half="writer")
@both_ways
def test_images_before_and_after(tmp_path: Path, way: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", pa.schema([("x", pa.int64())]), properties={**_FEED, **way})
    table.append(pa.table({"x": [1, 5, 7]}))
    table.update({"x": 2}, "x = 1")
    (cdc,) = named_actions(tmp_path / "t", 2, "cdc")
    assert cdc["dataChange"] is False
    changes = table.changes(2, 2, columns=["x", "_change_type"]).to_arrow().to_pylist()
    assert sorted(changes, key=lambda row: row["x"]) == [
        {"x": 1, "_change_type": "update_preimage"},
        {"x": 2, "_change_type": "update_postimage"},
    ]
    table.delete("x = 5")
    assert table.changes(3, 3, columns=["x", "_change_type"]).to_arrow().to_pylist() == [
        {"x": 5, "_change_type": "delete"}
    ]


@pytest.mark.req("DL-RT-21", "DL-RT-22")
@both_ways
def test_updated_rows_keep_their_ids(tmp_path: Path, way: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", _SCHEMA, properties={**_TRACKING, **way})
    table.alter().set({"owner": "ada"}).commit()
    table.append(_rows(*range(10)))
    table.append(_rows(20))
    table.append(_rows(21))
    version = table.update({"x": -1}, "id = 4").version
    assert version == 5

    def facts() -> dict[int, tuple[int, int]]:
        columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
        found = DeltaTable(tmp_path / "t").scan(columns=columns).to_arrow().to_pylist()
        return {row["id"]: (row["_metadata"]["row_id"], row["_metadata"]["row_commit_version"]) for row in found}

    model = {**{one: (one, 2) for one in range(10)}, 20: (10, 3), 21: (11, 4)}
    model[4] = (4, 5)
    assert facts() == model
    table.update({"x": 7}, "id >= 9", strategy="copy-on-write")
    model |= {one: (model[one][0], 6) for one in (9, 20, 21)}
    assert facts() == model
    table.append(_rows(30))
    assert facts()[30][0] > max(row_id for row_id, _ in model.values())
    assert all(commit.info["tags"]["delta.rowTracking.preserved"] == "true" for commit in table.history(4))


@pytest.mark.req("DL-RT-20")
@pytest.mark.slow
@pytest.mark.thorough
@both_ways
def test_ids_stay_unique(tmp_path: Path, way: dict[str, str], seed: int) -> None:
    """Random operations, with a model of rows, of their ids and of the feed."""
    generator = random.Random(seed)
    table = create_table(tmp_path / "t", _SCHEMA, partition_by="p", properties={**_TRACKING, **_FEED, **way})
    model: dict[int, tuple[Any, Any]] = {}
    ids: dict[int, int] = {}
    following = 0
    for step in range(tries(50)):
        before, version = dict(model), table.version
        kind = generator.choice(["append", "update", "move", "delete", "compact"])
        low = generator.randrange(max(following, 1))
        high = low + generator.randrange(1, 30)
        strategy: Any = generator.choice([None, "copy-on-write"])
        if kind == "append" or not model:
            rows = _rows(*range(following, following + 20))
            following += 20
            table.append(rows)
            model |= {row["id"]: (row["x"], row["p"]) for row in rows.to_pylist()}
        elif kind == "update":
            table.update({"x": "x + 1"}, f"id >= {low} AND id < {high} AND id % 2 = 0", strategy=strategy)
            model |= {one: (x + 1, p) for one, (x, p) in model.items() if low <= one < high and one % 2 == 0}
        elif kind == "move":
            table.update({"p": "'c'"}, f"id >= {low} AND id < {high}", strategy=strategy)
            model |= {one: (x, "c") for one, (x, _) in model.items() if low <= one < high}
        elif kind == "compact":
            table.compact(max_deleted=0.0)
        else:
            table.delete(f"id >= {low} AND id < {high}", strategy=strategy)
            model = {one: row for one, row in model.items() if not low <= one < high}
        assert _values(table) == model, (step, kind)
        rows = table.scan(columns=["id", "_metadata.row_id"]).to_arrow().to_pylist()
        found = {row["id"]: row["_metadata"]["row_id"] for row in rows}
        assert len(set(found.values())) == len(found)
        assert all(ids.setdefault(one, row_id) == row_id for one, row_id in found.items())
        if table.version == version:
            assert model == before
            continue
        state = dict(before)
        feed = table.changes(table.version, table.version).to_arrow().to_pylist()
        for row in sorted(feed, key=lambda row: row["_change_type"] in ("insert", "update_postimage")):
            if row["_change_type"] in ("delete", "update_preimage"):
                assert state.pop(row["id"]) == (row["x"], row["p"])
            else:
                state[row["id"]] = (row["x"], row["p"])
        assert state == model, (step, kind)


@both_ways
def test_fields_of_structs(tmp_path: Path, way: dict[str, str]) -> None:
    rows = pa.table({"id": [1, 2], "s": [{"a": 1, "b": {"c": "x", "d": 2.5}}, None]})
    table = create_table(tmp_path / "t", rows.schema, properties={**way, "delta.columnMapping.mode": "name"})
    table.append(rows)
    table.update({"s.b.c": "upper(s.b.c)", "s.a": "s.a + id"}, "id = 1")
    assert table.scan("id = 1").to_arrow().to_pylist() == [{"id": 1, "s": {"a": 2, "b": {"c": "X", "d": 2.5}}}]
    # As for Spark, a field that is set makes the struct.
    table.update({"s.a": 5}, "id = 2")
    assert table.scan("id = 2").to_arrow().to_pylist() == [{"id": 2, "s": {"a": 5, "b": None}}]


@both_ways
def test_what_is_refused(tmp_path: Path, way: dict[str, str]) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("x", pa.int32()), ("s", pa.struct([("a", pa.int64())]))]
    )
    table = create_table(tmp_path / "t", schema, properties=way)
    table.append(pa.table({"id": [1, 2], "x": [1, 2**31 - 1], "s": [{"a": 1}, None]}, schema))
    before = sorted((tmp_path / "t").rglob("*"))
    wrong: list[tuple[dict[Any, Any], str | None, type[DeltabergError], str]] = [
        ({"x": "x + 1"}, None, EvaluationError, "integer overflow"),
        ({"x": "id / 0"}, "id = 1", EvaluationError, "division by zero"),
        ({"x": "id + 3000000000"}, "id = 1", EvaluationError, "does not fit into integer"),
        ({"id": None}, "id = 1", ConstraintViolationError, "must not be null has 1 null"),
        ({}, None, InvalidArgumentError, "no column gets a new value"),
        ({"x": 1, "X": 2}, None, InvalidArgumentError, "the column x is set twice"),
        ({"s": None, "s.a": 1}, None, InvalidArgumentError, "the column s.a is set twice"),
        ({"y": 1}, None, ColumnNotFoundError, "no column 'y'"),
        ({"x": "y"}, None, ColumnNotFoundError, "no column 'y'"),
        ({"x": "rand()"}, None, UnsupportedExpressionError, r"rand\(\) is not deterministic"),
        ({"x": 1}, "rand() > 0.5", UnsupportedExpressionError, r"rand\(\) is not deterministic"),
        ({"x": 1}, "id +", ExpressionError, r"the filter 'id \+' is not a SQL expression"),
        ({"s": "1"}, None, ExpressionError, "a value of type int cannot be cast to struct"),
    ]
    for values, where, error, message in wrong:
        with pytest.raises(error, match=message):
            table.update(values, where)
        assert sorted((tmp_path / "t").rglob("*")) == before, values
    table.alter().set({"delta.appendOnly": "true"}).commit()
    with pytest.raises(ConstraintViolationError, match="only grows"):
        table.update({"x": 1})


def test_conflicts(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _SCHEMA)
    table.append(_rows(1, 2, 3))
    other = DeltaTable(tmp_path / "t")
    table.append(_rows(4))
    with pytest.raises(ConcurrentAppendError, match=r"version 2 .* added a file that had to be read"):
        other.update({"x": 0}, "id % 2 = 0")
    other.refresh().update({"x": 0}, "id % 2 = 0")
    assert _values(table)[4] == (0, "b")
    # Rows that the filter excludes do not matter.
    table.refresh()
    other.append(_rows(100))
    assert table.update({"x": 5}, "id < 3 AND id % 2 = 1").retries == 0
    assert _values(table)[1] == (5, "a")
