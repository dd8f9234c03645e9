"""The rules of tables for their rows: constraints, invariants, generated columns and default values."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, write_table
from deltaberg.errors import (
    ColumnNotFoundError,
    ConcurrentAppendError,
    ConstraintViolationError,
    DeltabergError,
    EvaluationError,
    ExpressionError,
    InvalidArgumentError,
    SchemaError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.delta_schemas import field, struct_type
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_INVARIANT = '{"expression": { "expression": "x > 3"} }'
_LONG, _INTEGER = Primitive("long"), Primitive("integer")


def _action(root: Path, version: int, name: str) -> Any:
    lines = (root / "_delta_log" / commit_name(version)).read_text("utf-8").splitlines()
    found = [json.loads(line)[name] for line in lines if name in json.loads(line)]
    return found[0] if found else None


def _refused(table: DeltaTable, write: Callable[[], object], message: str = "") -> ConstraintViolationError:
    """Check that a write is refused, and that it leaves the table and its files as they were."""
    root = table._log.root.path
    version, rows = table.version, table.scan().to_arrow()
    files = sorted(Path(root).rglob("*.parquet"))
    with pytest.raises(ConstraintViolationError, match=message) as caught:
        write()
    fresh = table.refresh()
    assert (fresh.version, fresh.scan().to_arrow()) == (version, rows)
    assert sorted(Path(root).rglob("*.parquet")) == files
    return caught.value


def _xs(*values: int | None) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


# Invariants


@pytest.mark.req("DL-CON-04", "DL-CON-05", half="writer")
@pytest.mark.req("DL-SCHEMA-18")
@pytest.mark.parametrize(("writer", "features"), [*((n, None) for n in range(2, 7)), (7, ["invariants"])])
def test_invariants(builder: DeltaBuilder, writer: int, features: list[str] | None) -> None:
    protocol = builder.protocol(1, writer, None, features)
    builder.create([field("x", "long", delta__invariants=_INVARIANT)], protocol=protocol)
    table = DeltaTable(builder.root)
    table.append(_xs(4, 5))
    for wrong in (_xs(3), _xs(None), _xs(4, 5, 3), _xs(7, None)):
        error = _refused(table, partial(table.append, wrong), "the invariant of x: x=(3|null)")
        assert error.context["expression"] == "x > 3"
    assert sorted(table.scan().to_arrow()["x"].to_pylist()) == [4, 5]
    assert len(list(builder.root.glob("*.parquet"))) == 1


@pytest.mark.req("DL-CON-04", half="writer")
@pytest.mark.parametrize(("writer", "features"), [(1, None), (7, [])])
def test_invariants_that_the_protocol_does_not_know(
    builder: DeltaBuilder, writer: int, features: list[str] | None
) -> None:
    protocol = builder.protocol(1, writer, None, features)
    builder.create([field("x", "long", delta__invariants=_INVARIANT)], protocol=protocol)
    table = DeltaTable(builder.root)
    table.append(_xs(3))
    assert table.scan().count() == 1


@pytest.mark.req("DL-CON-06")
def test_invariants_of_nested_fields(builder: DeltaBuilder) -> None:
    inner = struct_type(field("x", "long", delta__invariants=_INVARIANT.replace("x >", "s.x >")))
    builder.create([field("s", inner)])
    table = DeltaTable(builder.root)
    table.append(pa.table({"s": [{"x": 4}]}))
    for wrong in ({"x": 1}, {"x": None}, None):
        rows = pa.table({"s": pa.array([{"x": 5}, wrong], pa.struct([("x", pa.int64())]))})
        _refused(table, partial(table.append, rows), r"the invariant of s\.x: s=")


@pytest.mark.req("DL-CON-07")
@pytest.mark.req("DL-SCHEMA-18")
def test_nulls_where_none_may_be(builder: DeltaBuilder) -> None:
    inner = struct_type(field("y", "long", nullable=False))
    builder.create([field("x", "long", nullable=False), field("s", inner)])
    table = DeltaTable(builder.root)
    table.append(pa.table({"x": [1], "s": pa.array([None], pa.struct([("y", pa.int64())]))}))
    _refused(table, lambda: table.append(_xs(1, None)), "must not be null has 1 null")
    rows = pa.table({"x": [1], "s": [{"y": None}]})
    _refused(table, lambda: table.append(rows), "must not be null")


# CHECK constraints


def _people(*days: dt.date | None) -> pa.Table:
    return pa.table({"birthDate": pa.array(days, pa.date32())})


@pytest.mark.req("DL-CON-08", "DL-CON-09", half="writer")
@pytest.mark.parametrize(
    ("writer", "features"), [(3, None), (4, None), (5, None), (6, None), (7, ["checkConstraints"])]
)
def test_check_constraints(builder: DeltaBuilder, writer: int, features: list[str] | None) -> None:
    configuration = {"delta.constraints.birthDateCheck": "birthDate > '1900-01-01'"}
    protocol = builder.protocol(1, writer, None, features)
    builder.create([field("birthDate", "date")], configuration=configuration, protocol=protocol)
    table = DeltaTable(builder.root)
    assert table.check_constraints == {"birthDateCheck": "birthDate > '1900-01-01'"}
    table.append(_people(dt.date(1950, 1, 1)))
    for wrong in (_people(dt.date(1899, 12, 31)), _people(None), _people(dt.date(2000, 1, 1), None)):
        _refused(table, partial(table.append, wrong), "CHECK constraint birthDateCheck: birthDate=")
        _refused(table, partial(table.overwrite, wrong), "CHECK constraint birthDateCheck")
        _refused(table, partial(write_table, builder.root, wrong, mode="append"), "birthDateCheck")
    table.overwrite(_people(dt.date(2000, 1, 1)))
    assert table.scan().to_arrow()["birthDate"].to_pylist() == [dt.date(2000, 1, 1)]


@pytest.mark.req("DL-CON-08", half="writer")
@pytest.mark.parametrize(("writer", "features"), [(2, None), (7, [])])
def test_constraints_that_the_protocol_does_not_know(
    builder: DeltaBuilder, writer: int, features: list[str] | None
) -> None:
    configuration = {"delta.constraints.c": "id > 5"}
    builder.create(ID, configuration=configuration, protocol=builder.protocol(1, writer, None, features))
    table = DeltaTable(builder.root)
    table.append(ids(1))
    assert ids_of(table) == [1]


@pytest.mark.req("DL-CON-10")
@pytest.mark.parametrize("mapped", [False, True])
def test_columns_of_constraints_stay(tmp_path: Path, mapped: bool) -> None:
    columns = pa.schema([("id", pa.int64()), ("birthDate", pa.date32()), ("s", pa.struct([("x", pa.int64())]))])
    properties = {"delta.columnMapping.mode": "name" if mapped else "none"}
    table = create_table(tmp_path / "t", columns, properties=properties)
    with pytest.raises(ColumnNotFoundError, match=r"the CHECK constraint c cannot be evaluated: .*no column 'nope'"):
        table.alter().add_constraint("c", "nope > 1")
    table.alter().add_constraint("old", "birthDate > '1900-01-01'").add_constraint("deep", "s.x > 0").commit()
    for name in ("birthDate", "BIRTHDATE", "s.x", "s"):
        for change in (partial(table.alter().drop, name), partial(table.alter().rename, name, "n")):
            with pytest.raises((SchemaError, UnsupportedFeatureError)) as caught:
                change()
            assert not mapped or "names it" in str(caught.value)
    assert table.refresh().version == 1
    if mapped:
        table.alter().drop_constraint("OLD").rename("birthDate", "born").commit()
        assert table.check_constraints == {"deep": "s.x > 0"}


@pytest.mark.req("DL-CON-11")
@pytest.mark.req("DL-CON-12")
def test_adding_a_constraint_checks_the_rows_that_are_there(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _xs().schema)
    table.append(_xs(1, 2))
    table.append(_xs(3, -1))
    with pytest.raises(ConstraintViolationError, match="the CHECK constraint positive: x=-1"):
        table.alter().add_constraint("positive", "x > 0").commit()
    assert DeltaTable(tmp_path / "t").version == 2
    table.delete("x = -1")
    table.alter().add_constraint("Positive", "x > 0").commit()
    assert _action(tmp_path / "t", 4, "protocol") == {"minReaderVersion": 1, "minWriterVersion": 3}
    metadata = _action(tmp_path / "t", 4, "metaData")
    assert metadata["configuration"] == {"delta.constraints.positive": "x > 0"}
    _refused(table, lambda: table.append(_xs(0)), "positive: x=0")
    with pytest.raises(InvalidArgumentError, match="there is a constraint"):
        table.alter().add_constraint("POSITIVE", "x > 1")
    with pytest.raises(InvalidArgumentError, match="no constraint other"):
        table.alter().drop_constraint("other")
    table.alter().drop_constraint("positive").commit()
    table.append(_xs(0))


@pytest.mark.req("DL-CON-12")
def test_the_first_constraint_of_a_table_with_lists(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, properties={"delta.enableDeletionVectors": "true"})
    table.alter().set({"delta.constraints.Small": "id < 10"}).commit()
    assert "checkConstraints" in _action(tmp_path / "t", 1, "protocol")["writerFeatures"]
    assert _action(tmp_path / "t", 1, "metaData")["configuration"]["delta.constraints.small"] == "id < 10"
    _refused(table, lambda: table.append(ids(11)), "small: id=11")
    other = create_table(tmp_path / "u", ID, properties={"delta.constraints.small": "id < 10"})
    _refused(other, lambda: other.append(ids(11)), "small: id=11")


@pytest.mark.req("DL-CON-11")
def test_rows_that_others_add_meanwhile_are_a_conflict(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _xs().schema)
    alteration = table.alter().add_constraint("positive", "x > 0")
    DeltaTable(tmp_path / "t").append(_xs(-1))
    with pytest.raises(ConcurrentAppendError, match=r"version 1 .* added a file that had to be read: the whole table"):
        alteration.commit()
    assert DeltaTable(tmp_path / "t").check_constraints == {}


@pytest.mark.req("DL-CON-13")
@pytest.mark.req("DL-SCHEMA-18")
@pytest.mark.parametrize(
    ("metadata", "configuration", "feature"),
    [
        ({}, {"delta.constraints.c": "foo(x) > 1"}, "checkConstraints"),
        ({"delta__invariants": '{"expression":{"expression":"foo(x)"}}'}, {}, "invariants"),
        ({"delta__generationExpression": "foo(1)"}, {}, "generatedColumns"),
        ({"CURRENT_DEFAULT": "foo(1)"}, {}, "allowColumnDefaults"),
    ],
)
def test_what_cannot_be_evaluated_refuses_the_write(
    builder: DeltaBuilder, metadata: dict[str, Any], configuration: dict[str, str], feature: str
) -> None:
    protocol = builder.protocol(1, 7, None, [feature])
    builder.create([field("x", "long", **metadata)], configuration=configuration, protocol=protocol)
    table = DeltaTable(builder.root)
    for write in (table.append, table.overwrite):
        with pytest.raises(UnsupportedFeatureError, match=r"cannot be evaluated.*foo"):
            write(_xs(5))
    assert DeltaTable(builder.root).version == 0
    assert not list(builder.root.glob("*.parquet"))


def test_constraints_of_mapped_columns(tmp_path: Path) -> None:
    """Expressions name columns as they are shown, and files have physical names."""
    table = create_table(tmp_path / "t", _xs().schema, properties={"delta.columnMapping.mode": "id"})
    table.alter().rename("x", "the x").commit()
    table.append(pa.table({"the x": [4]}))
    table.alter().add_constraint("c", "`the x` > 3").commit()
    _refused(table, lambda: table.append(pa.table({"the x": [3]})), "c: the x=3")


# Generated columns


@pytest.mark.req("DL-CON-14", half="writer")
def test_new_tables_with_generated_columns(tmp_path: Path) -> None:
    generated = Field("twice", _LONG, nullable=False, metadata={"delta.generationExpression": "x * 2"})
    table = create_table(tmp_path / "t", Struct((Field("x", _LONG), generated)))
    assert _action(tmp_path / "t", 0, "protocol")["minWriterVersion"] == 4
    (_, stored) = json.loads(_action(tmp_path / "t", 0, "metaData")["schemaString"])["fields"]
    assert stored["metadata"] == {"delta.generationExpression": "x * 2"}
    table.append(_xs(2))
    assert table.scan().to_arrow().to_pylist() == [{"x": 2, "twice": 4}]
    _refused(table, lambda: table.append(_xs(None)), "filled with 1 nulls")
    with pytest.raises(EvaluationError, match="overflow"):
        table.append(_xs(1 << 62))


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("nope + 1", ColumnNotFoundError, "the generated column y cannot be evaluated: .*no column 'nope'"),
        ("x + rand()", ExpressionError, "y cannot be evaluated: rand.. is not deterministic"),
        ("x + day(current_date)", ExpressionError, "y is computed from the time"),
        ("x + day(now())", ExpressionError, "y is computed from the time"),
        ("Twice + 1", SchemaError, "y is computed from the generated column twice"),
        ("y + 1", SchemaError, "y is computed from the generated column y"),
        ("CAST(x AS INT)", SchemaError, "y has the type bigint, and its expression the type int"),
        ("'1'", SchemaError, "y has the type bigint, and its expression the type string"),
        ("NULL", SchemaError, "y has the type bigint, and its expression the type void"),
    ],
)
def test_generated_columns_that_new_tables_cannot_have(
    tmp_path: Path, text: str, kind: type[DeltabergError], message: str
) -> None:
    twice = Field("twice", _LONG, metadata={"delta.generationExpression": "x * 2"})
    wrong = Field("y", _LONG, metadata={"delta.generationExpression": text})
    with pytest.raises(kind, match=message):
        create_table(tmp_path / "t", Struct((wrong, Field("x", _LONG), twice)))
    assert not (tmp_path / "t").exists()


def test_generated_columns_of_generated_columns(builder: DeltaBuilder) -> None:
    """Tables of other engines may have them, in any order."""
    columns = [
        field("h", "long", delta__generationExpression="g * 10"),
        field("x", "long"),
        field("g", "long", delta__generationExpression="x + 1"),
    ]
    builder.create(columns, protocol=builder.protocol(1, 4))
    table = DeltaTable(builder.root)
    table.append(_xs(1, 2))
    table.update({"x": "x + 5"}, "x = 2")
    table.merge(_xs(3), "target.x = source.x").when_not_matched_insert_all().execute()
    rows = [tuple(row.values()) for row in table.scan().to_arrow().sort_by("x").to_pylist()]
    assert rows == [(20, 1, 2), (40, 3, 4), (80, 7, 8)]
    _refused(table, lambda: table.append(pa.table({"x": [1], "g": [3]})), "the generated column g: g=3, x=1")


def test_generated_columns_of_themselves(builder: DeltaBuilder) -> None:
    builder.create(
        [field("x", "long", delta__generationExpression="y"), field("y", "long", delta__generationExpression="x")],
        protocol=builder.protocol(1, 4),
    )
    with pytest.raises(UnsupportedFeatureError, match="the generated column x is computed from itself"):
        DeltaTable(builder.root).append(_xs(1))


# Default values


@pytest.mark.req("DL-CON-16", half="writer")
@pytest.mark.req("DL-CON-19")
@pytest.mark.req("DL-SCHEMA-18")
def test_default_values(tmp_path: Path, builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(1, 6))
    table = DeltaTable(builder.root)
    with pytest.raises(InvalidArgumentError, match="in the commit that adds it"):
        table.alter().add("c", pa.int32(), default="42")
    with pytest.raises(InvalidArgumentError, match="in the commit that adds it"):
        table.alter().add("c", pa.int32()).set_default("c", "42")
    table.alter().add("c", pa.int32()).commit()
    table.alter().set_default("c", "42").commit()
    protocol = _action(builder.root, 2, "protocol")
    assert protocol["minWriterVersion"] == 7
    assert {"allowColumnDefaults", "identityColumns", "columnMapping"} <= set(protocol["writerFeatures"])
    fields = json.loads(_action(builder.root, 2, "metaData")["schemaString"])["fields"]
    assert fields[1]["metadata"] == {"CURRENT_DEFAULT": "42"}
    assert table.column_defaults == {"c": "42"}
    table.append(ids(2))
    table.append(pa.table({"id": [3], "c": pa.array([None], pa.int32())}))
    table.append(pa.table({"id": [4], "C": [7]}))
    rows = {row["id"]: row["c"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {1: None, 2: 42, 3: None, 4: 7}
    table.alter().set_default("c", None).commit()
    table.append(ids(5))
    assert table.column_defaults == {}
    assert table.scan("id = 5").to_arrow()["c"].to_pylist() == [None]


@pytest.mark.req("DL-CON-17")
def test_the_keyword_default(builder: DeltaBuilder) -> None:
    column = field("c", "integer", CURRENT_DEFAULT="42")
    builder.create(
        [field("id", "long"), column, field("n", "long")],
        protocol=builder.protocol(1, 7, None, ["allowColumnDefaults"]),
    )
    table = DeltaTable(builder.root)
    table.append(ids(1))
    table.append(pa.table({"id": [2], "c": pa.array([None], pa.int32())}))
    table.append(pa.table({"id": [3], "c": [7], "n": [1]}))
    rows = {row["id"]: row["c"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {1: 42, 2: None, 3: 7}
    table.update({"c": "DEFAULT", "n": "default"}, "id >= 2")
    rows = {row["id"]: (row["c"], row["n"]) for row in table.scan().to_arrow().to_pylist()}
    assert rows == {1: (42, None), 2: (42, None), 3: (42, None)}


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["copy", "vectors"])
def test_updates_obey_the_rules(tmp_path: Path, properties: dict[str, str]) -> None:
    generated = Field("twice", _LONG, metadata={"delta.generationExpression": "x * 2"})
    properties = {**properties, "delta.constraints.small": "twice < 100"}
    table = create_table(tmp_path / "t", Struct((Field("x", _LONG), generated)), properties=properties)
    table.append(_xs(1, 2, 3))
    table.update({"x": "x + 10"}, "x > 1")
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["x"])
    assert rows == [{"x": 1, "twice": 2}, {"x": 12, "twice": 24}, {"x": 13, "twice": 26}]
    _refused(table, lambda: table.update({"x": "50"}, "x = 1"), "the CHECK constraint small: twice=100")
    _refused(table, lambda: table.update({"twice": "5"}, "x = 1"), "the generated column twice: twice=5, x=1")
    table.update({"x": "4", "twice": "8"}, "x = 1")
    # Rows that only move to other files are not looked at again.
    table.delete("x = 4")
    assert sorted(table.scan().to_arrow()["twice"].to_pylist()) == [24, 26]


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["copy", "vectors"])
def test_merges_obey_conditions(tmp_path: Path, properties: dict[str, str]) -> None:
    columns = pa.schema([("id", pa.int64()), ("x", pa.int64())])
    table = create_table(tmp_path / "t", columns, properties={**properties, "delta.constraints.small": "x < 100"})
    table.append(pa.table({"id": [1, 2, 3], "x": [1, 2, 3]}))
    for wrong in ({"id": [1], "x": [100]}, {"id": [4], "x": [None]}, {"id": [1, 9], "x": [5, 200]}):
        _refused(table, partial(table.upsert, pa.table(wrong, schema=columns), "id"), "the CHECK constraint small: x=")
    table.upsert(pa.table({"id": [1, 4], "x": [50, 4]}), "id")
    rows = {row["id"]: row["x"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {1: 50, 2: 2, 3: 3, 4: 4}
    table.alter().set_default("x", "42").commit()
    table.upsert(ids(7), "id")
    assert table.scan("id = 7").to_arrow()["x"].to_pylist() == [42]


@pytest.mark.req("BEY-09")
def test_default_values_that_a_column_cannot_have(tmp_path: Path) -> None:
    columns = Struct((Field("id", _LONG), Field("v", Primitive("variant")), Field("n", _INTEGER)))
    table = create_table(tmp_path / "t", columns)
    wrong: list[tuple[str, str, type[DeltabergError], str]] = [
        ("v", "5", UnsupportedFeatureError, "the default value of a variant is null"),
        ("n", "id + 1", ColumnNotFoundError, "the default value of n names a column"),
        ("n", "foo()", UnsupportedExpressionError, r"the function foo\(\) cannot be evaluated"),
        ("n", "'x'", EvaluationError, "a text is not a value of the type integer"),
        ("n", "3000000000", EvaluationError, "a number does not fit into integer"),
    ]
    for column, text, kind, message in wrong:
        with pytest.raises(kind, match=message):
            table.alter().set_default(column, text).commit()
    assert DeltaTable(tmp_path / "t").version == 0
    table.alter().set_default("v", "NULL").commit()
    table.append(ids(1))
    assert table.scan().to_arrow()["v"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("feature", "metadata", "configuration"),
    [
        ("invariants", {"delta.invariants": '{"expression":{"expression":"unheard(id) > 0"}}'}, {}),
        ("checkConstraints", {}, {"delta.constraints.positive": "unheard(id) > 0"}),
        ("generatedColumns", {"delta.generationExpression": "unheard(1)"}, {}),
        ("allowColumnDefaults", {"CURRENT_DEFAULT": "unheard(1)"}, {}),
    ],
)
def test_rules_that_cannot_be_evaluated(
    builder: DeltaBuilder, feature: str, metadata: dict[str, Any], configuration: dict[str, str]
) -> None:
    """Rows are refused by the name of what is missing; a table that merely supports the feature takes them."""
    column = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    protocol = builder.features(writer_only=[feature])
    builder.create([{**column, "metadata": metadata}], protocol=protocol, configuration=configuration)
    table = DeltaTable(builder.root)
    with pytest.raises(UnsupportedFeatureError, match="unheard"):
        table.append(ids(1))
    assert table.refresh().version == 0
    assert not list(builder.root.glob("*.parquet"))
    (plain := DeltaBuilder(builder.root.parent / "plain")).create([column], protocol=protocol)
    assert DeltaTable(plain.root).append(ids(1)).version == 1
