"""Metrics, summaries and partition values in metadata tables, for tables that tests build."""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.choices import MetadataTable
from deltaberg.iceberg.inspect.partitions import content_sums
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.table.read.scan import bound_scan
from tests.support.iceberg_builder import IcebergBuilder, iceberg_fields

_LONG, _DOUBLE = struct.Struct("<q").pack, struct.Struct("<d").pack


def _fields() -> list[dict[str, Any]]:
    nested = {
        "type": "struct",
        "fields": [
            {"id": 11, "name": "d", "required": False, "type": "double"},
            {"id": 12, "name": "u", "required": False, "type": "uuid"},
        ],
    }
    tags = {"type": "list", "element-id": 13, "element": "string", "element-required": False}
    pairs = {"type": "map", "key-id": 14, "key": "string", "value-id": 15, "value": "int", "value-required": False}
    return [
        *iceberg_fields(id="long", at="timestamptz", n="decimal(9, 2)"),
        {"id": 4, "name": "st", "required": False, "type": nested},
        {"id": 5, "name": "tags", "required": False, "type": tags},
        {"id": 6, "name": "m", "required": False, "type": pairs},
    ]


@pytest.mark.parametrize("name", ["files", "data_files", "entries"])
def test_metrics_have_the_types_of_their_columns(tmp_path: Path, name: MetadataTable) -> None:
    builder = IcebergBuilder(tmp_path / "t", _fields())
    metrics: dict[str, dict[int, Any]] = {
        "value_counts": {1: 2, 11: 2},
        "null_value_counts": {1: 0, 11: 1},
        "nan_value_counts": {11: 1},
        # What was an int has four bytes; nine are not a long, and eleven are not a UUID.
        "lower_bounds": {1: b"\x07\0\0\0", 2: _LONG(1_000_001), 3: b"\xff", 11: _DOUBLE(-0.5), 12: bytes(11), 13: b"a"},
        "upper_bounds": {
            1: b"\x07" * 9,
            2: _LONG(2_000_000),
            3: b"\x01\x00",
            12: bytes(16),
            14: "ü".encode(),
            99: b"x",
        },
    }
    builder.commit(builder.data([{"id": 1}, {"id": 2}], metrics=metrics), builder.data([{"id": 3}]))
    readable = open_table(builder.root, "iceberg").inspect(name)["readable_metrics"]
    columns = {child.name: child.type for child in readable.type}
    assert list(columns) == ["id", "at", "n", "st.d", "st.u", "tags.element", "m.key", "m.value"]
    counts = ["column_size", "value_count", "null_value_count", "nan_value_count"]
    assert [child.name for child in columns["id"]] == [*counts, "lower_bound", "upper_bound"]
    assert columns["at"].field("lower_bound").type == pa.timestamp("us", "UTC")
    assert columns["n"].field("upper_bound").type == pa.decimal128(9, 2)
    rows = {str(row["id"]["value_count"]): row for row in readable.to_pylist()}
    row = rows["2"]
    values = {name: tuple(cell.values()) for name, cell in row.items()}
    assert values["id"] == (None, 2, 0, None, 7, None)
    assert [str(value) for value in values["at"][4:]] == [
        "1970-01-01 00:00:01.000001+00:00",
        "1970-01-01 00:00:02+00:00",
    ]
    assert [str(value) for value in values["n"][4:]] == ["-0.01", "2.56"]
    assert values["st.d"] == (None, 2, 1, 1, -0.5, None)
    assert values["st.u"][4:] == (None, bytes(16))
    assert values["tags.element"] == (None, None, None, None, "a", None)
    assert values["m.key"][4:] == (None, "ü")
    assert values["m.value"] == (None,) * 6
    assert all(value is None for cell in rows["None"].values() for value in cell.values())


def test_formats_are_spelled_as_others_spell_them(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    files = [builder.data([{"id": 1}], format=kind) for kind in ("parquet", "avro", "orc")]
    builder.commit(*files, *builder.deletion_vectors({files[0].path: [0]}))
    found = open_table(builder.root, "iceberg").inspect("files")["file_format"].to_pylist()
    assert sorted(found) == ["AVRO", "ORC", "PARQUET", "PUFFIN"]


def test_bounds_of_summaries_are_text(tmp_path: Path) -> None:
    spec = [
        {"source-id": 1, "name": "a", "transform": "month"},
        {"source-id": 2, "name": "b", "transform": "identity"},
        {"source-id": 2, "name": "c", "transform": "zorder"},
    ]
    builder = IcebergBuilder(tmp_path / "t", {"day": "date", "s": "string"}, specs=[spec])
    summaries = [
        {"contains_null": True, "contains_nan": None, "lower_bound": b"\xff\xff\xff\xff", "upper_bound": b"\x0d\0\0\0"},
        {"contains_null": False, "contains_nan": False, "lower_bound": b"", "upper_bound": b"\xff"},
        {"contains_null": False, "contains_nan": None, "lower_bound": b"x", "upper_bound": b"y"},
    ]
    file = builder.data([{"s": "x"}], partition={"a": None, "b": "x", "c": None})
    entry = {"status": 1, "snapshot_id": None, "sequence_number": None, "file": file}
    builder.commit(manifests=[builder.manifest([entry], partitions=summaries), builder.manifest([entry])])
    table = open_table(builder.root, "iceberg")
    shown, none = table.inspect("manifests")["partition_summaries"].to_pylist()
    assert none is None
    assert [(row["lower_bound"], row["upper_bound"]) for row in shown] == [
        ("1969-12", "1971-02"),
        ("", None),
        (None, None),
    ]
    assert [(row["contains_null"], row["contains_nan"]) for row in shown] == [
        (True, None),
        (False, False),
        (False, None),
    ]
    manifests = table.inspect("all_manifests")
    assert manifests["partition_summaries"].to_pylist() == [shown, none]
    assert manifests["key_metadata"].to_pylist() == [None, None]


def test_the_newest_metadata_file_is_named_as_it_is_recorded(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}]))
    recorded = open_table(builder.root, "iceberg").inspect("metadata_log_entries")["file"].to_pylist()
    moved = builder.root.rename(tmp_path / "moved")
    table = open_table(moved, "iceberg", location_map="auto")
    assert table.metadata_location.startswith(str(moved))
    assert table.inspect("metadata_log_entries")["file"].to_pylist() == recorded
    assert all(file.startswith(str(tmp_path / "t")) for file in recorded)


