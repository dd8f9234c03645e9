"""Schemas, partition specs and sort orders as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg.errors import CorruptMetadataError, SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder, read_sort_order
from deltaberg.iceberg.metadata.specs import PartitionField, read_spec, read_spec_fields
from deltaberg.iceberg.partition.transforms import Bucket, Truncate, Unknown, parse_transform
from deltaberg.iceberg.schema.schema import Schema, read_schema
from deltaberg.iceberg.schema.type_names import iceberg_type_name
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct
from tests.iceberg.columns_json import struct_json
from tests.iceberg.metadata_json import parse_with, schema_of

pytestmark = pytest.mark.one_backend

_LIST = {"type": "list", "element-id": 3, "element-required": True, "element": "string"}
_MAP = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value-required": False, "value": "double"}


def _field(number: int, kind: Any, name: str | None = None, **members: Any) -> dict[str, Any]:
    return {"id": number, "name": name or f"f{number}", "required": False, "type": kind, **members}


def _read(*fields: dict[str, Any]) -> Struct:
    return read_schema(schema_of(*fields)).struct


def _type(kind: Any) -> DataType:
    return _read(_field(1, kind)).fields[0].type


@pytest.mark.req("ICE-JSON-01", half="reader")
@pytest.mark.req("ICE-JSON-01", half="writer")
def test_primitive_types() -> None:
    same = ("boolean", "long", "float", "double", "date", "time", "string", "uuid", "binary")
    names = {name: name for name in same} | {"int": "integer", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
    assert len(names) == 12
    for theirs, ours in names.items():
        assert _type(theirs) == Primitive(ours)
        assert iceberg_type_name(_type(theirs)) == theirs


def test_types_of_version_3() -> None:
    for theirs, ours in (
        ("timestamp_ns", "timestamp_ntz_ns"),
        ("timestamptz_ns", "timestamp_ns"),
        ("variant", "variant"),
        ("unknown", "void"),
    ):
        assert _type(theirs) == Primitive(ours)
    for geo in ("geometry", "geometry(srid:4326)", "geography", "geography(srid:4326, karney)"):
        assert _type(geo) == Primitive("binary")


@pytest.mark.req("ICE-JSON-02", half="reader")
@pytest.mark.req("ICE-JSON-02", half="writer")
def test_types_with_parameters() -> None:
    assert _type("fixed[16]") == Fixed(16)
    assert _type("decimal(9,2)") == _type("decimal(9, 2)") == Decimal(9, 2)
    assert [iceberg_type_name(_type(name)) for name in ("decimal(9,2)", "fixed[16]")] == ["decimal(9, 2)", "fixed[16]"]


@pytest.mark.req("ICE-SCH-05", half="reader")
@pytest.mark.parametrize("name", ["decimal(39,2)", "decimal(0,0)", "decimal(2,3)"])
def test_decimals_that_are_none(name: str) -> None:
    assert _type("decimal(38,38)") == Decimal(38, 38)
    with pytest.raises(SchemaError, match="38 digits") as caught:
        _type(name)
    assert caught.value.context["column"] == "f1"


@pytest.mark.parametrize(
    "name", ["decimal", "decimal(9)", "decimal(9,-2)", "decimal(\u0669,2)", "fixed", "fixed(16)", "INT", "interval", ""]
)
def test_types_that_are_not_known(name: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="is not supported") as caught:
        _type({**_LIST, "element": name})
    assert caught.value.context["column"] == "f1"


@pytest.mark.req("ICE-JSON-03", "ICE-JSON-04", half="reader")
def test_structs_and_lists() -> None:
    schema = _read(
        {"id": 1, "name": "id", "required": True, "type": "uuid", "doc": "who"},
        {"id": 2, "name": "data", "required": False, "type": _LIST},
    )
    element = Field("element", Primitive("string"), nullable=False, id=3)
    assert schema == Struct(
        (
            Field("id", Primitive("uuid"), nullable=False, metadata={"doc": "who"}, id=1),
            Field("data", List(element), id=2),
        )
    )


@pytest.mark.req("ICE-JSON-05", half="reader")
def test_maps() -> None:
    key = Field("key", Primitive("string"), nullable=False, id=4)
    assert _type(_MAP) == Map(key, Field("value", Primitive("double"), id=5))
    assert not _type({**_MAP, "value-required": True}).value.nullable  # type: ignore[attr-defined]


@pytest.mark.req("ICE-SCH-01", half="reader")
def test_ids_stand_once_in_a_schema() -> None:
    nested = {"type": "struct", "fields": [_field(7, "int", "a", doc="inner"), _field(8, _LIST, "b")]}
    found = _read(_field(1, nested, doc="outer"), _field(2, _MAP))
    assert found.fields[0].metadata["doc"] == "outer"
    assert found.fields[0].type.fields[0].metadata["doc"] == "inner"  # type: ignore[attr-defined]
    for twice in (1, 7, 8, 3, 4, 5):
        with pytest.raises(CorruptMetadataError, match=f"the field id {twice} occurs twice"):
            _read(_field(1, nested), _field(2, _MAP), _field(twice, "int", "again"))


@pytest.mark.req("ICE-SCH-01", half="reader")
@pytest.mark.parametrize(
    ("kind", "twice"),
    [
        (struct_json(_field(2, "int", "a"), _field(2, "int", "b")), 2),
        (struct_json(_field(2, struct_json(_field(2, "int")))), 2),
        (struct_json(_field(1, "int")), 1),
        ({**_LIST, "element-id": 1}, 1),
        ({**_LIST, "element": struct_json(_field(3, "int"))}, 3),
        ({**_MAP, "key-id": 1}, 1),
        ({**_MAP, "value-id": 1}, 1),
        ({**_MAP, "key-id": 5}, 5),
        ({**_MAP, "key": struct_json(_field(5, "int"))}, 5),
        ({**_MAP, "value": struct_json(_field(4, "int"))}, 4),
    ],
)
def test_ids_are_not_repeated_inside_of_a_column(kind: Any, twice: int) -> None:
    with pytest.raises(CorruptMetadataError, match=f"the field id {twice} occurs twice"):
        _read(_field(1, kind))


def test_names_stand_once_in_a_struct() -> None:
    assert _read(_field(1, "int", "a"), _field(2, "int", "A")).names == ["a", "A"]
    inner = {"type": "struct", "fields": [_field(2, "int", "a"), _field(3, "int", "a")]}
    with pytest.raises(CorruptMetadataError, match="called 'a'") as caught:
        _read(_field(1, inner, "s"))
    assert caught.value.context["column"] == "s.a"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"name": "a", "required": True, "type": "int"}, "has no id"),
        ({"id": 1, "required": True, "type": "int"}, "has no name"),
        ({"id": 1, "name": "a", "type": "int"}, "has no required"),
        ({"id": 1, "name": "a", "required": True}, "has no type"),
        ({"id": 1, "name": "a", "required": 1, "type": "int"}, "required of"),
        ({"id": True, "name": "a", "required": True, "type": "int"}, "id of"),
        ({"id": -1, "name": "a", "required": True, "type": "int"}, "not a field id"),
        ({"id": 1 << 31, "name": "a", "required": True, "type": "int"}, "not a field id"),
        ({"id": 1 << 63, "name": "a", "required": True, "type": "int"}, "64 bits"),
        ({"id": 1, "name": 1, "required": True, "type": "int"}, "name of"),
        ({"id": 1, "name": "a", "required": True, "type": ["int"]}, "type of"),
        ({"id": 1, "name": "a", "required": True, "type": {}}, "not a nested type"),
        ({"id": 1, "name": "a", "required": True, "type": {"type": "struct", "fields": [5]}}, "not a JSON object"),
        (5, "not a JSON object"),
    ],
)
def test_broken_fields(found: Any, message: str) -> None:
    with pytest.raises(CorruptMetadataError, match=message):
        read_schema(schema_of(found))


@pytest.mark.parametrize("kind", [_LIST, _MAP])
def test_nested_types_lack_nothing(kind: dict[str, Any]) -> None:
    for name in kind:
        with pytest.raises(CorruptMetadataError, match="nested type" if name == "type" else f"has no {name}"):
            _type({key: value for key, value in kind.items() if key != name})


def test_depth() -> None:
    def nested(depth: int) -> Any:
        kind: Any = "int"
        for number in range(depth):
            kind = {"type": "struct", "fields": [_field(number + 2, kind)]}
        return kind

    assert isinstance(_type(nested(50)), Struct)
    with pytest.raises(CorruptMetadataError, match="nested too deeply"):
        _type(nested(200))


@pytest.mark.req("ICE-JSON-14", half="reader")
def test_ids_of_schemas_and_of_rows() -> None:
    columns = [_field(1, "int"), _field(2, "string")]
    found = read_schema({**schema_of(*columns), "schema-id": 0, "identifier-field-ids": [1, 2]})
    assert (found.schema_id, found.identifier_field_ids) == (0, (1, 2))
    assert read_schema({"type": "struct", "fields": []}) == Schema(Struct())
    for wrong in (5, ["1"], [True], [1 << 63]):
        with pytest.raises(CorruptMetadataError, match="identifier-field-ids"):
            read_schema({**schema_of(), "identifier-field-ids": wrong})


_DAY = {"source-id": 4, "field-id": 1000, "name": "ts_day", "transform": "day"}
_BUCKET = {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"}


@pytest.mark.req("ICE-PART-02", "ICE-JSON-06", "ICE-JSON-08", half="reader")
def test_partition_specs() -> None:
    fields = (PartitionField((4,), 1000, "ts_day", "day"), PartitionField((1,), 1001, "id_bucket", "bucket[16]"))
    found = read_spec({"spec-id": 3, "fields": [_DAY, _BUCKET]})
    assert (found.spec_id, found.fields) == (3, fields)
    # If version 1 holds the list alone, it is the same list.
    assert read_spec_fields([_DAY, _BUCKET]) == fields
    assert parse_with(1, partition_spec=[_DAY, _BUCKET]).specs[0].fields == fields
    specs = [{"spec-id": 3, "fields": [_DAY, _BUCKET]}]
    assert parse_with(2, partition_specs=specs, default_spec_id=3).specs[3].fields == fields


@pytest.mark.req("ICE-PART-04", half="reader")
def test_ids_of_partition_fields() -> None:
    bare = [{name: value for name, value in part.items() if name != "field-id"} for part in (_DAY, _BUCKET)]
    assert [part.field_id for part in parse_with(1, partition_spec=bare).specs[0].fields] == [1000, 1001]
    specs = [{"spec-id": number, "fields": bare} for number in (0, 1)]
    listed = parse_with(1, partition_specs=specs, default_spec_id=0).specs
    assert [[part.field_id for part in spec.fields] for spec in listed.values()] == [[1000, 1001], [1000, 1001]]
    later = {"spec-id": 1, "fields": [_DAY, {**_BUCKET, "field-id": 1002}]}
    newer = parse_with(2, partition_specs=[{"spec-id": 0, "fields": [_DAY]}, later], default_spec_id=1).specs
    assert [part.field_id for part in newer[1].fields] == [1000, 1002]
    with pytest.raises(CorruptMetadataError, match="the same id"):
        read_spec_fields([_DAY, {**_BUCKET, "field-id": 1000}])


def test_several_sources() -> None:
    (part,) = read_spec_fields([{"source-ids": [1, 2], "field-id": 1000, "name": "p", "transform": "bucketV2[4]"}])
    assert part == PartitionField((1, 2), 1000, "p", "bucketV2[4]")
    order = {"transform": "zorder", "source-ids": [2, 1], "direction": "asc", "null-order": "nulls-last"}
    assert read_sort_order({"order-id": 1, "fields": [order]}).fields[0].source_ids == (2, 1)


@pytest.mark.parametrize("name", ["source-id", "name", "transform"])
def test_broken_partition_fields(name: str) -> None:
    with pytest.raises(CorruptMetadataError, match=f"has no {name}"):
        read_spec_fields([{key: value for key, value in _DAY.items() if key != name}])
    with pytest.raises(CorruptMetadataError, match=name):
        read_spec_fields([{**_DAY, name: []}])
    for wrong in ({"field-id": 1 << 40}, {"source-id": -1}, {"source-ids": [1 << 80]}, {"source-ids": ["a"]}):
        with pytest.raises(CorruptMetadataError, match="id"):
            read_spec_fields([{**_DAY, **wrong}])


@pytest.mark.req("ICE-JSON-07", half="reader")
def test_transforms() -> None:
    for text in ("identity", "year", "month", "day", "hour", "void"):
        assert str(parse_transform(text)) == text
        assert not isinstance(parse_transform(text), Unknown)
    assert parse_transform("bucket[16]") == Bucket(16)
    assert parse_transform("truncate[20]") == Truncate(20)
    mangled = parse_transform("bucket<16>]")
    with pytest.raises(UnsupportedFeatureError, match="bucket<16>"):
        mangled.apply(None, Primitive("long"))


_ORDER = {
    "order-id": 1,
    "fields": [
        {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
        {"transform": "bucket[4]", "source-id": 3, "direction": "desc", "null-order": "nulls-last"},
    ],
}


@pytest.mark.req("ICE-SORT-01", "ICE-JSON-09", half="reader")
def test_sort_orders() -> None:
    first = SortField((2,), "identity", "asc", "nulls-first")
    assert read_sort_order(_ORDER) == SortOrder(1, (first, SortField((3,), "bucket[4]", "desc", "nulls-last")))
    part = _ORDER["fields"][0]  # type: ignore[index]
    for wrong in ({"direction": "up"}, {"null-order": "first"}):
        with pytest.raises(CorruptMetadataError, match=next(iter(wrong.values()))):
            read_sort_order({"order-id": 1, "fields": [{**part, **wrong}]})
    for name in part:
        with pytest.raises(CorruptMetadataError, match=f"has no {name}"):
            read_sort_order({"order-id": 1, "fields": [{key: part[key] for key in part if key != name}]})


@pytest.mark.req("ICE-SORT-02", half="reader")
def test_order_0_is_no_order() -> None:
    found = parse_with(2, sort_orders=[{"order-id": 0, "fields": []}], default_sort_order_id=0)
    assert found.sort_orders == {0: SortOrder(0)}
    with pytest.raises(CorruptMetadataError, match="means unsorted"):
        read_sort_order({**_ORDER, "order-id": 0})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "a schema is not a JSON object"),
        (5, "a schema is not a JSON object"),
        ([], "a schema is not a JSON object"),
        ({}, "of type None, not struct"),
        ({"type": "list"}, "of type 'list', not struct"),
        ({"type": "struct"}, "a struct has no fields"),
    ],
)
def test_what_is_no_schema(schema: Any, message: str) -> None:
    with pytest.raises(CorruptMetadataError, match=message):
        read_schema(schema)
