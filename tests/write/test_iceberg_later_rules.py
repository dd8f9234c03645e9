"""Rules of Iceberg beyond version 2, and of references, summaries and version hints, for writers (BEY)."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.iceberg import IcebergTable
from deltaberg.iceberg.manifests.fields import MANIFESTS
from deltaberg.iceberg.manifests.write_list import complete_rows
from deltaberg.iceberg.updates.updates import SetProperties
from deltaberg.schema.arrow import VARIANT
from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.changed_metadata import changed_json
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.rows import ID, ids, ids_of
from tests.write.small_iceberg import as_pyiceberg_reads

pytestmark = pytest.mark.one_backend

_DATES = pa.schema([("id", pa.int64()), ("d", pa.date32())])
_TIMES = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])


def _new(root: Path, columns: pa.Schema | Struct, version: str = "3", **more: Any) -> IcebergTable:
    properties = {"format-version": version, **more.pop("properties", {})}
    table: IcebergTable = create_table(root, columns, format="iceberg", properties=properties, **more)
    return table


def _metadata(table: IcebergTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(table.refresh().metadata_location.removeprefix("file://")).read_bytes())
    return found


def _paths(table: IcebergTable) -> list[Path]:
    return [Path(path.removeprefix("file://")) for path in table.scan().files()["file_path"].to_pylist()]


def _opened(builder: IcebergBuilder) -> IcebergTable:
    table: IcebergTable = open_table(builder.root, "iceberg")
    return table


# References and snapshots


@pytest.mark.req("BEY-26", half="writer")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_main_is_the_current_snapshot(tmp_path: Path, version: int) -> None:
    """Metadata without ``refs`` has main alone; a commit to another branch leaves it where it is."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=version)
    first = builder.commit(builder.data([{"id": 1}]))
    path = builder.write()
    path.write_text(json.dumps({name: value for name, value in builder.metadata().items() if name != "refs"}))
    table = _opened(builder)
    assert list(table.metadata.all_refs) == ["main"]
    table.alter().create_branch("test", min_snapshots_to_keep=2, max_snapshot_age_ms=5, max_ref_age_ms=7).commit()
    branch = table.append(ids(2), branch="test").snapshot_id
    before = _metadata(table)
    assert before["current-snapshot-id"] == first
    assert before["refs"] == {
        "main": {"snapshot-id": first, "type": "branch"},
        "test": {
            "snapshot-id": branch,
            "type": "branch",
            "min-snapshots-to-keep": 2,
            "max-snapshot-age-ms": 5,
            "max-ref-age-ms": 7,
        },
    }
    assert (ids_of(table), ids_of(open_table(builder.root, ref="test"))) == ([1], [1, 2])
    newest = table.append(ids(3)).snapshot_id
    after = _metadata(table)
    assert after["current-snapshot-id"] == after["refs"]["main"]["snapshot-id"] == newest
    assert after["refs"]["test"] == before["refs"]["test"]


