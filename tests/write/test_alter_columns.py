"""Order, comments, nullability and types of columns that change without rewriting rows."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaError,
    UnsupportedFeatureError,
)

_WIDENING = {"delta.enableTypeWidening": "true"}
_STRUCT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
_COLUMNS = pa.schema([("a", pa.int64()), pa.field("b", pa.string(), nullable=False), ("s", _STRUCT)])
_DAY = dt.date(2020, 2, 29)
#: Values of narrow types, the types that they become, and a value that only the wider type holds.
_WIDENINGS: list[tuple[pa.DataType, pa.DataType, Any, Any]] = [
    (pa.int8(), pa.int16(), -128, 300),
    (pa.int8(), pa.int64(), 127, 1 << 40),
    (pa.int16(), pa.int32(), 300, 1 << 20),
    (pa.int32(), pa.int64(), 34, 1 << 40),
    (pa.int32(), pa.float64(), 34, 0.5),
    (pa.int16(), pa.decimal128(12, 2), 34, Decimal("1.25")),
    (pa.int64(), pa.decimal128(22, 2), 34, Decimal("1.25")),
    (pa.float32(), pa.float64(), 0.5, 1e300),
    (pa.decimal128(5, 2), pa.decimal128(9, 4), Decimal("1.25"), Decimal("10000.0001")),
    (pa.date32(), pa.timestamp("us"), _DAY, dt.datetime(2021, 1, 2, 3, 4, 5)),
]


def _metadata(root: Path, version: int) -> dict[str, Any]:
    text = (root / "_delta_log" / f"{version:020d}.json").read_text("utf-8")
    return next(action["metaData"] for action in map(json.loads, text.splitlines()) if "metaData" in action)


def _fields(root: Path, version: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_metadata(root, version)["schemaString"])["fields"]
    return found


@pytest.mark.req("BEY-01", half="writer")
@pytest.mark.parametrize(("old", "new", "narrow", "wide"), _WIDENINGS, ids=str)
@pytest.mark.parametrize("is_partition", [False, True])
def test_a_type_becomes_wider(
    tmp_path: Path, old: pa.DataType, new: pa.DataType, narrow: Any, wide: Any, is_partition: bool
) -> None:
    columns = pa.schema([("id", pa.int64()), ("c", old)])
    partition_by = "c" if is_partition else None
    table = create_table(tmp_path / "t", columns, properties=_WIDENING, partition_by=partition_by)
    table.append(pa.table({"id": [1], "c": pa.array([narrow], old)}))
    table.alter().widen("c", new).commit()
    field = _fields(tmp_path / "t", 2)[1]
    (change,) = field["metadata"]["delta.typeChanges"]
    assert (change["toType"], set(change)) == (field["type"], {"toType", "fromType"})
    assert change["fromType"] == _fields(tmp_path / "t", 0)[1]["type"]
    table.append(pa.table({"id": [2], "c": pa.array([wide], new)}))
    kept = pa.array([narrow], old).cast(new)[0].as_py()
    for widened in (table, DeltaTable(tmp_path / "t")):
        rows = sorted(widened.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        assert rows == [{"id": 1, "c": kept}, {"id": 2, "c": wide}]
        assert widened.arrow_schema.field("c").type == new
        for number, value in ((1, kept), (2, wide)):
            scan = widened.scan([("c", "=", value)])
            assert scan.to_arrow().column("id").to_pylist() == [number]
            assert len(scan.files()) == 1
    table.checkpoint()
    assert DeltaTable(tmp_path / "t").scan([("c", "=", kept)]).count() == 1


@pytest.mark.req("BEY-01", half="writer")
def test_types_inside_of_others_become_wider(tmp_path: Path) -> None:
    columns = pa.schema(
        [
            ("l", pa.list_(pa.list_(pa.int32()))),
            ("m", pa.map_(pa.int8(), pa.struct([("x", pa.float32())]))),
            ("s", pa.struct([("y", pa.int16())])),
        ]
    )
    table = create_table(tmp_path / "t", columns, properties={**_WIDENING, "delta.columnMapping.mode": "name"})
    table.append(pa.table({"l": [[[1]]], "m": [[(1, {"x": 0.5})]], "s": [{"y": 7}]}, schema=columns))
    altered = table.alter().widen("l.element.element", pa.int64()).widen("m.key", pa.int32())
    altered.widen("m.value.x", pa.float64()).widen("s.y", pa.int32()).widen("s.y", pa.int64()).commit()
    lists, maps, struct = _fields(tmp_path / "t", 2)
    changes = lists["metadata"]["delta.typeChanges"]
    assert changes == [{"toType": "long", "fromType": "integer", "fieldPath": "element.element"}]
    assert maps["metadata"]["delta.typeChanges"] == [{"toType": "integer", "fromType": "byte", "fieldPath": "key"}]
    inside = maps["type"]["valueType"]["fields"][0]
    assert inside["metadata"]["delta.typeChanges"] == [{"toType": "double", "fromType": "float"}]
    assert [one["fromType"] for one in struct["type"]["fields"][0]["metadata"]["delta.typeChanges"]] == [
        "short",
        "integer",
    ]
    row: dict[str, list[Any]] = {"l": [[[1 << 40]]], "m": [[(1 << 20, {"x": 1e300})]], "s": [{"y": 1 << 40}]}
    table.append(pa.table(row, schema=table.arrow_schema))
    found = DeltaTable(tmp_path / "t").scan().to_arrow().to_pylist()
    assert sorted(found, key=str) == sorted(
        [{name: values[0] for name, values in row.items()}, {"l": [[1]], "m": [(1, {"x": 0.5})], "s": {"y": 7}}],
        key=str,
    )


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_neighbours_are_named_with_their_struct_or_without(tmp_path: Path, format: Any) -> None:
    columns = pa.schema({"s": pa.struct({name: pa.int8() for name in "xyz"}), "t": pa.struct({"x": pa.int8()})})
    table = create_table(tmp_path / "t", columns, format=format)
    table.alter().move("s.z", before="S.x").move("s.x", after=("s", "y")).add("s.w", pa.int8(), after="s.z").commit()
    assert [field.name for field in table.arrow_schema.field("s").type] == ["z", "w", "y", "x"]
    with pytest.raises(ColumnNotFoundError, match=r"no column 't.x'"):
        table.alter().move("s.z", before="t.x")


def test_columns_are_moved(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _COLUMNS)
    table.append(pa.table({"a": [1], "b": ["x"], "s": [{"x": 1, "y": 2}]}, schema=_COLUMNS))
    table.alter().move("s", first=True).move("a", after="B").move("s.y", first=True).commit()
    assert table.scan().to_arrow().to_pylist() == [{"s": {"y": 2, "x": 1}, "b": "x", "a": 1}]
    assert list(table.scan().to_arrow().to_pylist()[0]) == ["s", "b", "a"]
    table.alter().add("first", pa.int8(), first=True).add("s.z", pa.int8(), after="y").commit()
    assert table.schema.names == ["first", "s", "b", "a"]
    assert DeltaTable(tmp_path / "t").scan().to_arrow().to_pylist() == [
        {"first": None, "s": {"y": 2, "z": None, "x": 1}, "b": "x", "a": 1}
    ]


def test_comments_and_nulls(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _COLUMNS)
    nulls = pa.table({"a": [1], "b": pa.array([None], pa.string())})
    with pytest.raises(ConstraintViolationError, match="a column that must not be null has 1 null"):
        table.append(nulls)
    table.alter().drop_not_null("b").comment("s.x", "of x").comment("a", "of a").commit()
    table.append(nulls)
    first, second, third = _fields(tmp_path / "t", 1)
    assert (first["metadata"], second["nullable"]) == ({"comment": "of a"}, True)
    assert third["type"]["fields"][0]["metadata"] == {"comment": "of x"}
    table.alter().comment("a", None).commit()
    assert _fields(tmp_path / "t", 3)[0]["metadata"] == {}
    assert table.scan().to_arrow().to_pylist() == [{"a": 1, "b": None, "s": None}]


def test_the_table_is_described(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _COLUMNS, description="old")
    table.alter().describe(name="orders").commit()
    assert (table.metadata.name, table.metadata.description) == ("orders", "old")
    table.alter().describe(name="", description="new\nline").commit()
    assert (table.metadata.name, table.metadata.description) == (None, "new\nline")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda alter: alter.move("a"), InvalidArgumentError, "behind or before another one, or to the front"),
        (lambda alter: alter.move("a", after="b", first=True), InvalidArgumentError, "exclude each other"),
        (lambda alter: alter.move("a", after="a"), InvalidArgumentError, "next to itself"),
        (lambda alter: alter.move("nope", first=True), ColumnNotFoundError, "nope"),
        (lambda alter: alter.move("a", after="nope"), ColumnNotFoundError, "nope"),
        (lambda alter: alter.move("s.x", after="a"), ColumnNotFoundError, "'a'"),
        (lambda alter: alter.add("c", pa.int8(), after="nope"), ColumnNotFoundError, "nope"),
        (lambda alter: alter.comment("nope", "x"), ColumnNotFoundError, "nope"),
        (lambda alter: alter.describe(), InvalidArgumentError, "neither a name nor a description"),
        (lambda alter: alter.widen("a", pa.int32()), SchemaError, "long cannot become integer"),
        (lambda alter: alter.widen("a", pa.int64()), SchemaError, "long cannot become long"),
        (lambda alter: alter.widen("a", pa.float64()), SchemaError, "long cannot become double"),
        (lambda alter: alter.widen("b", pa.int64()), SchemaError, "string cannot become long"),
        (lambda alter: alter.widen("s", _STRUCT), SchemaError, "cannot become struct"),
        (lambda alter: alter.widen("s.z", pa.int64()), ColumnNotFoundError, "'z'"),
        (lambda alter: alter.widen("a.element", pa.int64()), ColumnNotFoundError, "a.element"),
    ],
)
def test_changes_that_are_refused(tmp_path: Path, change: Any, error: type[Exception], message: str) -> None:
    table = create_table(tmp_path / "t", _COLUMNS, properties=_WIDENING)
    with pytest.raises(error, match=message):
        change(table.alter())
    assert DeltaTable(tmp_path / "t").version == 0


def test_columns_of_rules_are_not_widened(tmp_path: Path) -> None:
    """The value of an expression may depend on the types of its columns."""
    columns = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("s", pa.struct([("x", pa.int32())]))])
    table = create_table(tmp_path / "t", columns, properties=_WIDENING)
    table.alter().add_constraint("low", "a < 10 AND s.x > 0").commit()
    for name in ("a", "s.x"):
        with pytest.raises(SchemaError, match="cannot be widened, because the CHECK constraint low names it"):
            table.alter().widen(name, pa.int64())
    assert table.alter().widen("b", pa.int64()).commit().committed


def test_generated_columns_are_not_widened(tmp_path: Path) -> None:
    """delta-spark changes no table with a generated column of another type than its expression."""
    columns = pa.schema(
        [("a", pa.int32()), pa.field("g", pa.int32(), metadata={"delta.generationExpression": "a + 1"})]
    )
    table = create_table(tmp_path / "t", columns, properties=_WIDENING)
    with pytest.raises(SchemaError, match="a generated column has the type of its expression"):
        table.alter().widen("g", pa.int64())
    with pytest.raises(SchemaError, match="the generated column g names it"):
        table.alter().widen("a", pa.int64())
    table.append(pa.table({"a": pa.array([1], pa.int32())}))
    # Rows that have the column in a wider type do not widen it, either.
    table.append(pa.table({"a": pa.array([2], pa.int32()), "g": [3]}), schema_mode="merge")
    assert sorted(table.scan().to_arrow()["g"].to_pylist()) == [2, 3]
    assert table.arrow_schema.field("g").type == pa.int32()


def test_types_stay_unless_widening_is_enabled(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema([("a", pa.int32())]))
    with pytest.raises(UnsupportedFeatureError, match="type widening is not enabled"):
        table.alter().widen("a", pa.int64())
    table.alter().set(_WIDENING).widen("a", pa.int64()).commit()
    assert "typeWidening" in table.features


_NESTED = pa.schema(
    [
        ("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
        ("m", pa.map_(pa.string(), pa.struct([("a", pa.list_(pa.struct([("b", pa.int64()), ("c", pa.int64())])))]))),
    ]
)


def test_fields_in_lists_and_maps(tmp_path: Path) -> None:
    """Old rows keep their values under new names, and lack what was added or dropped."""
    table = create_table(tmp_path / "t", _NESTED, properties={"delta.columnMapping.mode": "name"})
    row = {"l": [{"x": 1, "y": "a"}, None], "m": [("k", {"a": [{"b": 2, "c": 3}]})]}
    table.append(pa.Table.from_pylist([row], _NESTED))
    altered = table.alter().add("l.element.z", pa.list_(pa.struct([("w", pa.int8())])), comment="new", first=True)
    altered = altered.rename("l.element.x", "renamed").drop("m.value.a.element.b").add("m.value.d", pa.int32())
    altered.move("L.element.Y", after="z").comment("m.value.a.element.c", "a number").commit()
    table = DeltaTable(tmp_path / "t", validate=True)
    old = {
        "l": [{"z": None, "y": "a", "renamed": 1}, None],
        "m": [("k", {"a": [{"c": 3}], "d": None})],
    }
    assert table.scan().to_arrow().to_pylist() == [old]
    fields = _fields(tmp_path / "t", 2)
    inner = fields[1]["type"]["valueType"]["fields"][0]["type"]["elementType"]["fields"]
    assert [one["metadata"]["comment"] for one in inner] == ["a number"]
    added = fields[0]["type"]["elementType"]["fields"][0]
    numbers = [added["metadata"]["delta.columnMapping.id"]]
    numbers += [one["metadata"]["delta.columnMapping.id"] for one in added["type"]["elementType"]["fields"]]
    assert numbers == [8, 9]
    assert table.metadata.configuration["delta.columnMapping.maxColumnId"] == "10"
    new = {"l": [{"z": [{"w": 1}], "y": "b", "renamed": 2}], "m": [("q", {"a": [], "d": 4})]}
    table.append(pa.Table.from_pylist([new], table.arrow_schema))
    rows = DeltaTable(tmp_path / "t", validate=True).scan().to_arrow().to_pylist()
    assert sorted(rows, key=str) == sorted([old, new], key=str)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda alter: alter.rename("l.element", "e"), ColumnNotFoundError, "only columns and fields"),
        (lambda alter: alter.drop("m.key"), ColumnNotFoundError, "only columns and fields"),
        (lambda alter: alter.move("m.value", first=True), ColumnNotFoundError, "only columns and fields"),
        (lambda alter: alter.comment("l.element", "x"), ColumnNotFoundError, "only columns and fields"),
        (lambda alter: alter.drop_not_null("m.value"), ColumnNotFoundError, "only columns and fields"),
        (lambda alter: alter.rename("l.element.x", "Y"), SchemaError, "'y' already"),
        (lambda alter: alter.add("m.value.A", pa.int8()), SchemaError, "'a' already"),
        (lambda alter: alter.add("l.x", pa.int8()), SchemaError, "no column 'l.x'|only be added"),
        (lambda alter: alter.drop("m.value.a"), SchemaError, "last field of a struct"),
        (lambda alter: alter.drop("l.x"), ColumnNotFoundError, "element lead into l"),
    ],
)
def test_what_is_refused_in_lists_and_maps(tmp_path: Path, change: Any, error: type[Exception], message: str) -> None:
    table = create_table(tmp_path / "t", _NESTED, properties={"delta.columnMapping.mode": "name"})
    with pytest.raises(error, match=message):
        change(table.alter())


def test_the_columns_with_statistics_are_renamed_and_dropped(tmp_path: Path) -> None:
    name = "delta.dataSkippingStatsColumns"
    properties = {"delta.columnMapping.mode": "name", name: "id, V ,s.x,s.y"}
    columns = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", _STRUCT), ("w", pa.int64())])
    table = create_table(tmp_path / "t", columns, properties=properties)
    table.alter().rename("v", "a,b").rename("s.x", "z").commit()
    assert table.properties[name] == "id,`a,b`,s.z,s.y"
    table.append(pa.table({"id": [1], "a,b": [2], "s": [{"z": 3, "y": 4}], "w": [5]}))
    text = (tmp_path / "t/_delta_log" / f"{2:020d}.json").read_text("utf-8")
    (add,) = (action["add"] for action in map(json.loads, text.splitlines()) if "add" in action)
    physical = {field.name: field.physical_name for field in table.schema}
    assert set(json.loads(add["stats"])["minValues"]) == {physical[one] for one in ("id", "a,b", "s")}
    table.alter().drop("s.y").drop("w").commit()
    assert table.properties[name] == "id,`a,b`,s.z"
    table.alter().rename("s", "t").drop("a,b").commit()
    assert table.properties[name] == "id,t.z"
    table.alter().add("n", pa.int64()).drop("t").commit()
    assert table.properties[name] == "id"


@pytest.mark.parametrize("way", ["append", "merge", "upsert", "overwrite"])
def test_columns_follow_wider_rows(tmp_path: Path, way: str) -> None:
    """With schema_mode="merge", unless a rule names the column, or integers would become other numbers."""
    kinds = {"k": pa.int32(), "low": pa.int32(), "n": pa.int32(), "f": pa.float32(), "s": pa.struct([("x", pa.int8())])}
    table: DeltaTable = create_table(tmp_path / "t", pa.schema(list(kinds.items())), properties=_WIDENING)
    table.alter().add_constraint("low", "low < 100").commit()
    row = {"k": 1, "low": 2, "n": 3, "f": 0.5, "s": {"x": 4}}
    table.append(pa.Table.from_pylist([row], pa.schema(list(kinds.items()))))
    wide = kinds | {"k": pa.int64(), "low": pa.int64(), "n": pa.int16(), "f": pa.float64()}
    wide["s"] = pa.struct([("X", pa.int32())])
    new = {"k": 1 << 40, "low": 2, "n": 3, "f": 0.1, "s": {"X": 1 << 20}}
    rows = pa.Table.from_pylist([new], pa.schema(list(wide.items())))
    if way == "append":
        table.append(rows, schema_mode="merge")
    elif way == "overwrite":
        table.overwrite(rows, where="k > 1", schema_mode="merge")
    elif way == "upsert":
        table.upsert(rows, "k", schema_mode="merge")
    else:
        table.merge(rows, "target.k = source.k", schema_mode="merge").when_not_matched_insert_all().execute()
    assert [str(child.type) for child in table.schema] == ["long", "integer", "integer", "double", "struct<x: integer>"]
    expected = [row, new | {"s": {"x": 1 << 20}}]
    assert table.scan().to_arrow().sort_by("k").to_pylist() == expected
    with pytest.raises(SchemaError, match="does not fit the type integer"):
        table.append(rows.set_column(1, "low", pa.array([1 << 40])), schema_mode="merge")
    with pytest.raises(SchemaError, match=r"3\.5 is no whole number"):
        table.append(rows.set_column(2, "n", pa.array([3.5])), schema_mode="merge")
