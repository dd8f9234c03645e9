"""The files of a table, how the metadata leads to them, and oddities that a reader has to tolerate."""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import open_table
from deltaberg.iceberg.metadata.specs import read_spec
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.schema.types import DataType, Decimal, Field, Primitive, Struct
from deltaberg.storage.local import LocalStorage
from tests.support.iceberg_builder import IcebergBuilder, IcebergFile
from tests.support.recorder import Recorder
from tests.support.roads import by_every_road


def _ids(builder: IcebergBuilder, condition: str | None = None) -> list[int]:
    return sorted(open_table(builder.root, "iceberg").scan(condition).to_arrow().column("id").to_pylist())


def _entries(*files: IcebergFile) -> list[dict[str, Any]]:
    return [{"status": 1, "snapshot_id": None, "sequence_number": None, "file": file} for file in files]


def _header(path: str) -> Any:
    with Path(path).open("rb") as stored:
        return fastavro.reader(stored).writer_schema


@pytest.mark.req("ICE-GEN-01")
def test_a_file_that_no_manifest_lists_is_not_there(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}]))
    before = open_table(builder.root).scan().files()
    builder.data([{"id": 2}])
    pq.write_table(pa.table({"id": [3]}), builder.root / "data" / "stray.parquet")
    assert _ids(builder) == [1]
    assert open_table(builder.root).scan().files().equals(before)


@pytest.mark.req("ICE-GEN-03")
def test_what_was_loaded_is_read_until_a_refresh(tmp_path: Path, recorder: Recorder) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}]))
    table = open_table(builder.root, "iceberg")
    scan = table.scan()
    names = {file.name for file in builder.root.rglob("*")}
    builder.commit(builder.data([{"id": 2}]))
    added = {file.name for file in builder.root.rglob("*")} - names
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]
    assert table.refresh().scan().count() == 2
    # A scan from before stays what it was, and nothing was locked: reading left nothing behind.
    assert scan.to_arrow().to_pylist() == [{"id": 1}]
    assert {file.name for file in builder.root.rglob("*")} == names | added
    recorder.clear()
    table.refresh()
    assert recorder.read == ["version-hint.text"]


