"""Streams of Delta tables, planned without Spark: positions, limits, what stops a stream, and what is never skipped."""

from __future__ import annotations

import random
import shutil
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import DeltaTable, create_table, open_table
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.stream.commit_rules import DeltaStreamOptions
from deltaberg.delta.stream.delta_stream import DeltaStream
from deltaberg.delta.stream.position import Position
from deltaberg.delta.streams import delta_stream
from deltaberg.errors import (
    ChangesNotRecordedError,
    CorruptLogError,
    InvalidArgumentError,
    SchemaError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaberg.table.streaming.limits import ALL, Limits
from tests.support.delta_builder import DeltaBuilder, commit_name
from tests.support.streams import batch_rows, drain, flat_ids

_FEED = {"delta.enableChangeDataFeed": "true"}


def _stream(at: Path | str, **options: Any) -> DeltaStream:
    table = open_table(at)
    assert isinstance(table, DeltaTable)
    return delta_stream(table, DeltaStreamOptions(**options))


def _ids(batches: Iterable[pa.Table]) -> list[list[int]]:
    return [rows["id"].to_pylist() for rows in batches]


def _table(at: Path, *ids: list[int], properties: Mapping[str, str] | None = None) -> Any:
    table = create_table(at, {"id": pa.int64()}, properties=properties)
    for some in ids:
        table.append(pa.table({"id": some}))
    return table


def _sized(builder: DeltaBuilder, *sizes: int) -> None:
    """Make a table whose only commit adds files that are said to have these sizes, and hold their numbers."""
    adds = [builder.add(pa.table({"id": [number]}), size=size) for number, size in enumerate(sizes)]
    builder.create(pa.table({"id": [0]}).schema, *adds)


@pytest.mark.req("DL-STR-01", half="writer")
def test_a_snapshot_in_bounded_batches_and_then_each_commit_once(tmp_path: Path) -> None:
    table = _table(tmp_path, *([number] for number in range(10)))
    stream = _stream(tmp_path)
    at = stream.initial()
    batches = []
    for appended in ([100], [101], None):
        end = stream.latest(at, Limits(files=3))
        batches.append(batch_rows(stream, at, end))
        at = end
        if appended is not None:
            table.append(pa.table({"id": appended}))
            table.compact()
    at, others = drain(stream, at, Limits(files=3))
    assert sorted(flat_ids([*batches, *others])) == [*range(10), 100, 101]
    assert [len(ids) for ids in _ids(batches)] == [3, 3, 3]
    # Another process goes on from the record, and finds nothing new.
    later = _stream(tmp_path)
    assert drain(later, later.read_position(stream.record(at))) == (at, [])


@pytest.mark.req("DL-STR-02", half="writer")
def test_starts(tmp_path: Path) -> None:
    table = _table(tmp_path, [1], [2], [3])
    times = {commit.version: commit.timestamp for commit in table.history()}
    after = {"start_millis": int(times[2].timestamp() * 1000 + 0.5)}
    for options, ids in (({"start": 0}, [1, 2, 3]), ({"start": 2}, [2, 3]), (after, [2, 3]), ({"start": "latest"}, [])):
        assert flat_ids(drain(_stream(tmp_path, **options))[1]) == ids
    latest = _stream(tmp_path, start="latest")
    at = latest.initial()
    table.append(pa.table({"id": [4]}))
    assert _ids(drain(latest, at)[1]) == [[4]]
    for options in ({"start": 9}, {"start_millis": 1 << 45}):
        with pytest.raises(
            VersionNotFoundError, match=r"is after the last commit|the stream cannot begin at version 9"
        ):
            _stream(tmp_path, **options).initial()


@pytest.mark.req("DL-STR-03", half="writer")
@pytest.mark.parametrize(
    ("where", "options", "ids"),
    [
        ("id = 1", {}, None),
        ("id = 1", {"ignore_deletes": True}, None),
        ("id = 1", {"ignore_changes": True}, [1, 2, 3, 2, 4]),
        ("id = 1", {"skip_changes": True}, [1, 2, 3, 4]),
        ("id < 3", {}, None),
        ("id < 3", {"ignore_deletes": True}, [1, 2, 3, 4]),
        ("id < 3", {"ignore_changes": True}, [1, 2, 3, 4]),
        ("id < 3", {"skip_changes": True}, [1, 2, 3, 4]),
    ],
)
def test_commits_that_remove_rows(tmp_path: Path, where: str, options: Any, ids: list[int] | None) -> None:
    table = _table(tmp_path, [1, 2], [3])
    table.delete(where, strategy="copy-on-write")
    table.append(pa.table({"id": [4]}))
    table.compact()
    stream = _stream(tmp_path, start=0, **options)
    if ids is not None:
        assert flat_ids(drain(stream)[1]) == ids
        return
    before = stream.latest(stream.initial(), ALL)
    assert (before, _ids([batch_rows(stream, stream.initial(), before)])) == (Position(3), [[1, 2, 3]])
    with pytest.raises(UnsupportedFeatureError, match=r"version 3 .*deletes rows"):
        stream.latest(before, ALL)


@pytest.mark.req("DL-STR-04", half="writer")
def test_offsets_of_other_tables_and_versions_are_refused(tmp_path: Path) -> None:
    _table(tmp_path, [1])
    stream = _stream(tmp_path)
    record = stream.record(Position(2))
    assert list(record) == ["sourceVersion", "reservoirId", "reservoirVersion", "index", "isStartingVersion"]
    assert stream.read_position({**record, "sourceVersion": 3, "index": -100}) == Position(2)
    with pytest.raises(VersionNotFoundError, match="another table"):
        stream.read_position({**record, "reservoirId": "another"})
    with pytest.raises(UnsupportedFeatureError, match="log of schemas"):
        stream.read_position({**record, "sourceVersion": 3, "index": -20})
    for wrong in ({"sourceVersion": 2}, {"reservoirVersion": "1"}, {"index": True}, {"isStartingVersion": 0}):
        with pytest.raises(InvalidArgumentError, match="no offset"):
            stream.read_position({**record, **wrong})
    with pytest.raises(InvalidArgumentError, match="no offset"):
        stream.read_position({})


@pytest.mark.req("DL-STR-04", half="writer")
def test_a_table_that_is_made_anew_stops_the_stream(tmp_path: Path) -> None:
    at = tmp_path / "table"
    _table(at, [1])
    stream = _stream(at)
    end, _ = drain(stream)
    shutil.rmtree(at)
    with pytest.raises(TableNotFoundError, match="the directory does not exist"):
        stream.latest(end, ALL)
    _table(at, [2], [3], [4])
    with pytest.raises(VersionNotFoundError, match="made anew"):
        stream.latest(end, ALL)


@pytest.mark.req("DL-STR-05", half="writer")
@pytest.mark.parametrize("lost", [2, 3])
def test_a_commit_that_is_lost_is_never_skipped(tmp_path: Path, lost: int) -> None:
    _table(tmp_path, [1], [2], [3])
    stream = _stream(tmp_path, start=0)
    end = stream.latest(stream.initial(), ALL)
    assert end == Position(4)
    (tmp_path / "_delta_log" / commit_name(lost)).unlink()
    again = _stream(tmp_path, start=0) if lost == 3 else stream
    again._planned = None
    with pytest.raises((VersionNotFoundError, CorruptLogError), match=r"is not there|is missing from the log"):
        again.batch(Position(0), end)
    with pytest.raises((VersionNotFoundError, CorruptLogError), match=r"it lost commits|is missing from the log"):
        again.latest(end if lost == 3 else Position(2), ALL)
    loose = _stream(tmp_path, start=0, allow_data_loss=True) if lost == 3 else None
    if loose is not None:
        assert flat_ids([batch_rows(loose, Position(0), end)]) == [1, 2]


@pytest.mark.req("DL-STR-06", half="writer")
@pytest.mark.parametrize(
    ("change", "is_widened"),
    [
        (lambda alter: alter.add("more", pa.string()), True),
        (lambda alter: alter.rename("name", "other"), False),
        (lambda alter: alter.drop("name"), False),
        (lambda alter: alter.widen("small", pa.int64()), True),
    ],
    ids=["add", "rename", "drop", "widen"],
)
def test_schema_changes_stop_the_stream(tmp_path: Path, change: Any, is_widened: bool) -> None:
    columns = {"small": pa.int32(), "name": pa.string()}
    properties = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    table = create_table(tmp_path, columns, properties=properties)
    table.append(pa.table({"small": pa.array([1], pa.int32()), "name": ["a"]}))
    stream = _stream(tmp_path, start=0)
    change(table.alter()).commit()
    end = stream.latest(stream.initial(), ALL)
    assert end == Position(2)
    with pytest.raises(SchemaError, match="version 2 has another"):
        stream.latest(end, ALL)
    # A stream that begins anew has the new columns. Older rows fit them if columns were only added or widened.
    later = _stream(tmp_path, start=0)
    if is_widened:
        (rows,) = drain(later)[1]
        assert rows.column_names == open_table(tmp_path).schema.names
    else:
        with pytest.raises(SchemaError, match="begin a new stream"):
            later.latest(later.initial(), ALL)
    assert drain(_stream(tmp_path))[1][0].num_rows == 1


@pytest.mark.req("DL-STR-09", half="writer")
def test_changes_are_those_of_the_batch_feed(tmp_path: Path, rng: random.Random) -> None:
    table = _table(tmp_path, properties={**_FEED, "delta.enableDeletionVectors": "true"})
    live: set[int] = set()
    for number in range(12):
        chosen = rng.choice(sorted(live)) if live else None
        kind = rng.choice(("append", "append", "delete", "update")) if live else "append"
        if kind == "append":
            table.append(pa.table({"id": [number * 10, number * 10 + 1]}))
            live |= {number * 10, number * 10 + 1}
        elif kind == "delete":
            table.delete(f"id = {chosen}")
            live.discard(chosen or 0)
        else:
            table.update({"id": "id + 1000"}, f"id = {chosen}")
            live = {one + 1000 if one == chosen else one for one in live}
    names = ["id", "_change_type", "_commit_version"]
    order = [(name, "ascending") for name in names]
    expected = table.changes(1).to_arrow().select(names).sort_by(order)
    stream = _stream(tmp_path, start=1, change_feed=True)
    _, batches = drain(stream, limits=Limits(files=rng.randint(1, 4)))
    assert pa.concat_tables(batches).select(names).sort_by(order).equals(expected)
    assert all(len(pc.unique(rows["_commit_version"])) <= 4 for rows in batches)
    # A stream that begins with the rows of the table gives them as inserts of its version.
    (rows,) = drain(_stream(tmp_path, change_feed=True))[1]
    assert sorted(rows["id"].to_pylist()) == sorted(live)
    assert set(rows["_change_type"].to_pylist()) == {"insert"}


@pytest.mark.req("DL-STR-10", half="writer")
@pytest.mark.parametrize(
    ("limits", "ids"),
    [
        (Limits(bytes=4), [[0], [1], [2]]),
        (Limits(bytes=10), [[0, 1], [2]]),
        (Limits(files=2), [[0, 1], [2]]),
        (Limits(files=3, bytes=9), [[0], [1], [2]]),
        (ALL, [[0, 1, 2]]),
    ],
)
@pytest.mark.parametrize("start", [None, 0])
def test_limits(limits: Limits, ids: list[list[int]], start: int | None, builder: DeltaBuilder) -> None:
    _sized(builder, 1, 9, 1)
    stream = _stream(builder.root, start=start)
    _, batches = drain(stream, limits=limits)
    # The files of the snapshot are in the order of their paths, which are random.
    assert [len(rows) for rows in batches] == [len(batch) for batch in ids] or start is None
    if start == 0:
        assert _ids(batches) == ids
    assert sorted(flat_ids(batches)) == [0, 1, 2]


def test_a_beginning_that_was_cleaned_up_is_passed_over_where_it_may_be_lost(tmp_path: Path) -> None:
    table = _table(tmp_path, [1], [2], [3])
    begun = _stream(tmp_path)
    at = begun.latest(begun.initial(), Limits(files=1))
    table.append(pa.table({"id": [4]}))
    table.checkpoint()
    for version in range(4):
        (tmp_path / "_delta_log" / commit_name(version)).unlink()
    table.append(pa.table({"id": [5]}))
    with pytest.raises(VersionNotFoundError, match="has not read all files of version 3, with which it began"):
        drain(_stream(tmp_path), at)
    with pytest.warns(UserWarning, match="has not read all files of version 3"):
        _, batches = drain(_stream(tmp_path, allow_data_loss=True), at)
    assert flat_ids(batches) == [4, 5]


def test_only_the_beginning_knows_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are forgotten behind the snapshot, and a stream that goes on behind it never asks for them."""
    table = _table(tmp_path, [0], [1], properties=_FEED)
    stream = _stream(tmp_path)
    at = stream.latest(stream.initial(), ALL)
    files = weakref.ref(stream._initial[1])  # type: ignore[index]  # memory shows nowhere else
    table.append(pa.table({"id": [2]}))
    assert flat_ids(drain(stream, at)[1]) == [2]
    assert files() is None
    monkeypatch.setattr(Snapshot, "live", property(lambda _: pytest.fail("all files were asked for")))
    for changes in (False, True):
        assert flat_ids(drain(_stream(tmp_path, change_feed=changes), at)[1]) == [2]


def test_a_stream_without_a_feed_is_told_what_streams_have(tmp_path: Path) -> None:
    """Nothing derives changes for it."""
    table = _table(tmp_path, [0])
    followed: list[Callable[[], Iterable[Any]]] = [
        lambda: table.follow(changes=True),
        lambda: drain(_stream(tmp_path, change_feed=True)),
    ]
    for follow in followed:
        with pytest.raises(ChangesNotRecordedError) as raised:
            list(follow())
        assert raised.value.hint == "delta.enableChangeDataFeed records those of later commits"


def test_a_commit_that_batches_divide_is_read_once(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    _sized(builder, *range(1, 7))
    stream = _stream(builder.root, start=0)
    read: list[int] = []
    original = LogDirectory.read

    def counted(log: LogDirectory, entry: Any) -> bytes:
        read.append(entry.version)
        return original(log, entry)

    monkeypatch.setattr(LogDirectory, "read", counted)
    _, batches = drain(stream, limits=Limits(files=2))
    assert _ids(batches) == [[0, 1], [2, 3], [4, 5]]
    assert read == [0]


@pytest.mark.parametrize("changes", [False, True])
def test_batches_that_are_read_again_have_the_same_rows(tmp_path: Path, changes: bool) -> None:
    table = _table(tmp_path, [0], [1], [2], [3], properties=_FEED)
    stream = _stream(tmp_path, start=1, change_feed=changes)
    first = stream.initial()
    for last in (4, 4, 5):
        while table.refresh().version < last:
            table.append(pa.table({"id": [table.version]}))
        end = stream.latest(first, ALL)
        for number in range(last, 0, -1):
            found = batch_rows(stream, Position(number), end)["id"].to_pylist()
            assert sorted(found) == list(range(number - 1, last))


def test_a_position_inside_of_the_changes_of_a_commit_is_refused(builder: DeltaBuilder) -> None:
    adds = [builder.add(pa.table({"id": [number]})) for number in range(3)]
    builder.create(pa.table({"id": [0]}).schema, *adds, configuration=_FEED)
    stream = _stream(builder.root, start=0, change_feed=True)
    for start, end in ((Position(0), Position(0, 1)), (Position(0, 1), Position(1))):
        with pytest.raises(UnsupportedFeatureError, match="middle of the changes"):
            stream.batch(start, end)
    assert len(batch_rows(stream, Position(0), Position(1))) == 3


def test_a_batch_whose_plan_is_lost_is_planned_alike(tmp_path: Path) -> None:
    _table(tmp_path, [1], [2], [3], [4])
    for start in (None, 0):
        stream = _stream(tmp_path, start=start)
        at = stream.initial()
        while (end := stream.latest(at, Limits(files=1))) != at:
            first, second = batch_rows(stream, at, end), batch_rows(_stream(tmp_path, start=start), at, end)
            assert first.equals(second)
            at = end
        # An engine that lost all but the end of the first batch asks where it began.
        first = stream.latest(stream.initial(), Limits(files=2))
        begun = _stream(tmp_path, start=start).first_before(first)
        assert begun == stream.initial()


def test_excluded_files_count_but_are_not_read(tmp_path: Path) -> None:
    table = create_table(tmp_path, {"part": pa.string(), "id": pa.int64()}, partition_by=["part"])
    table.append(pa.table({"part": ["a", "b"], "id": [1, 2]}))
    assert _ids(drain(_stream(tmp_path, exclude="part=a"))[1]) == [[2]]
    with pytest.raises(InvalidArgumentError, match="regular expression"):
        _stream(tmp_path, exclude="(")


def test_features_that_are_not_there_stop_the_stream(builder: DeltaBuilder) -> None:
    _sized(builder, 1)
    stream = _stream(builder.root)
    end, _ = drain(stream)
    builder.commit(builder.protocol(3, 7, ["unheardOf"], ["unheardOf"]))
    with pytest.raises(UnsupportedFeatureError, match="unheardOf"):
        stream.latest(end, ALL)


def test_files_stand_in_the_order_of_the_actions(tmp_path: Path) -> None:
    # The order of the actions of a commit is what positions count by, in both backends.
    adds = [pa.table({"id": [number]}) for number in (3, 1, 2)]
    builder = DeltaBuilder(tmp_path)
    builder.create(adds[0].schema)
    builder.commit(*(builder.add(rows) for rows in adds))
    stream = _stream(tmp_path, start=1)
    assert _ids(drain(stream, limits=Limits(files=1))[1]) == [[3], [1], [2]]


def test_a_first_batch_whose_beginning_was_cleaned_up_is_an_error(tmp_path: Path) -> None:
    """It began with the first commit after an instant, and there may have been older ones than those that are left."""
    table = _table(tmp_path, [1], [2], [3])
    first = _stream(tmp_path, start_millis=0).latest(Position(0), ALL)
    assert _stream(tmp_path, start_millis=0).first_before(first) == Position(0)
    table.checkpoint()
    for version in range(3):
        (tmp_path / "_delta_log" / commit_name(version)).unlink()
    with pytest.raises(VersionNotFoundError, match="nothing tells where it began"):
        _stream(tmp_path, start_millis=0).first_before(first)
    assert _stream(tmp_path, start_millis=0, allow_data_loss=True).first_before(first) == Position(3)


@pytest.mark.req("DL-STR-05", half="writer")
def test_a_newest_commit_that_was_lost_and_made_anew_is_an_error(tmp_path: Path) -> None:
    table = _table(tmp_path, [1], [2])
    stream = _stream(tmp_path)
    at, _ = drain(stream)
    table.append(pa.table({"id": [3]}))
    at, batches = drain(stream, at)
    assert flat_ids(batches) == [3]
    (tmp_path / "_delta_log" / commit_name(3)).unlink()
    open_table(tmp_path).append(pa.table({"id": [77, 78]}))
    open_table(tmp_path).append(pa.table({"id": [5]}))
    with pytest.raises(VersionNotFoundError, match="is another commit now"):
        stream.latest(at, ALL)


def test_a_log_that_was_copied_goes_on(tmp_path: Path) -> None:
    """Its commits have other times, and are the same ones."""
    _table(tmp_path / "t", [1])
    stream = _stream(tmp_path / "t")
    at, _ = drain(stream)
    open_table(tmp_path / "t").append(pa.table({"id": [2]}))
    at, _ = drain(stream, at)
    shutil.copytree(tmp_path / "t", tmp_path / "copy", copy_function=shutil.copyfile)
    shutil.rmtree(tmp_path / "t")
    (tmp_path / "copy").rename(tmp_path / "t")
    open_table(tmp_path / "t").append(pa.table({"id": [3]}))
    assert flat_ids(drain(stream, at)[1]) == [3]
