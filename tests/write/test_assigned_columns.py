"""Values that updates, merges and upserts assign to columns of structs, lists and maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import ConstraintViolationError, EvaluationError, SchemaError

pytestmark = pytest.mark.one_backend

_XY = pa.struct([("x", pa.int64()), ("y", pa.int64())])
_YX = pa.struct([("Y", pa.int32()), ("x", pa.int64())])
_MAPPED = {"delta.columnMapping.mode": "name"}
_COMPATIBLE = {**_MAPPED, "delta.enableIcebergCompatV2": "true"}


def _nested(point: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            ("id", pa.int64()),
            ("s", point),
            ("l", pa.list_(point)),
            ("m", pa.map_(pa.string(), pa.struct([("p", point)]))),
        ]
    )


def _row(number: int, point: dict[str, Any]) -> dict[str, Any]:
    return {"id": number, "s": point, "l": [point, None], "m": [("k", {"p": point})]}


def _content(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(DeltaTable(table.location).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def _change(table: DeltaTable, way: str, source: pa.Table) -> None:
    if way == "upsert":
        table.upsert(source, "id")
        return
    merge = table.merge(source, "target.id = source.id")
    if way == "all":
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return
    values = {name: f"source.{name}" for name in source.schema.names}
    merge.when_matched_update(values).when_not_matched_insert(values).execute()


@pytest.mark.parametrize("way", ["upsert", "all", "named"])
@pytest.mark.parametrize("properties", [{}, _COMPATIBLE], ids=["plain", "mapped"])
def test_fields_are_matched_by_name_at_any_depth(tmp_path: Path, way: str, properties: dict[str, str]) -> None:
    table = create_table(tmp_path / "t", _nested(_XY), properties=properties)
    table.append(pa.Table.from_pylist([_row(1, {"x": 1, "y": 2})], _nested(_XY)))
    source = pa.Table.from_pylist([_row(number, {"Y": 20, "x": 10}) for number in (1, 2)], _nested(_YX))
    _change(table, way, source)
    merged = _content(table)
    assert merged == [_row(1, {"x": 10, "y": 20}), _row(2, {"x": 10, "y": 20})]
    table.append(source)
    assert [row["s"] for row in _content(table)] == [{"x": 10, "y": 20}] * 4


def test_an_update_matches_fields_by_name(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema([("id", pa.int64()), ("a", _XY), ("b", _YX)]))
    table.append(pa.Table.from_pylist([{"id": 1, "a": {"x": 1, "y": 2}, "b": {"Y": 4, "x": 3}}]))
    table.update({"a": "named_struct('y', 20, 'x', 10)"})
    assert _content(table)[0]["a"] == {"x": 10, "y": 20}
    table.update({"a": "b"})
    assert _content(table)[0]["a"] == {"x": 3, "y": 4}
    table.update({"a": "CAST(named_struct('y', 20, 'x', 10) AS STRUCT<x: BIGINT, y: BIGINT>)"})
    assert _content(table)[0]["a"] == {"x": 20, "y": 10}


@pytest.mark.parametrize("way", ["upsert", "all", "named"])
def test_a_field_that_the_source_lacks_is_not_lost(tmp_path: Path, way: str) -> None:
    """Rows that are appended have null there; a row that is there would lose the value."""
    table = create_table(tmp_path / "t", _nested(_XY))
    short = pa.struct([("y", pa.int64())])
    source = pa.Table.from_pylist([_row(1, {"y": 2})], _nested(short))
    table.append(pa.Table.from_pylist([_row(1, {"x": 1, "y": 1})], _nested(_XY)))
    with pytest.raises(SchemaError, match=r"lacks? the field (element\.)?x"):
        _change(table, way, source)
    assert _content(table.refresh()) == [_row(1, {"x": 1, "y": 1})]
    table.append(source)
    assert _row(1, {"x": None, "y": 2}) in _content(table)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_structs_in_lists_and_maps_are_completed_by_a_merge_that_says_so(tmp_path: Path, format: Any) -> None:
    table: Any = create_table(str(tmp_path / "t"), _nested(_XY), format=format)
    table.append(pa.Table.from_pylist([_row(1, {"x": 1, "y": 1})], _nested(_XY)))
    short = pa.struct([("Y", pa.int32())])
    source = pa.Table.from_pylist([_row(number, {"Y": 2}) for number in (1, 2)], _nested(short))
    merge = table.merge(source, "target.id = source.id", schema_mode="merge")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    new = {"x": None, "y": 2}
    found = sorted(table.refresh().scan().to_arrow().to_pylist(), key=lambda row: int(row["id"]))
    assert found == [{**_row(1, new), "s": {"x": 1, "y": 2}}, _row(2, new)]
    table.upsert(source.select(["id", "s"]), "id")
    table.upsert(pa.table({"id": [1], "s": [None]}, pa.schema([("id", pa.int64()), ("s", short)])), "id")
    assert [row["s"] for row in table.refresh().scan("id = 1").to_arrow().to_pylist()] == [{"x": 1, "y": None}]


@pytest.mark.parametrize("way", ["upsert", "all", "named"])
def test_a_field_that_the_table_lacks_is_refused_by_name(tmp_path: Path, way: str) -> None:
    table = create_table(tmp_path / "t", _nested(_XY))
    more = pa.struct([*_XY, ("extra", pa.int64())])
    with pytest.raises(SchemaError, match=r"s\.extra"):
        _change(table, way, pa.Table.from_pylist([_row(1, {"x": 1, "y": 2, "extra": 3})], _nested(more)))
    assert DeltaTable(table.location).version == 0


def test_a_field_that_must_not_be_null_is_not_left_out(tmp_path: Path) -> None:
    point = pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.int64())])
    table = create_table(tmp_path / "t", pa.schema([("id", pa.int64()), ("s", point)]))
    with pytest.raises((SchemaError, ConstraintViolationError), match="lack the field x") as caught:
        table.upsert(pa.table({"id": [1], "s": [{"y": 2}]}), "id")
    assert caught.value.context["column"] == "s.x"


@pytest.mark.parametrize("properties", [_MAPPED, _COMPATIBLE], ids=["mapping", "compatible"])
def test_maps_are_assigned_in_tables_with_ids(tmp_path: Path, properties: dict[str, str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int64())), ("l", pa.list_(pa.int64()))])
    table = create_table(tmp_path / "t", schema, properties=properties)
    table.append(pa.Table.from_pylist([{"id": 1, "m": [("a", 1)], "l": [1]}], schema))
    table.upsert(
        pa.Table.from_pylist([{"id": 1, "m": [("b", 2)], "l": [2]}, {"id": 2, "m": None, "l": []}], schema), "id"
    )
    assert _content(table) == [{"id": 1, "m": [("b", 2)], "l": [2]}, {"id": 2, "m": None, "l": []}]
    table.update({"m": "map('c', id)", "l": "array(id)"}, "id = 2")
    assert _content(table)[1] == {"id": 2, "m": [("c", 2)], "l": [2]}
    # The types of the source are not those of the table.
    narrow = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int8()))])
    source = pa.Table.from_pylist([{"id": 2, "m": [("d", 4), ("e", None)]}], narrow)
    table.merge(source, "target.id = source.id").when_matched_update({"m": "source.m"}).execute()
    assert _content(table)[1]["m"] == [("d", 4), ("e", None)]


def test_a_map_that_does_not_fit_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("m", pa.map_(pa.int32(), pa.int8()))])
    table = create_table(tmp_path / "t", schema)
    table.append(pa.Table.from_pylist([{"id": 1, "m": [(1, 1)]}, {"id": 2, "m": [(2, 2)]}], schema))
    for value, message in (
        ("map(1, id * 100)", "does not fit into byte"),
        ("map(id * 2000000000, 1)", "does not fit into integer"),
        ("map('1', 1, '01', id)", "keys of a map become equal"),
    ):
        with pytest.raises(EvaluationError, match=message) as caught:
            table.update({"m": value})
        assert caught.value.context["column"] == "m"
    assert _content(table) == [{"id": 1, "m": [(1, 1)]}, {"id": 2, "m": [(2, 2)]}]
