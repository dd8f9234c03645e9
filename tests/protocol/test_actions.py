"""Actions and their fields (DL-ACT)."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptLogError, SchemaError, SpecViolationError
from deltaberg.storage.location import Location, PathResolver, parse_location
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, ids, ids_of, live_files, tombstones

_PROPERTY = "delta.deletedFileRetentionDuration"


@pytest.mark.req("DL-ACT-01", half="reader")
def test_metadata_has_eight_fields(builder: DeltaBuilder) -> None:
    everything: dict[str, Any] = {
        "id": "af23c9d7-fff1-4a5a-a2c8-55c59bd782aa",
        "name": "orders",
        "description": "all of them",
        "format": {"provider": "parquet", "options": {"a": "b"}},
        "partitionColumns": ["id"],
        "createdTime": 1515488792485,
        "configuration": {"k": "v"},
    }
    builder.commit(builder.protocol(), builder.metadata(ID, **everything))
    table = open_table(builder.root, "delta")
    found = table.metadata
    assert (found.id, found.name, found.description) == (everything["id"], "orders", "all of them")
    assert (found.format.provider, dict(found.format.options)) == ("parquet", {"a": "b"})
    assert (found.partition_columns, found.created_time) == (("id",), 1515488792485)
    assert dict(found.configuration) == {"k": "v"}
    assert table.schema.names == ["id"]


@pytest.mark.req("DL-ACT-01", half="reader")
def test_metadata_without_its_optional_fields(builder: DeltaBuilder) -> None:
    builder.commit(builder.protocol(), builder.metadata(ID, name=None, description=None, createdTime=None))
    found = open_table(builder.root, "delta").metadata
    assert (found.name, found.description, found.created_time) == (None, None, None)


@pytest.mark.req("DL-ACT-01", half="reader")
def test_metadata_without_a_schema_has_no_rows_to_give(builder: DeltaBuilder) -> None:
    builder.commit(builder.protocol(), builder.metadata(ID, schemaString=None), builder.add(ids(1)))
    with pytest.raises(CorruptLogError, match="schemaString"):
        ids_of(open_table(builder.root))
    with pytest.raises(CorruptLogError, match="schemaString"):
        _ = open_table(builder.root).schema


@pytest.mark.req("DL-ACT-01", half="reader")
@pytest.mark.parametrize("missing", ["id", "format"])
def test_metadata_without_a_required_field_is_refused(builder: DeltaBuilder, missing: str) -> None:
    lacking: dict[str, Any] = {missing: None}
    builder.commit(builder.protocol(), builder.metadata(ID, **lacking))
    with pytest.raises(CorruptLogError, match=missing):
        open_table(builder.root)


@by_every_road
@pytest.mark.req("DL-ACT-01", half="reader")
@pytest.mark.parametrize("missing", ["partitionColumns", "configuration"])
def test_metadata_without_what_no_row_needs_is_a_violation(builder: DeltaBuilder, missing: str) -> None:
    metadata = builder.metadata(ID)
    del metadata["metaData"][missing]
    builder.commit(builder.protocol(), metadata, builder.add(ids(1)))
    assert ids_of(open_table(builder.root)) == [1]
    with pytest.raises(SpecViolationError, match=f"metaData action without {missing}"):
        open_table(builder.root, validate=True)


@pytest.mark.req("DL-ACT-02", half="reader")
def test_the_format_of_a_new_table(builder: DeltaBuilder) -> None:
    builder.create(ID)
    found = open_table(builder.root, "delta").metadata.format
    assert (found.provider, dict(found.options)) == ("parquet", {})


@pytest.mark.req("DL-ACT-03", half="reader")
def test_the_schema_is_json_inside_json(builder: DeltaBuilder) -> None:
    line = (
        '{"metaData":{"id":"1","format":{"provider":"parquet","options":{}},"schemaString":'
        r'"{\"type\":\"struct\",\"fields\":[{\"name\":\"a \\\"b\\\" \\u00e9\",\"type\":\"integer\",'
        r'\"nullable\":false,\"metadata\":{\"comment\":\"x\"}}]}"'
        ',"partitionColumns":[],"configuration":{}}}'
    )
    builder.commit_text(json.dumps(builder.protocol()) + "\n" + line + "\n")
    (field,) = open_table(builder.root).schema
    assert (field.name, field.nullable, field.metadata["comment"]) == ('a "b" é', False, "x")
    assert open_table(builder.root).arrow_schema.field(0).type == pa.int32()


@pytest.mark.req("DL-ACT-05", half="reader")
def test_metadata_is_replaced_not_merged(builder: DeltaBuilder) -> None:
    builder.commit(builder.protocol(), builder.metadata(ID, configuration={"a": "1"}, name="first"))
    builder.commit(builder.metadata(ID))
    old, new = open_table(builder.root, "delta", version=0), open_table(builder.root, "delta")
    assert (old.properties, old.metadata.name) == ({"a": "1"}, "first")
    assert (new.properties, new.metadata.name) == ({}, None)


@pytest.mark.req("DL-ACT-06", half="reader")
def test_only_the_property_with_its_prefix_makes_append_only(builder: DeltaBuilder) -> None:
    identity = "af23c9d7-fff1-4a5a-a2c8-55c59bd782aa"
    builder.commit(builder.protocol(), builder.metadata(ID, configuration={"appendOnly": "true"}, id=identity))
    plain = open_table(builder.root, "delta")
    assert (plain.metadata.id, plain.is_append_only) == (identity, False)
    builder.commit(builder.metadata(ID, configuration={"delta.appendOnly": "true"}))
    assert open_table(builder.root, "delta").is_append_only


def _add_line(**changes: Any) -> dict[str, Any]:
    body = {
        "path": "f.parquet",
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1,
        "dataChange": True,
        **changes,
    }
    return {"add": {key: value for key, value in body.items() if value is not ...}}


@pytest.mark.req("DL-ACT-07", half="reader")
@pytest.mark.parametrize("missing", ["path", "partitionValues", "size", "modificationTime", "dataChange"])
def test_an_add_without_a_required_field_is_refused(builder: DeltaBuilder, missing: str) -> None:
    builder.create(ID)
    builder.commit(_add_line(**{missing: ...}))
    with pytest.raises(CorruptLogError, match=missing):
        open_table(builder.root)


@pytest.mark.req("DL-ACT-07", half="reader")
@pytest.mark.parametrize("absent", [..., None])
def test_optional_fields_of_an_add_are_null(builder: DeltaBuilder, absent: Any) -> None:
    names = ["stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"]
    builder.create(ID)
    builder.commit(_add_line(**dict.fromkeys(names, absent)))
    table = open_table(builder.root, "delta")
    files = table.scan().files().to_pylist()
    assert [(file["record_count"], file["deleted_record_count"]) for file in files] == [(None, 0)]
    (live,) = table.live_files.to_pylist()
    assert [live[name] for name in names if name != "stats"] == [None] * 5


@pytest.mark.req("DL-ACT-08")
def test_paths_are_decoded_once(builder: DeltaBuilder, road: Road) -> None:
    names = {
        "a b.parquet": "a%20b.parquet",
        "p=a%3Ab/x.parquet": "p=a%253Ab/x.parquet",
        "ü+&.parquet": "%C3%BC+&.parquet",
    }
    adds = [
        builder.add(ids(number), path=name, log_path=recorded) for number, (name, recorded) in enumerate(names.items())
    ]
    builder.create(ID, *adds)
    assert road.column(open_table(builder.root).scan(), "id") == [0, 1, 2]


@pytest.mark.req("DL-ACT-08")
def test_absolute_paths_are_decoded_once() -> None:
    resolver = PathResolver(parse_location("s3://bucket/table"), None)
    assert resolver.resolve("s3://bucket/x%20y.parquet") == Location("s3", "bucket", "x y.parquet")
    assert resolver.resolve("p=a%253Ab/x.parquet").path == "table/p=a%3Ab/x.parquet"


@by_every_road
@pytest.mark.req("DL-ACT-10", half="reader")
def test_partition_values_are_there_for_every_column(builder: DeltaBuilder) -> None:
    schema = pa.schema([("id", pa.int64()), ("year", pa.int32()), ("month", pa.int32())])
    good = builder.add(ids(1), partition={"year": "2017", "month": None})
    builder.create(schema, good, partition_by=["year", "month"])
    (row,) = open_table(builder.root, validate=True).scan().to_arrow().to_pylist()
    assert row == {"id": 1, "year": 2017, "month": None}
    builder.commit(builder.add(ids(2), partition={"year": "2018"}))
    with pytest.raises(SpecViolationError, match="partition values"):
        open_table(builder.root, validate=True)


@by_every_road
@pytest.mark.req("DL-ACT-12", half="reader")
def test_a_rearrangement_changes_nothing(builder: DeltaBuilder) -> None:
    small = [builder.add(ids(number)) for number in range(10)]
    builder.create(ID, *small, configuration={"delta.enableChangeDataFeed": "true"})
    compacted = builder.add(ids(*range(10)), dataChange=False)
    builder.commit(compacted, *(builder.remove(one, dataChange=False) for one in small))
    table = open_table(builder.root)
    assert ids_of(table) == list(range(10))
    assert table.changes(1).to_arrow().num_rows == 0
    builder.commit(builder.remove(compacted))
    assert open_table(builder.root).changes(2).to_arrow()["_change_type"].to_pylist() == ["delete"] * 10


@by_every_road
@pytest.mark.req("DL-ACT-13", half="reader")
def test_statistics_are_text_inside_json(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1, 2), stats='{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":2}}'))
    table = open_table(builder.root)
    assert table.scan().files()["record_count"].to_pylist() == [2]
    assert table.scan("id > 2").files().num_rows == 0


@pytest.mark.req("DL-ACT-13", half="reader")
def test_statistics_that_are_no_text_are_refused(builder: DeltaBuilder) -> None:
    builder.create(ID)
    builder.commit(_add_line(stats={"numRecords": 1}))
    with pytest.raises(CorruptLogError, match="stats"):
        open_table(builder.root)


@pytest.mark.req("DL-ACT-14", half="reader")
def test_tags_are_kept(builder: DeltaBuilder) -> None:
    tags = {"INSERTION_TIME": "1677811178336000"}
    builder.create(ID, builder.add(ids(1), tags=tags))
    (live,) = open_table(builder.root, "delta").live_files.to_pylist()
    assert dict(live["tags"]) == tags


@by_every_road
@pytest.mark.req("DL-ACT-15", half="reader")
def test_a_later_add_replaces_what_is_known_of_a_file(builder: DeltaBuilder) -> None:
    add = builder.add(ids(*range(6)), path="f.parquet", stats={"numRecords": 5})
    builder.create(ID, add)
    again = {"add": {**add["add"], "dataChange": False, "stats": '{"numRecords":6}'}}
    builder.commit(again)
    table = open_table(builder.root)
    assert live_files(table) == [("f.parquet", 0)]
    assert table.scan().files()["record_count"].to_pylist() == [6]
    assert table.scan().count() == 6


_EXAMPLE_PATH = "date=2017-12-10/part-000-c000.gz.parquet"


@by_every_road
@pytest.mark.req("DL-ACT-16")
def test_the_example_of_a_partitioned_add(builder: DeltaBuilder) -> None:
    configuration = {"delta.enableRowTracking": "true"}
    schema = pa.schema([("id", pa.int64()), ("date", pa.date32())])
    written = builder.add(ids(7, 8, 9), path=_EXAMPLE_PATH)
    example = {
        "path": _EXAMPLE_PATH,
        "partitionValues": {"date": "2017-12-10"},
        "size": 841454,
        "modificationTime": 1512909768000,
        "dataChange": True,
        "baseRowId": 4071,
        "defaultRowCommitVersion": 41,
        "stats": '{"numRecords":1}',
    }
    tracking = builder.protocol(1, 7, None, ["rowTracking", "domainMetadata"])
    builder.create(schema, {"add": example}, partition_by=["date"], configuration=configuration, protocol=tracking)
    table = open_table(builder.root, "delta")
    (live,) = table.live_files.to_pylist()
    assert {name: live[name] for name in ("path", "size", "baseRowId", "defaultRowCommitVersion")} == {
        name: example[name] for name in ("path", "size", "baseRowId", "defaultRowCommitVersion")
    }
    (file,) = table.scan().files().to_pylist()
    assert file["modification_time"] == dt.datetime(2017, 12, 10, 12, 42, 48, tzinfo=dt.timezone.utc)
    assert file["partition"] == {"date": dt.date(2017, 12, 10)}
    # The example's size is not that of the file made here, which is read with its own.
    real = {"add": {**example, "size": written["add"]["size"]}}
    builder.commit(real)
    rows = open_table(builder.root, "delta").scan(columns=["id", "_metadata.row_id"]).to_arrow().to_pylist()
    assert [row["_metadata"]["row_id"] for row in rows if row["id"] == 9] == [4073]


@by_every_road
@pytest.mark.req("DL-ACT-17")
def test_the_example_of_a_clustered_add(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1), path=_EXAMPLE_PATH, clusteringProvider="liquid")
    builder.create(ID, add, protocol=builder.protocol(1, 7, None, ["clustering", "domainMetadata"]))
    table = open_table(builder.root, "delta")
    (live,) = table.live_files.to_pylist()
    assert live["clusteringProvider"] == "liquid"
    assert not live["partitionValues"]
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.req("DL-ACT-18", half="reader")
def test_the_example_of_a_remove(builder: DeltaBuilder) -> None:
    path = "part-00001-9-a-c000.snappy.parquet"
    example = {
        "path": path,
        "deletionTimestamp": 1515488792485,
        "baseRowId": 4071,
        "defaultRowCommitVersion": 41,
        "dataChange": True,
    }
    builder.create(ID, {"remove": example})
    (found,) = open_table(builder.root, "delta").tombstones.to_pylist()
    assert found["path"] == path
    assert found["deletionTimestamp"] == 1515488792485
    assert (found["baseRowId"], found["defaultRowCommitVersion"]) == (4071, 41)
    assert [found[name] for name in ("partitionValues", "size", "deletionVector", "tags")] == [None] * 4
    for missing in ("path", "dataChange"):
        builder.commit({"remove": {key: value for key, value in example.items() if key != missing}}, version=1)
        with pytest.raises(CorruptLogError, match=missing):
            open_table(builder.root, "delta")


@pytest.mark.req("DL-ACT-19", half="reader")
@pytest.mark.parametrize("flag", [True, False, None])
def test_extended_metadata_of_a_remove_is_not_required(builder: DeltaBuilder, flag: bool | None) -> None:
    add = builder.add(ids(1), path="f.parquet", tags={"a": "b"})
    builder.create(ID, add)
    extra = {"extendedFileMetadata": True, "partitionValues": {}, "size": 3, "tags": {"a": "b"}} if flag else {}
    builder.commit(builder.remove(add, extended=False, **(extra or {"extendedFileMetadata": flag})))
    (found,) = open_table(builder.root, "delta").tombstones.to_pylist()
    assert found["size"] == (3 if flag else None)
    assert (dict(found["tags"] or ()) or None) == ({"a": "b"} if flag else None)


@pytest.mark.req("DL-ACT-21", half="reader")
def test_tombstones_expire(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1), path="f.parquet")
    builder.create(ID, add, configuration={_PROPERTY: "interval 7 days"})
    builder.commit(builder.remove(add, deletionTimestamp=1515488792485))
    table = open_table(builder.root, "delta")

    def at(millis: int) -> dt.datetime:
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=millis)

    assert table.expired_tombstones(at(1516093592485)).num_rows == 0
    assert table.expired_tombstones(at(1516093592486))["path"].to_pylist() == ["f.parquet"]
    builder.commit({"remove": {"path": "g.parquet", "dataChange": True}})
    assert open_table(builder.root, "delta").expired_tombstones(at(1515488792485))["path"].to_pylist() == ["g.parquet"]


@pytest.mark.parametrize(
    "text", ["7 days", "interval 1 fortnight", "interval", "", "interval 1 month", "interval 2 weeks 1"]
)
def test_odd_intervals_are_refused_or_read(builder: DeltaBuilder, text: str) -> None:
    builder.create(ID, configuration={_PROPERTY: text})
    table = open_table(builder.root, "delta")
    if text == "7 days":
        assert table.expired_tombstones().num_rows == 0
    else:
        with pytest.raises(SchemaError, match=f"'{text}' is not an interval"):
            table.expired_tombstones()


@by_every_road
@pytest.mark.req("DL-ACT-22", half="reader")
def test_a_path_may_be_added_removed_and_changed_at_once(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1, 2), path="f.parquet")
    builder.create(ID, add, protocol=builder.features("deletionVectors"))
    vector = builder.vector([0], "i")
    cdc = {"cdc": {"path": "f.parquet", "partitionValues": {}, "size": 1, "dataChange": False}}
    builder.commit(
        builder.remove(add), {"add": {**add["add"], "deletionVector": vector, "stats": '{"numRecords":2}'}}, cdc
    )
    table = open_table(builder.root, validate=True)
    assert live_files(table) == [("f.parquet", 1)]
    assert tombstones(table) == [("f.parquet", None)]


@pytest.mark.req("DL-ACT-24", half="reader")
def test_the_example_of_a_transaction(builder: DeltaBuilder) -> None:
    application = "3ba13872-2d47-4e17-86a0-21afd2a22395"
    builder.create(ID, {"txn": {"appId": application, "version": 364475}})
    found = open_table(builder.root, "delta").transactions[application]
    assert (found.version, found.last_updated) == (364475, None)
    for missing in ("appId", "version"):
        body = {"appId": "a", "version": 1, "lastUpdated": 3}
        del body[missing]
        builder.commit({"txn": body}, version=1)
        with pytest.raises(CorruptLogError, match=missing):
            open_table(builder.root, "delta")


@pytest.mark.req("DL-ACT-26", half="reader")
def test_the_version_of_an_application_may_decrease(builder: DeltaBuilder) -> None:
    builder.create(ID)
    for version in (10, 7):
        builder.commit({"txn": {"appId": "s1", "version": version, "lastUpdated": version}})
    found = open_table(builder.root, "delta").transactions["s1"]
    assert (found.version, found.last_updated) == (7, 7)


@by_every_road
@pytest.mark.req("DL-ACT-27", half="reader")
def test_commit_info_has_any_shape(builder: DeltaBuilder) -> None:
    example = {
        "timestamp": 1515491537026,
        "userId": "100121",
        "userName": "someone",
        "operation": "INSERT",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "notebook": {"notebookId": "4443029", "notebookPath": "a/b"},
        "clusterId": "1027-202406-pooh991",
    }
    builder.create(ID, builder.add(ids(1)))
    builder.commit(info=example)
    builder.commit(info={"a": [1, {"b": None}]})
    for odd in ("[]", '"text"', "null", "3", "{}"):
        builder.commit_text(f'{{"commitInfo":{odd}}}\n')
    table = open_table(builder.root, "delta")
    assert ids_of(table) == [1]
    history = {commit.version: commit.info for commit in table.history()}
    assert history[1] == example
    assert history[2] == {"a": [1, {"b": None}]}
    assert history[0] == {}
    assert len(history) == 8


def test_a_line_that_is_no_action_is_refused(builder: DeltaBuilder, tmp_path: Path) -> None:
    for text in ("[]", "3", '{"add":3}', '{"add":[]}', "{", "nonsense"):
        other = DeltaBuilder(tmp_path / str(abs(hash(text))))
        other.create(ID)
        other.commit_text(text + "\n")
        with pytest.raises(CorruptLogError, match="version: 1"):
            open_table(other.root)
