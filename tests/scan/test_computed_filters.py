"""Filters that call functions of columns: they are applied to rows, and prune by what follows from them."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import EvaluationError, ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.build.column import col
from deltaberg.expressions.build.filters import as_filter
from deltaberg.table.read.scan import bound_scan
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import Road
from tests.support.rows import ids

_UTC = dt.timezone.utc
_TODAY = dt.datetime.now(_UTC).date()
_ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "v": ["a", "B", "A", None],
        "ts": pa.array(
            [dt.datetime(2024, 1, 1), dt.datetime(2023, 12, 31, 23, 30), None, dt.datetime(2024, 6, 1)],
            pa.timestamp("us"),
        ).cast(pa.timestamp("us", "UTC")),
        "day": [_TODAY, _TODAY - dt.timedelta(30), None, dt.date(2024, 2, 29)],
        "l": [[], [1], None, [2, 3]],
        "s": [{"a": 1, "b": "x"}, {"a": 2, "b": None}, None, {"a": 5, "b": "y"}],
        "p": ["2024-01", "2024-02", "2023-01", "x"],
    }
)
#: The conditions, the ids of their rows, and how many files can have some: there is one for each row.
_CASES: dict[str, tuple[list[int], int]] = {
    "upper(v) = 'A'": ([1, 3], 4),
    "NOT upper(v) = 'A'": ([2], 4),
    "id * 2 + 1 > 5": ([3, 4], 4),
    "id % 2 = 0 AND id > 2": ([4], 2),
    "id = 1 + 1": ([2], 1),
    "year(ts) = 2024": ([1, 4], 4),
    "size(l) = 0": ([1], 4),
    "day >= current_date() - 7 AND day <= current_date()": ([1], 1),
    "CAST(id AS STRING) = '3' OR v IS NULL": ([3, 4], 4),
    "s.a + 1 = 3": ([2], 4),
    "coalesce(s.b, v) = 'B'": ([2], 4),
    "id > 1 AND 10 / (id - 1) > 4": ([2, 3], 3),
    "substring(p, 1, 4) = '2024'": ([1, 2], 2),
    "current_date() > DATE '2020-01-01'": ([1, 2, 3, 4], 4),
    "length('a') = 2": ([], 0),
}


@pytest.fixture(params=["delta", "iceberg"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """A table with a file for each row."""
    table = create_table(str(tmp_path / "t"), _ROWS.schema, format=request.param, partition_by=["p"])
    table.append(_ROWS)
    return table


def test_conditions_keep_the_rows_for_which_they_are_true(table: Any) -> None:
    is_delta = not hasattr(table, "snapshots")
    for condition, (expected, files) in _CASES.items():
        scan = table.scan(condition, columns=["id"])
        assert sorted(scan.to_arrow()["id"].to_pylist()) == expected, condition
        assert scan.count() == len(expected), condition
        # Manifests are pruned by projections, which see no functions.
        assert len(scan.files()) == files or (not is_delta and "substring" in condition), condition
    everything = sorted(table.scan(as_filter("upper(v) = 'A'") | (col("id") == 4)).to_arrow()["id"].to_pylist())
    assert everything == [1, 3, 4]
    assert table.scan(~as_filter("upper(v) = 'A'")).to_arrow()["id"].to_pylist() == [2]
    shown = table.scan("id > 2 AND upper(v) = 'A'")
    assert "(id > 2 AND upper(v) = 'A')" in str(shown.explain())
    assert "upper" in repr(shown)


def test_the_clock_is_that_of_the_scan(table: Any) -> None:
    scan = table.scan("year(ts) = 2024", columns=["id"], timezone="Asia/Tokyo")
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [1, 2, 4]


def test_rows_that_fail_and_rows_that_are_gone(builder: DeltaBuilder) -> None:
    """A row is computed only if it is there."""
    builder.create(
        pa.schema([("id", pa.int64())]),
        builder.add(ids(0, 1, 5), vector=builder.vector([0]), stats="full"),
        protocol=builder.features("deletionVectors"),
    )
    table = open_table(builder.root)
    assert table.scan("10 / id > 4").to_arrow()["id"].to_pylist() == [1]
    assert table.scan("10 / id > 4").count() == 1
    with pytest.raises(EvaluationError, match=r"division by zero.*part-|division by zero.*parquet"):
        table.scan("10 / (id - 5) > 4").to_arrow()


def test_a_partition_value_that_fails_is_left_to_its_rows(builder: DeltaBuilder) -> None:
    adds = [builder.add(ids(int(p or 9)), partition={"p": p}, path=f"p={p}/f.parquet") for p in ("1", "2", None)]
    builder.create(pa.schema([("id", pa.int64()), ("p", pa.string())]), *adds, partition_by=["p"])
    table = open_table(builder.root)
    assert table.scan("CAST(p AS INT) = 2").to_arrow()["id"].to_pylist() == [2]
    assert len(table.scan("CAST(p AS INT) = 2").files()) == 1
    builder.commit(builder.add(ids(), partition={"p": "x"}, path="p=x/f.parquet"))
    assert open_table(builder.root).scan("CAST(p AS INT) = 2").to_arrow()["id"].to_pylist() == [2]
    builder.commit(builder.add(ids(7), partition={"p": "y"}, path="p=y/f.parquet"))
    with pytest.raises(EvaluationError, match="not a value of the type integer"):
        open_table(builder.root).scan("CAST(p AS INT) = 2").to_arrow()


def test_what_is_refused_says_why(table: Any) -> None:
    with pytest.raises(UnsupportedExpressionError, match=r"soundex\(\) cannot be evaluated"):
        table.scan("soundex(v) = 'A'")
    with pytest.raises(ExpressionError, match="a condition is a boolean"):
        table.scan("upper(v)")


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_the_roads_agree(tmp_path: Path, road: Road, format: Any) -> None:
    table = create_table(str(tmp_path / "t"), _ROWS.schema, format=format, partition_by=["p"])
    table.append(_ROWS)
    scan = table.scan("upper(v) = 'A' AND year(ts) = 2024 AND p LIKE '2024%'", columns=["id", "p"])
    assert road.table(scan).to_pylist() == [{"id": 1, "p": "2024-01"}]
    again = pickle.loads(pickle.dumps(bound_scan(scan)))
    assert pa.Table.from_batches(again.batches()).to_pylist() == [{"id": 1, "p": "2024-01"}]
