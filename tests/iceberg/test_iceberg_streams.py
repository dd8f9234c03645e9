"""Streams of Iceberg tables, planned without Spark: positions, limits, what stops a stream, what is never skipped."""

from __future__ import annotations

import datetime as dt
import shutil
import time
import weakref
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, create_table, open_table
from deltaberg.errors import (
    CorruptMetadataError,
    InvalidArgumentError,
    SchemaError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaberg.iceberg.scan.changes import ChangesSource
from deltaberg.iceberg.stream.iceberg_stream import IcebergStream, IcebergStreamOptions
from deltaberg.iceberg.stream.snapshot_position import BEFORE_ALL, SnapshotPosition, read_snapshot_position
from deltaberg.iceberg.streams import iceberg_stream
from deltaberg.table.streaming.limits import ALL, Limits
from tests.support.streams import batch_rows, drain, flat_ids

#: After every snapshot.
_LATER = dt.datetime(9000, 1, 1, tzinfo=dt.timezone.utc)


def _stream(at: Path, **options: Any) -> IcebergStream:
    table = open_table(at)
    assert isinstance(table, IcebergTable)
    return iceberg_stream(table, IcebergStreamOptions(**options))


def _table(at: Path, *ids: list[int]) -> Any:
    table = create_table(at, {"id": pa.int64()}, format="iceberg")
    for some in ids:
        table.append(pa.table({"id": some}))
    return table


@pytest.mark.req("ICE-STR-01", half="writer")
def test_a_snapshot_in_bounded_batches_and_then_each_append_once(tmp_path: Path) -> None:
    table = _table(tmp_path, *([number, number + 50] for number in range(7)))
    table.delete("id = 56", strategy="merge-on-read")
    stream = _stream(tmp_path)
    at = stream.initial()
    batches = []
    for appended in ([100], [101], None):
        end = stream.latest(at, Limits(files=3))
        batches.append(batch_rows(stream, at, end))
        again = batch_rows(_stream(tmp_path), at, end)
        assert again.equals(batches[-1])
        at = end
        if appended is not None:
            table.append(pa.table({"id": appended}))
            table.compact()
    assert sorted(flat_ids(batches)) == [*range(7), *range(50, 56)]
    at, others = drain(stream, at, Limits(files=3))
    assert flat_ids(others) == [100, 101]
    # Another process goes on from the record, and finds nothing new.
    later = _stream(tmp_path)
    assert drain(later, later.read_position(stream.record(at))) == (at, [])


@pytest.mark.req("ICE-STR-01", half="writer")
def test_starts(tmp_path: Path) -> None:
    table = _table(tmp_path, [1], [2], [3])
    second = table.snapshots[1].timestamp_ms
    later = [number for number, found in enumerate(table.snapshots, 1) if found.timestamp_ms >= second]
    assert flat_ids(drain(_stream(tmp_path, start_millis=second))[1]) == later
    assert flat_ids(drain(_stream(tmp_path, start_millis=0), limits=Limits(rows=1))[1]) == [1, 2, 3]
    table.expire_snapshots(older_than=_LATER, retain_last=2)
    with pytest.warns(UserWarning, match="older ones were expired"):
        assert flat_ids(drain(_stream(tmp_path, start_millis=0))[1]) == [2, 3]


def test_a_start_that_is_still_to_come(tmp_path: Path) -> None:
    """So a stream begins with what comes later, whether or not older snapshots are there, or were expired."""
    table = _table(tmp_path, [1], [2])
    start = table.snapshots[-1].timestamp_ms + 1
    stream = _stream(tmp_path, start_millis=start)
    assert (stream.initial(), drain(stream)) == (BEFORE_ALL, (BEFORE_ALL, []))
    assert stream.latest(BEFORE_ALL, ALL, stream.newest()) == BEFORE_ALL
    table.expire_snapshots(older_than=_LATER, retain_last=1)
    while time.time_ns() // 1_000_000 < start:
        pass
    table.append(pa.table({"id": [3]}))
    end, batches = drain(stream, BEFORE_ALL)
    assert flat_ids(batches) == [3]
    again = _stream(tmp_path, start_millis=start)
    assert flat_ids([batch_rows(again, again.first_before(end), end)]) == [3]
    table.expire_snapshots(older_than=_LATER, retain_last=1)
    with pytest.raises(VersionNotFoundError, match="expired before the stream had read them"):
        stream.latest(BEFORE_ALL, ALL)


@pytest.mark.parametrize("options", [{}, {"start_millis": 0}])
def test_an_empty_table_in_the_place_of_another_is_an_error(tmp_path: Path, options: Any) -> None:
    _table(tmp_path)
    stream = _stream(tmp_path, **options)
    end = SnapshotPosition(7, 1)
    with pytest.raises(VersionNotFoundError, match="begin a new stream"):
        stream.latest(end, ALL)
    with pytest.raises(VersionNotFoundError, match="begin a new stream"):
        stream.batch(stream.first_before(end), end)


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    table = _table(tmp_path)
    stream = _stream(tmp_path)
    assert stream.initial() == stream.latest(BEFORE_ALL, ALL) == BEFORE_ALL
    table.append(pa.table({"id": [1]}))
    table.append(pa.table({"id": [2]}))
    assert flat_ids(drain(stream, BEFORE_ALL)[1]) == [1, 2]


def test_a_new_partitioning_does_not_disturb_a_stream(tmp_path: Path) -> None:
    table = _table(tmp_path, [1], [2])
    stream = _stream(tmp_path)
    start = stream.initial()
    at = stream.latest(start, Limits(files=1))
    table.alter().partition_by(["id"]).commit()
    table.append(pa.table({"id": [3]}))
    first = batch_rows(stream, start, at)
    assert sorted(flat_ids([first, *drain(stream, at)[1]])) == [1, 2, 3]


def test_where_a_first_batch_began(tmp_path: Path) -> None:
    table = _table(tmp_path)
    stream = _stream(tmp_path)
    table.append(pa.table({"id": [1]}))
    end = stream.latest(BEFORE_ALL, ALL)
    assert _stream(tmp_path).first_before(end) == BEFORE_ALL
    table.delete("id = 1")
    table.append(pa.table({"id": [2]}))
    with pytest.raises(VersionNotFoundError, match="nothing tells"):
        _stream(tmp_path).first_before(SnapshotPosition(table.snapshots[-1].snapshot_id, 1))


def test_a_first_batch_of_nothing_is_none_again(tmp_path: Path) -> None:
    table = _table(tmp_path)
    end = _stream(tmp_path).latest(BEFORE_ALL, ALL)
    assert end == BEFORE_ALL
    table.append(pa.table({"id": [1]}))
    again = _stream(tmp_path)
    assert again.first_before(end) == end
    assert flat_ids(drain(again, end)[1]) == [1]


def test_a_first_batch_whose_beginning_was_expired_is_an_error(tmp_path: Path) -> None:
    table = _table(tmp_path, [1], [2], [3])
    end = _stream(tmp_path, start_millis=0).latest(_stream(tmp_path, start_millis=0).initial(), ALL)
    assert _stream(tmp_path, start_millis=0).first_before(end).position == 0
    table.expire_snapshots(older_than=_LATER, retain_last=1)
    expired = pytest.warns(UserWarning, match="older ones were expired")
    with expired, pytest.raises(VersionNotFoundError, match="nothing tells where it began"):
        _stream(tmp_path, start_millis=0).first_before(end)


@pytest.mark.parametrize(
    "recorded",
    [
        {"version": 1, "snapshot_id": 7, "position": -1, "scan_all_files": False},
        {"version": 1, "snapshot_id": -1, "position": -1, "scan_all_files": True},
        {"version": 1.0, "snapshot_id": 7, "position": 0, "scan_all_files": False},
        {"version": 1, "snapshot_id": 7, "position": 10**30, "scan_all_files": False},
    ],
)
def test_no_offset(tmp_path: Path, recorded: dict[str, Any]) -> None:
    _table(tmp_path)
    with pytest.raises(InvalidArgumentError, match="is no offset"):
        _stream(tmp_path).read_position(recorded)


@pytest.mark.req("ICE-STR-02", half="writer")
@pytest.mark.parametrize(
    ("where", "options", "ids"),
    [
        ("id = 1", {}, None),
        ("id = 1", {"skip_deletes": True}, None),
        ("id = 1", {"skip_overwrites": True}, [1, 2, 3, 4]),
        ("id < 3", {}, None),
        ("id < 3", {"skip_overwrites": True}, None),
        ("id < 3", {"skip_deletes": True}, [1, 2, 3, 4]),
    ],
)
def test_snapshots_that_remove_rows(tmp_path: Path, where: str, options: Any, ids: list[int] | None) -> None:
    table = _table(tmp_path, [1, 2], [3])
    table.delete(where, strategy="copy-on-write")
    table.append(pa.table({"id": [4]}))
    table.compact()
    stream = _stream(tmp_path, start_millis=0, **options)
    if ids is not None:
        assert flat_ids(drain(stream, limits=Limits(files=1))[1]) == ids
        return
    before = stream.latest(stream.initial(), ALL)
    assert flat_ids([batch_rows(stream, stream.initial(), before)]) == [1, 2, 3]
    with pytest.raises(UnsupportedFeatureError, match="of the operation"):
        stream.latest(before, ALL)


@pytest.mark.req("ICE-STR-03", half="writer")
def test_files_of_the_beginning_are_forgotten_behind_it(tmp_path: Path) -> None:
    table = _table(tmp_path, [0], [1])
    stream = _stream(tmp_path)
    at = stream.latest(stream.initial(), ALL)
    files = weakref.ref(stream._initial[1])  # type: ignore[index]  # memory shows nowhere else
    table.append(pa.table({"id": [2]}))
    assert flat_ids(drain(stream, at)[1]) == [2]
    assert files() is None


def test_a_snapshot_that_batches_divide_is_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path, {"id": pa.int64()}, format="iceberg", partition_by="id")
    table.append(pa.table({"id": list(range(6))}))
    stream = _stream(tmp_path, start_millis=0)
    planned: list[object] = []
    original = ChangesSource.select_files

    def counted(source: ChangesSource, *arguments: Any) -> Any:
        planned.append(source)
        return original(source, *arguments)

    monkeypatch.setattr(ChangesSource, "select_files", counted)
    _, batches = drain(stream, None, Limits(files=2))
    assert ([len(rows) for rows in batches], flat_ids(batches)) == ([2, 2, 2], list(range(6)))
    assert len(planned) == 1


