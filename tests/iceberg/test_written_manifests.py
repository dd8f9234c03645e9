"""Manifests and manifest lists that we write: as the specification has them, and read back equal, by pyiceberg too."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import DeltabergError, InvalidArgumentError
from deltaberg.iceberg.manifests.fields import MANIFESTS, WHOLE_ENTRIES
from deltaberg.iceberg.manifests.manifest_list import read_manifest_list
from deltaberg.iceberg.manifests.manifests import no_entries, read_manifest
from deltaberg.iceberg.manifests.summaries import partition_summaries
from deltaberg.iceberg.manifests.write_list import complete_rows, encode_manifest_list
from deltaberg.iceberg.manifests.write_manifest import ManifestHeader, encode_manifest, manifest_row
from deltaberg.iceberg.metadata.specs import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.structs import partition_struct
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.types import DataType, Decimal, Field, Primitive, Struct
from deltaberg.table.read.scan import bound_scan

_SCHEMA = '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"d","required":false,"type":"date"}]}'
_SPEC = PartitionSpec(3, (PartitionField((1,), 1000, "d", "identity"),))
_PARTITION = Struct((Field("d", Primitive("date"), id=1000),))
#: Those that pyiceberg reads without further packages come first.
_CODECS = ("deflate", "zstd", "none", "snappy")


def _header(version: int, content: int = 0) -> ManifestHeader:
    return ManifestHeader(version, content, _SCHEMA, 0, _SPEC, _PARTITION)


def _entries(*rows: Mapping[str, Any]) -> pa.Table:
    """Return entries of small files, which the rows say more about."""
    empty = no_entries(_PARTITION, WHOLE_ENTRIES).drop_columns(["position"])
    base = {"status": 1, "content": 0, "file_format": "parquet", "record_count": 10, "file_size_in_bytes": 100}
    full = [
        {**base, "file_path": f"s3://b/t/{at}.parquet", "partition": {"d": None}, **row} for at, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(full, empty.schema)


def _decoded(data: bytes) -> tuple[dict[str, Any], dict[str, str], list[dict[str, Any]]]:
    """Return the schema, the metadata and the rows that fastavro sees."""
    reader = fastavro.reader(io.BytesIO(data))
    rows: list[Any] = list(reader)
    return json.loads(reader.metadata["avro.schema"]), reader.metadata, rows


def _snapshots(conformance: Path) -> Iterator[IcebergSource]:
    index = json.loads((conformance / "index.json").read_text())
    for entry in index.values():
        if entry["format"] == "iceberg":
            table = open_table(conformance / entry["dir"], format="iceberg", location_map="auto")
            source = bound_scan(table.scan()).source
            assert isinstance(source, IcebergSource)
            for snapshot in table.snapshots:
                yield source.at(snapshot)


def _manifests(conformance: Path) -> Iterator[tuple[IcebergSource, dict[str, Any], bytes, Struct]]:
    """Yield each manifest of all tables once."""
    seen = set()
    for source in _snapshots(conformance):
        try:
            rows = source.manifests.to_pylist()
        except DeltabergError:
            continue
        for row in rows:
            if (source.reader.table, row["manifest_path"]) not in seen:
                seen.add((source.reader.table, row["manifest_path"]))
                partition = partition_struct(source.reader.spec_of(row["partition_spec_id"]), source.reader.schemas)
                yield source, row, source.reader.fetch(row["manifest_path"]), partition


@pytest.mark.req("ICE-MAN-01", half="writer")
def test_manifests_of_other_engines_are_written_again(conformance: Path, tmp_path: Path) -> None:
    """What we write of a whole manifest is what its own bytes say, to us and to pyiceberg."""
    written = judged = 0
    for source, row, data, partition in _manifests(conformance):
        entries = read_manifest(data, row, partition, WHOLE_ENTRIES)
        metadata = fastavro.reader(io.BytesIO(data)).metadata
        version = max(int(metadata.get("format-version", "1")), 2 if row["sequence_number"] else 1)
        spec = source.reader.spec_of(row["partition_spec_id"])
        header = ManifestHeader(version, row["content"], metadata.get("schema", _SCHEMA), 0, spec, partition)
        again = encode_manifest(entries, header, codec=_CODECS[written % 3])
        assert read_manifest(again, row, partition, WHOLE_ENTRIES).equals(entries), row["manifest_path"]
        listed = manifest_row(entries, header, row["manifest_path"], len(data), snapshot_id=row["added_snapshot_id"])
        for name in ("added_files_count", "existing_files_count", "deleted_files_count", "added_rows_count"):
            assert row[name] in (None, listed[name]), name
        if row["partitions"] is not None and row["added_files_count"]:
            assert _comparable(listed["partitions"]) == _comparable(row["partitions"]), row["manifest_path"]
        written += 1
        judged += _pyiceberg_agrees(data, again, row, tmp_path)
    assert written > 50
    assert judged > 40


def _comparable(summaries: Any) -> Any:
    # Some writers leave out contains_nan.
    return [{**part, "contains_nan": bool(part["contains_nan"])} for part in summaries]


def _pyiceberg_agrees(theirs: bytes, ours: bytes, row: dict[str, Any], folder: Path) -> bool:
    """Check that pyiceberg reads two manifests the same. Return False if it cannot read the other engine's."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import ManifestContent, ManifestFile

    files = PyArrowFileIO()
    entries_read = []
    for name, data in (("theirs", theirs), ("ours", ours)):
        path = folder / f"{name}.avro"
        path.write_bytes(data)
        named = {key: value for key, value in row.items() if key in MANIFESTS.names and key != "first_row_id"}
        named |= {"manifest_path": str(path), "content": ManifestContent(row["content"]), "partitions": None}
        manifest = ManifestFile.from_args(**named)
        try:
            entries_read.append(
                [_plain(entry) for entry in manifest.fetch_manifest_entry(files, discard_deleted=False)]
            )
        except Exception:
            if name == "ours":
                raise
            return False
    assert entries_read[0] == entries_read[1]
    return True


