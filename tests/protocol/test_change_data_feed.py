"""The change data feed, the reader's half (DL-CDF)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import (
    ChangesNotRecordedError,
    CorruptLogError,
    DeltabergError,
    InvalidArgumentError,
    SchemaError,
    VersionNotFoundError,
)
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.delta_schemas import field
from tests.support.roads import Road, by_every_road
from tests.support.rows import ID, ids, ids_of, live_files

_ON = {"delta.enableChangeDataFeed": "true"}
_MILLIS = 1_704_067_200_000  # 2024-01-01T00:00:00Z


def _changes(*rows: tuple[int, str]) -> pa.Table:
    """Return the rows of a change data file."""
    values, kinds = zip(*rows, strict=True)
    return pa.table({"id": pa.array(values, pa.int64()), "_change_type": pa.array(kinds, pa.string())})


def _cdc(builder: DeltaBuilder, rows: pa.Table, partition: dict[str, str | None] | None = None) -> Action:
    """Write a change data file, and give the action for it."""
    add = builder.add(rows, path=f"_change_data/cdc-{len(builder.rows):05d}.c000.snappy.parquet")
    body = {name: add["add"][name] for name in ("path", "size")}
    return {"cdc": {**body, "partitionValues": partition or {}, "dataChange": False}}


def _feed(table: Any, start: Any, end: Any = None, **scan: Any) -> list[tuple[Any, ...]]:
    """Return changes as (version, type, id), sorted."""
    found = table.changes(start, end, **scan).to_arrow().to_pylist()
    return sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in found)


def _rows(builder: DeltaBuilder, *versions: Sequence[Action], **create: Any) -> Any:
    """Commit versions 1, 2, ... of a table with a change feed, and open it."""
    builder.create(ID, configuration=_ON, millis=_MILLIS, **create)
    for number, actions in enumerate(versions, start=1):
        builder.commit(*actions, millis=_MILLIS + number * 1000)
    return open_table(builder.root)


@pytest.mark.req("DL-CDF-01", half="reader")
def test_change_files_hold_rows_and_what_became_of_them(builder: DeltaBuilder, road: Road) -> None:
    update = _cdc(builder, _changes((1, "update_preimage"), (2, "update_postimage")))
    delete = _cdc(builder, _changes((5, "delete")))
    merge = _cdc(builder, _changes((6, "insert")))
    table = _rows(builder, [update], [delete, merge])
    found = road.rows(table.changes(1, columns=["id", "_change_type"]))
    assert found == [
        {"id": 1, "_change_type": "update_preimage"},
        {"id": 2, "_change_type": "update_postimage"},
        {"id": 5, "_change_type": "delete"},
        {"id": 6, "_change_type": "insert"},
    ]


@by_every_road
@pytest.mark.req("DL-CDF-02", half="reader")
def test_the_action_of_a_change_file(builder: DeltaBuilder) -> None:
    action = _cdc(builder, _changes((1, "delete")))
    assert action["cdc"]["dataChange"] is False
    action["cdc"]["tags"] = {"a": "b"}
    assert _feed(_rows(builder, [action]), 1) == [(1, "delete", 1)]
    builder.commit({"cdc": {"partitionValues": {}, "size": 1, "dataChange": False}})
    with pytest.raises(CorruptLogError, match="path"):
        _feed(open_table(builder.root), 1)


@by_every_road
@pytest.mark.req("DL-CDF-05")
def test_change_files_stand_for_their_commit(builder: DeltaBuilder) -> None:
    old, new = builder.add(ids(*range(10))), builder.add(ids(*range(1, 11)))
    builder.create(ID, old, configuration=_ON)
    cdc = _cdc(builder, _changes((0, "update_preimage"), (10, "update_postimage")))
    builder.commit(builder.remove(old), new, cdc)
    assert _feed(open_table(builder.root), 1) == [(1, "update_postimage", 10), (1, "update_preimage", 0)]


_OFF = {"delta.enableChangeDataFeed": "False"}


@pytest.mark.parametrize(
    ("properties", "kept"),
    [((None, None, None), ""), ((None, _ON, None), "12"), ((_ON, None, _OFF), "01"), ((_ON, _OFF, _ON), "02")],
)
def test_what_was_not_recorded_has_to_be_asked_for(
    builder: DeltaBuilder, road: Road, properties: tuple[dict[str, str] | None, ...], kept: str
) -> None:
    """As in delta-spark, each version of a range needs a change data feed. ``kept`` names the versions with one."""
    builder.create(ID, builder.add(ids(0)), configuration=properties[0] or {})
    for number in (1, 2):
        configuration = properties[number]
        metadata = [] if configuration is None else [builder.metadata(ID, configuration=configuration)]
        builder.commit(builder.add(ids(number)), *metadata)
    table = open_table(builder.root, "delta")
    for first, last in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2)):
        versions = range(first, last + 1)
        if all(str(version) in kept for version in versions):
            assert _feed(table, first, last) == [(number, "insert", number) for number in versions]
            continue
        with pytest.raises(ChangesNotRecordedError, match=f"versions {first} to {last} were not recorded") as caught:
            table.changes(first, last).to_arrow()
        assert str(caught.value.context["version"]) not in kept
    everything = [{"id": number, "_change_type": "insert"} for number in range(3)]
    assert road.rows(table.changes(0, columns=["id", "_change_type"], derived=True)) == everything


@pytest.mark.req("DL-CDF-06")
def test_changes_are_derived_from_files(builder: DeltaBuilder, road: Road) -> None:
    first = builder.add(ids(1, 2, 3))
    second = builder.add(ids(4, 5, 6, 7, 8), vector=builder.vector([0]), stats="count")
    third = builder.add(ids(9))
    features = builder.features("deletionVectors")
    table = _rows(builder, [first], [second], [builder.remove(second), third], protocol=features)
    assert _feed(table, 1, 1) == [(1, "insert", 1), (1, "insert", 2), (1, "insert", 3)]
    deleted = [(3, "delete", number) for number in (5, 6, 7, 8)]
    assert _feed(table, 3) == [*deleted, (3, "insert", 9)]
    found = road.rows(table.changes(2, columns=["id", "_change_type", "_commit_version"]))
    assert len(found) == 4 + 5


@pytest.mark.parametrize("extended", [True, False])
def test_removes_need_no_partition_values(builder: DeltaBuilder, extended: bool) -> None:
    """The version before has them, of each file."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["x", "y"]})
    files = [builder.add(rows.slice(at, 1).drop(["p"]), partition={"p": name}) for at, name in enumerate("xy")]
    builder.create(rows.schema, *files, partition_by=["p"], configuration=_ON)
    builder.commit(*(builder.remove(file, extended=extended) for file in files))
    found = open_table(builder.root).changes(1, columns=["id", "p", "_change_type"]).to_arrow().sort_by("id")
    assert found.to_pylist() == [
        {"id": 1, "p": "x", "_change_type": "delete"},
        {"id": 2, "p": "y", "_change_type": "delete"},
    ]


