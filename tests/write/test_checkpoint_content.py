"""What a checkpoint holds that the package wrote (DL-CKPT)."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable
from deltaberg.errors import CorruptTableError, UnsupportedFeatureError, VersionNotFoundError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import rewrite, with_column
from tests.support.delta_schemas import field
from tests.support.rows import ID, ids, ids_of, numbered_commits, tombstones
from tests.support.written_checkpoints import actions_in, forget_before, of_kind, state_of

_STRUCT = {"delta.checkpoint.writeStatsAsStruct": "true"}
#: No tombstone of these tests is as old as this.
_KEEP_ALL = {"delta.deletedFileRetentionDuration": "interval 100000 days"}


def _write(builder: DeltaBuilder, version: int | None = None) -> Path:
    """Write a checkpoint, and return its file."""
    (name,) = DeltaTable(builder.root, version=version).checkpoint().files
    return builder.log / name


def _type_of(path: Path, *names: str) -> pa.DataType:
    """Return the type of a column of a checkpoint, given as the path of its name."""
    first, *rest = names
    kind = pq.read_schema(path).field(first).type
    for name in rest:
        kind = kind.field(name).type
    return kind


def _names(kind: pa.DataType) -> list[str]:
    return [child.name for child in kind]


@pytest.mark.req("DL-CKPT-01")
def test_an_old_version_gets_the_checkpoint_of_its_own_replay(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 9)
    before = state_of(DeltaTable(builder.root, version=3))
    path = _write(builder, 3)
    assert path.name == f"{3:020d}.checkpoint.parquet"
    forget_before(builder.log, 3)
    table = DeltaTable(builder.root, version=3)
    assert table.base_checkpoint is not None
    assert state_of(table) == before
    assert ids_of(DeltaTable(builder.root)) == list(range(10))


@pytest.mark.req("DL-CKPT-01")
def test_a_version_without_its_commit_gets_none(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 6)
    table = DeltaTable(builder.root)
    (builder.log / f"{6:020d}.json").unlink()
    with pytest.raises(VersionNotFoundError, match=r"does not exist, so no checkpoint.*version: 6"):
        table.checkpoint()
    assert not list(builder.log.glob("*checkpoint*"))


@pytest.mark.req("DL-CKPT-03")
@pytest.mark.req("DL-CKPT-05", "DL-CKPT-16", half="writer")
@pytest.mark.parametrize("days", [6, 8])
def test_it_holds_the_whole_replay_and_no_expired_tombstone(builder: DeltaBuilder, days: int) -> None:
    now = int(dt.datetime.now(dt.timezone.utc).timestamp() * 1000)
    adds = [builder.add(ids(number)) for number in range(4)]
    domain = {"domain": "mine", "configuration": "{}", "removed": False}
    builder.create(
        ID,
        *adds,
        {"domainMetadata": domain},
        {"domainMetadata": {**domain, "domain": "gone"}},
        {"txn": {"appId": "a", "version": 1}},
        {"txn": {"appId": "b", "version": 7, "lastUpdated": 12}},
        protocol=builder.features(writer_only=["domainMetadata"]),
    )
    builder.commit(
        builder.remove(adds[0], deletionTimestamp=now - days * 86_400_000),
        builder.remove(adds[1], deletionTimestamp=now - 8 * 86_400_000),
        {"domainMetadata": {**domain, "domain": "gone", "removed": True}},
        {"txn": {"appId": "a", "version": 2}},
    )
    actions = actions_in(_write(builder))
    assert len(actions) == (8 if days == 6 else 7)
    assert [members["path"] for members in of_kind(actions, "remove")] == (
        [adds[0]["add"]["path"]] if days == 6 else []
    )
    assert {members["path"] for members in of_kind(actions, "add")} == {one["add"]["path"] for one in adds[2:]}
    assert of_kind(actions, "domainMetadata") == [domain]
    assert of_kind(actions, "txn") == [
        {"appId": "a", "version": 2},
        {"appId": "b", "version": 7, "lastUpdated": 12},
    ]
    assert (len(of_kind(actions, "protocol")), len(of_kind(actions, "metaData"))) == (1, 1)


@pytest.mark.req("DL-CKPT-04", "DL-CKPT-22")
def test_it_holds_nothing_that_belongs_into_commits(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1), tags={"k": "v"})
    builder.create(ID, add, configuration={"delta.enableChangeDataFeed": "true", **_KEEP_ALL})
    change = {"path": "_change_data/x.parquet", "partitionValues": {}, "size": 1, "dataChange": False}
    builder.commit(
        {"cdc": change}, builder.remove(add, stats='{"numRecords":1}', tags={"k": "v"}), info={"operation": "DELETE"}
    )
    path = _write(builder)
    assert set(pq.read_schema(path).names).isdisjoint({"commitInfo", "cdc"})
    assert {"stats", "tags"}.isdisjoint(_names(_type_of(path, "remove")))
    assert len(of_kind(actions_in(path), "remove")) == 1


@pytest.mark.req("DL-CKPT-07", half="writer")
def test_the_name(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 10)
    info = DeltaTable(builder.root).checkpoint()
    assert info.files == ("00000000000000000010.checkpoint.parquet",)
    assert (info.version, info.kind) == (10, "classic")
    assert info.size == (builder.log / info.files[0]).stat().st_size
    assert DeltaTable(builder.root).base_checkpoint == info


@pytest.mark.req("DL-CKPT-18", "DL-CKPT-19")
@pytest.mark.parametrize(
    ("properties", "texts", "typed"),
    [
        ({}, True, False),
        ({"delta.checkpoint.writeStatsAsJson": "true", **_STRUCT}, True, True),
        ({"delta.checkpoint.writeStatsAsJson": "false"}, False, False),
        ({"delta.checkpoint.writeStatsAsJson": "false", **_STRUCT}, False, True),
    ],
)
def test_the_properties_of_statistics(
    builder: DeltaBuilder, properties: dict[str, str], texts: bool, typed: bool
) -> None:
    text = '{"numRecords": 3, "minValues": {"id": 1}, "maxValues":{"id":9},"nullCount":{"id":0},"own":[1.50,"\\u00e9"]}'
    builder.create(ID, builder.add(ids(1, 5, 9), stats=text), builder.add(ids(4)), configuration=properties)
    path = _write(builder)
    names = _names(_type_of(path, "add"))
    assert ("stats" in names, "stats_parsed" in names) == (texts, typed)
    adds = of_kind(actions_in(path), "add")
    assert [add.get("stats") for add in adds] == ([text, None] if texts else [None, None])
    parsed = {"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
    assert adds[0].get("stats_parsed") == (parsed if typed else None)


def test_statistics_are_copied_to_the_letter(builder: DeltaBuilder) -> None:
    r"""Text with quotes, backslashes, other escapes and broken JSON is what the commits say, in every order."""
    texts = ['{"a":"\\"quoted\\" \\\\ \\n \\u0041"}', "not JSON", "", '{"ä":"\t€ 😀"}', '{"numRecords":1}', None]
    adds = [builder.add(ids(number), stats=text or "none") for number, text in enumerate(texts)]
    adds[2]["add"]["stats"] = ""
    builder.create(ID, *adds[:3])
    builder.commit(*adds[3:])
    builder.commit_text(json.dumps(builder.add(ids(6), stats='{"x":"é/"}'), ensure_ascii=True).replace("/", "\\/"))
    stats_texts = [*texts, '{"x":"é/"}']
    for _ in range(2):
        found = {add["path"]: add.get("stats") for add in of_kind(actions_in(_write(builder)), "add")}
        paths = [one["add"]["path"] for one in adds]
        assert [found.pop(path) for path in paths] == stats_texts[:-1]
        assert list(found.values()) == stats_texts[-1:]
        # The second checkpoint is made from the first one.
        forget_before(builder.log, 2)


@pytest.mark.req("DL-CKPT-20")
def test_typed_partition_values(builder: DeltaBuilder) -> None:
    schema = pa.schema([("year", pa.int32()), ("month", pa.int32()), ("event", pa.string()), ("id", pa.int64())])
    partitions: list[dict[str, str | None]] = [
        {"year": "2017", "month": "11", "event": "e"},
        {"year": None, "month": "1", "event": ""},
    ]
    adds = [builder.add(ids(1), partition=partition) for partition in partitions]
    builder.create(schema, *adds, partition_by=["year", "month", "event"], configuration=_STRUCT)
    path = _write(builder)
    assert _type_of(path, "add", "partitionValues_parsed") == pa.struct(list(schema)[:3])
    checkpoint_adds = of_kind(actions_in(path), "add")
    assert [add["partitionValues_parsed"] for add in checkpoint_adds] == [
        {"year": 2017, "month": 11, "event": "e"},
        {"month": 1},
    ]
    assert [add["partitionValues"] for add in checkpoint_adds] == partitions


_EXAMPLE = pa.schema(
    [
        ("date", pa.date32()),
        ("region", pa.string()),
        ("asset", pa.string()),
        ("quantity", pa.float64()),
        ("is_available", pa.bool_()),
    ]
)


@pytest.mark.req("DL-CKPT-23", half="writer")
def test_the_example_of_a_checkpoint_schema(builder: DeltaBuilder) -> None:
    rows = pa.table({"asset": ["gold"], "quantity": [1.5], "is_available": [True]})
    add = builder.add(rows, partition={"date": "2020-01-01", "region": "eu"}, stats="full")
    builder.create(_EXAMPLE, add, partition_by=["date", "region"], configuration=_STRUCT)
    path = _write(builder)
    assert {name: _names(_type_of(path, name)) for name in ("metaData", "protocol", "txn")} == {
        "metaData": [
            "id",
            "name",
            "description",
            "format",
            "schemaString",
            "partitionColumns",
            "createdTime",
            "configuration",
        ],
        "protocol": ["minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"],
        "txn": ["appId", "version", "lastUpdated"],
    }
    assert _names(_type_of(path, "metaData", "format")) == ["provider", "options"]
    bounds = pa.struct([("asset", pa.string()), ("quantity", pa.float64())])
    nulls = pa.struct([("asset", pa.int64()), ("quantity", pa.int64()), ("is_available", pa.int64())])
    assert _type_of(path, "add", "stats_parsed") == pa.struct(
        [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", nulls)]
    )
    assert _type_of(path, "add", "partitionValues_parsed") == pa.struct(list(_EXAMPLE)[:2])
    assert {"path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags"} < set(
        _names(_type_of(path, "add"))
    )
    assert {"path", "deletionTimestamp", "dataChange"} < set(_names(_type_of(path, "remove")))


@pytest.mark.req("DL-CKPT-24")
def test_members_that_the_example_leaves_out_are_kept(builder: DeltaBuilder) -> None:
    first, second = builder.vectors([[0], [1]])
    path = "one.parquet"
    old = builder.add(ids(1, 2, 3), path=path, vector=first, baseRowId=5, defaultRowCommitVersion=0)
    other = builder.add(ids(7), path="two.parquet", clusteringProvider="liquid", baseRowId=8, defaultRowCommitVersion=0)
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":8}', "removed": False}
    protocol = builder.features("deletionVectors", writer_only=["rowTracking", "domainMetadata", "clustering"])
    builder.create(
        ID,
        old,
        other,
        {"domainMetadata": domain},
        {"txn": {"appId": "a", "version": 1, "lastUpdated": 77}},
        protocol=protocol,
        configuration=_KEEP_ALL,
    )
    new = builder.add(path=path, vector=second, baseRowId=5, defaultRowCommitVersion=0)
    builder.commit(builder.remove(old), new)
    before = DeltaTable(builder.root)
    actions = actions_in(_write(builder))
    (remove,) = of_kind(actions, "remove")
    assert remove == builder.remove(old)["remove"]
    assert (remove["deletionVector"], remove["baseRowId"], remove["extendedFileMetadata"]) == (first, 5, True)
    assert {add["path"]: add.get("clusteringProvider") for add in of_kind(actions, "add")} == {
        path: None,
        "two.parquet": "liquid",
    }
    assert of_kind(actions, "txn") == [{"appId": "a", "version": 1, "lastUpdated": 77}]
    assert of_kind(actions, "domainMetadata") == [domain]
    forget_before(builder.log, 1)
    table = DeltaTable(builder.root)
    # Without the vector of the tombstone, its key would be that of the live file.
    assert tombstones(table) == [(path, first["pathOrInlineDv"])]
    assert state_of(table) == state_of(before)
    assert ids_of(table) == [1, 3, 7]


@pytest.mark.req("DL-CKPT-25", half="writer")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_physical_names(builder: DeltaBuilder, mode: str) -> None:
    physical = {"date": "col-798f4abc", "asset": "col-b96921f0", "inside": "col-1", "price": "col-04ee4877"}

    def mapped(name: str, kind: Any, number: int) -> dict[str, Any]:
        return field(name, kind, delta__columnMapping__id=number, delta__columnMapping__physicalName=physical[name])

    nested = {"type": "struct", "fields": [mapped("price", "double", 4)]}
    fields = [mapped("date", "date", 1), mapped("asset", "string", 2), mapped("inside", nested, 3)]
    stats = {
        "numRecords": 1,
        "minValues": {physical["asset"]: "a", physical["inside"]: {physical["price"]: 1.5}},
        "maxValues": {physical["asset"]: "z", physical["inside"]: {physical["price"]: 2.5}},
        "nullCount": {physical["asset"]: 0, physical["inside"]: {physical["price"]: 3}},
    }
    add = builder.add(path="a.parquet", partition={physical["date"]: "2020-01-02"}, stats=stats)
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "4", **_STRUCT}
    builder.create(fields, add, partition_by=["date"], configuration=configuration, protocol=builder.protocol(2, 5))
    (written,) = of_kind(actions_in(_write(builder)), "add")
    assert written["partitionValues_parsed"] == {physical["date"]: dt.date(2020, 1, 2)}
    assert written["partitionValues"] == {physical["date"]: "2020-01-02"}
    assert written["stats_parsed"] == stats


@pytest.mark.req("DL-CKPT-26")
@pytest.mark.parametrize(
    ("protocol", "readers", "writers"),
    [
        (DeltaBuilder.protocol(1, 2), None, None),
        (DeltaBuilder.protocol(1, 7, None, ["appendOnly"]), None, ["appendOnly"]),
        (DeltaBuilder.protocol(3, 7, [], []), [], []),
        (DeltaBuilder.features("timestampNtz"), ["timestampNtz"], ["timestampNtz"]),
    ],
)
def test_the_lists_of_features(builder: DeltaBuilder, protocol: Any, readers: Any, writers: Any) -> None:
    builder.create(ID, protocol=protocol)
    (written,) = of_kind(actions_in(_write(builder)), "protocol")
    assert (written.get("readerFeatures"), written.get("writerFeatures")) == (readers, writers)


@pytest.mark.req("DL-CKPT-39", half="writer")
def test_a_classic_checkpoint_has_no_columns_of_the_second_specification(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)), protocol=builder.features("v2Checkpoint"))
    assert {"sidecar", "checkpointMetadata"}.isdisjoint(pq.read_schema(_write(builder)).names)


def test_it_is_made_from_an_older_one(builder: DeltaBuilder) -> None:
    """Statistics of files in a checkpoint come from there, and those of later files from the log."""
    numbered_commits(builder, 3)
    builder.commit(builder.add(ids(100), stats="full"), builder.add(ids(101), stats="count"))
    builder.checkpoint()
    builder.commit(builder.add(ids(102), stats="full"))
    forget_before(builder.log, 4)
    wanted = {path: action["add"].get("stats") for (path, _), action in builder.live().items()}
    found = of_kind(actions_in(_write(builder)), "add")
    assert {add["path"]: add.get("stats") for add in found} == wanted


def test_an_unknown_writer_feature_is_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, protocol=builder.features(writer_only=["appendOnly", "mystery"]))
    with pytest.raises(UnsupportedFeatureError, match=r"writer features that are not supported: mystery \("):
        DeltaTable(builder.root).checkpoint()
    builder.create(ID, protocol=builder.protocol(1, 8))
    with pytest.raises(UnsupportedFeatureError, match=r"writer version 8, but 7 is the highest"):
        DeltaTable(builder.root).checkpoint()
    assert not list(builder.log.glob("*checkpoint*"))


def test_a_commit_that_is_gone_ends_the_writing(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics that cannot be read again are an error, and nothing of the checkpoint remains."""
    monkeypatch.setattr("deltaberg.delta.log.entries._KEPT_BYTES", 0)
    numbered_commits(builder, 3)
    table = DeltaTable(builder.root)
    (builder.log / f"{1:020d}.json").unlink()
    with pytest.raises(CorruptTableError, match="a log entry was deleted after it was read"):
        table.checkpoint()
    assert sorted(path.name for path in builder.log.iterdir()) == [f"{version:020d}.json" for version in (0, 2, 3)]


