"""Table metadata that other implementations wrote, and metadata with more members than a scan needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptMetadataError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.metadata_file import read_metadata
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import by_every_road

VALID_EXAMPLES = (
    "java-table-metadata/TableMetadataV1Valid",
    "java-table-metadata/TableMetadataV2Valid",
    "java-table-metadata/TableMetadataV2ValidMinimal",
    "java-table-metadata/TableMetadataV3ValidMinimal",
    "java-table-metadata/TableMetadataStatisticsFiles",
    "java-table-metadata/TableMetadataPartitionStatisticsFiles",
    "rust-table-metadata/TableMetadataV1Compat",
    "rust-table-metadata/TableMetadataV1PartitionSpecsWithoutDefaultId",
    "rust-table-metadata/TableMetadataV1SchemasWithoutCurrentId",
    "rust-table-metadata/TableMetadataV2",
    "rust-table-metadata/TableMetadataV3ValidEncryption",
    "rust-table-metadata/TableMetadataV3ValidMinimal",
    "rust-table-metadata/example_empty_table_metadata_v2",
    "rust-table-metadata/example_table_metadata_v2",
    "rust-table-metadata/example_table_metadata_v2_deep_history",
    "rust-table-metadata/example_table_metadata_v2_partition_evolution",
    "go-table/TableMetadataV1PartitionSpecsWithoutDefaultId",
    "go-table/TableMetadataV1SchemasWithoutCurrentId",
    "go-table/TableMetadataV2ValidMinimal",
    "go-table/TableMetadataV3WithPartitionStatistics",
)
_INVALID = {
    "java-table-metadata/TableMetadataUnsupportedVersion": "unsupported format version 42",
    "java-table-metadata/TableMetadataV1MissingSchemaType": "a schema is of type None",
    "java-table-metadata/TableMetadataV2CurrentSchemaNotFound": "current-schema-id 2 is not among",
    "java-table-metadata/TableMetadataV2MissingLastPartitionId": "no last-partition-id",
    "java-table-metadata/TableMetadataV2MissingPartitionSpecs": "no partition-specs",
    # It lacks two members that must be there.
    "java-table-metadata/TableMetadataV2MissingSchemas": "no (schemas|last-partition-id)",
    "java-table-metadata/TableMetadataV2MissingSortOrder": "no sort-orders",
    # It says version 3, whatever its name is, and lacks what that needs.
    "rust-table-metadata/TableMetadataUnsupportedVersion": "no partition-specs",
    "rust-table-metadata/TableMetadataV1NoValidSchema": "no schema",
    "rust-table-metadata/TableMetadataV2CurrentSchemaNotFound": "current-schema-id 2 is not among",
    "go-table/TableMetadataV1NoValidSchema": "no schema",
    "go-table/TableMetadataV2CurrentSchemaNotFound": "current-schema-id 2 is not among",
    "go-table/TableMetadataV2Valid.zstd.metadata": "compressed by zstd",
}


def test_the_tables_of_other_engines_say_what_the_index_says(conformance: Path) -> None:
    index = json.loads((conformance / "index.json").read_text())
    tables = [entry for entry in index.values() if entry["format"] == "iceberg"]
    assert len(tables) > 40
    for entry in tables:
        folder = conformance / entry["dir"]
        metadata = read_metadata((folder / entry["metadata"]).read_bytes())
        assert metadata.format_version == entry["format_version"], entry["id"]
        assert metadata.location == entry["location"], entry["id"]
        assert metadata.current_snapshot_id == entry["current_snapshot"], entry["id"]
        assert metadata.current_schema.struct.names == [name for name, _ in entry["columns"]], entry["id"]
        for number, told in entry["snapshots"].items():
            held = metadata.snapshot_by_id(int(number))
            assert held.operation == told["operation"], entry["id"]
            assert held.sequence_number == (told["sequence"] or 0), entry["id"]
        for file in folder.rglob("[!.]*.metadata.json*"):
            read_metadata(file.read_bytes())


def test_the_examples_of_other_implementations_are_read(conformance: Path) -> None:
    expected = json.loads((conformance / "EXPECTED" / "iceberg-files.json").read_text())
    compared = 0
    for name in VALID_EXAMPLES:
        found = read_metadata((conformance / "iceberg-files" / f"{name}.json").read_bytes())
        told = expected.get(f"iceberg-files/{name}.json", {})
        if told.get("pyiceberg") == "accepts":
            compared += 1
            counts = (found.format_version, len(found.schemas), len(found.specs), len(found.snapshots))
            assert counts == tuple(told[key] for key in ("format_version", "schemas", "specs", "snapshots")), name
    assert compared > 10


@pytest.mark.parametrize("name", _INVALID)
def test_the_damaged_examples_of_other_implementations_are_refused(conformance: Path, name: str) -> None:
    data = (conformance / "iceberg-files" / f"{name}.json").read_bytes()
    with pytest.raises((CorruptMetadataError, UnsupportedFeatureError), match=_INVALID[name]):
        read_metadata(data)


def test_no_example_is_left_out(conformance: Path) -> None:
    listed = {f"{file.parent.name}/{file.stem}" for file in (conformance / "iceberg-files").rglob("*Metadata*.json")}
    views = {name for name in listed if "view" in name}
    assert listed - views == {name for name in (*VALID_EXAMPLES, *_INVALID) if "example" not in name}


@by_every_road
@pytest.mark.req("BEY-28", "BEY-29", half="reader")
def test_statistics_are_kept_and_never_needed(tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    number = builder.commit(builder.data([{"id": 1}]))
    gone = str(tmp_path / "t" / "metadata" / "gone.puffin")
    blob = {"type": "ndv", "snapshot-id": number, "sequence-number": 1, "fields": [1], "properties": {"ndv": "1"}}
    statistics = [
        {
            "snapshot-id": number,
            "statistics-path": gone,
            "file-size-in-bytes": 413,
            "file-footer-size-in-bytes": 42,
            "blob-metadata": [blob],
        }
    ]
    partitions = [{"snapshot-id": number, "statistics-path": gone, "file-size-in-bytes": 43}]
    builder.extra = {"statistics": statistics, "partition-statistics": partitions}
    builder.write()
    table = open_table(builder.root, "iceberg")
    assert list(table.metadata.statistics) == statistics
    assert list(table.metadata.partition_statistics) == partitions
    assert table.scan("id = 1").to_arrow().to_pylist() == [{"id": 1}]


@by_every_road
@pytest.mark.req("BEY-40", half="reader")
def test_an_encrypted_table_says_so(tmp_path: Path, conformance: Path) -> None:
    keys = [{"key-id": "k", "encrypted-key-metadata": "WVMIPw==", "encrypted-by-id": "master"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    builder.commit(builder.data([{"id": 1}]))
    Path(builder.snapshots[-1]["manifest-list"]).write_bytes(b"AGS1" + bytes(range(256)))
    builder.snapshots[-1]["key-id"] = "k"
    builder.extra = {"encryption-keys": keys}
    builder.write()
    table = open_table(builder.root, "iceberg")
    assert list(table.metadata.encryption_keys) == keys
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        table.scan().to_arrow()
    file = conformance / "iceberg-files" / "rust-table-metadata" / "TableMetadataV3ValidEncryption.json"
    found = read_metadata(file.read_bytes())
    assert found.current_snapshot is not None
    assert found.current_snapshot.key_id == found.encryption_keys[1]["key-id"]


@by_every_road
@pytest.mark.req("BEY-40", half="reader")
@pytest.mark.parametrize("where", ["manifest", "data file"])
def test_encrypted_manifests_and_data_files_say_so(tmp_path: Path, where: str) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=3)
    file = builder.data([{"id": 1}])
    if where == "manifest":
        entries = [{"status": 1, "snapshot_id": None, "sequence_number": None, "file": file}]
        row = builder.manifest(entries, snapshot_id=1000, key_metadata=b"\x01key")
        Path(row["manifest_path"]).write_bytes(b"AGS1" + bytes(range(256)))
        builder.commit(manifests=[row])
    else:
        file.more["key_metadata"] = b"\x01key"
        Path(file.path).write_bytes(b"AGS1" + bytes(range(256)))
        builder.commit(file)
    table = open_table(builder.root, "iceberg")
    with pytest.raises(UnsupportedFeatureError, match=r"the file is encrypted|a manifest is encrypted"):
        table.scan().to_arrow()


@by_every_road
@pytest.mark.req("ICE-META-08", half="reader")
def test_files_are_pruned_by_the_spec_of_their_manifest(tmp_path: Path) -> None:
    specs = [[{"source-id": 1, "name": "id", "transform": "identity"}]]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, format_version=1, specs=specs)
    builder.extra = {"partition-spec": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "truncate[100]"}]}
    builder.commit(*(builder.data([{"id": number}], partition={"id": number}) for number in range(4)))
    scan = open_table(builder.root).scan("id = 3")
    assert scan.to_arrow().to_pylist() == [{"id": 3}]
    assert len(scan.files()) == 1


@by_every_road
@pytest.mark.req("ICE-META-11", half="reader")
def test_properties_control_reading(tmp_path: Path) -> None:
    properties = {
        "write.format.default": "avro",
        "commit.retry.num-retries": "4",
        "schema.name-mapping.default": '[{"field-id": 1, "names": ["old"]}]',
    }
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"}, properties=properties)
    builder.commit(builder.data([{"old": 5}], fields=[{"id": 1, "name": "old", "type": "long"}], ids=False))
    table = open_table(builder.root, "iceberg")
    assert table.properties == properties
    assert table.scan().to_arrow().to_pylist() == [{"id": 5}]