@by_every_road
@pytest.mark.req("DL-CDF-07")
def test_rearrangements_are_no_changes(builder: DeltaBuilder) -> None:
    small = [builder.add(ids(1)), builder.add(ids(2))]
    builder.create(ID, *small, configuration=_ON)
    builder.commit(*(builder.remove(one, dataChange=False) for one in small), builder.add(ids(1, 2), dataChange=False))
    table = open_table(builder.root)
    assert _feed(table, 1) == []
    assert len(_feed(table, 0)) == 2


@pytest.mark.req("DL-CDF-08")
def test_a_new_vector_deletes_what_it_hides(builder: DeltaBuilder, road: Road) -> None:
    plain = builder.add(ids(*range(10)), path="f.parquet", stats="count")
    builder.create(ID, plain, configuration=_ON, protocol=builder.features("deletionVectors"))
    first, second, third = builder.vectors([[0, 9], [0, 4, 9], [0, 4]])

    def with_vector(vector: dict[str, Any]) -> Action:
        return {"add": {**plain["add"], "deletionVector": vector}}

    builder.commit(builder.remove(plain), with_vector(first))
    builder.commit(builder.remove(with_vector(first)), with_vector(second))
    builder.commit(builder.remove(with_vector(second)), with_vector(third))
    table = open_table(builder.root)
    assert _feed(table, 1) == [(1, "delete", 0), (1, "delete", 9), (2, "delete", 4), (3, "insert", 9)]
    found = road.rows(table.changes(1, 2, columns=["id", "_change_type"], filter="id < 9"))
    assert found == [{"id": 0, "_change_type": "delete"}, {"id": 4, "_change_type": "delete"}]