@pytest.mark.parametrize("texts", ["true", "false"])
@pytest.mark.parametrize("base", ["struct", "both"])
def test_statistics_that_a_checkpoint_has_only_as_columns_are_kept(
    builder: DeltaBuilder, base: str, texts: str
) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("x", pa.float64()),
            ("s", pa.string()),
            ("inside", pa.struct([("d", pa.date32())])),
            ("list", pa.list_(pa.int64())),
        ]
    )
    parsed: dict[str, Any] = {
        "numRecords": 4,
        "minValues": {"id": -3, "x": 0.5, "s": 'a"\\', "inside": {"d": dt.date(2020, 1, 2)}},
        "maxValues": {"id": 9, "x": 2.0, "s": "é", "inside": {"d": dt.date(2021, 1, 2)}},
        "nullCount": {"id": 0, "x": 1, "s": 2, "inside": {"d": 3}, "list": 4},
    }
    add = builder.add(path="a.parquet")
    add["add"]["stats"] = parsed
    configuration = {**_STRUCT, "delta.checkpoint.writeStatsAsJson": texts}
    builder.create(schema, builder.add(path="b.parquet"), configuration=configuration)
    (path,) = builder.checkpoint(0, actions=[*builder.table_actions(0)[:2], add], stats="struct")
    if base == "both":
        # A file of a mixed checkpoint may have a text, or only columns.
        rewrite(path, lambda table: with_column(table, "add", "stats", pa.nulls(len(table), pa.string())))
    (written,) = of_kind(actions_in(_write(builder)), "add")
    assert written["stats_parsed"] == parsed
    if texts == "false":
        assert "stats" not in written
        return
    found = json.loads(written["stats"])
    days = ({"d": "2020-01-02"}, {"d": "2021-01-02"})
    assert found == {
        "numRecords": 4,
        "minValues": {**parsed["minValues"], "inside": days[0]},
        "maxValues": {**parsed["maxValues"], "inside": days[1]},
        # The nulls of a list are not in a text that was made.
        "nullCount": {"id": 0, "x": 1, "s": 2, "inside": {"d": 3}},
    }


def test_loose_bounds_do_not_become_tight(builder: DeltaBuilder) -> None:
    stats = {"numRecords": 4, "tightBounds": False, "minValues": {"id": 1}, "maxValues": {"id": 9}}
    add = builder.add(path="a.parquet")
    add["add"]["stats"] = stats
    builder.create(ID, protocol=builder.features("deletionVectors"))
    builder.checkpoint(0, actions=[*builder.table_actions(0), add], stats="struct")
    (written,) = of_kind(actions_in(_write(builder)), "add")
    assert json.loads(written["stats"]) == {"numRecords": 4}
