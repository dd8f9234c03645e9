"""Iceberg tables that other engines wrote, moved from where they were: rows of every snapshot, by every road."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from tests.support.canon import digest
from tests.support.roads import Road
from tests.support.shared import shared_directory

_NO_PARQUET = "it is not a Parquet file"
_KEYS = "equality deletes apply to it"
#: Tables of which Spark's own reader does not give exactly the rows, and why.
BY_ARROW = {
    "icebird--java-bunnies": _KEYS,
    "impala--airports_orc": _NO_PARQUET,
    "impala--iceberg_alltypes_part_orc": _NO_PARQUET,
    "impala--iceberg_migrated_alter_test_orc": _NO_PARQUET,
    "impala--iceberg_mixed_file_format_test": _NO_PARQUET,
    "impala--iceberg_partitioned_orc": _NO_PARQUET,
    "impala--iceberg_v2_delete_both_eq_and_pos": _KEYS,
    "impala--iceberg_v2_delete_equality": _KEYS,
    "impala--iceberg_v2_no_deletes_orc": _NO_PARQUET,
    "impala--iceberg_v2_partitioned_position_deletes_orc": _NO_PARQUET,
    "impala--iceberg_v3_default_value": "the column j was added after the file was written, and has a default",
    "impala--iceberg_v3_default_value_avro": _NO_PARQUET,
    "impala--iceberg_v3_default_value_orc": _NO_PARQUET,
    "impala--iceberg_v3_row_lineage_orc": _NO_PARQUET,
    "impala--trino_variant": "the column v is of type variant",
}
#: The hashes of older snapshots of this table are over the bytes of its variants.
_RAW_VARIANTS = {"impala--trino_variant"}


@cache
def _index() -> dict[str, dict[str, Any]]:
    shared = shared_directory()
    if shared is None:
        return {}
    index = json.loads((shared / "conformance" / "index.json").read_text(encoding="utf-8"))
    return {name: entry for name, entry in index.items() if entry["format"] == "iceberg"}


def test_the_index_is_there(conformance: Path) -> None:
    assert len(_index()) == 42
    assert all(entry["expect"] == "rows" for entry in _index().values())


@pytest.mark.parametrize("name", _index())
def test_newest_snapshot(name: str, conformance: Path, road: Road) -> None:
    entry = _index()[name]
    if "variant" in name and road.is_spark_3:
        pytest.skip("Spark 3.5 has no variants")
    table = open_table(conformance / entry["dir"], "iceberg", location_map="auto")
    assert table.metadata_location.endswith(entry["metadata"])
    assert table.format_version == entry["format_version"]
    found = road.table(table.scan())
    assert found.num_rows == entry["rows"]
    assert digest(found) == entry["sha256"]
    road.assert_native(BY_ARROW.get(name))
    assert table.scan().count() == entry["rows"]


@pytest.mark.parametrize("name", _index())
def test_every_snapshot(name: str, conformance: Path) -> None:
    entry = _index()[name]
    for number, expected in entry.get("snapshots", {}).items():
        table = open_table(conformance / entry["dir"], snapshot_id=int(number), location_map="auto")
        found = table.scan().to_arrow()
        assert found.num_rows == expected["rows"]
        assert digest(found, variants=name not in _RAW_VARIANTS) == expected["sha256"]


@pytest.mark.parametrize("name", _index())
def test_a_named_map(name: str, conformance: Path) -> None:
    """The recorded location, named in a map, leads to the same files as ``"auto"`` does."""
    entry = _index()[name]
    directory = conformance / entry["dir"]
    mapping = {entry["location"]: str(directory)}
    if entry["location"].startswith("/test-warehouse"):
        # Position deletes of Impala's tables say hdfs:// where manifests do not.
        mapping["hdfs://localhost:20500" + entry["location"]] = str(directory)
    table = open_table(directory, "iceberg", location_map=mapping)
    assert digest(table.scan().to_arrow()) == entry["sha256"]