@pytest.mark.req("DL-CDF-08")
def test_a_new_vector_of_a_file_that_is_named_otherwise(builder: DeltaBuilder) -> None:
    plain = builder.add(ids(*range(10)), path="f.parquet", log_path=f"{builder.root}/f.parquet", stats="count")
    builder.create(ID, plain, configuration=_ON, protocol=builder.features("deletionVectors"))
    (vector,) = builder.vectors([[0, 9]])
    other = f"file://{builder.root}/f.parquet"
    builder.commit(builder.remove(plain), {"add": {**plain["add"], "path": other, "deletionVector": vector}})
    table = open_table(builder.root)
    assert ids_of(table) == list(range(1, 9))
    assert _feed(table, 1) == [(1, "delete", 0), (1, "delete", 9)]


@pytest.mark.req("DL-CDF-09")
def test_changes_say_when_they_were_committed(builder: DeltaBuilder, road: Road) -> None:
    table = _rows(builder, [builder.add(ids(1))], [builder.add(ids(2))], [_cdc(builder, _changes((3, "delete")))])
    found = {row["id"]: (row["_commit_version"], row["_commit_timestamp"]) for row in road.rows(table.changes(1))}
    start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    assert found == {number: (number, start + dt.timedelta(seconds=number)) for number in (1, 2, 3)}
    schema = table.changes(1).schema
    assert schema.field("_commit_version").type == pa.int64()
    assert schema.field("_commit_timestamp").type == pa.timestamp("us", "UTC")


@by_every_road
@pytest.mark.req("DL-CDF-10")
@pytest.mark.parametrize("value", [None, "insert"])
def test_a_change_type_in_a_data_file_is_ignored(builder: DeltaBuilder, value: str | None) -> None:
    rows = pa.table({"id": pa.array([1], pa.int64()), "_change_type": pa.array([value], pa.string())})
    table = _rows(builder, [builder.add(rows)])
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]
    assert _feed(table, 1) == [(1, "insert", 1)]


@pytest.mark.req("DL-CDF-11")
def test_partitions_and_mapping_hold_for_change_files(builder: DeltaBuilder, road: Road) -> None:
    columns = [
        field("id", "long", delta__columnMapping__id=1, delta__columnMapping__physicalName="col-1"),
        field("p", "integer", delta__columnMapping__id=2, delta__columnMapping__physicalName="col-2"),
    ]
    configuration = {**_ON, "delta.columnMapping.mode": "name"}
    protocol = builder.protocol(2, 7, None, ["columnMapping", "changeDataFeed"])
    builder.create(columns, partition_by=["p"], configuration=configuration, protocol=protocol)
    stored = pa.table({"col-1": pa.array([1], pa.int64()), "_change_type": ["delete"]})
    builder.commit(_cdc(builder, stored, {"col-2": "7"}))
    builder.commit(builder.add(pa.table({"col-1": pa.array([2], pa.int64())}), partition={"col-2": "8"}))
    found = road.rows(open_table(builder.root).changes(1, columns=["id", "p", "_change_type"]))
    assert found == [{"id": 1, "p": 7, "_change_type": "delete"}, {"id": 2, "p": 8, "_change_type": "insert"}]


