"""What the metadata of Iceberg tables that the package wrote says (ICE-META, ICE-JSON, ICE-ML, ICE-SORT, ICE-PART)."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from deltaberg import ParquetOptions, create_table, open_table
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.transaction.production import new_snapshot_id
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend

_WIDE = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("name", pa.string())])


def _metadata(table: IcebergTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(table.refresh().metadata_location.removeprefix("file://")).read_bytes())
    return found


def _avro(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the records of an Avro file."""
    with Path(path.removeprefix("file://")).open("rb") as file:
        reader = fastavro.reader(file)
        header = {name: value for name, value in reader.metadata.items() if name != "avro.codec"}
        return header, [row for row in reader if isinstance(row, dict)]


@pytest.mark.req("ICE-META-01", "ICE-META-02", "ICE-META-12", "ICE-META-13", "ICE-META-16", half="writer")
@pytest.mark.req("ICE-META-03", "ICE-META-05")
@pytest.mark.req("ICE-JSON-12", half="writer")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_metadata_says(tmp_path: Path, version: int) -> None:
    before = time.time_ns() // 1_000_000
    table = create_table(tmp_path / "t", ID, format="iceberg", properties={"format-version": version})
    empty = _metadata(table)
    assert empty["format-version"] == version
    assert empty.get("current-snapshot-id", -1) in (-1, None)
    assert len(StaticTable.from_metadata(table.metadata_location).scan().to_arrow()) == 0
    assert (empty["default-sort-order-id"], empty["sort-orders"]) == (0, [{"order-id": 0, "fields": []}])
    done = [table.append(ids(number)).snapshot_id for number in range(2)]
    full = _metadata(table)
    assert full["table-uuid"] == empty["table-uuid"] != ""
    assert full["current-snapshot-id"] == done[-1]
    assert [one["snapshot-id"] for one in full["snapshots"]] == done
    assert [set(one) for one in full["snapshot-log"]] == [{"snapshot-id", "timestamp-ms"}] * 2
    assert [one["snapshot-id"] for one in full["snapshot-log"]] == done
    assert before <= empty["last-updated-ms"] <= full["last-updated-ms"] <= time.time_ns() // 1_000_000 + 1
    assert full["last-updated-ms"] >= max(one["timestamp-ms"] for one in full["snapshot-log"])
    base = full["location"]
    paths = [row["file_path"] for row in table.inspect("files").to_pylist()]
    assert all(path.startswith(f"{base}/data/") for path in paths)
    assert all(row["path"].startswith(f"{base}/metadata/") for row in table.inspect("manifests").to_pylist())
    with pytest.raises(InvalidArgumentError, match="the format version is '99'"):
        create_table(tmp_path / "no", ID, format="iceberg", properties={"format-version": 99})