def _plain(value: Any) -> Any:
    """Return one of pyiceberg's records as values that compare."""
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(part) for part in value._data] if hasattr(value, "_data") else value


@pytest.mark.req("ICE-ML-01", half="writer")
def test_lists_of_other_engines_are_written_again(conformance: Path) -> None:
    written = 0
    for source in _snapshots(conformance):
        snapshot = source.snapshot
        if snapshot is None or snapshot.manifest_list is None:
            continue
        try:
            rows = read_manifest_list(source.reader.fetch(snapshot.manifest_list))
        except DeltabergError:
            continue
        version = 3 if rows.column("first_row_id").null_count < len(rows) else 2
        if version == 2 and rows.column("added_rows_count").null_count:
            version = 1
        again = encode_manifest_list(
            rows,
            format_version=version,
            snapshot_id=1,
            parent_snapshot_id=None,
            sequence_number=1,
            first_row_id=0 if version == 3 else None,
            codec=_CODECS[written % 4],
        )
        assert read_manifest_list(again).equals(rows)
        written += 1
    assert written > 50


def _types(fields: list[dict[str, Any]]) -> dict[int, tuple[str, bool]]:
    """Return the name of each field, and whether it is required."""
    return {part["field-id"]: (part["name"], "default" not in part) for part in fields}


_OLDEST = {
    100: ("file_path", True),
    101: ("file_format", True),
    102: ("partition", True),
    103: ("record_count", True),
    104: ("file_size_in_bytes", True),
    108: ("column_sizes", False),
    109: ("value_counts", False),
    110: ("null_value_counts", False),
    137: ("nan_value_counts", False),
    125: ("lower_bounds", False),
    128: ("upper_bounds", False),
    131: ("key_metadata", False),
    132: ("split_offsets", False),
    140: ("sort_order_id", False),
}
_SECOND = {**_OLDEST, 134: ("content", True), 135: ("equality_ids", False), 143: ("referenced_data_file", False)}
_NEWEST = {
    **_SECOND,
    142: ("first_row_id", False),
    144: ("content_offset", False),
    145: ("content_size_in_bytes", False),
}


