"""The name mapping of a table: its JSON, and the ids that the columns of files get from it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING, read_name_mapping
from deltaberg.schema.name_mapping import FIELD_ID, MappedField, NameMapping, with_mapped_ids
from tests.iceberg.metadata_json import parse_with

pytestmark = pytest.mark.one_backend

_TREE = [
    {"field-id": 1, "names": ["id", "record_id"]},
    {"field-id": 2, "names": ["data"], "fields": [{"field-id": 3, "names": ["a", "A"]}, {"names": ["gone"]}]},
    {"field-id": 4, "names": []},
    {"field-id": 5, "names": ["list"], "fields": [{"field-id": 6, "names": ["element"]}]},
    {
        "field-id": 7,
        "names": ["map"],
        "fields": [{"field-id": 8, "names": ["key"]}, {"field-id": 9, "names": ["value"]}],
    },
]


def _ids(found: pa.DataType | pa.Field | pa.Schema) -> Any:
    children = {child.name: child for child in (found if isinstance(found, pa.Schema) else found.type)}
    return {name: (int(child.metadata[FIELD_ID]) if child.metadata else None) for name, child in children.items()}


def test_the_tree() -> None:
    mapping = read_name_mapping(json.dumps(_TREE[:3]))
    inner = NameMapping((MappedField(("a", "A"), 3), MappedField(("gone",))))
    assert mapping == NameMapping(
        (MappedField(("id", "record_id"), 1), MappedField(("data",), 2, inner), MappedField((), 4))
    )
    assert mapping.find("record_id") is mapping.fields[0]
    assert mapping.find("Id") is None


def test_ids_at_every_level() -> None:
    mapping = read_name_mapping(json.dumps(_TREE))
    assert mapping is not None
    names = [("record_id", pa.int64()), ("data", pa.struct([("A", pa.int32()), ("gone", pa.int32())]))]
    nested = [("list", pa.list_(pa.int32())), ("map", pa.map_(pa.string(), pa.int32())), ("new", pa.int32())]
    schema = with_mapped_ids(pa.schema([*names, *nested]), mapping)
    assert _ids(schema) == {"record_id": 1, "data": 2, "list": 5, "map": 7, "new": None}
    assert _ids(schema.field("data")) == {"A": 3, "gone": None}
    assert schema.field("list").type.value_field.metadata == {FIELD_ID: b"6"}
    assert schema.field("map").type.key_field.metadata == {FIELD_ID: b"8"}
    assert schema.field("map").type.item_field.metadata == {FIELD_ID: b"9"}


def test_the_property_of_a_table() -> None:
    found = parse_with(properties={NAME_MAPPING: json.dumps(_TREE)}).name_mapping
    assert found is not None
    assert found.find("id") == MappedField(("id", "record_id"), 1)
    assert parse_with().name_mapping is None
    assert read_name_mapping("[]") == NameMapping()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        "[null]",
        "[[]]",
        '[{"names": "id"}]',
        '[{"names": [1]}]',
        '[{"names": null}]',
        '[{"names": ["a"], "field-id": "1"}]',
        '[{"names": ["a"], "field-id": true}]',
        '[{"names": ["a"], "field-id": -1}]',
        '[{"names": ["a"], "field-id": 1e2}]',
        f'[{{"names": ["a"], "field-id": {1 << 31}}}]',
        '[{"names": ["a"], "fields": {}}]',
        "[" * 100_000,
        '[{"names": ["a"], "fields": ' * 150 + "[]" + "}]" * 150,
    ],
)
def test_what_is_no_name_mapping(text: str) -> None:
    with pytest.raises(CorruptMetadataError, match=NAME_MAPPING):
        read_name_mapping(text)