def test_partitions_are_the_sums_of_their_files(tmp_path: Path, rng: random.Random) -> None:
    """The sums equal those over every file, for two specs, with nulls, NaN and zeros of both signs.

    Files of specs that have different numbers of fields are of different partitions, as in Iceberg's own library.
    """
    specs = [
        [
            {"source-id": 2, "name": "d", "transform": "identity"},
            {"source-id": 3, "name": "s", "transform": "identity"},
        ],
        [{"source-id": 3, "name": "s", "transform": "identity", "field-id": 1001}],
    ]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "d": "double", "s": "string"}, specs=specs)
    sums_of_files: dict[Any, Any] = defaultdict(lambda: defaultdict(int))
    for _ in range(6):
        files = []
        for _ in range(rng.randint(1, 5)):
            spec_id = rng.randrange(2)
            chosen = {"d": rng.choice([None, float("nan"), 0.0, -0.0, 1.5]), "s": rng.choice([None, "", "x"])}
            partition = chosen if spec_id == 0 else {"s": chosen["s"]}
            rows = [{"id": 1}] * rng.randint(1, 3)
            kind = rng.choice(["data", "position", "equality"])
            if kind == "equality":
                file = builder.equality_deletes([1], rows, partition=partition, spec_id=spec_id)
            else:
                file = builder.data(rows, partition=partition, spec_id=spec_id)
                file.content = int(kind == "position")
            files.append(file)
            sums = sums_of_files[(spec_id, repr(partition.get("d")), partition["s"])]
            prefix = "" if kind == "data" else f"{kind}_delete_"
            sums[f"{prefix}record_count"] += len(rows)
            sums[f"{prefix}file_count"] += 1
            sums["total_data_file_size_in_bytes"] += file.size if kind == "data" else 0
            sums["last_updated_snapshot_id"] = 1000 + len(builder.snapshots)
        builder.commit(*files)
    table = open_table(builder.root, "iceberg")
    found = {(row["spec_id"], repr(row["partition"]["d"]), row["partition"]["s"]): row for row in _rows(table)}
    assert found.keys() == sums_of_files.keys()
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in table.snapshots}
    for key, row in found.items():
        sums = {name: value for name, value in row.items() if name not in ("partition", "spec_id", "last_updated_at")}
        assert sums == {name: sums_of_files[key][name] for name in sums}
        assert row["last_updated_at"].timestamp() * 1000 == times[row["last_updated_snapshot_id"]]
    sums = {
        row["content"]: row for row in content_sums(cast(IcebergSource, bound_scan(table.scan()).source)).to_pylist()
    }
    for content, prefix in enumerate(("", "position_delete_", "equality_delete_")):
        for name, total in (("files", "file_count"), ("rows", "record_count")):
            expected = sum(one[f"{prefix}{total}"] for one in sums_of_files.values())
            assert sums.get(content, {name: 0})[name] == expected


def test_a_table_without_partitions_has_no_partition_column(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}]), builder.data([{"id": 2}, {"id": 3}]))
    table = open_table(builder.root, "iceberg")
    assert "partition" not in table.inspect("files").column_names
    assert "partition" not in [child.name for child in table.inspect("entries").schema.field("data_file").type]
    (row,) = _rows(table)
    assert (row["record_count"], row["file_count"]) == (3, 2)
    assert not {"partition", "spec_id"} & row.keys()


def test_files_of_two_specs_are_one_partition_if_values_and_numbers_of_fields_are_the_same(tmp_path: Path) -> None:
    units = enumerate(("month", "day"), 1000)
    by_month, by_day = ({"source-id": 2, "field-id": at, "name": f"d_{unit}", "transform": unit} for at, unit in units)
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "d": "date"}, specs=[[], [by_month], [by_day]])
    builder.commit(builder.data([{"id": 1}], spec_id=0))
    builder.commit(builder.data([{"id": 2}], partition={"d_month": None}, spec_id=1))
    builder.commit(builder.data([{"id": 3}, {"id": 4}], partition={"d_day": None}, spec_id=2))
    nulls = {"d_month": None, "d_day": None}
    table = open_table(builder.root, "iceberg")
    found = sorted((row["spec_id"], row["file_count"], row["record_count"]) for row in _rows(table))
    assert found == [(0, 1, 1), (2, 2, 3)]
    assert [row["partition"] for row in _rows(table)] == [nulls, nulls]


def _rows(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.inspect("partitions").to_pylist()
    return rows