@pytest.mark.req("ICE-MAN-03", half="writer")
@pytest.mark.req("ICE-MAN-04", half="writer")
@pytest.mark.req("ICE-MAN-05", half="writer")
@pytest.mark.req("ICE-MAN-06", half="writer")
@pytest.mark.req("ICE-MAN-11", half="writer")
@pytest.mark.req("ICE-MAN-13", half="writer")
@pytest.mark.req("ICE-MAN-14", half="writer")
@pytest.mark.req("ICE-MAN-15", half="writer")
@pytest.mark.req("ICE-MAN-24", half="writer")
@pytest.mark.req("ICE-AVRO-12", half="writer")
@pytest.mark.parametrize(
    ("version", "files"), [(1, {**_OLDEST, 105: ("block_size_in_bytes", True)}), (2, _SECOND), (3, _NEWEST)]
)
def test_fields_and_header_of_each_version(version: int, files: dict[int, tuple[str, bool]]) -> None:
    days = [{"snapshot_id": 7, "partition": {"d": day}} for day in (dt.date(2017, 11, 16), None)]
    data = encode_manifest(_entries(*days), _header(version))
    schema, metadata, (row, other) = _decoded(data)
    own = {0: ("status", True), 1: ("snapshot_id", version == 1), 2: ("data_file", True)}
    if version > 1:
        own |= {3: ("sequence_number", False), 4: ("file_sequence_number", False)}
    assert _types(schema["fields"]) == own
    assert schema["name"] == "manifest_entry"
    data_file = schema["fields"][-1]["type"]
    assert (data_file["name"], _types(data_file["fields"])) == ("r2", files)
    by_id = {part["field-id"]: part["type"] for part in data_file["fields"]}
    assert by_id[102]["name"] == "r102"
    assert by_id[102]["fields"][0]["type"] == ["null", {"type": "int", "logicalType": "date"}]
    assert [part["data_file"]["partition"]["d"] for part in (row, other)] == [dt.date(2017, 11, 16), None]
    pairs = by_id[125][1]["items"]
    assert (pairs["name"], [part["type"] for part in pairs["fields"]]) == ("k126_v127", ["int", "bytes"])
    assert by_id[132][1] == {"type": "array", "items": "long", "element-id": 133}
    assert row["data_file"].get("block_size_in_bytes") == (67108864 if version == 1 else None)
    expected = {
        "schema": _SCHEMA,
        "schema-id": "0",
        "partition-spec": '[{"source-id":1,"field-id":1000,"name":"d","transform":"identity"}]',
        "partition-spec-id": "3",
        "format-version": str(version),
        "avro.codec": "deflate",
    }
    expected |= {} if version == 1 else {"content": "data"}
    assert {name: value for name, value in metadata.items() if name != "avro.schema"} == expected


