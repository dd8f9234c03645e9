"""Updates, requirements and new tables: pyiceberg reads ours, and its own functions come to the same metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import TypeAdapter
from pyiceberg.partitioning import PartitionField as PeerField
from pyiceberg.partitioning import PartitionSpec as PeerSpec
from pyiceberg.schema import Schema as PeerSchema
from pyiceberg.table import metadata as peer
from pyiceberg.table.sorting import SortDirection
from pyiceberg.table.sorting import SortField as PeerSortField
from pyiceberg.table.sorting import SortOrder as PeerOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform

from deltaberg.iceberg.metadata.metadata_file import read_metadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.snapshot_refs import SnapshotRef
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder, read_sort_order
from deltaberg.iceberg.metadata.specs import PartitionField, PartitionSpec, read_spec
from deltaberg.iceberg.metadata.write_metadata import with_previous_file
from deltaberg.iceberg.schema.schema import Schema, read_schema
from deltaberg.iceberg.updates import updates as changes
from deltaberg.iceberg.updates.new_table import creation_updates, new_metadata
from deltaberg.iceberg.updates.requirements import AssertCreate, AssertRefSnapshotId, requirements_of
from deltaberg.schema.types import Field, Primitive, Struct
from tests.iceberg.metadata_json import SNAPSHOT, document, parse
from tests.support.changed_metadata import changed_json

pytestmark = pytest.mark.one_backend

_LEFT_OUT = ("last-updated-ms", "schema", "partition-spec", "next-row-id")
_UPDATE: TypeAdapter[Any] = TypeAdapter(TableUpdate)
_REQUIREMENT: TypeAdapter[Any] = TypeAdapter(TableRequirement)


def _theirs(parts: Any, adapter: TypeAdapter[Any]) -> tuple[Any, ...]:
    """Return the updates or requirements that pyiceberg reads from ours."""
    return tuple(adapter.validate_json(json.dumps(part.to_json())) for part in parts)


def _model(raw: Any) -> dict[str, Any]:
    """Return what pyiceberg understands of metadata, but for the time of the last change.

    It lets the two members that only version 1 has go stale, and knows no next row id of a new table.
    """
    model = peer.TableMetadataUtil.parse_obj(json.loads(json.dumps(raw))) if isinstance(raw, dict) else raw
    found = model.model_dump(mode="json")
    return {name: value for name, value in found.items() if name not in _LEFT_OUT}


def _new_snapshot(version: int, number: int, parent: int | None, sequence: int) -> Snapshot:
    rows: dict[str, Any] = {"first_row_id": 0, "added_rows": 5} if version == 3 else {}
    return Snapshot(
        number,
        1_600_000_000_000 + number,
        sequence if version > 1 else 0,
        parent,
        f"s3://bucket/table/metadata/snap-{number}.avro",
        summary={"operation": "append"},
        schema_id=0,
        **rows,
    )


@pytest.mark.req("ICE-META-06", "ICE-META-07", "ICE-META-08", "ICE-META-14", half="writer")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_applies_updates_alike(version: int) -> None:
    first = dict(SNAPSHOT) | {"timestamp-ms": 1_500_000_000_000}
    first |= {"first-row-id": 0, "added-rows": 0} if version == 3 else {}
    if version == 1:
        del first["sequence-number"]
    raw = document(
        version,
        snapshots=[first],
        current_snapshot_id=10,
        last_updated_ms=1_500_000_000_000,
        snapshot_log=[{"snapshot-id": 10, "timestamp-ms": 1_500_000_000_000}],
        refs={"main": {"snapshot-id": 10, "type": "branch"}},
        properties={"a": "1", "b": "2"},
    )
    wider = Struct((Field("id", Primitive("long"), nullable=False, id=1), Field("at", Primitive("timestamp"), id=2)))
    updates = [
        changes.AddSchema(Schema(wider, 1)),
        changes.SetCurrentSchema(),
        changes.AddSpec(PartitionSpec(1, (PartitionField((2,), 1000, "at_day", "day"),))),
        changes.SetDefaultSpec(),
        changes.AddSortOrder(SortOrder(1, (SortField((2,), "identity", "desc", "nulls-last"),))),
        changes.SetDefaultSortOrder(),
        changes.SetProperties({"b": "3", "c": "4"}),
        changes.RemoveProperties(("a",)),
        changes.AddSnapshot(_new_snapshot(version, 11, 10, 2)),
        changes.SetSnapshotRef("main", SnapshotRef(11, "branch")),
        changes.SetSnapshotRef("v1", SnapshotRef(10, "tag", max_ref_age_ms=5)),
    ]
    base = parse(raw)
    ours = changed_json(raw, updates, now_ms=1_600_000_000_011)
    ours = with_previous_file(ours, base, "s3://bucket/table/metadata/v1.metadata.json")
    theirs = update_table_metadata(
        peer.TableMetadataUtil.parse_obj(raw),
        _theirs(updates, _UPDATE),
        enforce_validation=True,
        metadata_location="s3://bucket/table/metadata/v1.metadata.json",
    )
    assert _model(ours) == _model(theirs)
    assert metadata_of_json(ours).current_snapshot_id == 11
    assert ours.get("next-row-id") == (5 if version == 3 else None)
    assert (ours.get("schema"), ours.get("partition-spec")) == (
        (ours["schemas"][1], ours["partition-specs"][1]["fields"]) if version == 1 else (None, None)
    )
    # A rollback, and the removal of what it leaves behind.
    more = [
        changes.SetSnapshotRef("main", SnapshotRef(10, "branch")),
        changes.RemoveSnapshotRef("v1"),
        changes.SetLocation("s3://bucket/moved"),
    ]
    again = changed_json(ours, more, now_ms=1_700_000_000_000)
    their = update_table_metadata(peer.TableMetadataUtil.parse_obj(ours), _theirs(more, _UPDATE), True)
    mine, other = _model(again), _model(their)
    logs = [[entry["snapshot-id"] for entry in found.pop("snapshot-log")] for found in (mine, other)]
    assert logs == [[10, 11, 10], [10, 11, 10]]
    assert mine == other
    for held, metadata in ((requirements_of(base, [*updates, *more]), base), ([AssertRefSnapshotId("b", None)], base)):
        for requirement in _theirs(held, _REQUIREMENT):
            requirement.validate(peer.TableMetadataUtil.parse_obj(dict(metadata.raw)))


def test_pyiceberg_reads_what_we_changed_in_tables_of_all_engines(conformance: Path) -> None:
    """A property and a tag are set in metadata that other engines wrote."""
    compared = 0
    for file in sorted((conformance / "iceberg").rglob("[!.]*.metadata.json*")):
        if "trino_variant" in str(file):
            # pyiceberg does not know the type.
            continue
        metadata = read_metadata(file.read_bytes())
        updates: list[changes.Update] = [changes.SetProperties({"x": "y"})]
        if metadata.current_snapshot_id is not None:
            updates.append(changes.SetSnapshotRef("t", SnapshotRef(metadata.current_snapshot_id, "tag")))
        ours = changed_json(metadata.raw, updates, now_ms=0)
        theirs = update_table_metadata(peer.TableMetadataUtil.parse_obj(dict(metadata.raw)), _theirs(updates, _UPDATE))
        assert _model(ours) == _model(theirs), file
        compared += 1
    assert compared > 100


def _nested() -> PeerSchema:
    from pyiceberg import types as kinds

    inner = kinds.StructType(
        kinds.NestedField(8, "x", kinds.LongType(), required=True), kinds.NestedField(9, "y", kinds.StringType())
    )
    return PeerSchema(
        kinds.NestedField(20, "id", kinds.LongType(), required=True),
        kinds.NestedField(7, "points", kinds.ListType(6, inner, element_required=False), doc="some points"),
        kinds.NestedField(4, "m", kinds.MapType(2, kinds.StringType(), 3, inner.model_copy(), value_required=True)),
        kinds.NestedField(30, "at", kinds.TimestamptzType()),
        identifier_field_ids=[20],
    )


@pytest.mark.req("ICE-SORT-02", half="writer")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_pyiceberg_makes_new_tables_alike(version: int, is_sorted: bool) -> None:
    schema = _nested()
    spec, order = PeerSpec(), PeerOrder()
    if is_sorted:
        spec = PeerSpec(
            PeerField(30, 1007, DayTransform(), "at_day"), PeerField(20, 1003, BucketTransform(16), "id_bucket")
        )
        order = PeerOrder(PeerSortField(30, transform=IdentityTransform(), direction=SortDirection.DESC))
    uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    # Their map shares ids with their list, which ours refuses to read, so ours comes from fields without ids.
    theirs = peer.new_table_metadata(
        schema, spec, order, "s3://bucket/table", {"format-version": str(version), "a": "b"}, UUID(uuid)
    )
    raw_schema = json.loads(schema.model_dump_json())
    raw_schema["fields"][2]["type"]["value"]["fields"] = [
        {**part, "id": part["id"] + 100} for part in raw_schema["fields"][2]["type"]["value"]["fields"]
    ]
    ours = new_metadata(
        read_schema(raw_schema),
        read_spec(json.loads(spec.model_dump_json())),
        read_sort_order(json.loads(order.model_dump_json())),
        location="s3://bucket/table/",
        properties={"a": "b"},
        format_version=version,
        uuid=uuid,
        now_ms=5,
    )
    assert _model(ours) == _model(theirs)
    # The same by updates, as they are sent to a catalog, and with those that pyiceberg understands.
    sent = _theirs(creation_updates(ours), _UPDATE)
    assert [update.action for update in sent][:3] == ["assign-uuid", "upgrade-format-version", "add-schema"]
    assert _theirs([AssertCreate()], _REQUIREMENT)[0].type == "assert-create"
