"""Clean-up of the log by age (DL-CLEAN)."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import CheckpointLayout, DeltaTable
from deltaberg.delta.after_commit.checkpoints import write_checkpoint
from deltaberg.errors import SchemaError, StorageError, UnsupportedFeatureError, VersionNotFoundError
from deltaberg.storage.base import DeletionFailure
from deltaberg.storage.local import LocalStorage
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of
from tests.support.written_checkpoints import actions_in, of_kind

_NOW = "2024-03-15T10:00:00Z"
_DAY = dt.timedelta(days=1)


def _millis(text: str) -> int:
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


def _commits(builder: DeltaBuilder, last: int, first_new: int, **create: Any) -> None:
    """Build versions 0 to last of one row each; those from ``first_new`` on are a second younger than the cut-off."""
    cutoff = _millis("2024-02-14T00:00:00")
    for version in range(last + 1):
        millis = cutoff + (1000 * (version - first_new + 1) if version >= first_new else -1000 * (last - version))
        if version == 0:
            builder.create(ID, builder.add(ids(0)), millis=millis, **create)
        else:
            builder.commit(builder.add(ids(version)), millis=millis)


def _checkpoint(builder: DeltaBuilder, *versions: int, layout: CheckpointLayout | None = None) -> None:
    for version in versions:
        write_checkpoint(DeltaTable(builder.root, version=version)._snapshot, layout)


def _clean(builder: DeltaBuilder, now: str = _NOW) -> list[str]:
    paths = DeltaTable(builder.root).cleanup_metadata(now).files["path"].to_pylist()
    assert all(path.startswith("_delta_log/") for path in paths)
    return sorted(path.removeprefix("_delta_log/") for path in paths)


def _versions(builder: DeltaBuilder, suffix: str = ".json") -> list[int]:
    names = sorted(path.name for path in builder.log.iterdir())
    return [int(name[:20]) for name in names if name[20:] == suffix]


@pytest.mark.req("DL-CLEAN-02", "DL-CLEAN-10")
@pytest.mark.parametrize(("checkpointed", "cut"), [(13, 13), (12, 12), (14, None)])
def test_the_cut_off_is_midnight_and_a_commit_at_midnight_is_old(
    builder: DeltaBuilder, checkpointed: int, cut: int | None
) -> None:
    times = {12: "2024-02-13T23:00:00", 13: "2024-02-14T00:00:00", 14: "2024-02-14T00:00:01"}
    builder.create(ID, builder.add(ids(0)), millis=_millis("2024-01-01T00:00:00"))
    for version in range(1, 15):
        text = times.get(version, f"2024-01-{version + 1:02d}T00:00:00")
        builder.commit(builder.add(ids(version)), millis=_millis(text))
    _checkpoint(builder, checkpointed)
    files = _clean(builder)
    assert _versions(builder) == list(range(cut or 0, 15))
    assert files == [f"{version:020d}.json" for version in range(cut or 0)]


@pytest.mark.req("DL-CLEAN-03", "DL-CLEAN-04", "DL-CLEAN-05", "BEY-24")
@pytest.mark.req("DL-CLEAN-08")
@pytest.mark.req("DL-CLEAN-01", half="writer")
def test_what_is_older_than_the_checkpoint_goes(builder: DeltaBuilder) -> None:
    _commits(builder, 25, first_new=16)
    _checkpoint(builder, 5, 10, 20)
    for version in (4, 9, 10, 12):
        (builder.log / f"{version:020d}.crc").write_text("{}")
    for first, last in ((8, 10), (10, 12), (11, 15)):
        (builder.log / f"{first:020d}.{last:020d}.compacted.json").write_text("")
    staged = builder.log / "_staged_commits"
    staged.mkdir()
    for version in (9, 10):
        (staged / f"{version:020d}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json").write_text("")
    (builder.log / "notes.txt").write_text("ours")
    before = {version: ids_of(DeltaTable(builder.root, version=version)) for version in (10, 15, 25)}
    table = DeltaTable(builder.root)
    result = table.cleanup_metadata(_NOW)
    assert result.first_version == 10
    assert len(result.files) == len(set(result.files["path"].to_pylist()))
    assert result.files["bytes"].null_count == result.files["modified"].null_count == 0
    assert set(result.files["reason"].to_pylist()) == {
        "it is older than the retention of the log, and version 10 has a checkpoint"
    }
    assert _versions(builder) == list(range(10, 26))
    assert _versions(builder, ".checkpoint.parquet") == [10, 20]
    assert _versions(builder, ".crc") == [10, 12]
    assert [path.name for path in builder.log.glob("*.compacted.json")] == [f"{11:020d}.{15:020d}.compacted.json"]
    assert [path.name[:20] for path in staged.iterdir()] == [f"{10:020d}"]
    assert (builder.log / "notes.txt").exists()
    (builder.log / f"{11:020d}.{15:020d}.compacted.json").unlink()
    for version in range(10, 26):
        assert ids_of(DeltaTable(builder.root, version=version)) == list(range(version + 1))
    assert before[25] == ids_of(DeltaTable(builder.root))
    with pytest.raises(VersionNotFoundError, match="version 9 is no longer available"):
        DeltaTable(builder.root, version=9)
    # A second clean-up finds nothing.
    assert DeltaTable(builder.root).cleanup_metadata(_NOW).deleted_files == 0


@pytest.mark.req("DL-CLEAN-03")
def test_without_an_old_checkpoint_nothing_goes(builder: DeltaBuilder) -> None:
    _commits(builder, 25, first_new=16)
    _checkpoint(builder, 20)
    assert _clean(builder) == []
    assert _versions(builder) == list(range(26))


def test_young_logs_and_empty_pasts_stay(builder: DeltaBuilder) -> None:
    _commits(builder, 5, first_new=0)
    _checkpoint(builder, 3)
    assert _clean(builder) == []
    assert _clean(builder, "1970-01-01") == []


def test_a_damaged_checkpoint_is_not_relied_upon(builder: DeltaBuilder) -> None:
    _commits(builder, 25, first_new=24)
    _checkpoint(builder, 5, 10)
    (builder.log / f"{10:020d}.checkpoint.parquet").write_bytes(b"PAR1")
    assert DeltaTable(builder.root).cleanup_metadata(_NOW).first_version == 5
    assert _versions(builder) == list(range(5, 26))
    assert ids_of(DeltaTable(builder.root)) == list(range(26))


def test_the_newest_version_may_be_the_first_that_stays(builder: DeltaBuilder) -> None:
    _commits(builder, 6, first_new=7)
    _checkpoint(builder, 6)
    assert DeltaTable(builder.root).cleanup_metadata(_NOW).first_version == 6
    assert _versions(builder) == [6]
    table = DeltaTable(builder.root)
    assert ids_of(table) == list(range(7))


@pytest.mark.req("DL-CLEAN-06", "DL-CLEAN-07")
@pytest.mark.parametrize("damaged", [False, True])
def test_sidecars(builder: DeltaBuilder, damaged: bool) -> None:
    _commits(builder, 25, first_new=16, protocol=builder.features("v2Checkpoint"))
    layout = CheckpointLayout(spec=2, naming="uuid", files_per_sidecar=15)
    _checkpoint(builder, 5, 10, 20, layout=layout)
    folder = builder.log / "_sidecars"
    named = {int(path.name[:20]): path for path in builder.log.glob("*.checkpoint.*.parquet")}
    sidecars = {
        version: {sidecar["path"] for sidecar in of_kind(actions_in(path), "sidecar")}
        for version, path in named.items()
    }
    assert [len(sidecars[version]) for version in (5, 10, 20)] == [1, 1, 2]
    (folder / "new.parquet").write_text("written for a checkpoint that is not there yet")
    (folder / "old.parquet").write_text("of a checkpoint that failed")
    now = dt.datetime.fromisoformat("2024-03-15T10:00:00+00:00")
    for path in folder.iterdir():
        _touch(path, now - dt.timedelta(hours=2) if path.name == "new.parquet" else now - 90 * _DAY)
    _touch(folder / "old.parquet", now - 3 * _DAY)
    if damaged:
        named[20].write_bytes(b"PAR1")
    files = _clean(builder)
    left = {path.name for path in folder.iterdir()}
    if damaged:
        # Nobody knows which sidecars the damaged checkpoint names.
        assert left == {"new.parquet", "old.parquet", *sidecars[5], *sidecars[10], *sidecars[20]}
    else:
        assert left == {"new.parquet", *sidecars[10], *sidecars[20]}
        assert {name for name in files if name.startswith("_sidecars/")} == {
            "_sidecars/old.parquet",
            *(f"_sidecars/{name}" for name in sidecars[5]),
        }
    assert ids_of(DeltaTable(builder.root)) == list(range(26))


@pytest.mark.req("DL-CLEAN-07")
@pytest.mark.parametrize(("minutes", "stays"), [(34 * 60 - 1, True), (34 * 60, False)])
def test_the_age_of_a_sidecar_is_counted_from_midnight(builder: DeltaBuilder, minutes: int, stays: bool) -> None:
    _commits(builder, 3, first_new=3)
    _checkpoint(builder, 2)
    (builder.log / "_sidecars").mkdir()
    path = builder.log / "_sidecars" / "x.parquet"
    path.write_text("")
    _touch(path, dt.datetime.fromisoformat("2024-03-15T10:00:00+00:00") - dt.timedelta(minutes=minutes))
    _clean(builder)
    assert path.exists() == stays


def _touch(path: Path, moment: dt.datetime) -> None:
    os.utime(path, (moment.timestamp(), moment.timestamp()))


@pytest.mark.req("BEY-08")
@pytest.mark.parametrize(("checkpointed", "first"), [(15, 0), (19, 0), (20, 20), (25, 25)])
def test_protected_checkpoints_go_at_once_or_not_at_all(builder: DeltaBuilder, checkpointed: int, first: int) -> None:
    _commits(
        builder,
        30,
        first_new=29,
        protocol=builder.features(writer_only=["checkpointProtection"]),
        configuration={"delta.requireCheckpointProtectionBeforeVersion": "20"},
    )
    _checkpoint(builder, 5, checkpointed)
    _clean(builder)
    assert _versions(builder) == list(range(first, 31))
    assert _versions(builder, ".checkpoint.parquet") == ([checkpointed] if first else [5, checkpointed])


@pytest.mark.parametrize(("stored", "first"), [("2024-01-20", 13), ("2024-02-03", 8), ("2024-03-01", None)])
def test_an_entry_is_as_old_as_the_later_of_its_times(builder: DeltaBuilder, stored: str, first: int | None) -> None:
    """Commits record a day each from the first of February; those up to the 14th are old.

    The clock of a writer may have been behind, and the log may have been copied with its times.
    """
    configuration = {"delta.enableInCommitTimestamps": "true"}
    protocol = builder.features(writer_only=["inCommitTimestamp"])
    start = _millis("2024-02-01T00:00:00")
    for version in range(20):
        info = {"commitInfo": {"inCommitTimestamp": start + version * 86_400_000}}
        actions = [info, builder.add(ids(version))]
        if version == 0:
            actions = [info, protocol, builder.metadata(ID, configuration=configuration), builder.add(ids(0))]
        builder.commit(*actions)
    for version, entry in enumerate(sorted(builder.log.glob("*.json"))):
        _touch(entry, dt.datetime.fromisoformat(f"{stored}T00:00:00+00:00") + version * _DAY)
    _checkpoint(builder, 8, 13, 15)
    assert DeltaTable(builder.root).cleanup_metadata(_NOW).first_version == first


@pytest.mark.parametrize(("behind", "cleaned"), [(0, True), (7, False)])
def test_a_store_whose_clock_is_behind_makes_no_entry_old(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, behind: int, cleaned: bool
) -> None:
    """Entries are 31 days old by the clock of this machine, and may be younger by that of the store."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + behind * 86_400 * 10**9)
    builder.create(ID, builder.add(ids(0)))
    for number in range(1, 4):
        builder.commit(builder.add(ids(number)))
    builder.checkpoint(3)
    for entry in builder.log.iterdir():
        then = (real() + (behind - 32) * 86_400 * 10**9) / 1e9
        os.utime(entry, (then, then))
    assert bool(DeltaTable(builder.root).cleanup_metadata().deleted_files) == cleaned
    assert not list(builder.log.glob(".*"))


