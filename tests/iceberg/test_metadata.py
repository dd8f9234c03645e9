"""Table metadata: its members in every format version, and which of them are required."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptMetadataError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.sort_orders import SortOrder
from deltaberg.iceberg.metadata.specs import PartitionSpec
from tests.iceberg.metadata_json import (
    COLUMNS,
    SCHEMA,
    SNAPSHOT,
    document,
    parse,
    parse_with,
    schema_of,
    write_metadata,
)
from tests.support.roads import by_every_road

pytestmark = pytest.mark.one_backend

_VERSIONS = (1, 2, 3)
_COMMIT = 1515100955770
_ID = 3051729675574597004


@pytest.mark.req("ICE-META-01", half="reader")
def test_versions_that_are_read() -> None:
    for version in _VERSIONS:
        assert parse_with(version).format_version == version
    for version in (0, -1, 99):
        with pytest.raises(UnsupportedFeatureError, match=f"unsupported format version {version}"):
            parse_with(version)


@pytest.mark.req("BEY-52", half="reader")
def test_version_4_is_refused(tmp_path: Path) -> None:
    write_metadata(tmp_path, "v1.metadata.json", document(4))
    with pytest.raises(UnsupportedFeatureError, match="unsupported format version 4"):
        open_table(tmp_path)


@pytest.mark.parametrize("name", ["format-version", "location", "last-updated-ms", "schema", "partition-spec"])
def test_version_1_requires(name: str) -> None:
    with pytest.raises(CorruptMetadataError, match=f"has no {name}") as caught:
        parse(document(1, without=(name,)))
    assert caught.value.context["field"] == name


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", sorted(set(document(2)) - {"format-version"}))
def test_later_versions_require(version: int, name: str) -> None:
    with pytest.raises(CorruptMetadataError, match=f"has no {name}") as caught:
        parse(document(version, without=(name,)))
    assert caught.value.context["field"] == name


@pytest.mark.parametrize("name", sorted(set(document(3)) - {"next-row-id"}))
@pytest.mark.parametrize("wrong", [True, 1.5, {}, "1"])
def test_types_of_members(name: str, wrong: Any) -> None:
    value = document(3)[name]
    if isinstance(value, type(wrong)) and not isinstance(wrong, bool):
        wrong = []
    with pytest.raises(CorruptMetadataError, match=name):
        parse({**document(3), name: wrong})


@pytest.mark.req("ICE-META-02", half="reader")
def test_another_table_behind_the_pointer(tmp_path: Path) -> None:
    write_metadata(tmp_path, "v1.metadata.json")
    table = open_table(tmp_path, "iceberg")
    same = document(properties={"a": "b"})
    write_metadata(tmp_path, "v2.metadata.json", same)
    assert table.refresh().properties == {"a": "b"}
    other = "11111111-2222-3333-4444-555555555555"
    write_metadata(tmp_path, "v3.metadata.json", document(table_uuid=other))
    with pytest.raises(CorruptMetadataError, match=other):
        table.refresh()
    assert table.metadata.table_uuid == same["table-uuid"]


@pytest.mark.req("ICE-META-02", half="reader")
def test_version_1_may_have_no_uuid() -> None:
    assert parse(document(1, without=("table-uuid",))).table_uuid is None
    assert parse_with(1).table_uuid == document(1)["table-uuid"]


@pytest.mark.req("ICE-META-04", half="reader")
def test_last_sequence_number() -> None:
    newest = {**SNAPSHOT, "sequence-number": 7}
    found = parse_with(last_sequence_number=7, snapshots=[newest], current_snapshot_id=10)
    assert found.last_sequence_number == found.snapshots[10].sequence_number == 7
    assert parse_with(1).last_sequence_number == 0


@pytest.mark.req("ICE-META-07", half="reader")
def test_version_2_with_one_schema_only() -> None:
    found = parse(document(2, without=("schemas", "current-schema-id"), schema={**SCHEMA, "schema-id": 3}))
    assert found.current_schema.schema_id == 3
    assert found.current_schema.struct.names == ["id"]


@pytest.mark.req("ICE-META-07", half="reader")
@pytest.mark.parametrize("version", _VERSIONS)
def test_the_current_of_several_schemas(version: int) -> None:
    newer = schema_of(*COLUMNS, {"id": 2, "name": "b", "required": False, "type": "string"})
    schemas = [SCHEMA, {**newer, "schema-id": 5}]
    found = parse_with(version, schemas=schemas, current_schema_id=5)
    assert found.current_schema.schema_id == 5
    assert found.current_schema.struct.names == ["id", "b"]
    assert found.schemas[0].struct.names == ["id"]
    with pytest.raises(CorruptMetadataError, match="current-schema-id 6 is not among the schemas"):
        parse_with(version, schemas=schemas, current_schema_id=6)


@pytest.mark.req("ICE-META-07", half="reader")
def test_version_1_with_schemas_and_no_current_one() -> None:
    found = parse_with(1, schemas=[{**SCHEMA, "schema-id": 4}])
    assert found.current_schema.schema_id == 0


@pytest.mark.req("ICE-META-09", half="reader")
def test_version_1_without_a_list_of_specs() -> None:
    fields = [{"source-id": 1, "name": "p", "transform": "identity"}]
    found = parse_with(1, partition_spec=fields)
    assert list(found.specs) == [0]
    (part,) = found.specs[0].fields
    assert (part.name, part.field_id, found.default_spec_id) == ("p", 1000, 0)
    assert found.specs[0] == PartitionSpec(0, found.specs[0].fields)


@pytest.mark.req("ICE-META-09", half="reader")
@pytest.mark.parametrize("version", _VERSIONS)
def test_the_default_of_several_specs(version: int) -> None:
    specs = [
        {"spec-id": number, "fields": [{"source-id": 1, "field-id": 1000, "name": "p", "transform": text}]}
        for number, text in ((0, "bucket[4]"), (2, "bucket[8]"))
    ]
    found = parse_with(version, partition_specs=specs, default_spec_id=0)
    assert [spec.fields[0].transform for spec in found.specs.values()] == ["bucket[4]", "bucket[8]"]
    assert found.default_spec_id == 0
    with pytest.raises(CorruptMetadataError, match="default-spec-id 1 is not among the partition specs"):
        parse_with(version, partition_specs=specs, default_spec_id=1)


def test_version_1_with_specs_and_no_default() -> None:
    found = parse_with(1, partition_specs=[{"spec-id": number, "fields": []} for number in (3, 1)])
    assert found.default_spec_id == 3


@pytest.mark.req("ICE-META-10", half="reader")
@pytest.mark.parametrize("last", [999, 1000])
def test_last_partition_id(last: int) -> None:
    # After the only field was removed, its id still counts.
    assert parse_with(last_partition_id=last).last_partition_id == last
    assert parse_with(1).last_partition_id is None
    assert parse_with(1, last_partition_id=last).last_partition_id == last
    with pytest.raises(CorruptMetadataError, match="no last-partition-id"):
        parse(document(2, without=("last-partition-id",)))


@by_every_road
@pytest.mark.req("ICE-META-12", half="reader")
@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("members", [{}, {"current_snapshot_id": None}, {"current_snapshot_id": -1}])
def test_tables_without_a_snapshot(tmp_path: Path, version: int, members: dict[str, Any]) -> None:
    write_metadata(tmp_path, "v1.metadata.json", document(version, **members))
    table = open_table(tmp_path, "iceberg")
    assert table.snapshot is None
    found = table.scan().to_arrow()
    assert (found.num_rows, found.column_names) == (0, ["id"])


@pytest.mark.req("ICE-META-13", half="reader")
def test_the_current_snapshot_is_listed() -> None:
    found = parse_with(snapshots=[SNAPSHOT], current_snapshot_id=10)
    assert found.current_snapshot is found.snapshots[10]
    for listed in ([SNAPSHOT], []):
        with pytest.raises(CorruptMetadataError, match="current-snapshot-id 11 is not among the snapshots"):
            parse_with(snapshots=listed, current_snapshot_id=11)


@pytest.mark.req("ICE-META-16", half="reader")
def test_sort_orders() -> None:
    metadata = parse_with(1)
    assert (metadata.sort_orders, metadata.default_sort_order_id) == ({0: SortOrder(0)}, 0)
    field = {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    orders = [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [field]}]
    for version in _VERSIONS:
        metadata = parse_with(version, sort_orders=orders, default_sort_order_id=1)
        assert metadata.default_sort_order_id == 1
        assert metadata.sort_orders[1].fields[0].source_ids == (1,)


@pytest.mark.req("ICE-META-18", half="reader")
def test_members_that_are_not_known(tmp_path: Path) -> None:
    found = document(foo=1, bar={"a": [None]})
    found["schemas"][0]["foo"] = found["schemas"][0]["fields"][0]["foo"] = 1
    found["partition-specs"][0]["foo"] = found["sort-orders"][0]["foo"] = 1
    write_metadata(tmp_path, "v1.metadata.json", found)
    table = open_table(tmp_path, "iceberg")
    assert table.metadata.raw["foo"] == 1
    assert table.schema.names == ["id"]


@pytest.mark.parametrize("version", _VERSIONS)
def test_lists_that_are_kept_as_they_are(version: int) -> None:
    statistics = [{"snapshot-id": 10, "statistics-path": "s3://b/a.puffin", "blob-metadata": []}]
    parts = [{"snapshot-id": 10, "statistics-path": "s3://b/p.parquet", "file-size-in-bytes": 43}]
    keys = [{"key-id": "k", "encrypted-key-metadata": "AAAA", "encrypted-by-id": "m"}]
    found = parse_with(version, statistics=statistics, partition_statistics=parts, encryption_keys=keys)
    assert list(found.statistics) == statistics
    assert list(found.partition_statistics) == parts
    assert list(found.encryption_keys) == keys
    bare = parse_with(version)
    assert (bare.statistics, bare.partition_statistics, bare.encryption_keys) == ((), (), ())


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("schemas", SCHEMA),
        ("partition-specs", {"spec-id": 0, "fields": []}),
        ("sort-orders", {"order-id": 0, "fields": []}),
        ("snapshots", SNAPSHOT),
    ],
)
def test_ids_that_stand_twice(name: str, part: dict[str, Any]) -> None:
    with pytest.raises(CorruptMetadataError, match="occurs twice"):
        parse({**document(), name: [part, part]})


@pytest.mark.req("ICE-JSON-10", "ICE-JSON-11", "ICE-JSON-12", half="reader")
def test_the_examples_of_the_specification() -> None:
    snapshot = {
        "snapshot-id": _ID,
        "timestamp-ms": _COMMIT,
        "summary": {"operation": "append"},
        "manifest-list": "s3://b/wh/.../s1.avro",
    }
    properties = {"write.format.default": "avro", "commit.retry.num-retries": "4"}
    metadata = parse_with(
        1,
        table_uuid="fb072c92-a02b-11e9-ae9c-1bb7bc9eca94",
        location="s3://b/wh/data.db/table",
        last_updated_ms=_COMMIT,
        last_column_id=22,
        default_spec_id=0,
        properties=properties,
        current_snapshot_id=_ID,
        snapshots=[snapshot],
        snapshot_log=[{"snapshot-id": _ID, "timestamp-ms": _COMMIT}],
    )
    assert (metadata.format_version, metadata.last_updated_ms, metadata.last_column_id) == (1, _COMMIT, 22)
    assert (metadata.table_uuid, metadata.location) == (
        "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94",
        "s3://b/wh/data.db/table",
    )
    assert (metadata.default_spec_id, metadata.properties) == (0, properties)
    assert metadata.current_snapshot_id == _ID
    only = metadata.current_snapshot
    assert only is not None
    assert (only.snapshot_id, only.timestamp_ms, only.operation) == (_ID, _COMMIT, "append")
    assert only.manifest_list == "s3://b/wh/.../s1.avro"
    assert [(entry.snapshot_id, entry.timestamp_ms) for entry in metadata.snapshot_log] == [(_ID, _COMMIT)]


def test_former_metadata_files() -> None:
    entries = [{"timestamp-ms": 5, "metadata-file": "s3://b/v1.metadata.json"}]
    (entry,) = parse_with(metadata_log=entries).metadata_log
    assert (entry.timestamp_ms, entry.metadata_file) == (5, "s3://b/v1.metadata.json")


@pytest.mark.parametrize("value", [{"a": 1}, {"a": None}, ["a"]])
def test_properties_are_strings(value: Any) -> None:
    with pytest.raises(CorruptMetadataError, match="properties"):
        parse_with(properties=value)
