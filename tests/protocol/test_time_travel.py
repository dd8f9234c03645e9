"""Time travel by version and by timestamp, history, and in-commit timestamps."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptLogError, InvalidArgumentError, VersionNotFoundError
from tests.support.delta_builder import DeltaBuilder
from tests.support.recorder import Recorder
from tests.support.rows import ID, ids, ids_of, numbered_commits

_START = dt.datetime(2026, 3, 1, 10, tzinfo=dt.timezone.utc)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_COPIED = dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc)


def _millis(instant: dt.datetime) -> int:
    return (instant - _EPOCH) // dt.timedelta(milliseconds=1)


def _minute(number: float) -> dt.datetime:
    return _START + dt.timedelta(minutes=number)


def _by_minutes(builder: DeltaBuilder, last: int) -> None:
    """Version ``n`` is committed ``n`` minutes after the start and holds the rows 0 to n."""
    builder.create(ID, builder.add(ids(0)), millis=_millis(_START))
    for version in range(1, last + 1):
        builder.commit(builder.add(ids(version)), millis=_millis(_minute(version)))


def test_every_version_can_be_opened(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 12, 5, 10)
    for version in range(13):
        table = open_table(builder.root, "delta", version=version)
        assert (table.version, ids_of(table)) == (version, list(range(version + 1)))
    for version in (-1, 13, 1 << 62):
        with pytest.raises(VersionNotFoundError, match="newest version is 12"):
            open_table(builder.root, "delta", version=version)
    for wrong in (True, 1.0, "1"):
        with pytest.raises(InvalidArgumentError, match=f"version must be an integer, not {wrong!r}"):
            open_table(builder.root, "delta", version=wrong)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="cannot be combined"):
        open_table(builder.root, "delta", version=1, timestamp="2026-01-01")


@pytest.mark.parametrize("checkpoint", ["classic", "multipart"])
def test_versions_that_were_cleaned_up(builder: DeltaBuilder, checkpoint: str) -> None:
    _by_minutes(builder, 9)
    builder.checkpoint(5, kind=checkpoint, parts=2)
    for version in range(5):
        (builder.log / f"{version:020d}.json").unlink()
    for version in range(5):
        with pytest.raises(VersionNotFoundError, match=r"(?s)no longer available.*oldest.*5"):
            open_table(builder.root, "delta", version=version)
    assert ids_of(open_table(builder.root, "delta", version=5)) == list(range(6))
    assert open_table(builder.root, "delta", timestamp=_minute(5)).version == 5
    with pytest.raises(VersionNotFoundError, match=r"(?s)before the first.*versions 5 to 9"):
        open_table(builder.root, "delta", timestamp=_minute(4))
    assert [commit.version for commit in open_table(builder.root, "delta").history()] == [9, 8, 7, 6, 5]
    # Without the entry of the checkpoint's own version its time is not known, but it can be opened.
    (builder.log / f"{5:020d}.json").unlink()
    assert ids_of(open_table(builder.root, "delta", version=5)) == list(range(6))
    assert open_table(builder.root, "delta", timestamp=_minute(6.5)).version == 6
    with pytest.raises(VersionNotFoundError, match="versions 6 to 9"):
        open_table(builder.root, "delta", timestamp=_minute(5))


def test_time_does_not_lead_where_no_checkpoint_does(builder: DeltaBuilder) -> None:
    """The checkpoint of version 3 lacks a part: of what is left, nothing before version 6 can be read."""
    _by_minutes(builder, 9)
    builder.checkpoint(3, kind="multipart", parts=2)[0].unlink()
    builder.checkpoint(6)
    for version in range(3):
        (builder.log / f"{version:020d}.json").unlink()
    with pytest.raises(VersionNotFoundError, match="versions 6 to 9"):
        open_table(builder.root, timestamp=_minute(4))
    assert ids_of(open_table(builder.root, timestamp=_minute(7))) == list(range(8))


def test_an_instant_is_given_in_many_ways(builder: DeltaBuilder) -> None:
    _by_minutes(builder, 5)
    ways: list[tuple[Any, str, int]] = [
        (_minute(3), "UTC", 3),
        (_minute(3) - dt.timedelta(microseconds=1), "UTC", 2),
        (_minute(3) + dt.timedelta(microseconds=999), "UTC", 3),
        (dt.datetime(2026, 3, 1, 10, 3), "UTC", 3),
        (dt.datetime(2026, 3, 1, 11, 3), "Europe/Paris", 3),
        (dt.datetime(2026, 3, 1, 12, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), "America/New_York", 2),
        ("2026-03-01 10:04:59.999999", "UTC", 4),
        ("2026-03-01T10:04:00Z", "Asia/Tokyo", 4),
        ("2026-03-01T05:04:00-05:00", "UTC", 4),
        (" 2026-03-01 11:01:00 ", "Europe/Paris", 1),
    ]
    for timestamp, timezone, version in ways:
        assert open_table(builder.root, "delta", timestamp=timestamp, timezone=timezone).version == version, timestamp


def test_a_date_is_its_first_instant(builder: DeltaBuilder) -> None:
    midnight = dt.datetime(2026, 3, 2, tzinfo=dt.timezone.utc)
    builder.create(ID, millis=_millis(midnight) - 1)
    builder.commit(millis=_millis(midnight))
    builder.commit(millis=_millis(midnight) + 1)
    assert open_table(builder.root, "delta", timestamp=dt.date(2026, 3, 2)).version == 1
    assert open_table(builder.root, "delta", timestamp="2026-03-02").version == 1


def test_commits_of_one_instant_are_a_millisecond_apart(builder: DeltaBuilder) -> None:
    builder.create(ID, millis=_millis(_START))
    for _ in range(3):
        builder.commit(millis=_millis(_START))
    builder.commit(millis=_millis(_START) + 2)
    times = [_millis(commit.timestamp) - _millis(_START) for commit in open_table(builder.root, "delta").history()]
    assert times == [4, 3, 2, 1, 0]
    for late in range(5):
        timestamp = _START + dt.timedelta(milliseconds=late)
        assert open_table(builder.root, "delta", timestamp=timestamp).version == late
        assert open_table(builder.root, "delta", version=late).timestamp == timestamp


def test_history_reads_no_more_than_asked(builder: DeltaBuilder, recorder: Recorder) -> None:
    _by_minutes(builder, 30)
    table = open_table(builder.root, "delta")
    recorder.clear()
    assert [commit.version for commit in table.history(limit=3)] == [30, 29, 28]
    assert recorder.commits == [30, 29, 28]
    assert table.history(limit=0) == []
    older = open_table(builder.root, "delta", version=4)
    assert [commit.version for commit in older.history()] == [4, 3, 2, 1, 0]


_ENABLED = {"delta.enableInCommitTimestamps": "true"}


def _with_recorded_times(builder: DeltaBuilder, last: int, since: int) -> None:
    """Commits that record their time from a version on; the log files were copied and are all younger."""
    protocol = builder.protocol(1, 7, None, ["inCommitTimestamp"])
    recorded = _ENABLED | ({"delta.inCommitTimestampEnablementVersion": str(since)} if since else {})
    builder.create(ID, builder.add(ids(0)), protocol=protocol)
    for version in range(last + 1):
        info = {"inCommitTimestamp": _millis(_minute(version))} if version >= since else {}
        actions = [builder.add(ids(version))]
        if version == since:
            actions.append(builder.metadata(ID, configuration=recorded))
        if version == 0:
            actions += [protocol, builder.metadata(ID, configuration=recorded if since == 0 else None)]
        millis = _millis(_COPIED) + 1000 * version
        builder.commit(*actions[: 1 if 0 < version != since else None], info=info, version=version, millis=millis)


def test_commits_record_their_time(builder: DeltaBuilder, recorder: Recorder) -> None:
    _with_recorded_times(builder, 200, 0)
    table = open_table(builder.root, "delta", timestamp=_minute(77.5))
    assert table.version == 77
    assert table.timestamp == _minute(77)
    # Once to open the newest version, and again for the version found; the times of a few are enough to find it.
    assert len(recorder.commits) < 201 + 78 + 30
    assert [commit.timestamp for commit in open_table(builder.root, "delta").history(limit=2)] == [
        _minute(200),
        _minute(199),
    ]
    for outside in (_minute(-1), _minute(201), _COPIED):
        with pytest.raises(VersionNotFoundError, match="2026-03-01"):
            open_table(builder.root, "delta", timestamp=outside)


@pytest.mark.parametrize("since", [1, 3, 5, 6])
def test_recorded_times_begin_at_a_version(builder: DeltaBuilder, since: int) -> None:
    _with_recorded_times(builder, 6, since)
    table = open_table(builder.root, "delta")
    recorded = {version: _minute(version) for version in range(since, 7)}
    copied = {version: _COPIED + dt.timedelta(seconds=version) for version in range(since)}
    assert {commit.version: commit.timestamp for commit in table.history()} == copied | recorded
    for version, timestamp in recorded.items():
        assert open_table(builder.root, "delta", timestamp=timestamp).version == version
    for version in range(since, 6):
        assert open_table(builder.root, "delta", timestamp=_minute(version + 0.5)).version == version
    with pytest.raises(VersionNotFoundError, match="before the first"):
        open_table(builder.root, "delta", timestamp=_minute(since - 0.5))


def test_changes_begin_and_end_at_instants(builder: DeltaBuilder) -> None:
    _with_recorded_times(builder, 6, 3)
    table = open_table(builder.root, "delta")
    for start, end, versions in ((3.5, 5.5, [4, 5]), (4, 5, [4, 5]), (3, 3, [3]), (4.5, 6, [5, 6])):
        found = table.changes(_minute(start), _minute(end), derived=True).to_arrow()["_commit_version"].to_pylist()
        assert sorted(found) == versions


@pytest.mark.parametrize("millis", [_millis(_START) + 1000, _millis(_START) + 10_000_000])
def test_log_files_count_before_recorded_times(builder: DeltaBuilder, millis: int) -> None:
    """An instant before the first recorded time is one of log files, whatever the times of later files."""
    builder.create(ID, protocol=builder.protocol(1, 7, None, ["inCommitTimestamp"]), millis=_millis(_START))
    builder.commit(millis=_millis(_minute(1)))
    recorded = _ENABLED | {"delta.inCommitTimestampEnablementVersion": "2"}
    info = {"inCommitTimestamp": _millis(_minute(2))}
    builder.commit(builder.metadata(ID, configuration=recorded), info=info, millis=millis)
    expected = {0: 0, 0.5: 0, 1: 1, 1.5: 1, 2: 2}
    found = {minute: open_table(builder.root, "delta", timestamp=_minute(minute)).version for minute in expected}
    assert found == expected


@pytest.mark.parametrize("recorded", [None, "soon", True, 1.5])
def test_a_commit_that_does_not_record_its_time(builder: DeltaBuilder, recorded: Any) -> None:
    info = {"inCommitTimestamp": _millis(_START)}
    protocol = builder.protocol(1, 7, None, ["inCommitTimestamp"])
    builder.commit(protocol, builder.metadata(ID, configuration=_ENABLED), builder.add(ids(1)), info=info)
    builder.commit(info={} if recorded is None else {"inCommitTimestamp": recorded})
    table = open_table(builder.root)
    assert ids_of(table) == [1]
    with pytest.raises(CorruptLogError, match=r"(?s)in-commit timestamps.*version: 1"):
        table.history()


def test_carriage_returns_in_the_log_are_blanks(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    text = (builder.log / f"{0:020d}.json").read_text()
    info = '{"commitInfo":\r{"operation":\r"WRITE"}}'
    builder.commit_text(text.replace("\n", "\r\n") + info + "\r\n\r\n", 0)
    table = open_table(builder.root)
    assert ids_of(table) == [1]
    assert [commit.operation for commit in table.history()] == ["WRITE"]