@by_every_road
@pytest.mark.req("DL-CDF-12", half="reader")
def test_change_files_are_not_in_the_snapshot(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="f.parquet"), configuration=_ON)
    before = live_files(open_table(builder.root, "delta"))
    builder.commit(_cdc(builder, _changes((1, "delete"))))
    table = open_table(builder.root, "delta")
    assert live_files(table) == before == [("f.parquet", 0)]
    assert ids_of(table) == [1]
    assert table.tombstones.num_rows == 0


def test_ranges_by_time(builder: DeltaBuilder) -> None:
    table = _rows(builder, [builder.add(ids(1))], [builder.add(ids(2))], [builder.add(ids(3))])

    def at(seconds: float) -> dt.datetime:
        return dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=seconds)

    assert [one[0] for one in _feed(table, at(1), at(2))] == [1, 2]
    assert [one[0] for one in _feed(table, at(1.5), at(2.5))] == [2]
    assert [one[0] for one in _feed(table, at(3))] == [3]
    assert [one[0] for one in _feed(table, "2024-01-01 00:00:02")] == [2, 3]


def test_ranges_that_are_none_are_refused(builder: DeltaBuilder) -> None:
    table = _rows(builder, [builder.add(ids(1))], [builder.add(ids(2))])
    for start, end in ((4, None), (2, 1), (-1, None), (1, 3)):
        with pytest.raises(DeltabergError, match=r"changes (from|end)"):
            table.changes(start, end).to_arrow()
    with pytest.raises(VersionNotFoundError, match="is after the last commit"):
        table.changes(dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc)).to_arrow()


def test_commits_that_were_cleaned_up_are_missing(builder: DeltaBuilder) -> None:
    _rows(builder, [builder.add(ids(1))], [builder.add(ids(2))], [builder.add(ids(3))])
    builder.checkpoint(2)
    for version in (0, 1):
        (builder.log / f"{version:020d}.json").unlink()
    table = open_table(builder.root)
    assert _feed(table, 2) == [(2, "insert", 2), (3, "insert", 3)]
    with pytest.raises(VersionNotFoundError, match="1"):
        _feed(table, 1)


def test_a_column_that_came_later_is_null_in_older_changes(builder: DeltaBuilder) -> None:
    builder.create(ID, configuration=_ON)
    builder.commit(builder.add(ids(1)))
    wider = pa.schema([*ID, ("name", pa.string())])
    builder.commit(builder.metadata(wider, configuration=_ON))
    builder.commit(builder.add(pa.table({"id": pa.array([2], pa.int64()), "name": ["x"]})))
    found = open_table(builder.root).changes(1).to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in found) == [(1, None), (2, "x")]


def test_a_limit_and_a_filter_on_changes(builder: DeltaBuilder, road: Road) -> None:
    table = _rows(builder, [builder.add(ids(*range(10)))], [builder.add(ids(*range(10, 20)))])
    assert road.count(table.changes(1, limit=7)) == 7
    scan = table.changes(1, filter="_commit_version = 2 AND _change_type = 'insert' AND id > 17")
    assert road.column(scan, "id") == [18, 19]
    assert scan.files().num_rows == 1