@pytest.mark.req("ICE-JSON-07", "ICE-JSON-08", half="writer")
@pytest.mark.req("ICE-JSON-13")
@pytest.mark.req("ICE-SORT-01", half="writer")
@pytest.mark.req("ICE-PART-02", "ICE-PART-04", "ICE-PART-07", "ICE-PART-08", half="writer")
def test_specs_orders_and_properties(tmp_path: Path) -> None:
    parts = ["id", "bucket(16, name)", "truncate(20, name)", "day(at)"]
    table = create_table(
        tmp_path / "t", _WIDE, format="iceberg", partition_by=parts, properties={"commit.retry.num-retries": 4}
    )
    table.append(pa.table({"id": [1], "at": pa.array([1], pa.timestamp("us", "UTC")), "name": ["n"]}))
    table.alter().sort_by("at ASC NULLS FIRST", "bucket(4, id) DESC NULLS LAST").commit()
    metadata = _metadata(table)
    assert metadata["properties"]["commit.retry.num-retries"] == "4"
    (spec,) = metadata["partition-specs"]
    transforms = [(one["source-id"], one["field-id"], one["transform"]) for one in spec["fields"]]
    assert transforms == [(1, 1000, "identity"), (3, 1001, "bucket[16]"), (3, 1002, "truncate[20]"), (2, 1003, "day")]
    assert metadata["sort-orders"][-1]["fields"] == [
        {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
        {"transform": "bucket[4]", "source-id": 1, "direction": "desc", "null-order": "nulls-last"},
    ]
    (row,) = table.inspect("manifests").to_pylist()
    header, _ = _avro(row["path"])
    assert json.loads(header["partition-spec"]) == spec["fields"]
    entry = json.loads(header["avro.schema"])
    data_file = next(field["type"] for field in entry["fields"] if field["name"] == "data_file")
    partition = next(field["type"] for field in data_file["fields"] if field["name"] == "partition")
    day = next(field for field in partition["fields"] if field["field-id"] == 1003)
    assert [kind for kind in day["type"] if kind != "null"] == [{"type": "int", "logicalType": "date"}]
    assert [field["field-id"] for field in partition["fields"]] == [1000, 1001, 1002, 1003]

    table.alter().partition_by("name").commit()
    assert [one["field-id"] for one in _metadata(table)["partition-specs"][1]["fields"]] == [1004]
    table.alter().partition_by().commit()
    assert _metadata(table)["partition-specs"][2]["fields"] == []
    table.append(pa.table({"id": [2]}))
    plain = next(row for row in table.inspect("manifests").to_pylist() if row["partition_spec_id"] == 2)
    header, _ = _avro(plain["path"])
    assert (json.loads(header["partition-spec"]), header["partition-spec-id"]) == ([], "2")


@pytest.mark.req("ICE-META-10", half="writer")
@pytest.mark.parametrize("version", ["1", "2"])
def test_the_highest_id_of_partition_fields_is_never_lowered(tmp_path: Path, version: str) -> None:
    properties = {"format-version": version}
    table = create_table(tmp_path / "t", ID, format="iceberg", properties=properties)
    highest = [_metadata(table)["last-partition-id"]]
    for parts in (["id"], [], ["bucket(4, id)"], ["id", "bucket(8, id)"]):
        table.alter().partition_by(*parts).commit()
        highest.append(_metadata(table)["last-partition-id"])
    # Version 1 keeps the fields that are gone, and cannot give their ids to others.
    assert highest == [999, 1000, 1000, 1001, 1003 if version == "1" else 1002]
    parts = ["id", "bucket(4, id)"]
    other = create_table(tmp_path / "u", ID, format="iceberg", properties=properties, partition_by=parts)
    assert _metadata(other)["last-partition-id"] == 1001


@pytest.mark.req("ICE-HASH-13")
def test_doubles_have_no_buckets(tmp_path: Path) -> None:
    for kind in (pa.float64(), pa.float32(), pa.bool_(), pa.list_(pa.int64())):
        with pytest.raises((SchemaError, InvalidArgumentError, UnsupportedFeatureError), match="bucket"):
            create_table(tmp_path / "t", {"x": kind}, format="iceberg", partition_by="bucket(4, x)")
    assert not (tmp_path / "t").exists()


@pytest.mark.req("ICE-ML-03", half="writer")
def test_manifest_lists_say_what_is_there(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg")
    for number in range(3):
        table.append(ids(number))
    for snapshot in _metadata(table)["snapshots"]:
        _, rows = _avro(snapshot["manifest-list"])
        for row in rows:
            assert row["manifest_length"] == Path(row["manifest_path"].removeprefix("file://")).stat().st_size
            assert (row["partition_spec_id"], row["added_snapshot_id"] > 0) == (0, True)


@pytest.mark.req("ICE-SNAP-07")
def test_ids_of_snapshots(tmp_path: Path) -> None:
    metadata = create_table(tmp_path / "t", ID, format="iceberg").metadata
    found = {new_snapshot_id(metadata) for _ in range(10_000)}
    assert len(found) == 10_000
    assert min(found) > 0
    assert max(found) < 1 << 63


@pytest.mark.req("ICE-MAN-20", half="writer")
@pytest.mark.req("ICE-META-11", half="writer")
def test_properties_choose_how_files_are_written(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg", properties={"write.format.default": "avro"})
    table.append(ids(1))
    table.alter().set({"write.format.default": "parquet"}).commit()
    table.append(ids(*range(30)), writer_properties=ParquetOptions(row_group_rows=10))
    files = {row["file_format"]: row["split_offsets"] for row in table.inspect("files").to_pylist()}
    assert set(files) == {"AVRO", "PARQUET"}
    assert len(files["PARQUET"]) == 3
    assert files["PARQUET"] == sorted(files["PARQUET"])


def _hashes(root: Path) -> dict[str, str]:
    paths = (path for path in root.rglob("*") if path.is_file() and path.name != "version-hint.text")
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.req("ICE-GEN-08")
def test_files_never_change(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg", properties={"write.delete.mode": "merge-on-read"})
    digests: dict[str, str] = {}
    for number in range(5):
        table.append(ids(*range(10 * number, 10 * number + 10)))
        table.delete(f"id = {10 * number}")
        table.update({"id": "id + 1000"}, f"id = {10 * number + 1}")
        if number % 2:
            table.compact(max_deleted=0.0)
        now = _hashes(tmp_path / "t")
        assert {path: now[path] for path in digests if path in now} == {
            path: digest for path, digest in digests.items() if path in now
        }
        digests |= now
    assert len(ids_of(table)) == 45


@pytest.mark.req("ICE-GEN-04", half="writer")
def test_readers_see_all_of_a_write_or_nothing(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID, format="iceberg")
    for number in range(3):
        table.append(ids(number))
    seen: set[tuple[int, ...]] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.add(tuple(ids_of(open_table(tmp_path / "t", "iceberg"))))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        with table.transaction() as transaction:
            transaction.overwrite(ids(7))
            transaction.append(ids(8))
        for _ in range(3):
            seen.add(tuple(ids_of(open_table(tmp_path / "t", "iceberg"))))
    finally:
        stop.set()
        reader.join()
    assert (7, 8) in seen
    assert seen <= {(0, 1, 2), (7, 8)}
