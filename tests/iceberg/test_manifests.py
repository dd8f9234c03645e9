"""Manifests: what entries say, also in manifests of other writers and of older versions."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import (
    CorruptAvroError,
    CorruptMetadataError,
    UnsupportedFeatureError,
)
from deltaberg.iceberg.manifests.fields import METRICS
from deltaberg.schema.types import Field, Primitive, Struct
from tests.iceberg.entries import added, entry, field_of, read_entries, rewrite_avro
from tests.support.iceberg_avro import optional
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import by_every_road

_COLUMNS = {"id": "long", "s": "string"}
_DAY = [{"source-id": 2, "name": "ts_day", "transform": "day"}]


def _builder(tmp_path: Path, **options: Any) -> IcebergBuilder:
    return IcebergBuilder(tmp_path / "t", _COLUMNS, **options)


def _rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "s": str(number)} for number in ids]


def _ids(builder: IcebergBuilder, filter: str | None = None) -> list[int]:
    return sorted(open_table(builder.root).scan(filter, ["id"]).to_arrow().column("id").to_pylist())


def _manifests(builder: IcebergBuilder) -> list[Path]:
    return sorted((builder.root / "metadata").glob("m*.avro"))


@by_every_road
@pytest.mark.req("ICE-MAN-01", half="reader")
def test_fields_are_found_by_id_whatever_their_names_are(tmp_path: Path) -> None:
    builder = _builder(tmp_path, specs=[[{"source-id": 2, "name": "s", "transform": "identity"}]])
    file = builder.data(_rows(1, 2), partition={"s": "x"}, metrics={"lower_bounds": {1: struct.pack("<q", 1)}})
    builder.commit(file)
    partition = Struct((Field("s", Primitive("string"), id=1000),))
    before = read_entries(builder, partition=partition, metrics=tuple(METRICS), rest=("equality_ids",))

    def rename(schema: dict[str, Any]) -> None:
        for child in schema["fields"]:
            child["name"] = "f" + str(child["field-id"])
            if isinstance(child["type"], dict) and child["type"]["type"] == "record":
                rename(child["type"])

    rewrite_avro(_manifests(builder)[0], schema=rename, record=_rename_keys)
    assert read_entries(builder, partition=partition, metrics=tuple(METRICS), rest=("equality_ids",)) == before
    assert before[0]["file_path"] == file.path
    assert before[0]["partition"] == {"s": "x"}
    assert before[0]["lower_bounds"] == [(1, struct.pack("<q", 1))]
    assert _ids(builder) == [1, 2]


_NUMBERS = {
    "status": 0,
    "snapshot_id": 1,
    "sequence_number": 3,
    "file_sequence_number": 4,
    "data_file": 2,
    "content": 134,
    "file_path": 100,
    "file_format": 101,
    "partition": 102,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
    "key_metadata": 131,
    "split_offsets": 132,
    "equality_ids": 135,
    "sort_order_id": 140,
    "first_row_id": 142,
    "referenced_data_file": 143,
    "content_offset": 144,
    "content_size_in_bytes": 145,
    "s": 1000,
}


def _rename_keys(row: dict[str, Any]) -> None:
    for name in list(row):
        value = row.pop(name)
        row[f"f{_NUMBERS[name]}"] = value
        if name in ("data_file", "partition"):
            _rename_keys(value)


@by_every_road
@pytest.mark.req("ICE-MAN-02", half="reader")
@pytest.mark.parametrize("content", [0, 1])
def test_a_manifest_holds_one_kind_of_file(tmp_path: Path, content: int) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1))
    deletes = builder.position_deletes([(file, 0)])
    builder.commit(file, manifests=[builder.manifest(added(file, deletes), content=content)])
    with pytest.raises(CorruptMetadataError, match="holds another kind of file") as raised:
        _ids(builder)
    assert raised.value.context["file"].startswith(str(builder.root))


@by_every_road
@pytest.mark.req("ICE-MAN-03", half="reader")
def test_the_header_of_version_2(tmp_path: Path) -> None:
    """All five keys may be there, with the fields of the spec as an array. None of them changes what is read."""
    builder = _builder(tmp_path, specs=[(), [{"source-id": 1, "name": "id", "transform": "identity"}]])
    builder.commit(builder.data(_rows(4), spec_id=1, partition={"id": 4}))
    header = {
        "schema": json.dumps({"type": "struct", "schema-id": 0, "fields": builder.fields}),
        "partition-spec": json.dumps(builder.specs[1]),
        "partition-spec-id": "1",
        "format-version": "2",
        "content": "data",
    }
    rewrite_avro(_manifests(builder)[0], header=header)
    assert open_table(builder.root).scan().files().column("partition").to_pylist() == [{"id": 4}]
    assert _ids(builder) == [4]


@pytest.mark.req("ICE-MAN-03", half="reader")
def test_a_manifest_of_version_1_with_two_keys_takes_its_spec_from_the_list(tmp_path: Path) -> None:
    builder = _builder(tmp_path, format_version=1, specs=[(), [{"source-id": 2, "name": "s", "transform": "identity"}]])
    builder.commit(builder.data(_rows(1), spec_id=1, partition={"s": "1"}), builder.data(_rows(2)))
    for path in _manifests(builder):
        rewrite_avro(path, header={"partition-spec-id": None, "format-version": None, "content": None})
    found = open_table(builder.root).scan(columns=["id", "_spec_id"]).to_arrow().to_pylist()
    assert sorted(found, key=str) == [{"id": 1, "_spec_id": 1}, {"id": 2, "_spec_id": 0}]


@by_every_road
@pytest.mark.req("ICE-MAN-04", half="reader")
@pytest.mark.parametrize("header", [{"schema-id": "0"}, {"schema-id": None}, {"schema-id": "17"}])
def test_the_key_of_the_schema_may_be_missing(tmp_path: Path, header: dict[str, str | None]) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))
    rewrite_avro(_manifests(builder)[0], header=header)
    assert _ids(builder) == [1]


@by_every_road
@pytest.mark.req("ICE-MAN-05", half="reader")
@pytest.mark.parametrize("version", [1, 2])
def test_the_fields_of_an_entry(tmp_path: Path, version: int) -> None:
    builder = _builder(tmp_path, format_version=version)
    files = [builder.data(_rows(number)) for number in range(3)]
    entries = [entry(file, status, 7, 40 + status) for status, file in enumerate(files)]
    builder.commit(manifests=[builder.manifest(entries, sequence_number=9 if version > 1 else 0)])
    if version == 1:

        def required(schema: dict[str, Any]) -> None:
            field_of(schema, "snapshot_id")["type"] = "long"
            assert "sequence_number" not in {child["name"] for child in schema["fields"]}

        rewrite_avro(_manifests(builder)[0], schema=required)
    found = [(row["status"], row["snapshot_id"], row["sequence_number"]) for row in read_entries(builder)]
    assert found == [(status, 40 + status, 7 if version > 1 else 0) for status in range(3)]
    assert _ids(builder) == [0, 1]


@pytest.mark.req("ICE-MAN-05", half="reader")
def test_the_snapshot_id_of_version_2_may_be_no_field_at_all(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    number = builder.commit(builder.data(_rows(1)))

    def without(schema: dict[str, Any]) -> None:
        schema["fields"] = [child for child in schema["fields"] if child["name"] != "snapshot_id"]

    rewrite_avro(_manifests(builder)[0], schema=without)
    assert [row["snapshot_id"] for row in read_entries(builder)] == [number]
    assert _ids(builder) == [1]


@pytest.mark.req("ICE-MAN-05", half="reader")
@pytest.mark.parametrize("status", [3, -1, 257])
def test_no_other_status(tmp_path: Path, status: int) -> None:
    builder = _builder(tmp_path)
    builder.commit(manifests=[builder.manifest([entry(builder.data(_rows(1)), status, 1, 1)], added_files_count=1)])
    with pytest.raises(CorruptMetadataError, match="status of an entry is not 0, 1 or 2"):
        _ids(builder)


@by_every_road
@pytest.mark.req("ICE-MAN-06", half="reader")
def test_file_sequence_numbers_may_be_missing(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    files = [builder.data(_rows(number)) for number in range(2)]
    builder.commit(manifests=[builder.manifest([entry(files[0], 0, 5, 8), entry(files[1])], sequence_number=9)])
    assert [row["file_sequence_number"] for row in read_entries(builder)] == [5, 9]

    def without(schema: dict[str, Any]) -> None:
        schema["fields"] = [child for child in schema["fields"] if child["field-id"] != 4]

    rewrite_avro(_manifests(builder)[0], schema=without)
    found = read_entries(builder)
    assert found[0]["file_sequence_number"] is None
    assert [row["sequence_number"] for row in found] == [5, 9]
    assert _ids(builder) == [0, 1]


@by_every_road
@pytest.mark.req("ICE-MAN-10", half="reader")
@pytest.mark.parametrize("name", ["parquet", "PARQUET", "Parquet"])
def test_formats_in_any_case(tmp_path: Path, name: str) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))
    rewrite_avro(_manifests(builder)[0], record=lambda row: row["data_file"].update(file_format=name))
    files = open_table(builder.root).scan().files()
    assert files.column("file_format").to_pylist() == ["parquet"]
    assert _ids(builder) == [1]


@pytest.mark.req("ICE-MAN-10", half="reader")
def test_paths_are_whole_uris(tmp_path: Path) -> None:
    """A path with a scheme leads where the location map says, and ``_file`` returns it as it is."""
    builder = _builder(tmp_path)
    file = builder.data(_rows(1))
    recorded = f"s3://b/t/data/{Path(file.path).name}"
    file.path = recorded
    builder.commit(file)
    table = open_table(builder.root, location_map={"s3://b/t": str(builder.root)})
    assert table.scan(columns=["id", "_file"]).to_arrow().to_pylist() == [{"id": 1, "_file": recorded}]


@pytest.mark.req("ICE-MAN-10", half="reader")
def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))
    rewrite_avro(_manifests(builder)[0], record=lambda row: row["data_file"].update(file_format="csv"))
    with pytest.raises(UnsupportedFeatureError, match="'csv'") as raised:
        _ids(builder)
    assert raised.value.context["feature"] == "csv"


def test_a_format_that_is_null_is_refused(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))

    def nullable(schema: dict[str, Any]) -> None:
        field_of(field_of(schema, "data_file")["type"], "file_format")["type"] = ["null", "string"]

    rewrite_avro(_manifests(builder)[0], schema=nullable, record=lambda row: row["data_file"].update(file_format=None))
    with pytest.raises(CorruptAvroError, match="the required field file_format is null"):
        _ids(builder)


@pytest.mark.req("ICE-MAN-10", half="reader")
@pytest.mark.parametrize("name", ["file_path", "file_format", "record_count", "file_size_in_bytes"])
def test_a_required_field_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    builder = _builder(tmp_path)
    builder.commit(builder.data(_rows(1)))

    def without(schema: dict[str, Any]) -> None:
        inner = field_of(schema, "data_file")["type"]
        inner["fields"] = [child for child in inner["fields"] if child["name"] != name]

    rewrite_avro(_manifests(builder)[0], schema=without)
    with pytest.raises(CorruptAvroError, match=name):
        _ids(builder)


@by_every_road
@pytest.mark.req("ICE-MAN-11", half="reader")
@pytest.mark.parametrize("kind", [{"type": "int", "logicalType": "date"}, "int"], ids=["date", "int"])
def test_days_of_a_partition(tmp_path: Path, kind: Any) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "ts": "timestamp"}, specs=[_DAY])
    stamp = 1_510_871_468_000_000
    files = [
        builder.data([{"id": 1, "ts": stamp}], partition={"ts_day": 17_486}),
        builder.data([{"id": 2, "ts": None}], partition={"ts_day": None}),
    ]
    builder.commit(*files)

    def typed(schema: dict[str, Any]) -> None:
        field_of(field_of(schema, "partition")["type"], "ts_day")["type"] = ["null", kind]

    def number(row: dict[str, Any]) -> None:
        day = row["data_file"]["partition"]
        day["ts_day"] = day["ts_day"] and 17_486

    rewrite_avro(_manifests(builder)[0], schema=typed, record=number)
    table = open_table(builder.root)
    days = table.scan().files().column("partition").to_pylist()
    assert [str(day["ts_day"]) for day in days] == ["2017-11-16", "None"]
    assert table.scan("ts >= '2017-11-16'").files().num_rows == 1
    assert table.scan("ts >= '2017-11-17'").files().num_rows == 0
    assert table.scan("ts is null", ["id"]).to_arrow().to_pylist() == [{"id": 2}]


@by_every_road
@pytest.mark.req("ICE-MAN-13", half="reader")
def test_files_of_version_1_are_data(tmp_path: Path) -> None:
    builder = _builder(tmp_path, format_version=1)
    builder.commit(builder.data(_rows(1)))
    assert [row["content"] for row in read_entries(builder)] == [0]
    assert _ids(builder) == [1]


@pytest.mark.req("ICE-MAN-13", half="reader")
def test_what_a_file_contains(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2, 3))
    builder.commit(file)
    builder.commit(builder.position_deletes([(file, 0)]), builder.equality_deletes([1], [{"id": 2}]))
    assert [[row["content"] for row in read_entries(builder, number)] for number in (0, 1)] == [[0], [1, 2]]
    assert _ids(builder) == [3]


@by_every_road
@pytest.mark.req("ICE-MAN-15", half="reader")
@pytest.mark.parametrize("null", [True, False])
def test_fields_that_are_not_used_any_more(tmp_path: Path, null: bool) -> None:
    builder = _builder(tmp_path, format_version=1)
    builder.commit(builder.data(_rows(1)))
    pairs = {
        "type": "array",
        "logicalType": "map",
        "items": {
            "type": "record",
            "name": "k123_v124",
            "fields": [
                {"name": "key", "type": "int", "field-id": 123},
                {"name": "value", "type": "long", "field-id": 124},
            ],
        },
    }

    def more(schema: dict[str, Any]) -> None:
        field_of(schema, "data_file")["type"]["fields"] += [
            {"name": "block_size_in_bytes", "type": "long", "field-id": 105},
            optional("file_ordinal", 106, "int"),
            optional("sort_columns", 107, {"type": "array", "items": "int", "element-id": 112}),
            optional("distinct_counts", 111, pairs),
        ]

    values = {"file_ordinal": 3, "sort_columns": [1, 2], "distinct_counts": [{"key": 1, "value": 5}]}
    wanted: dict[str, Any] = dict.fromkeys(values) if null else values
    rewrite_avro(
        _manifests(builder)[0],
        schema=more,
        record=lambda row: row["data_file"].update(wanted, block_size_in_bytes=67_108_864),
    )
    assert _ids(builder) == [1]


@pytest.mark.req("ICE-MAN-18", half="reader")
@pytest.mark.parametrize(
    ("filter", "kept"),
    [("x = 1.5", 1), ("x = 2.5", 0), ("x < 1", 0), ("x <= 1", 1), ("x = 'NaN'", 1), ("x > 2", 1), ("x is null", 1)],
)
def test_bounds_are_single_values(tmp_path: Path, filter: str, kept: int) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"x": "double"})
    rows = [{"x": value} for value in (1.0, float("nan"), None, 2.0)]
    metrics: dict[str, dict[int, Any]] = {
        "value_counts": {1: 4},
        "null_value_counts": {1: 1},
        "nan_value_counts": {1: 1},
        "lower_bounds": {1: bytes.fromhex("000000000000f03f")},
        "upper_bounds": {1: bytes.fromhex("0000000000000040")},
    }
    builder.commit(builder.data(rows, metrics=metrics))
    scan = open_table(builder.root).scan(filter)
    assert scan.files().num_rows == kept
    bounds = open_table(builder.root).scan().files(statistics=True).to_pylist()[0]
    assert (bounds["lower_bounds"], bounds["upper_bounds"]) == ({"x": 1.0}, {"x": 2.0})


@by_every_road
@pytest.mark.req("ICE-MAN-18", half="reader")
def test_a_column_of_nothing_but_nan_has_no_bounds(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"x": "double", "id": "long"})
    metrics: dict[str, dict[int, Any]] = {"value_counts": {1: 1, 2: 1}, "nan_value_counts": {1: 1}}
    builder.commit(builder.data([{"x": float("nan"), "id": 1}], metrics=metrics))
    table = open_table(builder.root)
    assert table.scan().files(statistics=True).to_pylist()[0]["lower_bounds"]["x"] is None
    assert table.scan("x > 5", ["id"]).to_arrow().to_pylist() == [{"id": 1}]


@by_every_road
@pytest.mark.req("ICE-MAN-20", half="reader")
@pytest.mark.parametrize("kind", ["sorted", "unsorted", "past the end", "negative"])
def test_split_offsets_are_a_hint(tmp_path: Path, kind: str) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(*range(30)), row_group_size=10)
    offsets = {"sorted": [4, 300, 600], "unsorted": [600, 4, 300], "past the end": [4, 1 << 40], "negative": [-4, 4]}
    file.more["split_offsets"] = offsets[kind]
    builder.commit(file)
    for split_size in (1, 200, 1 << 30):
        scan = open_table(builder.root).scan(columns=["id"], split_size=split_size)
        assert sorted(scan.to_arrow().column("id").to_pylist()) == list(range(30))


@by_every_road
@pytest.mark.req("ICE-MAN-21", half="reader")
def test_equality_ids_count_for_equality_deletes_alone(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1, 2, 3))
    file.equality_ids = [99]
    file.more["sort_order_id"] = 0
    builder.commit(file)
    positions = builder.position_deletes([(file, 0)])
    positions.equality_ids = [98]
    builder.commit(positions, builder.equality_deletes([1], [{"id": 2}]))
    assert _ids(builder) == [3]


@by_every_road
@pytest.mark.req("ICE-MAN-22")
def test_deleted_entries_are_no_part_of_a_scan(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    files = [builder.data(_rows(number)) for number in range(3)]
    entries = [entry(files[0]), entry(files[1], 2, 1, 5), entry(files[2])]
    builder.commit(manifests=[builder.manifest(entries)])
    scan = open_table(builder.root, validate=True).scan()
    assert scan.files().num_rows == 2
    assert scan.explanation().tasks == 2
    assert _ids(builder) == [0, 2]


@by_every_road
@pytest.mark.req("ICE-MAN-24", half="reader")
def test_optional_fields_of_version_1_may_all_be_missing(tmp_path: Path) -> None:
    """The fields that version 1 requires are enough, each of them without a union."""
    builder = _builder(tmp_path, format_version=1)
    builder.commit(builder.data(_rows(1, 2)))

    def strict(schema: dict[str, Any]) -> None:
        field_of(schema, "snapshot_id")["type"] = "long"
        inner = field_of(schema, "data_file")["type"]
        inner["fields"] = [child for child in inner["fields"] if child["field-id"] in range(100, 105)]
        inner["fields"].append({"name": "block_size_in_bytes", "type": "long", "field-id": 105})

    def filled(row: dict[str, Any]) -> None:
        row["snapshot_id"] = 77
        row["data_file"]["block_size_in_bytes"] = 67_108_864

    rewrite_avro(_manifests(builder)[0], schema=strict, record=filled)
    found = read_entries(builder, metrics=tuple(METRICS), rest=("split_offsets", "sort_order_id", "key_metadata"))
    assert [found[0][name] for name in (*METRICS, "split_offsets", "sort_order_id", "key_metadata")] == [None] * 9
    assert (found[0]["snapshot_id"], found[0]["record_count"], found[0]["content"]) == (77, 2, 0)
    assert _ids(builder, "id > 1") == [2]


def test_a_negative_count_is_refused(tmp_path: Path) -> None:
    builder = _builder(tmp_path)
    file = builder.data(_rows(1))
    file.rows = -4
    builder.commit(file)
    with pytest.raises(CorruptMetadataError, match="-4 records"):
        _ids(builder)


def test_a_partition_of_another_type_is_refused(tmp_path: Path) -> None:
    builder = _builder(tmp_path, specs=[[{"source-id": 1, "name": "id", "transform": "identity"}]])
    builder.commit(builder.data(_rows(1), partition={"id": 1}))

    def typed(schema: dict[str, Any]) -> None:
        field_of(field_of(schema, "partition")["type"], "id")["type"] = ["null", "string"]

    rewrite_avro(_manifests(builder)[0], schema=typed, record=lambda row: row["data_file"]["partition"].update(id="1"))
    with pytest.raises(CorruptAvroError, match="cannot be read as"):
        _ids(builder)