@pytest.mark.parametrize(
    ("mapped", "partition_by", "shown"),
    [(False, None, ["id", "p", "late"]), (False, "p", ["id", "p", "late"]), (True, "p", ["id", "p"])],
)
def test_changes_of_older_versions_have_the_columns_of_the_newest(
    tmp_path: Path, road: Road, mapped: bool, partition_by: str | None, shown: list[str]
) -> None:
    """As in delta-spark: with column mapping, they are those of the last version that is asked for."""
    properties = _ON | ({"delta.columnMapping.mode": "name"} if mapped else {})
    table = create_table(
        tmp_path / "t", {"id": pa.int64(), "p": pa.string()}, partition_by=partition_by, properties=properties
    )
    table.append(pa.table({"id": [1, 2], "p": ["a", "b"]}))
    table.delete("id = 2")
    table.append(pa.table({"id": [3], "p": ["a"], "late": [7]}), schema_mode="merge")
    scan = table.changes(1, 2)
    names = [*shown, "_change_type", "_commit_version", "_commit_timestamp"]
    assert scan.schema.names == names
    found = [list(row.values())[:-1] for row in road.rows(scan)]
    null = [] if mapped else [None]
    inserts = [[1, "a", *null, "insert", 1], [2, "b", *null, "insert", 1]]
    assert found == sorted([*inserts, [2, "b", *null, "delete", 2]], key=repr)
    assert road.column(table.changes(1), "late") == [7, None, None, None]
    if not mapped:
        assert road.count(table.changes(1, 2, "late IS NULL")) == 3
        assert road.count(table.changes(1, 2, "late IS NOT NULL")) == 0
    older = open_table(table.location, version=2)
    assert older.changes(1).schema.names == ["id", "p", *names[-3:]]


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["_change_type", "_commit_version", "_COMMIT_TIMESTAMP"])
def test_a_column_that_a_feed_adds_itself(tmp_path: Path, name: str) -> None:
    table = create_table(tmp_path / "t", {"id": pa.int64(), name: pa.string()})
    table.append(pa.table({"id": [1], name: ["x"]}))
    with pytest.raises(InvalidArgumentError, match=rf'column {name}[^_].*\n.*rename\("{name}", new_name\)'):
        table.changes(0, derived=True)
    with pytest.raises(InvalidArgumentError, match=f"cannot have a column {name}"):
        table.alter().set(_ON).commit()
    assert table.scan().to_arrow()[name].to_pylist() == ["x"]


@pytest.mark.one_backend
def test_a_column_whose_type_is_another_one_since(tmp_path: Path) -> None:
    """Where the newest version cannot hold what the range does, the columns are those of the range."""
    table = create_table(tmp_path / "t", {"id": pa.int32()}, properties=_ON)
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    table.overwrite(pa.table({"id": ["x"]}), schema_mode="overwrite")
    assert table.changes(1, 1).to_arrow()["id"].to_pylist() == [1]
    with pytest.raises(SchemaError, match="column id, which version 2 lacks, or has with another type"):
        table.changes(1, 2).to_arrow()


@pytest.mark.one_backend
@pytest.mark.parametrize("mapped", [True, False])
def test_columns_that_the_last_version_lacks(tmp_path: Path, mapped: bool) -> None:
    """A column of the same name that came later holds nothing of what the dropped one held."""
    properties = {"delta.enableChangeDataFeed": "true"} | ({"delta.columnMapping.mode": "name"} if mapped else {})
    rows = pa.table({"id": [1], "v": [5]})
    table = create_table(tmp_path / "t", rows.schema, properties=properties)
    table.append(rows)
    if mapped:
        table.alter().drop("v").commit()
        table.alter().add("v", pa.int64()).commit()
    else:
        table.overwrite(pa.table({"id": [2], "w": [6]}), schema_mode="overwrite")
    with pytest.raises(SchemaError, match=r"version 1 has the column v, which version \d lacks"):
        table.changes(1).to_arrow()
    assert table.changes(1, 1).to_arrow()["v"].to_pylist() == [5]
    assert table.changes(table.version).count() == (0 if mapped else 2)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_rows_that_went_with_their_mapped_columns_are_refused(tmp_path: Path, mode: str) -> None:
    """New columns of the same names are others, and have no values in the files that were removed."""
    root = str(tmp_path / "t")
    table: Any = create_table(root, ids(1).schema, properties={"delta.columnMapping.mode": mode})
    table.append(ids(1))
    table.overwrite(ids(2), schema_mode="overwrite")
    table.append(ids(3))
    if mode == "none":
        rows = table.changes(2, derived=True).to_arrow().select(["id", "_change_type"]).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == [(1, "delete"), (2, "insert"), (3, "insert")]
        return
    for first in (1, 2):
        with pytest.raises(SchemaError, match="column id, which version 3 lacks"):
            table.changes(first, derived=True).to_arrow()
    assert table.changes(3, derived=True).to_arrow().num_rows == 1


