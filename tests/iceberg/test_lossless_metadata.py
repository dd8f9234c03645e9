"""Table metadata that is read and written back unchanged is the same JSON, with everything that nobody understands."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from decimal import Decimal as PyDecimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import CorruptMetadataError, InvalidArgumentError, SchemaError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import read_metadata
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef, encode_ref, read_ref
from deltaberg.iceberg.metadata.snapshots import encode_snapshot, read_snapshot
from deltaberg.iceberg.metadata.sort_orders import encode_sort_order, read_sort_order
from deltaberg.iceberg.metadata.specs import PartitionSpec, encode_spec, read_spec, read_spec_fields
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING, encode_name_mapping, read_name_mapping
from deltaberg.iceberg.schema.schema import Schema, encode_schema, read_schema
from deltaberg.lossless_json import read_json, write_json
from deltaberg.schema.types import Decimal, Field, Fixed, List, Map, Primitive, Struct
from tests.iceberg.metadata_json import document, parse_with, schema_of
from tests.iceberg.metadata_strategies import partition_specs, references, schemas, snapshots, sort_orders
from tests.iceberg.test_metadata_examples import VALID_EXAMPLES
from tests.kernels.json_text import Raw, spell
from tests.support.effort import examples

pytestmark = pytest.mark.one_backend


def _canonical(text: str) -> str:
    """Return one text for all texts of a JSON value; numbers count as they are spelled."""
    value = json.loads(text, parse_int=lambda digits: {"number": digits}, parse_float=lambda digits: {"number": digits})
    return json.dumps(value, sort_keys=True)


def _same(written: Any, drawn: Any) -> bool:
    """Return whether what is written has the same text as what was drawn."""
    return _canonical(write_json(written)) == _canonical(spell(drawn))


def _parse(drawn: dict[str, Any]) -> TableMetadata:
    """Read what was drawn as metadata."""
    return read_metadata(spell(drawn).encode())


def _as_read(drawn: Any) -> Any:
    """Return the JSON value that is read from the text of what was drawn."""
    return read_json(spell(drawn), plain=True)


@pytest.mark.req("ICE-JSON-03", "ICE-JSON-04", "ICE-JSON-05", "ICE-JSON-14", half="writer")
@examples(100)
@given(schemas())
def test_schemas(raw: dict[str, Any]) -> None:
    found = read_schema(_as_read(raw))
    assert _same(encode_schema(found), raw)
    # A schema that was never read is written so that it reads as the same.
    plain = Schema(found.struct, found.schema_id, found.identifier_field_ids)
    assert read_schema(encode_schema(plain)) == plain == found


@pytest.mark.req("ICE-JSON-06", half="writer")
@examples(100)
@given(partition_specs())
def test_partition_specs(raw: dict[str, Any]) -> None:
    assert _same(encode_spec(read_spec(_as_read(raw))), raw)


@examples(100)
@given(partition_specs())
def test_partition_fields_of_version_1(raw: dict[str, Any]) -> None:
    spec = PartitionSpec(0, read_spec_fields(_as_read(raw["fields"])))
    assert _same(encode_spec(spec)["fields"], raw["fields"])


@pytest.mark.req("ICE-JSON-09", half="writer")
@examples(100)
@given(sort_orders())
def test_sort_orders(raw: dict[str, Any]) -> None:
    assert _same(encode_sort_order(read_sort_order(_as_read(raw))), raw)


@examples(100)
@given(snapshots())
def test_snapshots(raw: dict[str, Any]) -> None:
    for version in (1, 2, 3):
        assert _same(encode_snapshot(read_snapshot(_as_read(raw), version)), raw)


@examples(100)
@given(references())
def test_references(raw: dict[str, Any]) -> None:
    assert _same(encode_ref(read_ref(_as_read(raw))), raw)


def _rewritten(metadata: TableMetadata) -> dict[str, Any]:
    """Return the metadata with everything that was understood encoded again."""
    raw = dict(metadata.raw)
    listed = {
        # In version 1, the member `schema` can take the place of one of these in the model.
        "schemas": [encode_schema(read_schema(part)) for part in raw.get("schemas") or []],
        "partition-specs": [encode_spec(spec) for spec in metadata.specs.values()],
        "sort-orders": [encode_sort_order(order) for order in metadata.sort_orders.values()],
        "snapshots": [encode_snapshot(snapshot) for snapshot in metadata.snapshots.values()],
        "refs": {name: encode_ref(ref) for name, ref in metadata.refs.items()},
    }
    raw |= {name: parts for name, parts in listed.items() if raw.get(name)}
    if raw.get("schema") is not None:
        raw["schema"] = encode_schema(read_schema(raw["schema"]))
    if raw.get("partition-spec") is not None:
        raw["partition-spec"] = encode_spec(PartitionSpec(0, read_spec_fields(raw["partition-spec"])))["fields"]
    return raw


@examples(30)
@given(st.data(), st.integers(1, 3))
def test_whole_metadata(data: st.DataObject, version: int) -> None:
    """Unknown members survive on every level, and members that are missing or null stay so."""
    schema = {**data.draw(schemas()), "schema-id": 0}
    spec, order = data.draw(partition_specs()), data.draw(sort_orders())
    snapshot = {**data.draw(snapshots()), "snapshot-id": 10}
    members: dict[str, Any] = {
        "schemas": [schema],
        "partition_specs": [spec],
        "default_spec_id": spec["spec-id"],
        "sort_orders": [order],
        "snapshots": [snapshot],
        "current_snapshot_id": data.draw(st.sampled_from([None, -1, 10])),
        "refs": data.draw(st.none() | st.fixed_dictionaries({"b": references()})),
        "schema": schema if version == 1 else data.draw(st.sampled_from([None, schema])),
        "statistics": data.draw(st.none() | st.just([{"snapshot-id": 10, "x": None}])),
        "x_unknown": {"a": [1.0, None], "b": [Raw("1.10"), Raw("1e400"), Raw("0.30000000000000000001"), "\ud800"]},
    }
    raw = document(version, **members)
    found = _parse(raw)
    assert _same(found.raw, raw)
    assert _same(_rewritten(found), raw)


@pytest.mark.parametrize(
    "text", ["1.10", "1e400", "0.30000000000000000001", "-0", "-0.0", "9" * 5000, '"\\ud800"', '{"\\udfff":[1.50]}']
)
def test_what_is_not_understood_may_be_any_json(text: str) -> None:
    found = _parse(document(x=Raw(text)))
    assert write_json(found.raw["x"]) == text


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_what_is_not_understood_must_be_json(text: str) -> None:
    with pytest.raises(CorruptMetadataError, match=f"is not JSON: {text}"):
        _parse(document(x=Raw(text)))


def test_numbers_that_are_understood_keep_their_spelling() -> None:
    fields = [
        {"id": 1, "name": "a", "required": False, "type": "double", "initial-default": Raw("1.10")},
        {"id": 2, "name": "b", "required": False, "type": "int", "initial-default": Raw("-0")},
    ]
    drawn = document(schemas=[schema_of(*fields)], last_column_id=2, last_sequence_number=Raw("-0"))
    found = _parse(drawn)
    assert [field.default for field in found.current_schema.struct] == [1.1, 0]
    assert found.last_sequence_number == 0
    assert _same(_rewritten(found), drawn)
    fields[0]["initial-default"] = Raw("1e400")
    with pytest.raises(CorruptMetadataError, match="the default 1e400 is not a value of type double"):
        _parse(document(schemas=[schema_of(*fields)]))


def test_metadata_files_of_other_engines(conformance: Path) -> None:
    files = list((conformance / "iceberg").rglob("[!.]*.metadata.json*"))
    files += [conformance / "iceberg-files" / f"{name}.json" for name in VALID_EXAMPLES]
    written = [(file, read_metadata(file.read_bytes())) for file in files]
    assert len(written) > 130
    for file, metadata in written:
        data = file.read_bytes()
        text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("utf-8-sig")
        assert (
            _canonical(write_json(metadata.raw)) == _canonical(write_json(_rewritten(metadata))) == _canonical(text)
        ), file
        recorded = metadata.properties.get(NAME_MAPPING)
        mapping = read_name_mapping(recorded)
        if recorded is not None and mapping is not None:
            assert _canonical(encode_name_mapping(mapping)) == _canonical(recorded), file
    assert any(metadata.raw.get("refs") for _, metadata in written)
    assert any(metadata.properties.get(NAME_MAPPING) for _, metadata in written)


def test_no_main_branch_is_made_up() -> None:
    snapshot = {"snapshot-id": 10, "timestamp-ms": 1, "sequence-number": 1, "manifest-list": "a"}
    found = parse_with(snapshots=[snapshot], current_snapshot_id=10)
    assert found.refs == {}
    assert "refs" not in found.raw
    assert found.all_refs == {"main": SnapshotRef(10, "branch")}
    recorded = {"main": {"snapshot-id": 10, "type": "branch", "max-ref-age-ms": 5}}
    assert parse_with(snapshots=[snapshot], current_snapshot_id=10, refs=recorded).all_refs["main"].max_ref_age_ms == 5


def test_what_changes_is_all_that_changes() -> None:
    raw = {"snapshot-id": 1, "timestamp-ms": 2, "manifest-list": "a", "summary": {"operation": "append"}, "x": [None]}
    snapshot = read_snapshot(raw, 2)
    assert encode_snapshot(replace(snapshot, added_rows=3, sequence_number=4)) == {
        **raw,
        "added-rows": 3,
        "sequence-number": 4,
    }
    assert encode_snapshot(replace(snapshot, summary={})) == {name: raw[name] for name in raw if name != "summary"}
    ref = read_ref({"snapshot-id": 1, "type": "BRANCH", "max-ref-age-ms": 5, "x": 1})
    assert encode_ref(replace(ref, snapshot_id=2, max_ref_age_ms=None)) == {"snapshot-id": 2, "type": "BRANCH", "x": 1}


def test_partition_fields_keep_their_ids_when_others_go() -> None:
    fields = [{"source-id": number, "name": f"p{number}", "transform": "identity", "x": number} for number in (1, 2)]
    spec = read_spec({"spec-id": 0, "fields": fields})
    (left,) = encode_spec(PartitionSpec(1, spec.fields[1:]))["fields"]
    assert left == {**fields[1], "field-id": 1001}
    (moved,) = encode_spec(PartitionSpec(1, (replace(spec.fields[0], source_ids=(3, 4)),)))["fields"]
    assert moved == {"source-ids": [3, 4], "name": "p1", "transform": "identity", "x": 1}


def _changed(raw: dict[str, Any], **changes: Any) -> Any:
    """Return the JSON of a column after its field was changed."""
    schema = read_schema(schema_of(raw))
    struct = Struct((replace(schema.struct.fields[0], **changes),))
    (found,) = encode_schema(replace(schema, struct=struct))["fields"]
    return found


def test_columns_that_change() -> None:
    price = {"id": 1, "name": "price", "required": True, "type": "decimal(9,2)", "initial-default": "1.5", "x": None}
    assert _changed(price) == price
    assert _changed(price, name="cost", nullable=True) == {**price, "name": "cost", "required": False}
    # A wider type is not written under the old name.
    assert _changed(price, type=Decimal(11, 2))["type"] == "decimal(11, 2)"
    assert _changed(price, default=PyDecimal("2.25"))["initial-default"] == "2.25"
    assert "initial-default" not in _changed(price, default=None)
    whole = {"id": 1, "name": "n", "required": False, "type": "int", "initial-default": 7}
    assert _changed(whole, type=Primitive("long")) == {**whole, "type": "long"}
    assert _changed(price, type=Fixed(16), default=None)["type"] == "fixed[16]"


def test_columns_that_cannot_be_written() -> None:
    for kind in (Primitive("byte"), Primitive("short")):
        with pytest.raises(SchemaError, match=f"Iceberg has no type {kind}"):
            encode_schema(Schema(Struct((Field("a", kind, id=1),))))
    element = Field("element", Primitive("long"))
    nested = [List(element), Map(Field("key", Primitive("long"), id=2), Field("value", Primitive("long")))]
    for wrong in (Primitive("long"), *nested):
        number = None if wrong == Primitive("long") else 1
        with pytest.raises(SchemaError, match="has no field id"):
            encode_schema(Schema(Struct((Field("a", wrong, id=number),))))
    with pytest.raises(InvalidArgumentError, match="cannot be written as a value of type integer"):
        encode_schema(Schema(Struct((Field("a", Primitive("integer"), id=1, default="1"),))))