def test_tables_that_are_not_cleaned(builder: DeltaBuilder) -> None:
    builder.create(ID, protocol=builder.features(writer_only=["mystery"]))
    with pytest.raises(UnsupportedFeatureError, match="mystery"):
        DeltaTable(builder.root).cleanup_metadata()
    builder.create(ID, configuration={"delta.logRetentionDuration": "interval 1 month"})
    with pytest.raises(SchemaError, match="'interval 1 month' is not an interval"):
        DeltaTable(builder.root).cleanup_metadata()


def test_temporary_files_go_by_their_age(builder: DeltaBuilder) -> None:
    """Those of all writers, also where no entry is old enough: `at` makes none of them older."""
    builder.create(ID, builder.add(ids(0)))
    (builder.log / "_sidecars").mkdir()
    names = {
        f".deltaberg-{'0' * 32}.tmp": "ours",
        f".{1:020}.json.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.tmp": "delta-spark's",
        f"..{1:020}.json.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.tmp.crc": "Hadoop's",
        "_commit_3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json.tmp": "deltalake's",
        f"_sidecars/.deltaberg-{'1' * 32}.tmp": "ours",
    }
    others = ("notes.tmp.txt", "inner/file.tmp", ".hidden")
    (builder.log / "inner").mkdir()
    for name in (*names, *others):
        (builder.log / name).write_text("x")
        _touch(builder.log / name, dt.datetime.now(dt.timezone.utc) - 3 * _DAY)
    (builder.log / "young.tmp").write_text("x")
    seen: list[Any] = []
    table = DeltaTable(builder.root)
    planned = table.cleanup_metadata("2100-01-01", dry_run=True)
    done = table.cleanup_metadata("2100-01-01", progress=seen.append)
    assert sorted(done.files["path"].to_pylist()) == sorted(f"_delta_log/{name}" for name in names)
    assert done.files.sort_by("path") == planned.files.sort_by("path")
    assert (planned.dry_run, done.first_version, done.deleted_bytes, seen[-1]) == (True, None, 5, (5, 5, 5))
    assert set(done.files["reason"].to_pylist()) == {"a writer that was interrupted left it"}
    assert not any((builder.log / name).exists() for name in names)
    assert all((builder.log / name).exists() for name in ("young.tmp", *others))
    assert ids_of(DeltaTable(builder.root)) == [0]