def test_positions_that_are_gone(tmp_path: Path) -> None:
    at = tmp_path / "table"
    table = _table(at, [1], [2], [3])
    first, second, third = (found.snapshot_id for found in table.snapshots)
    stream = _stream(at)
    record = stream.record(SnapshotPosition(first, 1))
    assert list(record) == ["version", "snapshot_id", "position", "scan_all_files"]
    for wrong in ({"version": 2}, {"snapshot_id": "1"}, {"position": True}, {"scan_all_files": 0}):
        with pytest.raises(InvalidArgumentError, match="no offset"):
            stream.read_position({**record, **wrong})
    assert flat_ids(drain(stream, stream.read_position(record))[1]) == [2, 3]
    table.restore(second)
    with pytest.raises(VersionNotFoundError, match="rolled back"):
        stream.latest(SnapshotPosition(third, 1), ALL)
    table.append(pa.table({"id": [4]}))
    table.expire_snapshots(older_than=_LATER, retain_last=1)
    for position in (SnapshotPosition(first, 1), BEFORE_ALL):
        with pytest.raises(VersionNotFoundError, match="expired"):
            _stream(at).latest(position, ALL)
    shutil.rmtree(at)
    with pytest.raises(TableNotFoundError, match="there is no Iceberg table: the directory does not exist"):
        stream.latest(stream.read_position(record), ALL)
    _table(at, [1], [2], [3])
    with pytest.raises((CorruptMetadataError, VersionNotFoundError), match="begin a new stream"):
        stream.latest(stream.read_position(record), ALL)


