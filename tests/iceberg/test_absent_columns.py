"""Columns that a data file lacks, or holds without an id (Iceberg spec, "Column Projection")."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.errors import CorruptMetadataError, SchemaError
from tests.iceberg.columns_json import field_json, struct_json
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.roads import by_every_road

_FORMATS = ("parquet", "avro", "orc")
_every_format = pytest.mark.parametrize("form", _FORMATS)
_MAPPING = "schema.name-mapping.default"


def _without_ids(builder: IcebergBuilder, rows: pa.Table, form: str, **more: Any) -> IcebergFile:
    """Write a file whose columns have names, but no ids."""
    file = builder.data(rows, format="parquet" if form == "avro" else form, ids=False, **more)
    if form == "avro":
        buffer = io.BytesIO()
        kinds = {pa.int64(): "long", pa.int32(): "int", pa.string(): "string"}
        fields = [{"name": child.name, "type": ["null", kinds[child.type]]} for child in rows.schema]
        fastavro.writer(buffer, {"type": "record", "name": "row", "fields": fields}, rows.to_pylist())
        Path(file.path).write_bytes(buffer.getvalue())
        file.format, file.size = "avro", len(buffer.getvalue())
    return file


def _open(builder: IcebergBuilder) -> IcebergTable:
    return open_table(builder.root, "iceberg")


@by_every_road
@_every_format
@pytest.mark.req("BEY-30")
def test_names_stand_for_ids(tmp_path: Path, form: str) -> None:
    mapping = '[{"field-id":1,"names":["id","record_id"]}]'
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "name": "string"}, properties={_MAPPING: mapping})
    rows = pa.table({"record_id": [1, 2], "name": ["a", "b"]})
    builder.commit(_without_ids(builder, rows, form))
    # A column that is not mapped is not there, whatever it is called.
    assert _open(builder).scan().to_arrow().to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": None}]
    assert _open(builder).scan("id = 2").count() == 1


@by_every_road
@_every_format
@pytest.mark.req("BEY-30")
@pytest.mark.req("ICE-ORC-05", "ICE-PQ-01", half="reader")
def test_a_file_without_ids_and_names_is_refused(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(_without_ids(builder, pa.table({"record_id": [1]}), form))
    with pytest.raises(SchemaError, match="no field ids") as caught:
        _open(builder).scan().to_arrow()
    assert caught.value.hint is not None
    assert _MAPPING in caught.value.hint


@_every_format
def test_names_of_a_table_that_never_changed_stand_for_its_ids(tmp_path: Path, form: str) -> None:
    # No rule says so; but files are added to tables like that, and nothing else can be meant.
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "name": "string"})
    builder.commit(_without_ids(builder, pa.table({"id": [1]}), form))
    assert _open(builder).scan().to_arrow().to_pylist() == [{"id": 1, "name": None}]


@by_every_road
@_every_format
@pytest.mark.req("BEY-30")
def test_names_of_a_table_that_changed_its_schema_stand_for_nothing(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(_without_ids(builder, pa.table({"id": [1]}), form))
    builder.schemas.append([field_json(2, "id", "long")])
    builder.write()
    with pytest.raises(SchemaError, match="no field ids"):
        _open(builder).scan().to_arrow()


@by_every_road
@pytest.mark.parametrize("form", ["parquet", "orc"])
@pytest.mark.req("BEY-30")
def test_names_inside_of_nested_columns(tmp_path: Path, form: str) -> None:
    fields = [
        field_json(1, "s", struct_json(field_json(2, "x", "long"))),
        field_json(
            3,
            "l",
            {
                "type": "list",
                "element-id": 4,
                "element-required": False,
                "element": struct_json(field_json(5, "y", "long")),
            },
        ),
        field_json(
            6,
            "m",
            {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value-required": False, "value": "long"},
        ),
    ]
    mapping = [
        {"field-id": 1, "names": ["old_s"], "fields": [{"field-id": 2, "names": ["old_x", "x"]}]},
        {
            "field-id": 3,
            "names": ["l"],
            "fields": [
                {"field-id": 4, "names": ["element"], "fields": [{"field-id": 5, "names": ["old_y"]}]},
            ],
        },
        {
            "field-id": 6,
            "names": ["m"],
            "fields": [{"field-id": 7, "names": ["key"]}, {"field-id": 8, "names": ["value"]}],
        },
        {"names": ["s"]},
    ]
    builder = IcebergBuilder(tmp_path / "t", fields, properties={_MAPPING: json.dumps(mapping)})
    stored = pa.schema(
        [
            ("old_s", pa.struct([("old_x", pa.int64())])),
            ("l", pa.list_(pa.field("element", pa.struct([("old_y", pa.int64())])))),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("s", pa.int64()),
        ]
    )
    rows = [{"old_s": {"old_x": 1}, "l": [{"old_y": 2}, None], "m": [("k", 3)], "s": 99}]
    builder.commit(builder.data(pa.Table.from_pylist(rows, stored), format=form))
    assert _open(builder).scan().to_arrow().to_pylist() == [{"s": {"x": 1}, "l": [{"y": 2}, None], "m": [("k", 3)]}]


@by_every_road
@_every_format
@pytest.mark.req("BEY-30")
def test_ids_go_before_names(tmp_path: Path, form: str) -> None:
    mapping = '[{"field-id":1,"names":["b"]},{"field-id":2,"names":["a"]}]'
    builder = IcebergBuilder(tmp_path / "t", {"a": "long", "b": "long"}, properties={_MAPPING: mapping})
    builder.commit(builder.data([{"a": 1, "b": 2}], format=form))
    assert _open(builder).scan().to_arrow().to_pylist() == [{"a": 1, "b": 2}]


@by_every_road
@pytest.mark.req("BEY-30")
def test_a_damaged_mapping_is_told_by_its_name(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, properties={_MAPPING: '[{"field-id":"1","names":["id"]}]'})
    builder.commit(_without_ids(builder, pa.table({"id": [1]}), "parquet"))
    with pytest.raises(CorruptMetadataError, match=_MAPPING):
        _open(builder).scan().to_arrow()


def _identity(number: int, name: str) -> dict[str, Any]:
    return {"source-id": number, "name": name, "transform": "identity"}


@_every_format
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.req("BEY-31")
def test_partition_values_stand_for_columns_that_files_lack(tmp_path: Path, form: str, version: int) -> None:
    # The default and the mapping would both say something else.
    mapping = '[{"field-id":1,"names":["id"]},{"field-id":2,"names":["p","wrong"]}]'
    fields = [field_json(1, "id", "long"), field_json(2, "p", "string", **{"initial-default": "default"})]
    specs = [[_identity(2, "p")]]
    builder = IcebergBuilder(
        tmp_path / "t", fields, format_version=version, specs=specs, properties={_MAPPING: mapping}
    )
    builder.commit(
        _without_ids(builder, pa.table({"id": [1, 2]}), form, partition={"p": "EU"}),
        builder.data([{"id": 3}], fields=fields[:1], format=form, partition={"p": "US"}),
    )
    found = {row["id"]: row["p"] for row in _open(builder).scan().to_arrow().to_pylist()}
    assert found == {1: "EU", 2: "EU", 3: "US"}
    scan = _open(builder).scan("p = 'EU'")
    assert (scan.count(), len(scan.files())) == (2, 1)


@_every_format
@pytest.mark.req("BEY-31")
def test_a_partition_value_of_null_is_null(tmp_path: Path, form: str) -> None:
    fields = [field_json(1, "id", "long"), field_json(2, "p", "string")]
    builder = IcebergBuilder(tmp_path / "t", fields, specs=[[_identity(2, "p")]])
    builder.commit(builder.data([{"id": 4}], fields=fields[:1], format=form, partition={"p": None}))
    assert _open(builder).scan("p IS NULL").to_arrow().to_pylist() == [{"id": 4, "p": None}]


@pytest.mark.req("BEY-31")
def test_a_partition_value_of_another_transform_is_no_column(tmp_path: Path) -> None:
    fields = [field_json(1, "id", "long"), field_json(2, "p", "long")]
    specs = [[{"source-id": 2, "name": "p", "transform": "truncate[10]"}], [_identity(2, "p")]]
    builder = IcebergBuilder(tmp_path / "t", fields, specs=specs)
    builder.commit(
        builder.data([{"id": 1}], fields=fields[:1], partition={"p": 10}),
        builder.data([{"id": 2}], fields=fields[:1], partition={"p": 20}, spec_id=1),
        builder.data([{"id": 3, "p": 17}], partition={"p": 10}),
    )
    found = {row["id"]: row["p"] for row in _open(builder).scan().to_arrow().to_pylist()}
    assert found == {1: None, 2: 20, 3: 17}


def _defaults(tmp_path: Path, form: str, old: Sequence[dict[str, Any]], row: Any, new: Sequence[dict[str, Any]]) -> Any:
    """Write a row, change the columns of the table, and read the row."""
    builder = IcebergBuilder(tmp_path / "t", list(old), format_version=3)
    builder.commit(builder.data([row], format=form))
    builder.schemas.append(list(new))
    builder.write()
    return _open(builder)


_ID = field_json(1, "id", "long")


@by_every_road
@_every_format
@pytest.mark.req("BEY-32", half="reader")
def test_old_rows_have_the_initial_default(tmp_path: Path, form: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", [_ID], format_version=3)
    builder.commit(builder.data([{"id": 1}], format=form))
    added = field_json(2, "x", "int", **{"initial-default": 7, "write-default": 8}) | {"required": True}
    builder.schemas.append([_ID, added])
    # A row that was written since, and one that a writer stored as it is.
    builder.commit(builder.data([{"id": 2, "x": 9}, {"id": 3, "x": None}], format=form))
    found = {row["id"]: row["x"] for row in _open(builder).scan().to_arrow().to_pylist()}
    assert found == {1: 7, 2: 9, 3: None}
    for condition, count in (("x = 7", 1), ("x = 8", 0), ("x > 6", 2), ("x IS NULL", 1), ("x <> 7", 1)):
        assert _open(builder).scan(condition).count() == count, condition


@by_every_road
@_every_format
@pytest.mark.req("BEY-32", half="reader")
def test_an_empty_struct_as_default_has_the_defaults_of_its_fields(tmp_path: Path, form: str) -> None:
    inner = struct_json(
        field_json(3, "x", "int", **{"initial-default": 0}), field_json(4, "y", "int", **{"initial-default": 0})
    )
    table = _defaults(tmp_path, form, [_ID], {"id": 1}, [_ID, field_json(2, "point", inner, **{"initial-default": {}})])
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "point": {"x": 0, "y": 0}}]
    # Without a default of its own the struct is null.
    other = _defaults(tmp_path / "other", form, [_ID], {"id": 1}, [_ID, field_json(2, "point", inner)])
    assert other.scan().to_arrow().to_pylist() == [{"id": 1, "point": None}]


@by_every_road
@_every_format
@pytest.mark.req("BEY-32", half="reader")
def test_defaults_inside_of_structs_that_files_have(tmp_path: Path, form: str) -> None:
    def columns(*added: dict[str, Any]) -> list[dict[str, Any]]:
        deeper = [{**child, "id": child["id"] + 10} for child in added]
        element = struct_json(field_json(13, "x", "int"), *deeper)
        return [
            field_json(2, "s", struct_json(field_json(3, "x", "int"), *added)),
            field_json(11, "l", {"type": "list", "element-id": 12, "element-required": False, "element": element}),
        ]

    row = {"s": {"x": 1}, "l": [{"x": 2}, None]}
    table = _defaults(tmp_path, form, columns(), row, columns(field_json(4, "y", "string", **{"initial-default": "d"})))
    assert table.scan().to_arrow().to_pylist() == [{"s": {"x": 1, "y": "d"}, "l": [{"x": 2, "y": "d"}, None]}]
    assert table.scan("s.y = 'd'").count() == 1
    assert table.scan("s.y = 'e'").count() == 0


@by_every_road
@_every_format
@pytest.mark.req("BEY-32", half="reader")
def test_defaults_of_every_type(tmp_path: Path, form: str) -> None:
    told: list[tuple[Any, Any, Any]] = [
        ("boolean", True, True),
        ("long", 34, 34),
        ("float", 1.5, 1.5),
        ("decimal(9,2)", "14.20", "14.20"),
        ("date", "2017-11-16", dt.date(2017, 11, 16)),
        ("time", "22:31:08.123456", dt.time(22, 31, 8, 123456)),
        ("timestamp", "2017-11-16T22:31:08.123456", dt.datetime(2017, 11, 16, 22, 31, 8, 123456)),
        (
            "timestamptz",
            "2017-11-16T22:31:08.123456+00:00",
            dt.datetime(2017, 11, 16, 22, 31, 8, 123456, dt.timezone.utc),
        ),
        ("string", "iceberg", "iceberg"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
        ("fixed[4]", "000102ff", b"\x00\x01\x02\xff"),
        ("binary", "000102ff", b"\x00\x01\x02\xff"),
        ({"type": "list", "element-id": 90, "element": "int", "element-required": True}, [1, 2], [1, 2]),
        (
            {"type": "map", "key-id": 91, "key": "string", "value-id": 92, "value": "int", "value-required": True},
            {"keys": ["a", "b"], "values": [1, 2]},
            [("a", 1), ("b", 2)],
        ),
    ]
    new = [
        field_json(number, f"c{number}", kind, **{"initial-default": default})
        for number, (kind, default, _) in enumerate(told, start=2)
    ]
    row = _defaults(tmp_path, form, [_ID], {"id": 1}, new).scan().to_arrow().to_pylist()[0]
    row["c5"] = str(row["c5"])
    assert list(row.values()) == [value for _, _, value in told]


@by_every_road
@pytest.mark.req("BEY-32", half="reader")
@pytest.mark.parametrize("kind", ["variant", "unknown", "geometry", "geography(OGC:CRS84)"])
def test_types_whose_default_is_null(tmp_path: Path, kind: str) -> None:
    builder = IcebergBuilder(
        tmp_path / "t", [_ID, field_json(2, "x", kind, **{"initial-default": None})], format_version=3
    )
    builder.write()
    assert _open(builder).scan().count() == 0
    builder.schemas = [[_ID, field_json(2, "x", kind, **{"initial-default": "00"})]]
    builder.write()
    with pytest.raises(CorruptMetadataError, match="default") as caught:
        _open(builder)
    assert caught.value.context["column"] == "x"


@by_every_road
@_every_format
@pytest.mark.req("BEY-38", half="reader")
def test_an_unknown_column_is_null_whatever_a_file_has(tmp_path: Path, form: str) -> None:
    stray = [_ID, field_json(2, "x", "string")]
    nested = struct_json(field_json(4, "y", "string"))
    row = {"id": 1, "x": "stray", "s": {"y": "stray"}}
    new = [
        _ID,
        field_json(2, "x", "unknown"),
        field_json(3, "s", struct_json(field_json(4, "y", "unknown"), field_json(5, "z", "int"))),
    ]
    builder = IcebergBuilder(tmp_path / "t", [*stray, field_json(3, "s", nested)], format_version=3)
    builder.commit(builder.data([row], format=form, metrics={"null_value_counts": {2: 0, 4: 0}}))
    builder.schemas = [new]
    builder.write()
    table = _open(builder)
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "x": None, "s": {"y": None, "z": None}}]
    assert table.scan(columns=["x"]).to_arrow().to_pylist() == [{"x": None}]
    assert table.scan("x IS NULL").count() == 1
    assert table.scan("s.y IS NULL").count() == 1
    assert table.scan("x IS NOT NULL").count() == 0


@by_every_road
@_every_format
@pytest.mark.req("BEY-38", half="reader")
@pytest.mark.parametrize("kind", ["int", "string", "timestamptz", "decimal(9,2)"])
def test_unknown_becomes_any_type(tmp_path: Path, form: str, kind: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", [_ID], format_version=3)
    builder.schemas = [[_ID, field_json(2, "x", "unknown")]]
    builder.commit(builder.data([{"id": 1}], fields=[_ID], format=form))
    builder.schemas.append([_ID, field_json(2, "x", kind)])
    builder.write()
    table = open_table(builder.root, "iceberg", validate=True)
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "x": None}]