@pytest.mark.one_backend
@pytest.mark.req("ICE-MAN-02", half="writer")
@pytest.mark.req("ICE-MAN-21", half="writer")
@pytest.mark.req("ICE-SEQ-03", half="writer")
@pytest.mark.parametrize(
    ("row", "version", "content", "message"),
    [
        ({"content": 1}, 2, 0, "cannot hold a file of content 1"),
        ({"content": 0}, 2, 1, "cannot hold a file of content 0"),
        ({"content": 2}, 2, 1, "no equality_ids"),
        ({"content": 1}, 1, 1, "no delete files"),
        ({"status": 0}, 2, 0, "no sequence number of its own"),
        ({"status": 2}, 2, 0, "no sequence number of its own"),
        ({"status": 3}, 2, 0, "must be 0, 1 or 2"),
        ({"snapshot_id": None}, 1, 0, "has no snapshot_id"),
        ({"file_path": None}, 2, 0, "has no file_path"),
        ({"split_offsets": [4, None]}, 2, 0, "split_offsets .* holds a null"),
    ],
)
def test_entries_that_may_not_be_written(row: dict[str, Any], version: int, content: int, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        encode_manifest(_entries({"snapshot_id": 7, **row}), _header(version, content))


@pytest.mark.req("ICE-SEQ-02", half="writer")
@pytest.mark.req("ICE-SEQ-08", half="writer")
@pytest.mark.req("ICE-ML-05", half="writer")
@pytest.mark.req("ICE-ML-06", half="writer")
@pytest.mark.req("ICE-ML-11", half="writer")
def test_what_a_list_says_of_manifests() -> None:
    """Added files leave their numbers to the list, which gets them from each attempt to commit."""
    mixed = _entries(
        {"status": 1, "snapshot_id": 7},
        {"status": 1, "snapshot_id": 7, "equality_ids": [1]},
        {"status": 0, "snapshot_id": 5, "sequence_number": 5, "file_sequence_number": 6},
        {"status": 0, "snapshot_id": 4, "sequence_number": 7},
        {"status": 2, "snapshot_id": 7, "sequence_number": 3, "record_count": 4},
    )
    data = encode_manifest(mixed, _header(2))
    _, _, stored = _decoded(data)
    assert [row["sequence_number"] for row in stored] == [None, None, 5, 7, 3]
    assert [row["data_file"]["equality_ids"] for row in stored] == [None] * 5
    row = manifest_row(mixed, _header(2), "s3://b/m.avro", len(data), snapshot_id=7)
    counts = [(row[f"{what}_files_count"], row[f"{what}_rows_count"]) for what in ("added", "existing", "deleted")]
    assert counts == [(2, 20), (2, 20), (1, 4)]
    assert (row["sequence_number"], row["min_sequence_number"]) == (None, 5)
    fresh = manifest_row(_entries({}), _header(2), "s3://b/n.avro", 10, snapshot_id=7)
    assert (fresh["sequence_number"], fresh["min_sequence_number"]) == (None, None)
    old = {**fresh, "sequence_number": 4, "min_sequence_number": 2, "manifest_path": "s3://b/o.avro"}
    rows = pa.Table.from_pylist([fresh, row, old], MANIFESTS)
    for attempt in (8, 9):
        listed = encode_manifest_list(
            rows, format_version=2, snapshot_id=7, parent_snapshot_id=6, sequence_number=attempt
        )
        found = read_manifest_list(listed).to_pylist()
        numbers = [(part["sequence_number"], part["min_sequence_number"]) for part in found]
        assert numbers == [(attempt, attempt), (attempt, 5), (4, 2)]
        read = read_manifest(data, found[1], _PARTITION, WHOLE_ENTRIES)
        assert read.column("sequence_number").to_pylist() == [attempt, attempt, 5, 7, 3]
        assert read.column("file_sequence_number").to_pylist() == [attempt, attempt, 6, None, None]


@pytest.mark.req("ICE-ML-04", half="writer")
@pytest.mark.req("ICE-ML-07", half="writer")
def test_fields_and_header_of_lists() -> None:
    row = manifest_row(_entries({"snapshot_id": 7}), _header(3), "s3://b/m.avro", 10, snapshot_id=7)
    rows = pa.Table.from_pylist([row, {**row, "content": 1}, row], MANIFESTS)
    seen = {}
    for version in (1, 2, 3):
        data = encode_manifest_list(
            rows.slice(0, 1) if version == 1 else rows,
            format_version=version,
            snapshot_id=7,
            parent_snapshot_id=None if version == 1 else 6,
            sequence_number=8,
            first_row_id=100 if version == 3 else None,
        )
        schema, metadata, listed = _decoded(data)
        seen[version] = _types(schema["fields"])
        assert [len(part["partitions"]) for part in listed] == [1] * len(listed)
        own = {name: value for name, value in metadata.items() if not name.startswith("avro.")}
        assert own == {
            "snapshot-id": "7",
            "parent-snapshot-id": "null" if version == 1 else "6",
            **({} if version == 1 else {"sequence-number": "8"}),
            **({"first-row-id": "100"} if version == 3 else {}),
            "format-version": str(version),
        }
        if version == 3:
            # Each data manifest takes as many ids as it has live rows.
            assert [part["first_row_id"] for part in listed] == [100, None, 110]
    required = {number for number, (_, is_required) in seen[1].items() if is_required}
    assert required == {500, 501, 502, 503}
    assert {515, 516, 517, 520}.isdisjoint(seen[1])
    assert seen[3] == {**seen[2], 520: ("first_row_id", False)}
    assert {number for number, (_, is_required) in seen[2].items() if not is_required} == {507, 519}
    assert complete_rows(rows, sequence_number=8, first_row_id=100).next_row_id == 120
    uncounted = pa.Table.from_pylist([{**row, "added_rows_count": None}], MANIFESTS)
    for version in (2, 3):
        with pytest.raises(InvalidArgumentError, match=r"how many rows|added_rows_count"):
            encode_manifest_list(
                uncounted,
                format_version=version,
                snapshot_id=7,
                parent_snapshot_id=None,
                sequence_number=8,
                first_row_id=0,
            )


def _double(value: float) -> bytes:
    return struct.pack("<d", value)


@pytest.mark.one_backend
@pytest.mark.req("ICE-ML-08", half="writer")
@pytest.mark.req("ICE-ML-09", half="writer")
@pytest.mark.req("ICE-ML-10", half="writer")
@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("date", pa.array([17486, 17490, None], pa.date32()), (True, False, b"ND\0\0", b"RD\0\0")),
        ("integer", pa.array([3], pa.int32()), (False, False, b"\x03\0\0\0", b"\x03\0\0\0")),
        ("string", pa.array(["ab", "b", "aé"]), (False, False, b"ab", b"b")),
        ("decimal", pa.array(["14.20"]).cast(pa.decimal128(9, 2)), (False, False, b"\x05\x8c", b"\x05\x8c")),
        ("double", pa.array([-0.0, 0.0]), (False, False, _double(-0.0), _double(0.0))),
        ("double", pa.array([0.0, 1.0]), (False, False, _double(0.0), _double(1.0))),
        ("double", pa.array([-0.0, -1.0]), (False, False, _double(-1.0), _double(-0.0))),
        ("double", pa.array([1.0, float("nan"), None]), (True, True, _double(1.0), _double(1.0))),
        ("double", pa.array([float("nan")]), (False, True, None, None)),
        ("uuid", pa.array([b"b" * 16, b"a" * 16], pa.binary(16)), (False, False, b"a" * 16, b"b" * 16)),
        ("boolean", pa.array([True, None]), (True, False, b"\x01", b"\x01")),
        (
            "timestamp_ns",
            pa.array([5], pa.timestamp("ns", "UTC")),
            (False, False, b"\x05" + bytes(7), b"\x05" + bytes(7)),
        ),
        ("long", pa.array([None], pa.int64()), (True, False, None, None)),
        ("void", pa.nulls(1), (True, False, None, None)),
    ],
)
def test_summaries_of_partition_values(kind: str, values: pa.Array, expected: tuple[Any, ...]) -> None:
    type_: DataType = Decimal(9, 2) if kind == "decimal" else Primitive(kind)
    (found,) = partition_summaries(
        pa.StructArray.from_arrays([values], names=["p"]), Struct((Field("p", type_, id=1000),))
    )
    assert tuple(found.values()) == expected