@pytest.mark.req("BEY-28", half="writer")
def test_statistics_of_others_stay(tmp_path: Path) -> None:
    """Their files need not be there: nothing of the table depends on them."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    snapshot = builder.commit(builder.data([{"id": 1}]))
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": snapshot, "sequence-number": 1, "fields": [1]}
    statistics = {
        "snapshot-id": snapshot,
        "statistics-path": f"{builder.root}/metadata/gone.puffin",
        "file-size-in-bytes": 413,
        "file-footer-size-in-bytes": 42,
        "blob-metadata": [blob],
    }
    partitions = {"snapshot-id": snapshot, "statistics-path": f"{builder.root}/gone.parquet", "file-size-in-bytes": 43}
    builder.extra = {"statistics": [statistics], "partition-statistics": [partitions]}
    builder.write()
    table = _opened(builder)
    table.append(ids(2))
    table.delete("id = 1")
    found = _metadata(table)
    assert (found["statistics"], found["partition-statistics"]) == ([statistics], [partitions])
    assert ids_of(table) == [2]


@pytest.mark.req("BEY-51")
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_summaries_count_in_text(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path / "t", ID, version, partition_by="id")
    five = ids(1, 1, 1, 2, 2)
    table.append(five, properties={"engine-name": "mine"})
    table.append(five)
    staged = table.append(ids(7), properties={"wap.id": "w1"}).snapshot_id
    first, second, third = [found["summary"] for found in _metadata(table)["snapshots"]]
    assert all(isinstance(text, str) for summary in (first, second, third) for text in summary.values())
    names = ("added-data-files", "added-records", "total-data-files", "total-records", "changed-partition-count")
    assert [first[name] for name in names] == ["2", "5", "2", "5", "2"]
    assert [second[name] for name in names] == ["2", "5", "4", "10", "2"]
    assert int(first["added-files-size"]) == sum(path.stat().st_size for path in _paths(table)[-2:])
    assert (first["engine-name"], third["wap.id"]) == ("mine", "w1")
    assert table.refresh().snapshot_id != staged


@pytest.mark.req("BEY-51")
def test_summaries_count_all_partitions_or_none(tmp_path: Path) -> None:
    """Files that go count with those that come: of more partitions than the property allows, none is told."""
    table = _new(tmp_path / "t", ID, partition_by="id", properties={"write.summary.partition-limit": "2"})
    table.append(ids(1, 2))
    table.overwrite(ids(3, 4))
    first, second = [found["summary"] for found in _metadata(table)["snapshots"]]
    told = {name for name in first if name.startswith("partition")}
    assert told == {"partition-summaries-included", "partitions.id=1", "partitions.id=2"}
    assert (second["changed-partition-count"], [name for name in second if name.startswith("partition")]) == ("4", [])


@pytest.mark.req("BEY-50", half="writer")
def test_the_version_hint_is_no_part_of_the_commit(tmp_path: Path) -> None:
    """A commit is the metadata file that was not there before, whatever the hint says, written or not."""
    table = _new(tmp_path / "t", ID)
    hint = tmp_path / "t" / "metadata" / "version-hint.text"
    assert hint.read_text() == "1"
    table.append(ids(1))
    assert hint.read_text() == "2"
    hint.write_text("1")
    assert open_table(tmp_path / "t").append(ids(2)).version == 3
    assert hint.read_text() == "3"
    hint.unlink()
    hint.mkdir()
    done = open_table(tmp_path / "t").append(ids(3))
    assert (done.version, len(done.warnings)) == (4, 1)
    assert "version hint" in done.warnings[0]
    taken = tmp_path / "t" / "metadata" / "v5.metadata.json"
    taken.write_bytes((tmp_path / "t" / "metadata" / "v4.metadata.json").read_bytes())
    before = taken.read_bytes()
    assert table.append(ids(4)).version == 6
    assert taken.read_bytes() == before
    assert ids_of(open_table(tmp_path / "t")) == [1, 2, 3, 4]


# Versions


@pytest.mark.req("BEY-52", half="writer")
def test_version_4_is_not_written(tmp_path: Path) -> None:
    for wanted in ("4", 4):
        with pytest.raises(InvalidArgumentError, match="the format version is '4'"):
            _new(tmp_path / "t", ID, properties={"format-version": wanted})
    assert not (tmp_path / "t").exists()
    table = _new(tmp_path / "u", ID)
    with pytest.raises(InvalidArgumentError, match="the format version is '4'"):
        table.alter().set({"format-version": "4"}).commit()
    assert _metadata(table)["format-version"] == 3
    path = tmp_path / "u" / "metadata" / "v1.metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format-version": 4}))
    with pytest.raises(UnsupportedFeatureError, match="format version 4"):
        table.refresh()
    with pytest.raises(UnsupportedFeatureError, match="format version 4"):
        open_table(tmp_path / "u").append(ids(1))


@pytest.mark.req("BEY-35", half="writer")
def test_manifests_and_files_take_the_next_row_ids(tmp_path: Path) -> None:
    counts = [(100, 25), (0, 100), (125, 25)]
    row = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0, "content": 0, "deleted_rows_count": 9}
    rows = [{**row, "added_rows_count": added, "existing_rows_count": existing} for added, existing in counts]
    listed = complete_rows(pa.Table.from_pylist(rows, MANIFESTS), sequence_number=1, first_row_id=1000)
    assert listed.rows.column("first_row_id").to_pylist() == [1000, 1125, 1225]
    assert listed.next_row_id == 1375

    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    builder.extra = {"next-row-id": 1000}
    builder.write()
    table = _opened(builder)
    table.alter().partition_by("truncate(50, id)").commit()
    table.append(ids(*range(100)))
    found = _metadata(table)
    assert found["next-row-id"] == 1100
    assert [(one["first-row-id"], one["added-rows"]) for one in found["snapshots"]] == [(1000, 100)]
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    read = table.scan(columns=columns).to_arrow().to_pylist()
    firsts = {min(row["_row_id"] for row in read if row["id"] // 50 == half) for half in (0, 1)}
    assert firsts == {1000, 1050}
    assert sorted(row["_row_id"] for row in read) == list(range(1000, 1100))
    before = {row["id"]: row["_row_id"] for row in read}
    table.update({"id": "id + 1000"}, "id = 7")
    after = {
        row["id"]: (row["_row_id"], row["_last_updated_sequence_number"])
        for row in table.scan(columns=columns).to_arrow().to_pylist()
    }
    assert after == {
        (1007 if number == 7 else number): (row_id, 2 if number == 7 else 1) for number, row_id in before.items()
    }


@pytest.mark.req("BEY-40", half="writer")
def test_encrypted_tables_are_not_written_and_keep_their_keys(tmp_path: Path) -> None:
    keys = [{"key-id": "k1", "encrypted-key-metadata": "AQ==", "encrypted-by-id": "k0", "properties": {"a": "b"}}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    builder.extra = {"encryption-keys": keys}
    builder.commit(builder.data([{"id": 1}]))
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    table = _opened(builder)
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        table.append(ids(2))
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        table.delete("id = 1")
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    raw = builder.metadata()
    changed = changed_json(raw, [SetProperties({"a": "b"})], now_ms=raw["last-updated-ms"] + 1)
    assert (changed["encryption-keys"], changed["properties"]) == (keys, {"a": "b"})


# Types


@pytest.mark.req("BEY-36", half="writer")
def test_nanoseconds_are_hashed_as_microseconds(tmp_path: Path) -> None:
    moment = 1_510_871_468_000_001_001
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        columns = pa.schema([("at", kind)])
        table = _new(tmp_path / str(kind.tz), columns, partition_by="bucket(1000, at)")
        table.append(pa.table({"at": pa.array([moment], kind)}))
        (file,) = table.scan().files().to_pylist()
        assert file["partition"] == {"at_bucket": (-1207196810 & 0x7FFFFFFF) % 1000}
        stored = json.loads(pq.ParquetFile(_paths(table)[0]).schema.column(0).logical_type.to_json())
        assert (stored["timeUnit"], stored["isAdjustedToUTC"]) == ("nanoseconds", kind.tz is not None)
        assert _metadata(table)["schemas"][0]["fields"][0]["type"] == ("timestamptz_ns" if kind.tz else "timestamp_ns")
        assert table.scan().to_arrow().column("at").cast(pa.int64()).to_pylist() == [moment]
        assert table.scan(columns=["at"]).schema.field("at").type == kind
    with pytest.raises(SchemaError, match="format version 2"):
        _new(tmp_path / "old", Struct((Field("at", Primitive("timestamp_ns")),)), "2")


@pytest.mark.req("BEY-37", half="writer")
def test_variants_are_stored_without_ids_inside(tmp_path: Path) -> None:
    columns = Struct((Field("id", Primitive("long")), Field("v", Primitive("variant"))))
    table = _new(tmp_path / "t", columns)
    value = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}
    table.append(pa.table({"id": [1, 2], "v": pa.array([value, None], VARIANT)}))
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "v": value}, {"id": 2, "v": None}]
    group = pq.read_schema(_paths(table)[0]).field("v")
    assert group.metadata[b"PARQUET:field_id"] == b"2"
    assert sorted(child.name for child in group.type) == ["metadata", "value"]
    assert all(b"PARQUET:field_id" not in (child.metadata or {}) for child in group.type)
    for transform in ("v", "bucket(4, v)", "truncate(4, v)"):
        with pytest.raises(SchemaError, match="does not take a column of type"):
            _new(tmp_path / "no", columns, partition_by=transform)
    with pytest.raises(SchemaError, match="format version 2"):
        _new(tmp_path / "old", columns, "2")


@pytest.mark.req("BEY-38", half="writer")
def test_columns_of_no_type_are_not_stored(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("u", pa.null())])
    for number, kind in enumerate((pa.string(), pa.int32(), pa.float64(), pa.date32(), pa.binary())):
        table = _new(tmp_path / str(number), columns)
        table.append(pa.table({"id": [1], "u": pa.nulls(1)}))
        assert pq.read_schema(_paths(table)[0]).names == ["id"]
        assert _metadata(table)["schemas"][0]["fields"][1] == {
            "id": 2,
            "name": "u",
            "required": False,
            "type": "unknown",
        }
        with pytest.raises(SchemaError, match="cannot be written to a column of the type void"):
            table.append(pa.table({"id": [1], "u": pa.array([None], kind)}).set_column(1, "u", pa.array([1])))
        table.alter().widen("u", kind).commit()
        given = pa.array([1], pa.int32()).cast(kind) if kind != pa.binary() else pa.array([b"x"])
        table.append(pa.table({"id": [2], "u": given}))
        assert table.scan().to_arrow().sort_by("id").column("u").to_pylist() == [None, given[0].as_py()]
    with pytest.raises(SchemaError, match="format version 2 has no type void"):
        _new(tmp_path / "old", columns, "2")


@pytest.mark.req("BEY-44", half="writer")
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_dates_become_timestamps_where_partitions_stay(tmp_path: Path, unit: str) -> None:
    """Bounds that were written of days count for instants, and are four bytes still."""
    table = _new(tmp_path / "t", _DATES, partition_by="year(d)")
    table.append(pa.table({"id": [1], "d": [dt.date(2020, 1, 1)]}))
    table.alter().widen("d", pa.timestamp(unit)).commit()
    table.append(pa.table({"id": [2], "d": pa.array([dt.datetime(2021, 1, 1)], pa.timestamp(unit))}))
    bounds = {len(dict(row["lower_bounds"])[2]) for row in table.inspect("files").to_pylist()}
    assert bounds == {4, 8}
    scan = table.scan("d < '2020-06-01'")
    assert (scan.files().num_rows, scan.to_arrow().column("id").to_pylist()) == (1, [1])
    assert table.scan("d >= '2020-01-01' AND d < '2020-01-02'").count() == 1
    for number, transform in enumerate(("d", "bucket(4, d)")):
        other = _new(tmp_path / str(number), _DATES, partition_by=transform)
        with pytest.raises(SchemaError, match="would have other values"):
            other.alter().widen("d", pa.timestamp(unit))
    with pytest.raises(SchemaError, match="cannot become"):
        _new(tmp_path / "utc", _DATES).alter().widen("d", pa.timestamp(unit, "UTC"))


# Partitioning


@pytest.mark.parametrize("partition_by", ["u", "void(u)"])
def test_a_table_is_partitioned_by_a_column_of_no_type(tmp_path: Path, partition_by: str) -> None:
    table = _new(tmp_path / "t", pa.schema([("id", pa.int64()), ("u", pa.null())]), partition_by=[partition_by])
    for number in range(2):
        table.append(pa.table({"id": [number]}))
    assert (table.scan("u IS NULL AND id < 1").count(), table.scan("u IS NOT NULL").count()) == (1, 0)
    assert [row["file_count"] for row in table.inspect("partitions").to_pylist()] == [2]
    table.delete("u IS NULL AND id = 1")
    assert table.compact().conflicts == []
    assert table.scan().to_arrow().to_pylist() == [{"id": 0, "u": None}]


@pytest.mark.req("BEY-41", half="writer")
def test_what_a_table_of_version_1_is_no_longer_partitioned_by_is_void(tmp_path: Path) -> None:
    table = _new(tmp_path / "t", _TIMES, "1", partition_by=["day(ts)", "id"])
    early, late = (dt.datetime(2020, month, 1) for month in (1, 2))
    table.append(pa.table({"id": [1], "ts": pa.array([early], pa.timestamp("us"))}))
    table.alter().partition_by("id").commit()
    spec = _metadata(table)["partition-specs"][-1]["fields"]
    assert spec == [
        {"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "void"},
        {"source-id": 1, "field-id": 1001, "name": "id", "transform": "identity"},
    ]
    table.append(pa.table({"id": [1, 1, 2], "ts": pa.array([early, late, None], pa.timestamp("us"))}))
    files = table.scan().files().to_pylist()
    found = sorted((row["partition"]["id"], str(row["partition"]["ts_day"]), row["record_count"]) for row in files)
    assert found == [(1, "2020-01-01", 1), (1, "None", 2), (2, "None", 1)]
    assert table.scan("ts >= '2020-02-01'").count() == 1
    assert len(as_pyiceberg_reads(table)) == 4


@pytest.mark.req("BEY-42", half="writer")
def test_transforms_of_several_columns_are_kept_and_not_written_with(tmp_path: Path) -> None:
    spec = [{"source-ids": [1, 2], "source-id": 1, "name": "p", "transform": "bucketV2[4]"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "b": "long"}, format_version=3, specs=[spec])
    path = builder.write()
    raw = builder.metadata()
    del raw["partition-specs"][0]["fields"][0]["source-id"]
    path.write_text(json.dumps(raw))
    table = _opened(builder)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(UnsupportedFeatureError, match=r"bucketV2\[4\]"):
        table.append(pa.table({"id": [1], "b": [2]}))
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    table.alter().set({"a": "b"}).commit()
    field = {"source-ids": [1, 2], "name": "p", "transform": "bucketV2[4]", "field-id": 1000}
    assert _metadata(table)["partition-specs"] == [{"spec-id": 0, "fields": [field]}]


@pytest.mark.req("BEY-48")
@pytest.mark.parametrize("version", ["2", "3"])
def test_equal_partition_fields_keep_their_id(tmp_path: Path, version: str) -> None:
    table = _new(tmp_path / "t", _TIMES, version, partition_by="day(ts)")
    table.alter().partition_by().commit()
    assert _metadata(table)["default-spec-id"] == 1
    table.alter().partition_by("day(ts)").commit()
    metadata = _metadata(table)
    assert (metadata["default-spec-id"], len(metadata["partition-specs"])) == (0, 2)
    table.alter().partition_by("bucket(4, id)", "day(ts)").commit()
    metadata = _metadata(table)
    ids_by_name = {field["name"]: field["field-id"] for field in metadata["partition-specs"][-1]["fields"]}
    assert ids_by_name == {"ts_day": 1000, "id_bucket_4": 1001}
    assert (metadata["default-spec-id"], metadata["last-partition-id"]) == (2, 1001)
    # An old id between two new ones does not lead back to ids that were used.
    table.alter().partition_by("bucket(8, id)", "day(ts)", "truncate(10, id)").commit()
    assert [field["field-id"] for field in _metadata(table)["partition-specs"][-1]["fields"]] == [1002, 1000, 1003]


@pytest.mark.req("BEY-53")
@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_files_hold_the_columns_that_they_are_partitioned_by(tmp_path: Path, form: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = _new(tmp_path / "t", columns, "2", partition_by="p", properties={"write.format.default": form})
    rows = pa.table({"id": [1, 2], "p": ["x", None]})
    table.append(rows)
    table.update({"id": "id + 10"}, "p = 'x'")
    read: Callable[[Path], list[Any]] = {"parquet": _parquet, "orc": _orc, "avro": _avro}[form]
    assert sorted((tuple(row.values()) for path in _paths(table) for row in read(path)), key=repr) == [
        (11, "x"),
        (2, None),
    ]


def _parquet(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
    return found


def _orc(path: Path) -> list[dict[str, Any]]:
    from pyarrow import orc

    found: list[dict[str, Any]] = orc.ORCFile(path).read().to_pylist()
    return found


def _avro(path: Path) -> list[dict[str, Any]]:
    import fastavro

    with path.open("rb") as file:
        return [row for row in fastavro.reader(file) if isinstance(row, dict)]


# Columns


@pytest.mark.req("BEY-54")
def test_which_columns_identify_rows(tmp_path: Path) -> None:
    """They are required, are no floats, and are in no list, map or struct that may be null."""
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    columns = [
        ("id", pa.int64()),
        ("f", pa.float32()),
        ("x", pa.float64()),
        ("r", inner),
        ("l", pa.list_(pa.field("element", inner, nullable=False))),
        ("m", pa.map_(pa.string(), pa.field("value", inner, nullable=False))),
    ]
    required = [pa.field(name, kind, nullable=False) for name, kind in columns]
    table = _new(tmp_path / "t", pa.schema([*required, ("n", pa.int64()), ("o", inner)]), "2")
    for name, why in {
        "f": "floating-point",
        "x": "floating-point",
        "n": "may be null",
        "o.a": "may be null",
        "r": "nested type",
        "l": "nested type",
        "l.element.a": "and no fields",
        "m.value.a": "and no fields",
    }.items():
        with pytest.raises(SchemaError, match=why):
            table.alter().identify_by(name)
    table.alter().identify_by("id", "r.a").commit()
    found = _metadata(table)["schemas"][-1]
    assert found["identifier-field-ids"] == [1, 9]
    row = {"id": 1, "f": 0.5, "x": 0.5, "r": {"a": 1}, "l": [], "m": []}
    schema = table.arrow_schema
    for _ in range(2):
        table.append(pa.Table.from_pylist([row], schema))
    assert table.scan().count() == 2
