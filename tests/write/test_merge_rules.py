"""Merging into tables with rules: default, generated and identity columns, and timestamps without a zone."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    DeltabergError,
    SchemaError,
    UnsupportedFeatureError,
)
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field

_LONG = Primitive("long")
_VECTORS = {"delta.enableDeletionVectors": "true"}
_FEED = {"delta.enableChangeDataFeed": "true"}
_ON = "target.k = source.k"

_ways = pytest.mark.parametrize(
    "properties",
    [{}, _FEED, _VECTORS, {**_VECTORS, **_FEED}],
    ids=["copy", "copy and feed", "vectors", "vectors and feed"],
)


def _identity(start: int, step: int, *, explicit: bool = False) -> Field:
    rule = {"start": start, "step": step, "allowExplicitInsert": explicit}
    return Field("id", _LONG, metadata={f"delta.identity.{name}": value for name, value in rule.items()})


_K = Field("k", _LONG)
_DEFAULT = Field("x", _LONG, metadata={"CURRENT_DEFAULT": "42"})
_TWICE = Field("twice", _LONG, metadata={"delta.generationExpression": "x * 2"})


def _longs(**columns: list[int | None]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def _table(root: Path, *columns: Field, properties: dict[str, str] | None = None, **more: Any) -> DeltaTable:
    """Return a table of these columns with the values 1, 2 and 3 for k, and 1, 2 and 3 for x if it has that."""
    table: DeltaTable = create_table(root, Struct(columns), properties=properties, **more)
    rows = _longs(k=[1, 2, 3], x=[1, 2, 3])
    table.append(rows.select([name for name in rows.column_names if name in table.schema.names]))
    return table


def _content(table: DeltaTable) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=str)


def _feed(table: DeltaTable) -> Counter[tuple[Any, ...]]:
    rows = table.changes(table.version, table.version).to_arrow().select([*table.schema.names, "_change_type"])
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def _refused(
    table: DeltaTable, write: Callable[[], object], message: str, kind: type[DeltabergError] = ConstraintViolationError
) -> None:
    """Check that a write is refused, and that it leaves the table and its files as they were."""
    root = Path(table._log.root.path)
    before, files = (table.version, _content(table)), sorted(root.rglob("*.parquet"))
    with pytest.raises(kind, match=message):
        write()
    table.refresh()
    assert (table.version, _content(table)) == before
    assert sorted(root.rglob("*.parquet")) == files


@_ways
@pytest.mark.req("DL-CON-17", "DL-CON-25", "DL-CON-28")
def test_a_merge_fills_and_checks_rows(tmp_path: Path, properties: dict[str, str]) -> None:
    table = _table(tmp_path / "t", _identity(10, 5), _K, _DEFAULT, _TWICE, properties=properties)
    assert _content(table) == [(10, 1, 1, 2), (15, 2, 2, 4), (20, 3, 3, 6)]
    merge = table.merge(_longs(k=[2, 3, 7, 8, 9], x=[20, 30, 70, None, 90]), _ON)
    merge = merge.when_matched_update({"x": "source.x"}, "source.k = 2").when_matched_delete()
    merge = merge.when_not_matched_insert({"k": "k"}, "k = 7").when_not_matched_insert({"k": "k", "x": "x"}, "k = 8")
    merge.when_not_matched_insert({"k": "k", "target.x": "DEFAULT", "twice": " default ", "id": "Default"}).execute()
    assert table.version == 2
    assert _content(table) == [(10, 1, 1, 2), (15, 2, 20, 40), (25, 7, 42, 84), (30, 8, None, None), (35, 9, 42, 84)]
    if "delta.enableChangeDataFeed" in properties:
        assert _feed(table) == Counter(
            [
                (15, 2, 2, 4, "update_preimage"),
                (15, 2, 20, 40, "update_postimage"),
                (20, 3, 3, 6, "delete"),
                (25, 7, 42, 84, "insert"),
                (30, 8, None, None, "insert"),
                (35, 9, 42, 84, "insert"),
            ]
        )
    assert table.identity_columns["id"].high_water_mark == 35
    merge = table.merge(_longs(k=[1, 2]), _ON).when_matched_update({"x": "DEFAULT"}, "source.k = 1")
    merge = merge.when_matched_update({"x": "target.x + 1", "twice": "DEFAULT"})
    merge.when_not_matched_by_source_update({"x": "5"}, "k = 7").when_not_matched_by_source_delete().execute()
    assert _content(table) == [(10, 1, 42, 84), (15, 2, 21, 42), (25, 7, 5, 10)]
    # No value was generated, and what was deleted does not come back.
    assert table.identity_columns["id"].high_water_mark == 35
    table.append(_longs(k=[4]))
    assert _content(table)[-1] == (40, 4, 42, 84)


@pytest.mark.parametrize("memory", [None, 2_000])
@_ways
def test_the_feed_has_the_values_of_the_table(tmp_path: Path, properties: dict[str, str], memory: int | None) -> None:
    """Rows are computed a second time for change data files, and get the same identity values."""
    table = _table(tmp_path / "t", _identity(1, 3), _K, _DEFAULT, _TWICE, properties=properties)
    source = _longs(k=list(range(3, 900)), x=[None if k % 7 == 0 else k for k in range(3, 900)])
    merge = table.merge(source, _ON, memory=memory).when_matched_update({"x": "-1"})
    merge.when_not_matched_insert({"k": "k"}, "k % 2 = 0").when_not_matched_insert_all().execute()
    rows = table.scan("k > 3").to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == [10 + 3 * number for number in range(896)]
    for row in rows:
        x = 42 if row["k"] % 2 == 0 else None if row["k"] % 7 == 0 else row["k"]
        assert (row["x"], row["twice"]) == (x, None if x is None else 2 * x)
    assert table.identity_columns["id"].high_water_mark == 10 + 3 * 895
    if "delta.enableChangeDataFeed" in properties:
        inserts = [row[:-1] for row in _feed(table) if row[-1] == "insert"]
        assert Counter(inserts) == Counter(tuple(row.values()) for row in rows)


@_ways
@pytest.mark.req("DL-CON-15")
def test_generated_columns_that_are_given_are_checked(tmp_path: Path, properties: dict[str, str]) -> None:
    table = _table(tmp_path / "t", _K, _DEFAULT, _TWICE, properties=properties)
    wrong, right = _longs(k=[3, 4], x=[7, 8], twice=[14, 17]), _longs(k=[3, 4], x=[7, 8], twice=[14, 16])
    message = "the generated column twice: twice=17, x=8"
    _refused(table, lambda: table.upsert(wrong, "k"), message)
    merge = table.merge(wrong, _ON).when_not_matched_insert_all()
    _refused(table, merge.execute, message)
    message = "the generated column twice: twice=6, x=7"
    merge = table.merge(_longs(k=[3], x=[7]), _ON).when_matched_update({"x": "source.x", "twice": "target.twice"})
    _refused(table, merge.execute, message)
    merge = table.merge(_longs(k=[1]), _ON).when_not_matched_by_source_update({"twice": "5"})
    _refused(table, merge.execute, "twice=5, x=2")
    table.upsert(right, "k")
    assert _content(table) == [(1, 1, 2), (2, 2, 4), (3, 7, 14), (4, 8, 16)]


@_ways
def test_upserts_without_generated_columns(tmp_path: Path, properties: dict[str, str]) -> None:
    table = _table(tmp_path / "t", _identity(-1, -1), _K, _DEFAULT, _TWICE, properties=properties)
    table.upsert(_longs(K=[3, 4], X=[9, None]), "k")
    assert _content(table) == sorted([(-1, 1, 1, 2), (-2, 2, 2, 4), (-3, 3, 9, 18), (-4, 4, None, None)], key=str)
    # Without x, rows that match keep theirs, and new ones get the default value.
    table.upsert(_longs(k=[4, 5]), "k")
    expected = [(-1, 1, 1, 2), (-2, 2, 2, 4), (-3, 3, 9, 18), (-4, 4, None, None), (-5, 5, 42, 84)]
    assert _content(table) == sorted(expected, key=str)
    merge = table.merge(_longs(k=[1, 6], x=[3, 4]), _ON).when_matched_update_all().when_not_matched_insert_all()
    merge.execute()
    assert table.scan("k = 1 or k = 6").to_arrow().sort_by("k").to_pylist() == [
        {"id": -1, "k": 1, "x": 3, "twice": 6},
        {"id": -6, "k": 6, "x": 4, "twice": 8},
    ]
    # Only new rows can do without a column that has a default value.
    merge = table.merge(_longs(k=[1, 7]), _ON)
    with pytest.raises(ColumnNotFoundError, match="the source lacks the column x"):
        merge.when_matched_update_all().execute()
    table.merge(_longs(k=[1, 7]), _ON).when_not_matched_insert_all(except_cols=["x"]).execute()
    assert table.scan("k = 7").to_arrow().to_pylist() == [{"id": -7, "k": 7, "x": 42, "twice": 84}]


@_ways
@pytest.mark.req("DL-CON-23")
def test_identity_values_that_must_not_be_given(tmp_path: Path, properties: dict[str, str]) -> None:
    table = _table(tmp_path / "t", _identity(10, 5), _K, _DEFAULT, properties=properties)
    source, message = _longs(id=[10, 7], k=[1, 7], x=[9, 9]), "identity column are generated"
    _refused(table, lambda: table.upsert(source, "k"), message)
    _refused(table, lambda: table.upsert(source, "id"), message)
    for merge in (
        table.merge(source, _ON).when_matched_update_all(),
        table.merge(source, _ON).when_matched_update({"id": "5"}),
        table.merge(source, _ON).when_matched_update({"id": "DEFAULT"}),
        table.merge(source, _ON).when_not_matched_insert_all(),
        table.merge(source, _ON).when_not_matched_insert({"ID": "7", "k": "k"}),
    ):
        _refused(table, merge.execute, message)
    table.upsert(source, "id", when_not_matched="ignore")
    assert _content(table) == [(10, 1, 9), (15, 2, 2), (20, 3, 3)]
    merge = table.merge(source, _ON).when_matched_update_all(except_cols=["id"])
    merge.when_not_matched_insert_all(except_cols=["id"]).execute()
    assert _content(table) == [(10, 1, 9), (15, 2, 2), (20, 3, 3), (25, 7, 9)]


@_ways
@pytest.mark.req("DL-CON-24")
def test_identity_values_that_may_be_given(tmp_path: Path, properties: dict[str, str]) -> None:
    table = _table(tmp_path / "t", _identity(10, 5, explicit=True), _K, properties=properties)
    merge = table.merge(_longs(id=[10, 7, 8], k=[1, 7, 8]), _ON).when_matched_update_all()
    merge = merge.when_not_matched_insert_all("k = 7").when_not_matched_insert({"k": "k"})
    merge.execute()
    assert _content(table) == [(10, 1), (15, 2), (20, 3), (25, 8), (7, 7)]
    # Given values leave the mark alone.
    assert table.identity_columns["id"].high_water_mark == 25
    table.upsert(_longs(id=[7, 8], k=[70, 80]), "id")
    assert _content(table) == [(10, 1), (15, 2), (20, 3), (25, 8), (7, 70), (8, 80)]
    assert table.identity_columns["id"].high_water_mark == 25


def test_identity_values_of_a_transaction(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _identity(1, 1), _K, _DEFAULT, properties=_VECTORS)
    with table.transaction() as transaction:
        transaction.append(_longs(k=[4]))
        transaction.upsert(_longs(k=[4, 5], x=[7, 8]), "k")
        with pytest.raises(ConstraintViolationError, match="same key"):
            transaction.upsert(_longs(k=[6, 6]), "k")
        transaction.upsert(_longs(k=[6]), "k")
    assert table.version == 2
    assert _content(table) == [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 7), (5, 5, 8), (6, 6, 42)]
    assert table.identity_columns["id"].high_water_mark == 6


def test_identity_values_that_overflow(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _identity(0, 1 << 61), _K)
    _refused(table, lambda: table.upsert(_longs(k=[3, 4, 5]), "k"), "not an integer of 64 bits")
    table.upsert(_longs(k=[3, 4]), "k")
    assert _content(table) == sorted([(0, 1), (1 << 61, 2), (1 << 62, 3), (3 << 61, 4)], key=str)


def test_columns_that_are_added(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _identity(1, 1), _K, _DEFAULT, _TWICE)
    merge = table.merge(_longs(k=[3, 4], y=[30, 40]), _ON, schema_mode="merge").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    assert _content(table) == [(1, 1, 1, 2, None), (2, 2, 2, 4, None), (3, 3, 3, 6, 30), (4, 4, 42, 84, 40)]


def test_tables_that_are_partitioned_by_a_generated_column(tmp_path: Path) -> None:
    part = Field("part", _LONG, metadata={"delta.generationExpression": "k % 2"})
    table = _table(tmp_path / "t", _K, _DEFAULT, part, partition_by="part", properties=_FEED)
    table.merge(_longs(k=[2, 5]), _ON).when_matched_update({"k": "9"}).when_not_matched_insert_all().execute()
    assert _content(table) == [(1, 1, 1), (3, 3, 1), (5, 42, 1), (9, 2, 1)]
    assert table.scan("part = 0").to_arrow().num_rows == 0


@pytest.mark.one_backend
def test_a_column_that_is_called_default(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _K, _DEFAULT)
    source = pa.table({"k": [3, 4], "default": [30, 40]})
    merge = table.merge(source, _ON).when_matched_update({"x": "DEFAULT"})
    merge.when_not_matched_insert({"k": "k", "x": "default"}).execute()
    assert _content(table) == [(1, 1), (2, 2), (3, 30), (4, 40)]


@pytest.mark.one_backend
def test_the_keyword_default_in_updates(tmp_path: Path) -> None:
    inner = Struct((Field("a", _LONG), Field("b", _LONG)))
    table = create_table(tmp_path / "t", Struct((_K, _DEFAULT, _TWICE, Field("s", inner))))
    table.append(pa.table({"k": [1, 2], "x": [1, 2], "s": [{"a": 1, "b": 2}] * 2}))
    table.update({"x": "5", "twice": "DEFAULT", "s.a": "DEFAULT"}, "k = 1")
    assert table.scan("k = 1").to_arrow().to_pylist() == [{"k": 1, "x": 5, "twice": 10, "s": {"a": None, "b": 2}}]
    table.update({"twice": "DEFAULT"})
    merge = table.merge(_longs(k=[1, 2]), _ON).when_matched_update({"twice": "default", "s.b": "default"})
    merge.execute()
    rows = [(row["x"], row["twice"], row["s"]) for row in table.scan().to_arrow().sort_by("k").to_pylist()]
    assert rows == [(5, 10, {"a": None, "b": None}), (2, 4, {"a": 1, "b": None})]


@pytest.mark.one_backend
def test_a_merge_that_only_deletes_needs_no_rules(builder: DeltaBuilder) -> None:
    columns = [field("k", "long"), field("x", "long", CURRENT_DEFAULT="foo(1)")]
    rows = _longs(k=[1, 2, 3], x=[1, 2, 3])
    builder.create(columns, builder.add(rows), protocol=builder.protocol(1, 7, None, ["allowColumnDefaults"]))
    table = DeltaTable(builder.root)
    with pytest.raises(UnsupportedFeatureError, match=r"cannot be evaluated.*foo"):
        table.upsert(_longs(k=[2], x=[5]), "k")
    table.merge(_longs(k=[2]), _ON).when_matched_delete().execute()
    assert _content(table) == [(1, 1), (3, 3)]


def test_timestamps_without_a_zone(tmp_path: Path) -> None:
    nested = Struct((Field("at", Primitive("timestamp")),))
    columns = (_K, Field("at", Primitive("timestamp")), Field("s", nested), Field("wall", Primitive("timestamp_ntz")))
    table = _table(tmp_path / "t", *columns)
    noon = dt.datetime(2026, 7, 1, 12)
    naive = pa.table({"k": [3, 4], "at": [noon, noon]})
    inside = pa.table({"k": [3], "s": [{"at": noon}]})
    for write in (
        lambda: table.upsert(naive, "k"),
        lambda: table.upsert(inside, "k"),
        table.merge(naive, _ON).when_matched_update({"at": "source.at"}).execute,
        table.merge(naive, _ON).when_not_matched_insert({"k": "k", "at": "at"}).execute,
    ):
        _refused(table, write, "cannot be written to a column of the type timestamp", SchemaError)
    table.upsert(pa.table({"k": [3, 4], "wall": [noon, noon]}), "k")
    table.upsert(naive, "k", timezone="Europe/Berlin")
    table.merge(inside, _ON, timezone="Asia/Tokyo").when_matched_update({"s": "source.s"}).execute()
    # What the caller converts is converted as the caller says.
    table.merge(naive, _ON).when_matched_update({"at": "cast(source.at as timestamp)"}, "source.k = 4").execute()
    utc = dt.timezone.utc
    rows = table.scan("k > 2").to_arrow().sort_by("k").to_pylist()
    assert [(row["at"], row["s"], row["wall"]) for row in rows] == [
        (dt.datetime(2026, 7, 1, 10, tzinfo=utc), {"at": dt.datetime(2026, 7, 1, 3, tzinfo=utc)}, noon),
        (dt.datetime(2026, 7, 1, 12, tzinfo=utc), None, noon),
    ]


@pytest.mark.parametrize("strategy", ["copy-on-write", "merge-on-read"])
def test_the_zone_of_rows_is_not_that_of_partition_values(builder: DeltaBuilder, strategy: Any) -> None:
    """Rows that move to other files stay in their partition, whatever zone the source has."""
    midnight = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    columns = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.timestamp("us", "UTC"))])
    rows = pa.table({"k": [1, 2], "v": pa.array([midnight, midnight])}, columns.remove(0))
    values = {"ts": "2024-01-01 00:00:00"}
    added = builder.add(rows, partition=values, stats="full")
    builder.create(
        columns,
        added,
        partition_by=["ts"],
        configuration=_VECTORS if strategy == "merge-on-read" else {},
        protocol=builder.features("deletionVectors"),
    )
    table = DeltaTable(builder.root)
    noon = pa.array([dt.datetime(2026, 7, 1, 12)])
    table.upsert(pa.table({"k": [1], "v": noon}), "k", timezone="Europe/Berlin", strategy=strategy)
    merge = table.merge(
        pa.table({"k": [2], "v": noon}),
        "target.k = source.k AND target.ts = TIMESTAMP '2024-01-01 09:00:00'",
        timezone="Asia/Tokyo",
        strategy=strategy,
    )
    merge.when_matched_update({"v": "source.v"}).execute()
    found = DeltaTable(builder.root).scan().to_arrow().sort_by("k").to_pylist()
    assert [row["ts"] for row in found] == [midnight, midnight]
    assert [row["v"].hour for row in found] == [10, 3]


def test_columns_that_some_clauses_leave_out_are_added_for_the_others(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _K, Field("v", _LONG))
    source = pa.table({"k": [3, 9], "v": [1, 2], "created": ["x", "y"], "none": [1, 1]})
    merge = table.merge(source, _ON, schema_mode="merge").when_matched_update_all(except_cols=["created", "none"])
    merge.when_not_matched_insert_all(except_cols=["none"]).execute()
    found = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
    assert found[9] == {"k": 9, "v": 2, "created": "y"}
    assert found[3]["created"] is None
    merge = table.merge(source, _ON, schema_mode="merge").when_matched_update_all(except_cols=["other"])
    with pytest.raises(ColumnNotFoundError, match="other"):
        merge.execute()


@_ways
def test_structs_that_lack_fields(tmp_path: Path, properties: dict[str, str]) -> None:
    """With schema_mode="merge", rows that match keep these fields, and they are null in new rows."""
    deep = Struct((Field("x", _LONG), Field("y", _LONG)))
    column = Field("s", Struct((Field("a", _LONG), Field("b", _LONG), Field("deep", deep))))
    table: DeltaTable = create_table(tmp_path / "t", Struct((_K, column)), properties=properties)
    old = {"a": 1, "b": 2, "deep": {"x": 3, "y": 4}}
    table.append(pa.table({"k": [1, 2, 3, 4], "s": [old, None, old, None]}, schema=table.scan().to_arrow().schema))
    kind = pa.struct([("deep", pa.struct([("y", pa.int64()), ("z", pa.int64())])), ("A", pa.int64())])
    new = {"deep": {"y": 40, "z": 50}, "A": 10}
    source = pa.table({"k": [1, 2, 3, 4, 5, 6], "s": pa.array([new, new, None, None, new, None], kind)})
    merge = table.merge(source, _ON).when_matched_update_all()
    _refused(table, merge.execute, "lacks", SchemaError)
    merge = table.merge(source, _ON, schema_mode="merge").when_matched_update_all().when_not_matched_insert_all()
    merge.execute()
    found = {row["k"]: row["s"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {
        1: {"a": 10, "b": 2, "deep": {"x": 3, "y": 40, "z": 50}},
        2: {"a": 10, "b": None, "deep": {"x": None, "y": 40, "z": 50}},
        3: {"a": None, "b": 2, "deep": {"x": 3, "y": None, "z": None}},
        4: None,
        5: {"a": 10, "b": None, "deep": {"x": None, "y": 40, "z": 50}},
        6: None,
    }


@pytest.mark.parametrize("name", ["s.c", "target.s.c", ("s", "c")])
def test_a_new_field_of_a_struct_is_assigned(tmp_path: Path, name: Any) -> None:
    column = Field("s", Struct((Field("a", _LONG),)))
    table: DeltaTable = create_table(tmp_path / "t", Struct((_K, column)))
    table.append(pa.table({"k": [1], "s": [{"a": 1}]}))
    source = pa.table({"k": [1], "s": [{"c": 5, "d": 6}], "e": [7]})
    merge = table.merge(source, _ON, schema_mode="merge").when_matched_update({name: "source.s.c"})
    merge.execute()
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "s": {"a": 1, "c": 5}}]
