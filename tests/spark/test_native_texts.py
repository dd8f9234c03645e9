"""Texts of CHAR(n), which the native road pads as our reader does, wherever they are."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.functions import lit

from deltaberg import open_table
from tests.spark.doors import needs_native
from tests.spark.native_road import ids, same, why_not
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.roads import collect, rows_of

pytestmark = [pytest.mark.spark, needs_native]

_INNER = pa.struct(
    [
        ("a", pa.string()),
        ("l", pa.list_(pa.struct([("x", pa.string())]))),
        ("m", pa.map_(pa.string(), pa.string())),
        ("v", pa.string()),
    ]
)
_OF_INNER = "struct<a:char(3),l:array<struct<x:char(2)>>,m:map<string,char(2)>,v:varchar(3)>"
_TEXTS = ["ab", "ab ", "b", "ab\t", "", None, "üñ", "🦊", "abcdefg", "a b  "]
_CONDITIONS = ["c = 'ab          '", "c NOT IN ('ab', 'üñ')", "c LIKE '____ '", "s.a = 'ab '"]
#: Columns of other lengths are padded to be compared, which our reader does.
_COMPUTED = ["c = e", "e >= c"]


def _field(name: str, kind: Any, texts: str) -> dict[str, Any]:
    return {**field(name, kind), "metadata": {"__CHAR_VARCHAR_TYPE_STRING": texts}}


def test_texts_at_any_depth(builder: DeltaBuilder, spark: Any) -> None:
    """Files hold them padded or not, or longer than their columns. One file lacks a column, and one has a vector."""
    schema = [
        field("id", "long"),
        _field("c", "string", "char(5)"),
        _field("e", "string", "char(7)"),
        _field("v", "string", "varchar(5)"),
        _field("s", _INNER, _OF_INNER),
        _field("p", "string", "char(2)"),
    ]
    numbers = range(len(_TEXTS))
    inner: list[Any] = [
        None if number == 3 else {"a": text, "l": None if number == 4 else [{"x": text}, None], "m": None, "v": text}
        for number, text in enumerate(_TEXTS)
    ]
    inner[0] = {"a": "ab", "l": [], "m": [("k", "x"), ("l", None)], "v": "ab"}
    arrays = {"id": pa.array(numbers, pa.int64()), "c": pa.array(_TEXTS), "e": pa.array(["ab"] * len(_TEXTS))}
    rows = pa.table({**arrays, "v": pa.array(_TEXTS), "s": pa.array(inner, _INNER)})
    older = pa.table({"id": [99], "c": ["ab"], "e": pa.array([None], pa.string()), "v": ["ab"]})
    builder.create(
        schema,
        builder.add(rows, partition={"p": "x"}, vector=builder.vector([1])),
        builder.add(older, partition={"p": "x "}),
        partition_by=["p"],
        protocol=builder.features("deletionVectors"),
    )
    table: Any = open_table(builder.root)
    table.alter().set({"delta.columnMapping.mode": "name"}).rename("s", "t").rename("c", "d").rename("d", "c").commit()
    table.alter().rename("t", "s").commit()
    found = same(table.scan(), spark)
    assert rows_of(found) == rows_of(table.scan().to_arrow())
    stored = dict(zip(found["id"].to_pylist(), found["s"].to_pylist(), strict=True))
    assert stored[0] == {"a": "ab ", "l": [], "m": [("k", "x "), ("l", None)], "v": "ab"}
    assert stored[7] == {"a": "🦊  ", "l": [{"x": "🦊 "}, None], "m": None, "v": "🦊"}
    # One query, since each costs more than its rows.
    conditions = [*_CONDITIONS, *_COMPUTED]
    scans = [table.scan(condition) for condition in conditions]
    roads = ["native" if condition in _CONDITIONS else "auto" for condition in conditions]
    frames = [
        scan.to_spark(spark, road=road).select(lit(number), "id")
        for number, (scan, road) in enumerate(zip(scans, roads, strict=True))
    ]
    pairs = collect(reduce(lambda one, other: one.union(other), frames))
    matched = [ids(pairs.filter(pc.equal(pairs.column(0), number))) for number in range(len(scans))]
    assert dict(zip(conditions, matched, strict=True)) == {
        condition: ids(scan.to_arrow()) for condition, scan in zip(conditions, scans, strict=True)
    }
    assert all(matched)


def test_keys_of_maps_go_by_arrow(builder: DeltaBuilder, spark: Any) -> None:
    """Padded, two of them may be equal, which Spark refuses where it makes a map."""
    kind = pa.map_(pa.string(), pa.int64())
    rows = pa.table({"id": [1], "m": pa.array([[("a", 1), ("a ", 2)]], kind)})
    builder.create([field("id", "long"), _field("m", kind, "map<char(2),bigint>")], builder.add(rows))
    scan = open_table(builder.root).scan()
    assert why_not(scan, spark) == "Spark cannot pad the keys of maps in the column m, which are texts of CHAR"
    assert same(open_table(builder.root).scan(columns=["id"]), spark).num_rows == 1