@pytest.mark.one_backend
def test_the_spec_of_a_manifest_keeps_what_others_wrote() -> None:
    """Members of a partition field that we do not know are written back to the header."""
    raw = {"source-id": 1, "field-id": 1000, "name": "d", "transform": "identity", "color": "blue"}
    spec = PartitionSpec(3, (PartitionField((1,), 1000, "d", "identity", raw),))
    data = encode_manifest(_entries({"snapshot_id": 7}), replace(_header(2), spec=spec))
    assert json.loads(_decoded(data)[1]["partition-spec"]) == [raw]


@pytest.mark.parametrize("large", [1, 100])
@pytest.mark.parametrize("sizes", [(3, 0, 2), (1, 1), (0,)])
def test_entries_in_several_chunks(large: int, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Large chunks are written where they lie, small ones are copied together; also slices of others."""
    monkeypatch.setattr("deltaberg.iceberg.manifests.write_manifest._LARGE_CHUNK", large)
    bounds = [[(1, bytes([at]))] if at % 2 else None for at in range(8)]
    rows = [{"partition": {"d": dt.date(2024, 1, at + 1)}, "lower_bounds": bounds[at]} for at in range(8)]
    whole = _entries(*rows)
    parts = [whole.slice(at, size) for at, size in enumerate(sizes)]
    written = _decoded(encode_manifest(pa.concat_tables(parts), _header(2)))[2]
    one_by_one = [_decoded(encode_manifest(_entries(*rows).slice(at, 1), _header(2)))[2] for at in range(8)]
    assert written == [one_by_one[at + place][0] for at, size in enumerate(sizes) for place in range(size)]
