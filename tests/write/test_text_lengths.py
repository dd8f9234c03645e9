"""CHAR(n) and VARCHAR(n): texts have at most n characters, and those of CHAR are padded, as Spark does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, col, create_table
from deltaberg.errors import ConstraintViolationError, CorruptLogError
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import Field, List, Map, Primitive, Struct
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.rows import ids_of

pytestmark = pytest.mark.one_backend

_KEY = "__CHAR_VARCHAR_TYPE_STRING"
_TEXT, _LONG = Primitive("string"), Primitive("long")
_INNER = Struct(
    (
        Field("a", _TEXT),
        Field("l", List(Field("element", _TEXT))),
        Field("m", Map(Field("key", _TEXT, nullable=False), Field("value", _TEXT))),
        Field("n", _LONG),
    )
)
_OF_INNER = "struct<a:char(3),l:array<varchar(2)>,m:map<char(2),varchar(2)>,n:bigint>"
_SCHEMA = Struct(
    (
        Field("id", _LONG),
        Field("c", _TEXT, metadata={_KEY: "char(5)"}),
        Field("v", _TEXT, metadata={_KEY: "varchar(4)"}),
        Field("s", _INNER, metadata={_KEY: _OF_INNER}),
        Field("d", _TEXT, metadata={_KEY: "char(4)", "CURRENT_DEFAULT": "'x'"}),
        Field("g", _TEXT, metadata={_KEY: "varchar(7)", "delta.generationExpression": "concat(c, '|')"}),
    )
)
#: Values that are too long, by the column that the error names.
_LONG_TEXTS: dict[str, dict[str, Any]] = {
    "c": {"c": "abcdef"},
    "v": {"v": "äöüßé"},
    "s.a": {"s": {"a": "wxyz"}},
    "s.l.element": {"s": {"l": ["a", "abc"]}},
    "s.m.key": {"s": {"m": [("abc", "x")]}},
    "s.m.value": {"s": {"m": [("ab", "xyz")]}},
    "d": {"d": "abcde"},
}
_GIVEN = pa.schema(
    [
        ("id", pa.int64()),
        ("c", pa.string()),
        ("v", pa.string()),
        ("s", pa.struct([("a", pa.string()), ("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.string()))])),
        ("d", pa.string()),
    ]
)


def _field(name: str, kind: Any, texts: str) -> dict[str, Any]:
    return {**field(name, kind), "metadata": {_KEY: texts}}


def _rows(**values: Any) -> pa.Table:
    return pa.Table.from_pylist([values], schema=pa.schema([_GIVEN.field(name) for name in values]))


def _row(table: DeltaTable, number: int) -> dict[str, Any]:
    (found,) = table.scan(filter=col("id") == number).to_arrow().to_pylist()
    return dict(found)


@pytest.mark.parametrize("partition_by", [[], ["c"]], ids=["plain", "partitioned"])
def test_every_write_stores_texts_as_spark_does(tmp_path: Path, partition_by: list[str]) -> None:
    table = create_table(tmp_path / "t", _SCHEMA, partition_by=partition_by)
    inner = {"a": "x", "l": ["y  ", None], "m": [("k", "v     ")], "n": None}
    table.append(_rows(id=1, c="ab", v="äöüß   ", s=inner))
    assert _row(table, 1) == {
        "id": 1,
        "c": "ab   ",
        "v": "äöüß",
        "s": {"a": "x  ", "l": ["y ", None], "m": [("k ", "v ")], "n": None},
        "d": "x   ",
        "g": "ab   |",
    }
    table.append(_rows(id=2, c=None, v="", s=None, d=None))
    assert _row(table, 2) == {"id": 2, "c": None, "v": "", "s": None, "d": None, "g": None}
    table.update({"c": "'abcde      '", "s.a": "'z'"}, "c = 'ab'")
    assert (_row(table, 1)["c"], _row(table, 1)["s"]["a"], _row(table, 1)["g"]) == ("abcde", "z  ", "abcde|")
    table.overwrite(_rows(id=3, c="q"), where="c <= 'abcde'", check=False)
    assert (ids_of(table), _row(table, 3)["c"], _row(table, 3)["d"]) == ([2, 3], "q    ", "x   ")
    table.upsert(_rows(c="q", v="new "), "c")
    assert (ids_of(table), _row(table, 3)["v"]) == ([2, 3], "new ")
    merge = table.merge(_rows(id=3, c="r"), "target.id = source.id").when_matched_update({"c": "source.c"})
    merge.execute()
    table.merge(_rows(id=4, c="r"), "false").when_not_matched_insert({"id": "source.id", "c": "source.c"}).execute()
    assert [_row(table, number)["c"] for number in (3, 4)] == ["r    ", "r    "]
    assert table.scan().max("c") == "r    "


@pytest.mark.parametrize("column", _LONG_TEXTS)
def test_texts_that_are_too_long_are_refused_by_every_write(tmp_path: Path, column: str) -> None:
    table = create_table(tmp_path / "t", _SCHEMA)
    table.append(_rows(id=1, c="ab"))
    wrong = _rows(id=1, **_LONG_TEXTS[column])
    name = next(iter(_LONG_TEXTS[column]))
    writes: list[Callable[[], object]] = [
        lambda: table.append(wrong),
        lambda: table.overwrite(wrong),
        lambda: table.upsert(wrong, "id"),
        lambda: table.merge(wrong, "target.id = source.id").when_matched_update({name: f"source.{name}"}).execute(),
        lambda: table.merge(wrong, "false").when_not_matched_insert({name: f"source.{name}"}).execute(),
    ]
    for write in writes if name != "s" else writes[:3]:
        with pytest.raises(ConstraintViolationError, match=r"characters is too long for (VAR)?CHAR\(\d\)") as caught:
            write()
        assert caught.value.context["column"] == column
        assert table.refresh().version == 1
    if name != "s":
        with pytest.raises(ConstraintViolationError, match="too long"):
            table.update({name: "'abcdefgh'"}, "id = 1")
        with pytest.raises(ConstraintViolationError, match="too long"):
            table.alter().set_default(name, "'abcdefgh'").commit()


@pytest.mark.parametrize(
    ("column", "values"),
    [("m", [("a", 1), ("b", 2), ("a   ", 3)]), ("s.element.m", [{"m": [("x", 1)]}, {"m": [("a", 1), ("a ", 2)]}])],
)
def test_keys_that_only_spaces_tell_apart(tmp_path: Path, column: str, values: list[Any]) -> None:
    """Padded, they are one key, which a map must not have twice. VARCHAR keeps such spaces, as Spark does."""
    kind = Map(Field("key", _TEXT, nullable=False), Field("value", _LONG))
    of_structs = List(Field("element", Struct((Field("m", kind),))))
    name, stored = (column, kind) if column == "m" else ("s", of_structs)
    rows = pa.table({"id": [1], name: pa.array([values], arrow_type(stored))})
    for text, doubled in (("char(2)", "a "), ("varchar(2)", None)):
        recorded = f"map<{text},bigint>" if column == "m" else f"array<struct<m:map<{text},bigint>>>"
        schema = Struct((Field("id", _LONG), Field(name, stored, metadata={_KEY: recorded})))
        table = create_table(tmp_path / text, schema)
        writes: list[Callable[[], object]] = [
            lambda table=table: table.append(rows),  # type: ignore[misc]
            lambda table=table: table.overwrite(rows),  # type: ignore[misc]
            lambda table=table: table.upsert(rows, "id"),  # type: ignore[misc]
        ]
        for write in writes:
            if doubled is None:
                write()
                continue
            with pytest.raises(ConstraintViolationError, match=f"a map has the key '{doubled}' twice") as caught:
                write()
            assert caught.value.context["column"] == column
        assert ids_of(table.refresh()) == ([] if doubled else [1])


_MATCHES = {
    "c = 'ab'": [1, 2],
    "c = 'ab          '": [1, 2],
    "'ab' = c": [1, 2],
    "c <=> 'ab'": [1, 2],
    "c <> 'ab'": [3, 4],
    "c IN ('ab', 'zz')": [1, 2],
    "c NOT IN ('ab', 'zz')": [3, 4],
    "c = 'ab' OR c = 'zz'": [1, 2],
    "c <> 'ab' AND c <> 'zz'": [3, 4],
    "c IN ('ab', null)": [],
    "c < 'ab  '": [4],
    "c <= 'ab'": [1, 2, 4],
    "c > 'ab'": [3],
    "c >= 'ab'": [1, 2, 3],
    "c > 'a'": [1, 2, 3, 4],
    "c BETWEEN 'ab' AND 'ab'": [1, 2],
    "c = 'abcdefgh'": [],
    "c LIKE 'ab'": [],
    "c LIKE 'ab%'": [1, 2, 4],
    "length(c) = 5 AND c = 'ab'": [1, 2],
    "length(c) = 5 AND c IN ('ab', concat('z', 'z'))": [1, 2],
    "length(c) = 5 AND c <=> 'ab       '": [1, 2],
    "length(c) = 5 AND c > 'abcdefgh'": [3],
    "c = e": [1, 2],
    "length(c) = 5 AND c = e": [1, 2],
    "p = 'x'": [1, 2, 3, 4],
    "p < 'x'": [],
    "v = 'ab'": [1],
    "v = 'ab '": [2],
}


@pytest.mark.parametrize("stats", ["none", "full"])
def test_texts_are_read_and_compared_as_spark_pads_them(builder: DeltaBuilder, stats: str) -> None:
    """Other engines store them unpadded, padded, or both, and Spark pads what it reads."""
    schema = [
        field("id", "long"),
        _field("c", "string", "char(5)"),
        _field("e", "string", "char(7)"),
        _field("v", "string", "varchar(5)"),
        _field("p", "string", "char(2)"),
    ]
    texts = {1: "ab", 2: "ab ", 3: "b", 4: "ab\t"}
    adds = []
    for number, text in texts.items():
        rows = pa.table({"id": [number], "c": [text], "e": ["ab"], "v": [text]})
        adds.append(builder.add(rows, stats=stats, partition={"p": "x" if number % 2 else "x "}))
    builder.create(schema, *adds, partition_by=["p"])
    table = DeltaTable(builder.root)
    found = {row["id"]: (row["c"], row["v"], row["p"]) for row in table.scan().to_arrow().to_pylist()}
    assert found == {number: (text.ljust(5), text, "x ") for number, text in texts.items()}
    assert {text: ids_of(table, filter=text) for text in _MATCHES} == _MATCHES
    assert ids_of(table, filter=col("c") == "ab") == ids_of(table, filter=[("c", "in", ["ab"])]) == [1, 2]
    assert (table.scan().min("c"), table.scan().max("c")) == ("ab\t  ", "b    ")
    table.delete("c = 'ab'")
    assert ids_of(table) == [3, 4]


def test_lengths_that_are_recorded_otherwise(builder: DeltaBuilder) -> None:
    """Names may be quoted, fields may have been renamed or added since, and a type may be a text type itself."""
    old = "struct<`a:b`:char(2),was:varchar(1),n:decimal(10,2)>"
    inner = pa.struct([("a:b", pa.string()), ("now", pa.string()), ("n", pa.decimal128(10, 2))])
    more = pa.struct([*inner, pa.field("more", pa.string())])
    schema = [
        _field("renamed", inner, old),
        _field("grown", more, old),
        field("own", "varchar(2)"),
    ]
    builder.create(schema)
    table = DeltaTable(builder.root)
    table.append(pa.table({"renamed": pa.array([{"a:b": "x", "now": "y"}]), "own": ["zz  "]}))
    table.append(pa.table({"grown": pa.array([{"a:b": "x", "now": "long", "more": "long"}])}))
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["own"] is None)
    assert [rows[0]["renamed"]["a:b"], rows[0]["own"], rows[1]["grown"]["a:b"]] == ["x ", "zz", "x "]
    for wrong in ({"renamed": pa.array([{"now": "yy"}])}, {"own": pa.array(["zzz"])}):
        with pytest.raises(ConstraintViolationError, match="too long"):
            table.append(pa.table(wrong))
    for number, damaged in enumerate(("struct<a", "struct<a:char(1)", "char(1)>", "map<int>", "array<>", "")):
        other = DeltaBuilder(builder.root / str(number))
        other.create([_field("c", "string", damaged)])
        with pytest.raises(CorruptLogError, match="is not a type"):
            _ = DeltaTable(other.root).schema


def test_lengths_go_through_arrow_schemas(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", _SCHEMA)
    again = create_table(tmp_path / "again", table.arrow_schema)
    assert [(one.name, one.length) for one in again.schema] == [(one.name, one.length) for one in table.schema]
    assert again.schema.fields[3].type == table.schema.fields[3].type
    for name, values in _LONG_TEXTS.items():
        with pytest.raises(ConstraintViolationError, match="characters") as caught:
            again.append(_rows(id=1, **values))
        assert caught.value.context["column"] == name
    # Other columns have no metadata, and rows that are read are texts of any length.
    assert table.arrow_schema.field("id").metadata is None
    assert create_table(tmp_path / "rows", table.scan().schema).schema.fields[1].length is None


@pytest.mark.parametrize("texts", ["struct<", "char(3", "", "array<char(2)"])
def test_lengths_of_arrow_fields_that_are_no_types_are_refused(tmp_path: Path, texts: str) -> None:
    columns = pa.schema([pa.field("c", pa.string(), metadata={_KEY: texts})])
    with pytest.raises(CorruptLogError, match="is not a type"):
        create_table(tmp_path / "t", columns)
    assert not (tmp_path / "t").exists()