def test_rows_that_went_with_their_names_in_files_are_refused(tmp_path: Path) -> None:
    """A restored version has the same columns under the names that files had then: this is said, and nothing else."""
    table = create_table(tmp_path / "t", ids(1).schema, properties={**_ON, "delta.columnMapping.mode": "name"})
    table.append(ids(1))
    table.alter().set({"delta.columnMapping.mode": "none"}).commit()
    table.append(ids(2))
    table.restore(1)
    said = "version 4 deleted rows of version 3 with the column id, .* under another name in files"
    with pytest.raises(SchemaError, match=said):
        table.changes(4).to_arrow()
    assert table.changes(3, 3).to_arrow()["id"].to_pylist() == [2]


def test_a_loop_may_ask_for_changes_that_are_yet_to_come(builder: DeltaBuilder) -> None:
    table = _rows(builder, [builder.add(ids(1))])
    asked, seen = 0, []
    for number in range(2, 5):
        seen += [row[-1] for row in _feed(table, asked)]
        asked = table.version + 1
        assert _feed(table, asked) == []
        assert table.changes(asked).schema.names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
        builder.commit(builder.add(ids(number)), millis=_MILLIS + number * 1000)
        table.refresh()
    assert seen == [1, 2, 3]
    with pytest.raises(VersionNotFoundError, match="no changes from version 6 on yet"):
        table.changes(6)


@pytest.mark.parametrize(("old", "new"), [([], ["p"]), (["p"], [])], ids=["partitioned", "unpartitioned"])
def test_changes_on_both_sides_of_a_new_partitioning_are_refused(
    tmp_path: Path, old: list[str], new: list[str]
) -> None:
    """A column is in files on one side, and beside them on the other, so that it would be null without a word."""
    table = create_table(tmp_path / "t", {"id": pa.int64(), "p": pa.string()}, partition_by=old, properties=_ON)
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    table.append(rows)
    table.delete("id = 1")
    table.alter().partition_by(*new).commit()
    table.append(rows)
    for first in (1, 2):
        with pytest.raises(SchemaError, match="the partition columns changed in version 3"):
            table.changes(first).to_arrow()
    for first, last, count in ((1, 2, 3), (3, 4, 2)):
        found = table.changes(first, last).to_arrow()
        assert (found.num_rows, found["p"].null_count) == (count, 0)


def test_rows_that_went_with_their_partition_columns_are_refused(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", {"id": pa.int64(), "p": pa.string()}, partition_by=["p"], properties=_ON)
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    table.append(rows)
    table.overwrite(rows, schema_mode="overwrite", partition_by=["id"])
    with pytest.raises(SchemaError, match="version 2 deleted rows of version 1, which had other partition columns"):
        table.changes(2).to_arrow()
    with pytest.raises(SchemaError, match="the partition columns changed in version 2"):
        table.changes(1).to_arrow()


def test_a_partition_column_may_be_renamed_again_and_again(tmp_path: Path) -> None:
    table = create_table(
        tmp_path / "t",
        {"id": pa.int64(), "p": pa.string()},
        partition_by=["p"],
        properties={**_ON, "delta.columnMapping.mode": "name"},
    )
    table.append(pa.table({"id": [1], "p": ["a"]}))
    for old, new in (("p", "q"), ("q", "r")):
        table.alter().rename(old, new).commit()
    table.append(pa.table({"id": [2], "r": ["b"]}))
    assert table.changes(1).to_arrow().sort_by("id")["r"].to_pylist() == ["a", "b"]