def test_what_cannot_be_deleted_is_told(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that cleans up warns of it."""
    _commits(builder, 9, first_new=10)
    _checkpoint(builder, 9)
    stuck = f"_delta_log/{3:020}.json"
    failure = DeletionFailure(str(builder.root / stuck), StorageError("no such right"))
    left = builder.log / f".deltaberg-{'0' * 32}.tmp"
    left.touch()
    _touch(left, dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc))

    def only_the_leftover(_: Any, paths: Any, deleted: Any) -> list[DeletionFailure]:
        for path in paths:
            if path == str(left):
                left.unlink()
                deleted(path)
        return [failure]

    monkeypatch.setattr(LocalStorage, "delete_many", only_the_leftover)
    done = DeltaTable(builder.root).cleanup_metadata(_NOW)
    assert (done.deleted_files, dict(done.failed), done.is_complete) == (1, {stuck: "no such right"}, False)
    assert done.first_version is None
    (warnings,) = _append(builder, 1)
    assert warnings == (
        f"the log was not cleaned up: 1 file of the log could not be deleted: no such right (file: {stuck})",
    )


# After commits


def _append(builder: DeltaBuilder, count: int) -> list[tuple[str, ...]]:
    table = DeltaTable(builder.root)
    return [table.append(pa.table({"id": [number]})).warnings for number in range(count)]


@pytest.mark.req("DL-CKPT-06", half="writer")
def test_every_tenth_commit_is_followed_by_a_checkpoint(builder: DeltaBuilder) -> None:
    builder.create(ID)
    assert set(_append(builder, 21)) == {()}
    assert _versions(builder, ".checkpoint.parquet") == [10, 20]
    table = DeltaTable(builder.root)
    assert table.base_checkpoint is not None
    assert table.base_checkpoint.version == 20
    assert len(ids_of(table)) == 21


def test_the_interval_is_a_property(builder: DeltaBuilder) -> None:
    builder.create(ID, configuration={"delta.checkpointInterval": "3"})
    _append(builder, 7)
    assert _versions(builder, ".checkpoint.parquet") == [3, 6]


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_commits_clean_up(builder: DeltaBuilder, enabled: str) -> None:
    long_ago = _millis("2020-01-01T00:00:00")
    builder.create(ID, configuration={"delta.enableExpiredLogCleanup": enabled}, millis=long_ago)
    for version in range(1, 9):
        builder.commit(builder.add(ids(version)), millis=long_ago + version * 1000)
    _checkpoint(builder, 7)
    assert _append(builder, 3) == [(), (), ()]
    assert _versions(builder) == list(range(7 if enabled == "true" else 0, 12))
    assert len(ids_of(DeltaTable(builder.root))) == 11


def test_what_fails_after_a_commit_is_a_warning(builder: DeltaBuilder) -> None:
    builder.create(ID, configuration={"delta.checkpointInterval": "often"})
    (warnings,) = _append(builder, 1)
    assert [warning.partition(": ")[0] for warning in warnings] == [
        "the checkpoint was not written",
        "the log was not cleaned up",
    ]
    assert ids_of(DeltaTable(builder.root)) == [0]
