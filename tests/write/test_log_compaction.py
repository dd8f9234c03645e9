"""Log compaction files that the package writes (DL-LOG-14 to DL-LOG-16)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.errors import CorruptLogError, InvalidArgumentError, UnsupportedFeatureError, VersionNotFoundError
from tests.support.delta_builder import DeltaBuilder
from tests.support.recorder import Recorder
from tests.support.rows import ID, ids, ids_of, numbered_commits
from tests.support.written_checkpoints import actions_in, state_of

_APP = "3ae45b72-24e1-865a-a211-34987ae02f2a"


@pytest.mark.req("DL-LOG-15")
@pytest.mark.req("DL-LOG-14", "DL-LOG-16", half="writer")
def test_the_example_of_the_protocol(builder: DeltaBuilder, recorder: Recorder) -> None:
    f1, f2, f3, f4 = (builder.add(ids(number), path=f"f{number}") for number in (1, 2, 3, 4))
    builder.create(ID, f1)
    for _ in range(3):
        builder.commit()
    builder.commit(f2, builder.remove(f1), info={"operation": "MERGE"})
    builder.commit(f3, f4, {"txn": {"appId": _APP, "version": 4389}})
    builder.commit(builder.remove(f3), {"txn": {"appId": _APP, "version": 4390}})
    before = DeltaTable(builder.root)
    name = before.compact_log(4, 6)
    assert name == "00000000000000000004.00000000000000000006.compacted.json"
    found = [(kind, members.get("path", members.get("version"))) for kind, members in actions_in(builder.log / name)]
    assert found == [("txn", 4390), ("add", "f2"), ("add", "f4"), ("remove", "f1"), ("remove", "f3")]
    recorder.clear()
    table = DeltaTable(builder.root)
    assert state_of(table) == state_of(before)
    assert sorted(table.tombstones["path"].to_pylist()) == ["f1", "f3"]
    assert set(recorder.commits).isdisjoint({4, 5, 6})
    assert ids_of(table) == [2, 4]


def test_what_overrides_older_commits_is_kept(builder: DeltaBuilder) -> None:
    """Newer deletion vectors, removed domains, metadata, and members that are not understood."""
    first, second = builder.vectors([[0], [1]])
    plain = builder.add(ids(1, 2, 3), path="a.parquet")
    masked = {"add": {**plain["add"], "deletionVector": first}}
    again = {"add": {**plain["add"], "deletionVector": second, "fresh": {"x": None}}}
    domain = {"domain": "mine", "configuration": "{}", "removed": False}
    protocol = builder.features("deletionVectors", writer_only=["domainMetadata"])
    builder.create(ID, plain, {"domainMetadata": domain}, protocol=protocol)
    builder.commit(builder.remove(plain), masked)
    builder.commit(builder.remove(masked), again, {"domainMetadata": {**domain, "removed": True}})
    builder.commit(builder.metadata(ID, configuration={"own": "1"}))
    builder.commit_text('{"add":{"path":"b","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}')
    builder.commit_text('{"remove":{"path":"b","dataChange":true,"deletionTimestamp":5,"n":1.50}}')
    before = DeltaTable(builder.root)
    path = builder.log / before.compact_log(1, 5)
    kept = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert {"domainMetadata": {**domain, "removed": True}} in kept
    assert again in kept
    assert '"n":1.50' in path.read_text("utf-8")
    assert sorted(one["remove"]["path"] for one in kept if "remove" in one) == ["a.parquet", "a.parquet", "b"]
    table = DeltaTable(builder.root)
    assert state_of(table) == state_of(before)
    assert table.domain_metadata == {}
    assert ids_of(table, columns=["id"]) == [1, 3]


@pytest.mark.parametrize("last", [9, 10])
def test_a_checkpoint_is_made_from_one(builder: DeltaBuilder, last: int) -> None:
    numbered_commits(builder, 10)
    before = state_of(DeltaTable(builder.root))
    DeltaTable(builder.root).compact_log(1, last)
    DeltaTable(builder.root).checkpoint()
    for version in range(10):
        (builder.log / f"{version:020d}.json").unlink()
    assert state_of(DeltaTable(builder.root)) == before


@pytest.mark.req("DL-LOG-14", half="writer")
@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (2, 2, "versions 2 to 2 have not so many"),
        (3, 2, "versions 3 to 2 have not so many"),
        (-1, 2, "first must be a 64-bit integer of at least 0, not -1"),
    ],
)
def test_ranges_that_are_refused(builder: DeltaBuilder, first: int, last: int, message: str) -> None:
    numbered_commits(builder, 3)
    with pytest.raises(InvalidArgumentError, match=message):
        DeltaTable(builder.root).compact_log(first, last)
    assert not list(builder.log.glob("*.compacted.json"))


def test_commits_that_are_not_there(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 3)
    table = DeltaTable(builder.root)
    with pytest.raises(VersionNotFoundError, match="version 3 is open, so that no later one"):
        table.compact_log(2, 4)
    (builder.log / f"{1:020d}.json").unlink()
    with pytest.raises(CorruptLogError, match="version 1 is missing"):
        table.compact_log(0, 3)
    (builder.log / f"{1:020d}.json").write_text("nonsense")
    with pytest.raises(CorruptLogError, match="JSON") as caught:
        table.compact_log(0, 3)
    assert (caught.value.context["version"], caught.value.context["table"]) == (1, str(builder.root))
    assert not list(builder.log.glob("*.compacted.json"))


def test_an_unknown_writer_feature_is_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, protocol=builder.features(writer_only=["mystery"]))
    builder.commit()
    with pytest.raises(UnsupportedFeatureError, match="mystery"):
        DeltaTable(builder.root).compact_log(0, 1)


def test_commits_compact_the_log_if_a_property_says_so(tmp_path: Path, recorder: Recorder) -> None:
    name = "deltaberg.logCompactionInterval"
    table = create_table(tmp_path / "t", ID, properties={name: "3", "delta.checkpointInterval": "100"})
    assert [table.append(ids(number)).warnings for number in range(7)] == [()] * 7
    found = sorted(path.name for path in (tmp_path / "t/_delta_log").glob("*.compacted.json"))
    assert found == [f"{first:020d}.{first + 2:020d}.compacted.json" for first in (0, 3)]
    recorder.clear()
    assert ids_of(DeltaTable(tmp_path / "t")) == list(range(7))
    assert set(recorder.commits).isdisjoint(range(6))
    _set_unchecked(table, {name: "1"})
    (warning,) = table.append(ids(8)).warnings
    assert f"the log was not compacted: the property {name} must be a whole number of at least 2" in warning
    table.alter().unset(name).commit()
    assert not table.append(ids(9)).warnings
    assert ids_of(table) == [*range(7), 8, 9]


def _set_unchecked(table: DeltaTable, properties: dict[str, str]) -> None:
    """Give a table these properties alone, unchecked, as another engine might."""
    log = Path(table.location) / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text("utf-8").splitlines()]
    (action,) = (one for one in actions if "metaData" in one)
    action["metaData"]["configuration"] = properties
    (log / f"{table.version + 1:020d}.json").write_text(json.dumps(action), "utf-8")
    table.refresh()


@pytest.mark.req("DL-REC-10", half="writer")
def test_a_file_may_be_named_in_several_ways(builder: DeltaBuilder) -> None:
    """What a remove names in other words than its add is gone from the compaction, too."""
    gone, kept = builder.add(ids(1), path="a b.parquet"), builder.add(ids(2), path="c.parquet")
    whole = f"file://{builder.root}/d.parquet"
    other = builder.add(ids(3), path="d.parquet", log_path=whole)
    builder.create(ID)
    builder.commit(gone, kept, other)
    builder.commit(builder.remove(gone, path="a%20b.parquet"), builder.remove(other, path=f"{builder.root}/d.parquet"))
    before = DeltaTable(builder.root)
    assert ids_of(before) == [2]
    before.compact_log(1, 2)
    table = DeltaTable(builder.root)
    assert ids_of(table) == [2]
    assert state_of(table) == state_of(before)
