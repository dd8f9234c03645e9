"""Log entries, time travel and log compaction (DL-LOG)."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.delta.log.names import LogFile, classify, commit_name
from deltaberg.errors import CorruptLogError, SpecViolationError, VersionNotFoundError
from deltaberg.storage.local import LocalStorage
from tests.support.delta_builder import DeltaBuilder
from tests.support.recorder import Recorder
from tests.support.roads import by_every_road
from tests.support.rows import ID, ids, ids_of, live_files, numbered_commits, tombstones


@pytest.mark.req("DL-LOG-01", half="reader")
def test_commits_have_names_of_twenty_digits(builder: DeltaBuilder) -> None:
    assert commit_name(0) == "00000000000000000000.json"
    assert commit_name(12345678901) == "00000000012345678901.json"
    assert classify("00000000012345678901.json") == LogFile("commit", 12345678901, "00000000012345678901.json")
    builder.create(ID, builder.add(ids(0)))
    (builder.log / "1.json").write_text(json.dumps(builder.add(ids(1))))
    assert open_table(builder.root, "delta").version == 0


@by_every_road
@pytest.mark.req("DL-LOG-03", half="reader")
def test_only_a_whole_commit_is_seen(builder: DeltaBuilder) -> None:
    builder.create(ID)
    adds = [builder.add(ids(1)), builder.add(ids(2))]
    text = "".join(json.dumps(add) + "\n" for add in adds)
    # A store shows an upload under its name when it is whole: before that it has another name, or none.
    (builder.log / f".{commit_name(1)}.upload").write_text(text[:-20])
    assert ids_of(open_table(builder.root)) == []
    builder.commit_text(text)
    assert ids_of(open_table(builder.root)) == [1, 2]


@pytest.mark.req("DL-LOG-03", half="reader")
def test_a_commit_cut_short_is_refused(builder: DeltaBuilder) -> None:
    builder.create(ID)
    text = "".join(json.dumps(builder.add(ids(number))) + "\n" for number in (1, 2))
    builder.commit_text(text[:-20])
    with pytest.raises(CorruptLogError, match="line: 2"):
        ids_of(open_table(builder.root))


@by_every_road
@pytest.mark.req("DL-LOG-04", half="reader")
def test_the_order_of_lines_does_not_matter(builder: DeltaBuilder) -> None:
    vector = builder.vector([0], "i")
    first = builder.add(ids(1, 2), path="a.parquet")
    builder.create(ID, first, protocol=builder.features("deletionVectors"))
    with_vector = {"add": {**first["add"], "deletionVector": vector}}
    actions = [builder.remove(first), with_vector, {"txn": {"appId": "app", "version": 1}}]
    for order in itertools.permutations(actions):
        builder.commit(*order, version=1)
        table = open_table(builder.root, "delta")
        assert live_files(table) == [("a.parquet", 1)]
        assert tombstones(table) == [("a.parquet", None)]
        assert table.transactions["app"].version == 1
        assert ids_of(table) == [2]


@pytest.mark.req("DL-LOG-08", half="reader")
def test_a_table_begins_with_metadata_and_protocol(builder: DeltaBuilder) -> None:
    builder.commit(builder.protocol(), builder.add(ids(1)))
    with pytest.raises(CorruptLogError, match="metaData"):
        open_table(builder.root)
    builder.commit(builder.metadata(ID), builder.add(ids(1)), version=0)
    with pytest.raises(CorruptLogError, match="protocol"):
        open_table(builder.root)


_TXN = {"txn": {"appId": "app", "version": 1}}


@pytest.mark.req("DL-ACT-23", "DL-LOG-09", half="reader")
@pytest.mark.parametrize("case", ["metaData", "protocol", "txn", "add", "remove", "add-vectors", "remove-vectors"])
def test_one_commit_names_a_thing_once(builder: DeltaBuilder, case: str) -> None:
    builder.create(ID, protocol=builder.features("deletionVectors"))
    stats = {"numRecords": 2}
    add = builder.add(ids(1, 2), path="f.parquet", stats=stats)
    vectors = [{"add": {**add["add"], "deletionVector": vector}} for vector in builder.vectors([[0], [1]], "i")]
    twice = {
        "metaData": [builder.metadata(ID), builder.metadata(ID)],
        "protocol": [builder.features("deletionVectors")] * 2,
        "txn": [_TXN, {"txn": {"appId": "app", "version": 2}}],
        "add": [add, add],
        "remove": [builder.remove(add)] * 2,
        "add-vectors": vectors,
        "remove-vectors": [builder.remove(one) for one in vectors],
    }[case]
    builder.commit(*twice)
    message = r"f\.parquet" if case.startswith(("add", "remove")) else case
    with pytest.raises((SpecViolationError, CorruptLogError), match=message):
        open_table(builder.root, validate=True)


def test_two_vectors_of_one_file_are_never_guessed_between(builder: DeltaBuilder) -> None:
    """Which rows are live is not known, so that every reader objects, not the validating one alone."""
    add = builder.add(ids(1, 2), path="f.parquet")
    vectors = builder.vectors([[0], [1]], "i")
    builder.create(ID, protocol=builder.features("deletionVectors"))
    builder.commit(*({"add": {**add["add"], "deletionVector": vector}} for vector in vectors))
    with pytest.raises(CorruptLogError, match=r"f\.parquet.*different deletion vectors"):
        open_table(builder.root)


@by_every_road
@pytest.mark.req("DL-LOG-10")
def test_what_nobody_knows_is_ignored(builder: DeltaBuilder) -> None:
    add = builder.add(ids(1), path="f.parquet", bar=[1], baz={"add": {"path": "no.parquet"}})
    unknown = {"fooAction": {"x": 1, "path": "g.parquet"}}
    domain = {"domainMetadata": {"domain": "someone.else", "configuration": "{}", "removed": False}}
    builder.create(ID, unknown, add, domain)
    table = open_table(builder.root)
    assert live_files(table) == [("f.parquet", 0)]
    assert ids_of(table) == [1]


@by_every_road
@pytest.mark.req("DL-LOG-11", half="reader")
def test_actions_of_checkpoints_do_nothing_in_a_commit(builder: DeltaBuilder, recorder: Recorder) -> None:
    builder.create(ID, builder.add(ids(1)))
    (builder.log / "_sidecars").mkdir()
    (builder.log / "_sidecars" / "s.parquet").write_bytes(b"not Parquet")
    sidecar = {"sidecar": {"path": "s.parquet", "sizeInBytes": 11, "modificationTime": 0}}
    builder.commit({"checkpointMetadata": {"version": 1}}, sidecar, builder.add(ids(2)))
    assert ids_of(open_table(builder.root)) == [1, 2]
    assert "s.parquet" not in recorder.read


@by_every_road
@pytest.mark.req("DL-LOG-12")
def test_time_travel_uses_the_checkpoint_before(builder: DeltaBuilder, recorder: Recorder) -> None:
    builder.create(ID, builder.add(ids(0)))
    for number in range(1, 13):
        builder.commit(builder.add(ids(number)))
        if number in (5, 10):
            builder.checkpoint(pointer=True)
    assert ids_of(open_table(builder.root, version=7)) == list(range(8))
    assert sorted(set(recorder.commits)) == [6, 7]
    assert f"{5:020d}.checkpoint.parquet" in recorder.read
    assert f"{10:020d}.checkpoint.parquet" not in recorder.read


@pytest.mark.req("DL-LOG-13")
def test_listing_begins_at_the_last_checkpoint(builder: DeltaBuilder, recorder: Recorder) -> None:
    builder.create(ID, builder.add(ids(0)))
    for number in range(1, 13):
        builder.commit(builder.add(ids(number)))
        if number == 10:
            builder.checkpoint(pointer=True)
    table = open_table(builder.root, format="delta")
    assert table.version == 12
    assert [offset for directory, offset in recorder.listings if directory == "_delta_log"] == [f"{10:020d}."]
    assert not [name for name in recorder.listed if name < f"{10:020d}."]


@pytest.mark.req("DL-LOG-14", half="reader")
def test_names_of_compactions() -> None:
    name = "00000000000000000004.00000000000000000006.compacted.json"
    assert classify(name) == LogFile("compaction", 4, name, 6)
    assert classify("00000000000000000004.00000000000000000004.compacted.json") is None
    assert classify("4.6.compacted.json") is None


def _with_compaction(builder: DeltaBuilder) -> None:
    """The worked example of the protocol: versions 4 to 6, and the file that compacts them."""
    builder.create(ID)
    for _ in range(2):
        builder.commit()
    f1, f2, f3, f4 = (builder.add(ids(number), path=f"f{number}.parquet") for number in (1, 2, 3, 4))
    builder.commit(f1)
    builder.commit(builder.remove(f1), f2, info={"timestamp": 4})
    builder.commit(f3, {"txn": {"appId": "app", "version": 4389}}, info={"timestamp": 5})
    builder.commit(builder.remove(f3), f4, {"txn": {"appId": "app", "version": 4390}}, info={"timestamp": 6})
    compacted = [builder.remove(f1), f2, builder.remove(f3), f4, {"txn": {"appId": "app", "version": 4390}}]
    path = builder.log / "00000000000000000004.00000000000000000006.compacted.json"
    path.write_text("".join(json.dumps(action) + "\n" for action in compacted))


@by_every_road
@pytest.mark.req("DL-LOG-16", half="reader")
def test_a_compaction_stands_for_its_commits(builder: DeltaBuilder, recorder: Recorder) -> None:
    _with_compaction(builder)
    with_file = open_table(builder.root, "delta")
    assert not {4, 5, 6} & set(recorder.commits)
    assert "00000000000000000004.00000000000000000006.compacted.json" in recorder.read
    seen = [live_files(with_file), tombstones(with_file), with_file.transactions, ids_of(with_file)]
    (builder.log / "00000000000000000004.00000000000000000006.compacted.json").unlink()
    without = open_table(builder.root, "delta")
    assert seen == [live_files(without), tombstones(without), without.transactions, ids_of(without)]
    assert seen[0] == [("f2.parquet", 0), ("f4.parquet", 0)]
    assert seen[1] == [("f1.parquet", None), ("f3.parquet", None)]


@by_every_road
@pytest.mark.req("DL-LOG-17")
def test_a_compaction_is_used_whole_or_not_at_all(builder: DeltaBuilder, recorder: Recorder) -> None:
    _with_compaction(builder)
    table = open_table(builder.root, "delta", version=5)
    assert {4, 5} <= set(recorder.commits)
    assert not [name for name in recorder.read if "compacted" in name]
    assert table.transactions["app"].version == 4389
    assert live_files(table) == [("f2.parquet", 0), ("f3.parquet", 0)]


def _compact(builder: DeltaBuilder, first: int, last: int, text: str | None = None) -> str:
    """Write a compaction of versions that only add."""
    name = f"{first:020d}.{last:020d}.compacted.json"
    actions = [action for version in range(first, last + 1) for action in builder.commits[version]]
    (builder.log / name).write_text(text or "".join(json.dumps(action) + "\n" for action in actions))
    return name


@pytest.mark.parametrize(
    ("ranges", "used", "commits"),
    [
        ([(4, 6), (5, 9)], [(4, 6)], [1, 2, 3, 7, 8, 9]),
        ([(4, 6), (4, 8)], [(4, 8)], [1, 2, 3, 9]),
        ([(1, 3), (4, 6), (8, 9)], [(1, 3), (4, 6), (8, 9)], [7]),
        ([(8, 12), (9, 10)], [], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_compactions_that_overlap_or_reach_past_the_end(
    builder: DeltaBuilder,
    recorder: Recorder,
    ranges: list[tuple[int, int]],
    used: list[tuple[int, int]],
    commits: list[int],
) -> None:
    numbered_commits(builder, 12)
    names = {(first, last): _compact(builder, first, last) for first, last in ranges}
    for version in (10, 11, 12):
        (builder.log / commit_name(version)).unlink()
    table = open_table(builder.root, "delta")
    assert (table.version, ids_of(table)) == (9, list(range(10)))
    assert sorted(recorder.commits) == [0, *commits]
    assert {name for name in recorder.read if "compacted" in name} == {names[one] for one in used}


@pytest.mark.parametrize("text", ["{", "\x00", '{"add":{}}\n'])
def test_the_commits_stand_in_for_a_damaged_compaction(builder: DeltaBuilder, text: str) -> None:
    numbered_commits(builder, 6)
    _compact(builder, 2, 4, text)
    _compact(builder, 5, 6)
    assert ids_of(open_table(builder.root)) == list(range(7))
    (builder.log / commit_name(3)).write_text(text)
    with pytest.raises(CorruptLogError, match=r"version: 3|0003\.json"):
        open_table(builder.root)


@pytest.mark.parametrize("order", ["reversed", "shuffled"])
@pytest.mark.parametrize("pointer", [False, True])
def test_a_store_may_list_in_any_order(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, rng: random.Random, order: str, pointer: bool
) -> None:
    numbered_commits(builder, 12)
    builder.checkpoint(4)
    builder.checkpoint(8, kind="multipart", parts=3, pointer=pointer)
    original = LocalStorage.list_from

    def list_from(store: LocalStorage, prefix: str, offset: str = "", **also: bool) -> Iterator[Any]:
        found = list(original(store, prefix, offset, **also))
        return iter(found[::-1] if order == "reversed" else rng.sample(found, len(found)))

    monkeypatch.setattr(LocalStorage, "list_from", list_from)
    for version in (12, 9, 8, 6, 3):
        table = open_table(builder.root, "delta", version=version)
        assert (table.version, ids_of(table)) == (version, list(range(version + 1)))
    table = open_table(builder.root, "delta")
    assert [commit.version for commit in table.history()] == list(range(12, -1, -1))
    builder.commit(builder.add(ids(13)))
    assert ids_of(table.refresh()) == list(range(14))


@by_every_road
@pytest.mark.req("DL-LOG-18")
def test_changes_are_read_from_commits(builder: DeltaBuilder) -> None:
    _with_compaction(builder)
    found = open_table(builder.root, "delta").changes(4, 6, derived=True).to_arrow().to_pylist()
    seen = sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in found)
    assert seen == [
        (4, "delete", 1),
        (4, "insert", 2),
        (5, "insert", 3),
        (6, "delete", 3),
        (6, "insert", 4),
    ]


def _at(hour: int, minute: int, second: int = 0, micro: int = 0) -> dt.datetime:
    return dt.datetime(2026, 3, 1, hour, minute, second, micro, tzinfo=dt.timezone.utc)


def _millis(instant: dt.datetime) -> int:
    return round(instant.timestamp() * 1000)


@pytest.mark.req("DL-LOG-19")
def test_time_travel_by_timestamp_is_monotonic(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(0)), millis=_millis(_at(10, 0)))
    builder.commit(builder.add(ids(1)), millis=_millis(_at(10, 5)))
    builder.commit(builder.add(ids(2)), millis=_millis(_at(10, 3)))
    times = [commit.timestamp for commit in open_table(builder.root, "delta").history()]
    assert times == [_at(10, 5, 0, 1000), _at(10, 5), _at(10, 0)]
    assert open_table(builder.root, "delta", timestamp=_at(10, 4)).version == 0
    assert open_table(builder.root, "delta", timestamp=_at(10, 5)).version == 1
    assert open_table(builder.root, "delta", timestamp=_at(10, 5, 0, 1000)).version == 2
    assert open_table(builder.root, "delta", timestamp="2026-03-01 10:04:59.999").version == 0
    assert open_table(builder.root, "delta", timestamp="2026-03-01T11:04:59+01:00").version == 0
    for outside in (_at(9, 59), _at(10, 6)):
        with pytest.raises(VersionNotFoundError, match="2026-03-01 10:0"):
            open_table(builder.root, "delta", timestamp=outside)


def test_an_odd_time_of_the_log_is_refused(builder: DeltaBuilder) -> None:
    builder.create(ID)
    for wrong in ("yesterday", "2026-13-01", ""):
        with pytest.raises(ValueError, match=r"timestamp|instant"):
            open_table(builder.root, timestamp=wrong)


def test_a_version_that_is_not_there_says_which_are(builder: DeltaBuilder, tmp_path: Path) -> None:
    builder.create(ID)
    builder.commit()
    with pytest.raises(VersionNotFoundError, match="1"):
        open_table(builder.root, version=5)
    with pytest.raises(VersionNotFoundError, match="the table has no version"):
        open_table(builder.root, version=-1)