@by_every_road
@pytest.mark.req("ICE-GEN-04", half="reader")
def test_readers_see_the_whole_of_a_commit_or_nothing(tmp_path: Path) -> None:
    """The files of a commit are written first. Its last step is a rename of the new metadata file."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    versions, files = 12, [builder.data([{"id": number}]) for number in range(3)]
    builder.commit(*files)
    expected = [{0, 1, 2}]
    metadata = builder.root / "metadata"
    for version in range(2, versions + 1):
        # Three files give way to two, or two to three.
        count = 5 - len(files)
        added = [builder.data([{"id": 10 * version + number}]) for number in range(count)]
        builder.commit(*added, removed=files, operation="overwrite")
        (metadata / f"v{version}.metadata.json").rename(metadata / f"later-{version}")
        files, expected = added, [*expected, {10 * version + number for number in range(count)}]
    (metadata / "version-hint.text").write_text("1")
    read_one = threading.Semaphore(0)

    def write() -> None:
        for version in range(2, versions + 1):
            assert read_one.acquire(timeout=30)
            (metadata / f"later-{version}").rename(metadata / f"v{version}.metadata.json")

    writer = threading.Thread(target=write)
    writer.start()
    seen = [expected[0]]
    while seen[-1] != expected[-1]:
        read_one.release()
        found = set(_ids(builder))
        assert found in expected
        assert expected.index(found) >= expected.index(seen[-1])
        seen.append(found)
    writer.join()
    assert expected[0] in seen


@by_every_road
@pytest.mark.req("ICE-GEN-07", half="reader")
def test_reading_needs_nothing_but_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    first = builder.data([{"id": number} for number in range(4)])
    builder.commit(first)
    builder.commit(builder.position_deletes([(first, 1)]), builder.equality_deletes([1], [{"id": 3}]))
    names = {"get", "get_ranges", "head", "open"}

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError((arguments, options))

    # With a hint, not even listings are needed; a store that lacks all else is enough.
    for name in vars(LocalStorage):
        if not name.startswith("_") and name not in names and callable(getattr(LocalStorage, name)):
            monkeypatch.setattr(LocalStorage, name, refuse)
    for name in ("rename", "replace", "link", "truncate"):
        monkeypatch.setattr(os, name, refuse)
    table = open_table(builder.root, "iceberg")
    assert table.scan("id >= 0").to_arrow().column("id").to_pylist() == [0, 2]


@by_every_road
@pytest.mark.req("ICE-GEN-10")
def test_filters_on_values_find_the_partitions(tmp_path: Path) -> None:
    specs = [[{"source-id": 2, "name": "ts_day", "transform": "day"}]]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "ts": "timestamp"}, specs=specs)
    days = [dt.date(2017, 11, day) for day in (15, 16, 17)]
    builder.commit(
        *(
            builder.data([{"id": day.day, "ts": dt.datetime(2017, 11, day.day, 12)}], partition={"ts_day": day})
            for day in days
        )
    )
    scan = open_table(builder.root).scan("ts > TIMESTAMP '2017-11-16 13:00:00'")
    # Of the 16th no row is after noon, but the partition cannot tell.
    assert len(scan.files()) == 2
    assert scan.to_arrow().column("id").to_pylist() == [17]
    assert len(open_table(builder.root).scan("ts >= TIMESTAMP '2017-11-17 00:00:00'").files()) == 1


@by_every_road
@pytest.mark.req("ICE-PART-05", half="reader")
def test_manifests_are_pruned_each_by_its_spec(tmp_path: Path, recorder: Recorder) -> None:
    specs = [
        [{"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "day"}],
        [{"source-id": 2, "field-id": 1001, "name": "ts_month", "transform": "month"}],
    ]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "ts": "timestamp"}, specs=specs)
    manifests = []
    for number, (spec_id, name, value, moment) in enumerate(
        (
            (0, "ts_day", 17485, dt.datetime(2017, 11, 15)),
            (0, "ts_day", 17486, dt.datetime(2017, 11, 16)),
            (1, "ts_month", 573, dt.datetime(2017, 10, 31)),
            (1, "ts_month", 574, dt.datetime(2017, 11, 1)),
        )
    ):
        file = builder.data([{"id": number, "ts": moment}], partition={name: value}, spec_id=spec_id)
        bound = value.to_bytes(4, "little")
        summary = {"contains_null": False, "contains_nan": False, "lower_bound": bound, "upper_bound": bound}
        manifests.append(builder.manifest(_entries(file), spec_id=spec_id, snapshot_id=1000, partitions=[summary]))
    builder.commit(manifests=manifests)
    table = open_table(builder.root)
    assert table.scan().count() == 4
    recorder.clear()
    scan = table.scan("ts >= TIMESTAMP '2017-11-16 00:00:00'")
    assert scan.to_arrow().column("id").to_pylist() == [1]
    opened = [name for name in recorder.read if name.startswith("m")]
    assert sorted(opened) == sorted(Path(manifests[number]["manifest_path"]).name for number in (1, 3))
    # The month of November remains, whose rows all are older.
    assert len(scan.files()) == 2


@by_every_road
@pytest.mark.req("ICE-PART-07", half="reader")
@pytest.mark.parametrize("stored", [{"type": "int", "logicalType": "date"}, "int"])
def test_partition_values_are_found_by_field_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: Any) -> None:
    specs = [[{"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "day"}]]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "ts": "timestamp"}, specs=specs)
    monkeypatch.setattr(builder, "_partition_type", lambda _: stored)
    builder.commit(builder.data([{"id": 1, "ts": dt.datetime(2017, 11, 16, 5)}], partition={"ts_day": 17486}))
    written = _header(str(next((builder.root / "metadata").glob("m*.avro"))))
    partition = next(child for child in written["fields"][-1]["type"]["fields"] if child["name"] == "partition")["type"]
    assert (partition["name"], partition["fields"][0]["field-id"]) == ("r102", 1000)
    # The spec has another name for it by now; the id is the same.
    builder.specs[0][0]["name"] = "day_of_ts"
    builder.write()
    found = open_table(builder.root).scan(columns=["_partition"]).to_arrow()
    assert found.schema.field("_partition").type == pa.struct([("day_of_ts", pa.date32())])
    assert found.to_pylist() == [{"_partition": {"day_of_ts": dt.date(2017, 11, 16)}}]


@pytest.mark.req("ICE-PART-07", half="reader")
@pytest.mark.parametrize(
    ("transform", "source", "result"),
    [
        ("identity", Primitive("string"), Primitive("string")),
        ("identity", Decimal(9, 2), Decimal(9, 2)),
        ("bucket[16]", Primitive("string"), Primitive("integer")),
        ("truncate[4]", Primitive("string"), Primitive("string")),
        ("truncate[4]", Decimal(9, 2), Decimal(9, 2)),
        ("year", Primitive("date"), Primitive("integer")),
        ("month", Primitive("timestamp"), Primitive("integer")),
        ("day", Primitive("timestamp_ntz"), Primitive("date")),
        ("hour", Primitive("timestamp"), Primitive("integer")),
        ("void", Primitive("uuid"), Primitive("uuid")),
    ],
)
def test_the_types_of_partition_values(transform: str, source: DataType, result: DataType) -> None:
    spec = read_spec(
        {"spec-id": 3, "fields": [{"source-id": 5, "field-id": 1004, "name": "p", "transform": transform}]}
    )
    assert partition_struct(spec, [Struct((Field("x", source, id=5),))]) == Struct((Field("p", result, id=1004),))


@by_every_road
@pytest.mark.req("ICE-PART-08", half="reader")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_unpartitioned_table_has_empty_partition_values(tmp_path: Path, version: int) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=version, specs=[[]])
    builder.commit(builder.data([{"id": 1}]))
    written = _header(str(next((builder.root / "metadata").glob("m*.avro"))))
    partition = next(child for child in written["fields"][-1]["type"]["fields"] if child["field-id"] == 102)
    assert partition["type"]["fields"] == []
    table = open_table(builder.root, "iceberg")
    assert json.loads(json.dumps(builder.metadata()["partition-specs"])) == [{"spec-id": 0, "fields": []}]
    assert table.spec.fields == ()
    assert table.scan("id = 1").to_arrow().to_pylist() == [{"id": 1}]


@by_every_road
@pytest.mark.req("ICE-SORT-04", half="reader")
def test_files_of_an_unknown_sort_order_are_read(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(
        *(builder.data([{"id": 2 * order}, {"id": order}], sort_order_id=order) for order in (0, 7)),
        builder.data([{"id": 100}], sort_order_id=None),
    )
    table = open_table(builder.root, "iceberg", validate=True)
    assert list(table.metadata.sort_orders) == [0]
    assert table.scan().to_arrow().column("id").to_pylist() == [0, 0, 14, 7, 100]


@by_every_road
@pytest.mark.req("ICE-SORT-06", half="reader")
@pytest.mark.parametrize("order", [None, 1, 7])
def test_position_deletes_have_no_sort_order(tmp_path: Path, order: int | None) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    fields = [{"transform": "identity", "source-id": 1, "direction": "desc", "null-order": "nulls-first"}]
    builder.extra = {"sort-orders": [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": fields}]}
    file = builder.data([{"id": number} for number in range(4)])
    builder.commit(file)
    # Neither order that it may claim is the one that its rows are in.
    builder.commit(builder.position_deletes([(file, 2), (file, 0)], sort_order_id=order))
    assert _ids(builder) == [1, 3]


@by_every_road
@pytest.mark.req("ICE-SNAP-02", half="reader")
def test_a_snapshot_of_version_1_may_list_its_manifests(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=1)
    builder.commit(builder.data([{"id": 1}]))
    builder.commit(builder.data([{"id": 2}, {"id": 3}]))
    for snapshot in builder.snapshots:
        listed = Path(snapshot.pop("manifest-list"))
        with listed.open("rb") as stored:
            rows: list[Any] = list(fastavro.reader(stored))
        snapshot["manifests"] = [row["manifest_path"] for row in rows]
        listed.unlink()
    builder.write()
    assert _ids(builder) == [1, 2, 3]
    assert _ids(builder, "id > 1") == [2, 3]
    assert open_table(builder.root, snapshot_id=builder.snapshots[0]["snapshot-id"]).scan().count() == 1


@by_every_road
@pytest.mark.req("ICE-SNAP-04")
def test_a_snapshot_is_the_union_of_its_manifests(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    files = [builder.data([{"id": number}]) for number in range(8)]
    dead = [{"status": 2, "snapshot_id": 1, "sequence_number": 1, "file": file} for file in files[6:]]
    kept = [{"status": 0, "snapshot_id": 1, "sequence_number": 1, "file": files[5]}]
    manifests = [_entries(*files[:2]), [*_entries(*files[2:5]), dead[0]], [*kept, dead[1]]]
    builder.commit(manifests=[builder.manifest(entries, snapshot_id=1000) for entries in manifests])
    scan = open_table(builder.root).scan()
    assert sorted(scan.files().column("file_path").to_pylist()) == sorted(file.path for file in files[:6])
    assert _ids(builder) == list(range(6))


_UNKNOWN: list[list[dict[str, Any]]] = [
    [{"source-ids": [1, 2], "name": "z", "transform": "zorder"}],
    [{"source-id": 1, "name": "z", "transform": "bucketV2[4]"}],
    [{"source-id": 1, "name": "z", "transform": "zorder"}],
]


@by_every_road
@pytest.mark.req("BEY-43", half="reader")
@pytest.mark.parametrize("spec", _UNKNOWN)
def test_tables_with_an_unknown_transform_are_read(tmp_path: Path, spec: list[dict[str, Any]]) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "x": "long"}, specs=[spec])
    files = [builder.data([{"id": number, "x": number % 2}], partition={"z": number % 2}) for number in range(4)]
    builder.commit(*files)
    assert _ids(builder) == [0, 1, 2, 3]
    scan = open_table(builder.root).scan("id = 2")
    assert scan.to_arrow().to_pylist() == [{"id": 2, "x": 0}]
    assert len(scan.files()) == 4
    found = open_table(builder.root).scan("id >= 2", columns=["id", "_partition"]).to_arrow().to_pylist()
    assert found == [{"id": 2, "_partition": {"z": "0"}}, {"id": 3, "_partition": {"z": "1"}}]
    # Partitions are still told from another: a delete reaches those of its own alone.
    builder.commit(builder.equality_deletes([1], [{"id": 1}, {"id": 2}], partition={"z": 0}))
    assert _ids(builder) == [0, 1, 3]


@by_every_road
@pytest.mark.req("BEY-43", half="reader")
@pytest.mark.parametrize(
    ("stored", "values", "shown"),
    [
        ("string", ["a", "b", None], ["a", "b", None]),
        ("bytes", [b"\xff\x00", b"", None], ["ff00", "", None]),
        ({"type": "fixed", "name": "f", "size": 2}, [b"\xff\x00", b"ab", None], ["ff00", "6162", None]),
        ("double", [0.5, -1.5, None], ["0.5", "-1.5", None]),
        ({"type": "int", "logicalType": "date"}, [17486, 0, None], ["2017-11-16", "1970-01-01", None]),
        ("int", [None, None, None], [None, None, None]),
    ],
)
def test_values_of_unknown_transforms_are_of_any_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: Any, values: list[Any], shown: list[str | None]
) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, specs=[_UNKNOWN[2]])
    monkeypatch.setattr(builder, "_partition_type", lambda _: stored)
    builder.commit(*(builder.data([{"id": number}], partition={"z": value}) for number, value in enumerate(values)))
    found = open_table(builder.root).scan(columns=["_partition"]).to_arrow().column(0).to_pylist()
    assert found == [{"z": text} for text in shown]


@by_every_road
@pytest.mark.req("BEY-43", half="reader")
def test_partition_values_of_a_column_that_no_schema_has_any_more(tmp_path: Path) -> None:
    specs: list[list[dict[str, Any]]] = [[], [{"source-id": 2, "name": "x", "transform": "identity"}]]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "x": "long"}, specs=specs)
    builder.commit(builder.data([{"id": 1, "x": 5}], partition={"x": 5}, spec_id=1))
    builder.schemas = [builder.fields[:1]]
    builder.write()
    found = open_table(builder.root).scan("id = 1", columns=["id", "_partition"]).to_arrow().to_pylist()
    assert found == [{"id": 1, "_partition": {"x": "5"}}]
