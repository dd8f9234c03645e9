"""Features and properties of tables that we write: protocols, names, and what each of them asks of a writer."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.delta.features import FEATURES, active_features, supported_features
from deltaberg.errors import CorruptLogError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.table.commit.commit import ClockedPolicy
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.delta_schemas import field
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend


def _data_file(table: DeltaTable) -> Path:
    """Return the only data file of a table."""
    (path,) = table.scan().files()["file_path"].to_pylist()
    return Path(path.removeprefix("file://"))


# Protocols


@pytest.mark.req("DL-FEAT-01", half="writer")
def test_the_protocol_of_the_example(tmp_path: Path) -> None:
    create_table(tmp_path / "t", ID)
    assert named_actions(tmp_path / "t", 0, "protocol") == [{"minReaderVersion": 1, "minWriterVersion": 2}]


_IMPLIED: dict[int, set[str]] = {
    1: set(),
    2: {"appendOnly", "invariants"},
    3: {"checkConstraints"},
    4: {"changeDataFeed", "generatedColumns"},
    5: {"columnMapping"},
    6: {"identityColumns"},
}


@pytest.mark.req("DL-FEAT-11")
@pytest.mark.parametrize("writer", range(1, 8))
def test_what_a_writer_version_implies(builder: DeltaBuilder, writer: int) -> None:
    """The features that a table keeps when its protocol begins to list them."""
    implied = {name for version, names in _IMPLIED.items() if version <= writer for name in names}
    builder.create(ID, builder.add(ids(1)), protocol=builder.protocol(1, writer, None, [] if writer == 7 else None))
    table = DeltaTable(builder.root)
    assert supported_features(table.protocol) == (set() if writer == 7 else implied)
    table.alter().set({"delta.feature.vacuumProtocolCheck": "supported"}).commit()
    listed = set(named_actions(builder.root, 1, "protocol")[0]["writerFeatures"])
    assert listed == {"vacuumProtocolCheck", *(() if writer == 7 else implied)}


@pytest.mark.req("DL-FEAT-13", half="writer")
def test_two_spellings_of_one_protocol_are_written_alike(builder: DeltaBuilder, tmp_path: Path) -> None:
    names = ("columnMapping", "identityColumns")
    spellings = [(2, 7, None, names), (3, 7, ("columnMapping",), names)]
    outcomes = []
    for number, spelling in enumerate(spellings):
        made = DeltaBuilder(tmp_path / f"{number}")
        column = field("id", "long", delta__columnMapping__id=1, delta__columnMapping__physicalName="col-1")
        configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
        made.create([column], configuration=configuration, protocol=made.protocol(*spelling))
        table = DeltaTable(made.root)
        table.append(ids(1, 2))
        table.alter().rename("id", "number").commit()
        schema = pq.read_schema(_data_file(table))
        outcomes.append((table.active_features, schema.names, table.scan().to_arrow(), schema.field(0).metadata))
    assert outcomes[0] == outcomes[1]
    assert set(outcomes[0][0]) == {"columnMapping", "identityColumns"}
    assert outcomes[0][1] == ["col-1"]


@pytest.mark.req("DL-FEAT-17", half="writer")
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("appendOnly", "delta.appendOnly"),
        ("changeDataFeed", "delta.enableChangeDataFeed"),
        ("deletionVectors", "delta.enableDeletionVectors"),
        ("rowTracking", "delta.enableRowTracking"),
        ("icebergCompatV1", "delta.enableIcebergCompatV1"),
        ("icebergCompatV2", "delta.enableIcebergCompatV2"),
    ],
)
def test_a_feature_is_active_by_its_property(name: str, key: str) -> None:
    readers = (name,) if FEATURES[name].for_readers else ()
    for supported in (True, False):
        protocol = Protocol(3, 7, readers if supported else (), (name,) if supported else ())
        for value in ("true", "false", None):
            properties = {} if value is None else {key: value}
            assert (name in active_features(protocol, properties)) == (supported and value == "true")


@pytest.mark.req("DL-CON-01")
@pytest.mark.req("DL-FEAT-17", half="writer")
def test_a_property_without_its_feature_is_not_obeyed(builder: DeltaBuilder) -> None:
    builder.create(
        ID,
        builder.add(ids(1)),
        configuration={"delta.appendOnly": "true", "delta.enableRowTracking": "true"},
        protocol=builder.protocol(1, 7, None, []),
    )
    table = DeltaTable(builder.root)
    table.overwrite(ids(2, 3))
    table.delete("id = 3")
    assert ids_of(table) == [2]
    assert "baseRowId" not in named_actions(builder.root, 1, "add")[0]
    table.alter().set({"delta.appendOnly": True}).commit()
    assert "appendOnly" in table.active_features


@pytest.mark.req("DL-FEAT-18", half="writer")
def test_names_of_features_are_requested_by_their_case(tmp_path: Path) -> None:
    both = {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"}
    writers = {
        *("appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults"),
        *("changeDataFeed", "identityColumns", "rowTracking", "domainMetadata"),
        *("icebergCompatV1", "icebergCompatV2", "clustering"),
    }
    wanted = sorted((both | writers) - {"icebergCompatV1", "icebergCompatV2"})
    requests = {f"delta.feature.{name}": "supported" for name in wanted}
    table = create_table(tmp_path / "t", ID, properties=requests)
    assert set(table.protocol.reader_features or ()) == both
    assert set(table.features) == set(wanted)
    assert table.properties == {}
    with pytest.raises(UnsupportedFeatureError, match="AppendOnly"):
        create_table(tmp_path / "u", ID, properties={"delta.feature.AppendOnly": "supported"})


@pytest.mark.req("BEY-07", "BEY-13", "BEY-15", half="writer")
@pytest.mark.parametrize(
    "name",
    [
        *("catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"),
        *("icebergCompatV3", "icebergWriterCompatV1", "materializePartitionColumns", "columnMappingUsageTracking"),
        *("redirectReaderWriter-preview", "adaptiveMetadata-preview"),
    ],
)
def test_features_that_block_writes_by_name(builder: DeltaBuilder, tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=name):
        create_table(tmp_path / "u", ID, properties={f"delta.feature.{name}": "supported"})
    builder.create(ID, builder.add(ids(1)), protocol=builder.features(writer_only=[name, "inCommitTimestamp"]))
    table = DeltaTable(builder.root)
    assert ids_of(table) == [1]
    for write in (lambda: table.append(ids(2)), table.alter, table.transaction):
        with pytest.raises(UnsupportedFeatureError, match=name):
            write()
    assert len(list(builder.root.glob("*.parquet"))) == 1
    assert DeltaTable(builder.root).version == 0


@pytest.mark.req("BEY-07", half="writer")
def test_a_table_that_a_catalog_took_over_is_left_alone(builder: DeltaBuilder) -> None:
    """A table object that was opened before does not commit into the log any more."""
    builder.create(ID, builder.add(ids(1)))
    table = DeltaTable(builder.root)
    builder.commit(builder.features("catalogManaged", writer_only=["inCommitTimestamp"]))
    with pytest.raises(UnsupportedFeatureError, match="catalog"):
        table.append(ids(2))
    assert sorted(path.name for path in builder.log.glob("*.json")) == [commit_name(0), commit_name(1)]


@pytest.mark.req("BEY-15", half="writer")
@pytest.mark.parametrize("name", ["typeWidening-preview", "variantType-preview"])
def test_registered_previews_are_kept_as_they_are(builder: DeltaBuilder, name: str) -> None:
    builder.create(ID, protocol=builder.features(name))
    table = DeltaTable(builder.root)
    table.append(ids(1))
    table.alter().set({"delta.enableDeletionVectors": True}).commit()
    (protocol,) = named_actions(builder.root, 2, "protocol")
    assert {name, "deletionVectors"} <= set(protocol["readerFeatures"]) & set(protocol["writerFeatures"])


# Column mapping


@pytest.mark.req("DL-CM-01", half="writer")
@pytest.mark.parametrize(
    ("versions", "name"), [((1, 2), "id"), ((2, 5), "col-1"), ((2, 6), "col-1")], ids=["1-2", "2-5", "2-6"]
)
def test_mapping_is_obeyed_where_the_protocol_has_it(
    builder: DeltaBuilder, versions: tuple[int, int], name: str
) -> None:
    column = field("id", "long", delta__columnMapping__id=1, delta__columnMapping__physicalName="col-1")
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    builder.create([column], configuration=configuration, protocol=builder.protocol(*versions))
    table = DeltaTable(builder.root)
    table.append(ids(7))
    assert pq.read_schema(_data_file(table)).names == [name]
    (add,) = named_actions(builder.root, 1, "add")
    assert json.loads(add["stats"])["minValues"] == {name: 7}
    assert ids_of(DeltaTable(builder.root)) == [7]


@pytest.mark.req("DL-CM-01", half="writer")
def test_an_unknown_mode_is_refused(builder: DeltaBuilder, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'foo'"):
        create_table(tmp_path / "u", ID, properties={"delta.columnMapping.mode": "foo"})
    builder.create(ID, configuration={"delta.columnMapping.mode": "foo"}, protocol=builder.protocol(2, 5))
    with pytest.raises(CorruptLogError, match="'foo'"):
        DeltaTable(builder.root).append(ids(1))


@pytest.mark.req("BEY-22", half="writer")
def test_paths_of_physical_names_are_unique(tmp_path: Path) -> None:
    """Leaves of other structs may share a physical name; a name that comes back gets another one than it had."""
    inner = pa.struct([("x", pa.int64())])
    table = create_table(tmp_path / "t", pa.schema([("s1", inner), ("s2", inner)]))
    table.append(pa.table({"s1": [{"x": 1}], "s2": [{"x": 2}]}))
    table.alter().set({"delta.columnMapping.mode": "name"}).commit()

    def leaves() -> list[tuple[str, str]]:
        return [(part.physical_name, part.type.fields[0].physical_name) for part in table.schema]  # type: ignore[attr-defined]

    assert leaves() == [("s1", "x"), ("s2", "x")]
    seen = set(leaves())
    for _ in range(3):
        table.alter().add("s1.y", pa.int64()).drop("s1.x").commit()
        table.alter().add("s1.x", pa.int64()).drop("s1.y").commit()
        assert leaves()[0] not in seen
        seen.add(leaves()[0])
    assert table.scan().to_arrow().to_pylist() == [{"s1": {"x": None}, "s2": {"x": 2}}]


# Times, row ids, collations


@pytest.mark.req("BEY-04", half="writer")
def test_the_clock_runs_backwards(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", ID)
    table.alter().set({"delta.enableInCommitTimestamps": True}).commit()
    (first,) = named_actions(tmp_path / "t", 1, "commitInfo")
    properties = table.properties
    assert properties["delta.inCommitTimestampEnablementVersion"] == "1"
    assert properties["delta.inCommitTimestampEnablementTimestamp"] == str(first["inCommitTimestamp"])
    back = ClockedPolicy(now=lambda: first["inCommitTimestamp"] - 10_000)
    with table.transaction(policy=back) as transaction:
        transaction.set_transaction("app", 1)
    lines = (tmp_path / "t/_delta_log" / commit_name(2)).read_text("utf-8").splitlines()
    assert json.loads(lines[0])["commitInfo"]["inCommitTimestamp"] == first["inCommitTimestamp"] + 1
    times = [int(commit.timestamp.timestamp() * 1000) for commit in table.history()]
    assert times[:2] == [first["inCommitTimestamp"] + 1, first["inCommitTimestamp"]]
    modified = (tmp_path / "t/_delta_log" / commit_name(0)).stat().st_mtime_ns // 1_000_000
    assert times[2] == min(modified, times[1])


@pytest.mark.req("BEY-12", half="writer")
def test_row_ids_are_suspended(tmp_path: Path) -> None:
    suspended = {"delta.feature.rowTracking": "supported", "delta.rowTrackingSuspended": True}
    table = create_table(tmp_path / "t", ID, properties=suspended)
    table.append(ids(1, 2))
    (add,) = named_actions(tmp_path / "t", 1, "add")
    assert "baseRowId" not in add
    assert "defaultRowCommitVersion" not in add
    assert named_actions(tmp_path / "t", 1, "domainMetadata") == []
    with pytest.raises(InvalidArgumentError, match="suspended"):
        create_table(tmp_path / "u", ID, properties={**suspended, "delta.enableRowTracking": True})
    table.alter().unset("delta.rowTrackingSuspended").commit()
    table.append(ids(3))
    assert named_actions(tmp_path / "t", 3, "add")[0]["baseRowId"] == 0
    enabled = create_table(tmp_path / "v", ID, properties={"delta.enableRowTracking": True})
    with pytest.raises(InvalidArgumentError, match="suspended"):
        enabled.alter().set({"delta.rowTrackingSuspended": True}).commit()


@pytest.mark.req("BEY-06", half="writer")
def test_collations_survive_changes_of_the_schema(builder: DeltaBuilder) -> None:
    """A table that only has the metadata is written to; one with the feature is not, since it is not known."""
    column = field("s", "string")
    column["metadata"] = {"__COLLATIONS": {"s": "ICU.en_US"}}
    builder.create([column], builder.add(pa.table({"s": ["a", "B"]}), stats="full"))
    table = DeltaTable(builder.root)
    table.alter().add("id", pa.int64()).commit()
    (metadata,) = named_actions(builder.root, 1, "metaData")
    assert json.loads(metadata["schemaString"])["fields"][0] == column
    table.append(pa.table({"s": ["b", "A"], "id": [1, 2]}))
    (add,) = named_actions(builder.root, 2, "add")
    stats = json.loads(add["stats"])
    # Bounds are those of the bytes, and named for no collation.
    assert (stats["minValues"]["s"], stats["maxValues"]["s"], "statsWithCollation" in stats) == ("A", "b", False)
    assert [table.scan(text).count() for text in ("s = 'A'", "s < 'B'", "s > 'a'")] == [1, 1, 1]
    builder.commit(builder.protocol(1, 7, None, ["collations", "domainMetadata"]), version=3)
    with pytest.raises(UnsupportedFeatureError, match="collations"):
        DeltaTable(builder.root).append(pa.table({"s": ["c"], "id": [3]}))


# Properties


@pytest.mark.req("BEY-16")
def test_properties_that_drive_what_is_written(tmp_path: Path) -> None:
    columns = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64()), ("p", pa.string())])
    table = create_table(
        tmp_path / "t",
        columns,
        partition_by="p",
        properties={
            "delta.logRetentionDuration": "interval 1 days",
            "delta.deletedFileRetentionDuration": "interval 2 weeks",
            "delta.dataSkippingNumIndexedCols": 2,
            "delta.checkpointInterval": 3,
            "delta.checkpointPolicy": "v2",
            "delta.parquet.compression.codec": "zstd",
            "delta.feature.deletionVectors": "supported",
        },
    )
    assert not any(name.startswith("delta.feature.") for name in table.properties)
    assert {"deletionVectors", "v2Checkpoint"} <= table.features
    for number in range(3):
        table.append(pa.table({"a": [number], "b": [1], "c": [2], "p": ["x"]}))
    (add,) = named_actions(tmp_path / "t", 1, "add")
    assert set(json.loads(add["stats"])["minValues"]) == {"a", "b"}
    metadata = pq.read_metadata(tmp_path / "t" / add["path"])
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    checkpoints = [path.name for path in (tmp_path / "t/_delta_log").iterdir() if ".checkpoint." in path.name]
    assert [name.split(".")[0] for name in checkpoints] == [f"{3:020d}"]
    assert len(checkpoints[0].split(".")) == 4
    table.alter().set({"delta.dataSkippingStatsColumns": "c"}).commit()
    table.append(pa.table({"a": [1], "b": [1], "c": [2], "p": ["x"]}))
    assert set(json.loads(named_actions(tmp_path / "t", 5, "add")[0]["stats"])["minValues"]) == {"c"}


@pytest.mark.req("BEY-16")
@pytest.mark.parametrize(("length", "letters"), [(None, 2), (5, 5)])
def test_random_prefixes_take_the_place_of_directories(tmp_path: Path, length: int | None, letters: int) -> None:
    properties = {"delta.randomizeFilePrefixes": True}
    if length is not None:
        properties["delta.randomPrefixLength"] = length  # type: ignore[assignment]
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = create_table(tmp_path / "t", columns, partition_by="p", properties=properties)
    rows = pa.table({"id": list(range(8)), "p": [str(number) for number in range(8)]})
    table.append(rows)
    paths = [add["path"].split("/") for add in named_actions(tmp_path / "t", 1, "add")]
    assert {len(path) for path in paths} == {2}
    assert all(len(path[0]) == letters and path[0].isalnum() for path in paths)
    assert len({path[0] for path in paths}) > 1
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == rows.to_pylist()


# Clustering


@pytest.mark.req("DL-CLU-09", half="writer")
def test_files_need_not_be_clustered(tmp_path: Path) -> None:
    properties = {"delta.feature.domainMetadata": "supported"}
    table = create_table(tmp_path / "t", ID, cluster_by="id", properties=properties)
    with table.transaction() as transaction:
        transaction.set_domain("com.example.order", "kept")
    table.append(ids(3, 1, 2))
    (add,) = named_actions(tmp_path / "t", 2, "add")
    assert "clusteringProvider" not in add
    assert table.scan().to_arrow()["id"].to_pylist() == [3, 1, 2]
    assert DeltaTable(tmp_path / "t").domain_metadata["com.example.order"] == "kept"
