"""pyiceberg takes the schemas, specs, sort orders, snapshots and references that we write for the ones we read.

Here no JSON that was read is copied: what is written comes from the typed model alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema, parse_mapping_from_json
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortOrder

from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_file import read_metadata
from deltaberg.iceberg.metadata.snapshot_refs import encode_ref
from deltaberg.iceberg.metadata.snapshots import encode_snapshot
from deltaberg.iceberg.metadata.sort_orders import encode_sort_order
from deltaberg.iceberg.metadata.specs import encode_spec
from deltaberg.iceberg.schema.name_mapping import encode_name_mapping
from deltaberg.iceberg.schema.schema import encode_schema
from deltaberg.schema.name_mapping import mapping_of

pytestmark = pytest.mark.one_backend


def _anew(noun: Any) -> Any:
    """Return a part of metadata as if it had been made here, not read."""
    fields = {"fields": tuple(replace(part, raw={}) for part in noun.fields)} if hasattr(noun, "fields") else {}
    return replace(noun, raw={}, **fields)


def _written(metadata: TableMetadata) -> Iterator[tuple[Any, Any, Any]]:
    """Return each part of metadata: what pyiceberg reads it with, the original, and what we write."""
    raw = metadata.raw
    for schema in raw.get("schemas", []):
        yield Schema, schema, encode_schema(_anew(metadata.schemas[schema.get("schema-id", 0)]))
    for spec in raw.get("partition-specs", []):
        yield PartitionSpec, spec, encode_spec(_anew(metadata.specs[spec["spec-id"]]))
    for order in raw.get("sort-orders", []):
        yield SortOrder, order, encode_sort_order(_anew(metadata.sort_orders[order["order-id"]]))
    for snapshot in raw.get("snapshots", []):
        yield Snapshot, snapshot, encode_snapshot(_anew(metadata.snapshots[snapshot["snapshot-id"]]))
    for name, ref in raw.get("refs", {}).items():
        yield SnapshotRef, ref, encode_ref(_anew(metadata.refs[name]))


@pytest.mark.req("ICE-JSON-01", "ICE-JSON-02", "ICE-JSON-06", "ICE-JSON-09", "ICE-JSON-11", half="writer")
def test_parts_of_metadata(conformance: Path) -> None:
    compared: dict[str, int] = {}
    for file in (conformance / "iceberg").rglob("[!.]*.metadata.json*"):
        if "trino_variant" in str(file):
            # pyiceberg does not know the type.
            continue
        for model, original, ours in _written(read_metadata(file.read_bytes())):
            expected = model.model_validate_json(json.dumps(original))
            found = model.model_validate_json(json.dumps(ours))
            assert found == expected, file
            assert found.model_dump_json() == expected.model_dump_json(), file
            compared[model.__name__] = compared.get(model.__name__, 0) + 1
    assert sorted(compared) == ["PartitionSpec", "Schema", "Snapshot", "SnapshotRef", "SortOrder"]
    assert min(compared.values()) > 50


def test_name_mappings(conformance: Path) -> None:
    for file in (conformance / "iceberg").rglob("[!.]*.metadata.json*"):
        found = read_metadata(file.read_bytes())
        if "trino_variant" in str(file):
            continue
        theirs = Schema.model_validate_json(json.dumps(encode_schema(found.current_schema)))
        ours = parse_mapping_from_json(encode_name_mapping(mapping_of(found.current_schema.struct)))
        assert ours == create_mapping_from_schema(theirs), file