def test_new_columns_stop_the_stream(tmp_path: Path) -> None:
    table = _table(tmp_path, [1])
    stream = _stream(tmp_path)
    end, _ = drain(stream)
    table.alter().add("name", pa.string()).commit()
    assert stream.latest(end, ALL) == end
    table.append(pa.table({"id": [2], "name": ["b"]}))
    with pytest.raises(SchemaError, match="other columns"):
        stream.latest(end, ALL)
    assert flat_ids(drain(_stream(tmp_path), end)[1]) == [2]


def test_a_branch(tmp_path: Path) -> None:
    table = _table(tmp_path, [1])
    table.alter().create_branch("audit").commit()
    table.append(pa.table({"id": [2]}), branch="audit")
    table.append(pa.table({"id": [3]}))
    assert flat_ids(drain(_stream(tmp_path, start_millis=0, branch="audit"))[1]) == [1, 2]


@pytest.mark.parametrize("strategy", ["copy-on-write", "merge-on-read"])
def test_changes_are_those_of_the_batch_changelog(tmp_path: Path, strategy: Any) -> None:
    table = _table(tmp_path, [1, 2, 3], [4])
    table.delete("id = 2", strategy=strategy)
    table.append(pa.table({"id": [5]}))
    table.update({"id": "id + 100"}, "id = 3", strategy=strategy)
    names = ["_commit_snapshot_id", "id", "_change_type"]
    order = [(name, "ascending") for name in names]
    expected = table.changes(None).to_arrow().select(names).sort_by(order)
    stream = _stream(tmp_path, start_millis=0, changes=True)
    _, batches = drain(stream, limits=Limits(files=1))
    assert len(batches) == 5
    assert pa.concat_tables(batches).select(names).sort_by(order).equals(expected)
    # A stream that begins with the rows of the table gives them as inserts of its snapshot.
    (rows,) = drain(_stream(tmp_path, changes=True))[1]
    assert sorted(rows["id"].to_pylist()) == [1, 4, 5, 103]
    assert set(rows["_change_type"].to_pylist()) == {"INSERT"}


def test_a_stream_outlives_what_was_before_a_compaction(tmp_path: Path) -> None:
    """Its position moves over the snapshot that only rewrote files, and over those that it skips."""
    table = _table(tmp_path, [1], [2])
    stream = _stream(tmp_path, skip_deletes=True)
    at, batches = drain(stream)
    assert sorted(flat_ids(batches)) == [1, 2]
    table.compact()
    table.delete("id = 1", strategy="copy-on-write")
    assert table.snapshot.operation in ("delete", "overwrite")
    stream = _stream(tmp_path, skip_deletes=True, skip_overwrites=True)
    at, batches = drain(stream, at)
    assert (flat_ids(batches), at) == ([], SnapshotPosition(table.snapshot.snapshot_id))
    table.expire_snapshots(older_than=_LATER, retain_last=1)
    table.append(pa.table({"id": [3]}))
    for following in (stream, _stream(tmp_path, skip_deletes=True, skip_overwrites=True)):
        end, batches = drain(following, at, Limits(files=1, rows=1))
        assert (flat_ids(batches), end.snapshot_id) == ([3], table.snapshot.snapshot_id)


_MOST = (1 << 63) - 1


@pytest.mark.parametrize(
    "position",
    [
        BEFORE_ALL,
        SnapshotPosition(-1, 0),
        SnapshotPosition(-1, 0, True),
        SnapshotPosition(0, 0),
        SnapshotPosition(_MOST, _MOST, True),
    ],
)
def test_a_position_is_read_as_it_was_recorded(position: SnapshotPosition) -> None:
    assert read_snapshot_position(position.record(), "t") == position


@pytest.mark.parametrize(
    "member",
    [
        *({"snapshot_id": number} for number in (-2, _MOST + 1, 7.0, True, None)),
        *({"position": number} for number in (-2, -1, _MOST + 1, "0")),
        *({"scan_all_files": flag} for flag in (0, None)),
        *({"version": number} for number in (0, 2, True, 1.0)),
        {"snapshot_id": -1, "position": -1, "scan_all_files": True},
    ],
)
def test_what_is_no_position(member: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="is no offset of a stream of an Iceberg table"):
        read_snapshot_position({**SnapshotPosition(7).record(), **member}, "t")
