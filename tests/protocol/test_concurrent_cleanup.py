"""A writer commits, makes checkpoints and cleans the log up while a reader opens the table."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptLogError, CorruptTableError, VersionNotFoundError
from deltaberg.storage.local import LocalStorage
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.rows import ID, every_checkpoint, ids, ids_of, numbered_commits


def _once_before(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Let a writer act just before the reader reads a file of the log."""
    done: list[str] = []

    def hook(method: str) -> None:
        original = getattr(LocalStorage, method)

        def hooked(store: LocalStorage, path: str, *rest: Any, **options: Any) -> Any:
            if Path(path).name == name and not done:
                done.append(name)
                act()
            return original(store, path, *rest, **options)

        monkeypatch.setattr(LocalStorage, method, hooked)

    hook("get")
    hook("open")


def _clean(builder: DeltaBuilder, before: int) -> None:
    """Delete the log entries and checkpoints of versions before one."""
    for path in builder.log.glob("*"):
        if path.is_file() and path.name[:20].isdigit() and int(path.name[:20]) < before:
            path.unlink()


def _write_on(builder: DeltaBuilder, until: int, keep: int, **checkpoint: Any) -> None:
    while builder.version < until:
        builder.commit(builder.add(ids(builder.version + 1)))
    builder.checkpoint(keep, pointer=True, **checkpoint)
    _clean(builder, keep)


@every_checkpoint
@pytest.mark.parametrize("moment", ["checkpoint", "first commit", "last commit"])
def test_cleaned_up_while_it_is_opened(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], moment: str
) -> None:
    numbered_commits(builder, 8)
    (first, *_) = builder.checkpoint(4, pointer=True, **kind)
    name = {"checkpoint": first.name, "first commit": f"{5:020d}.json", "last commit": f"{8:020d}.json"}[moment]
    _once_before(monkeypatch, name, lambda: _write_on(builder, 12, 10, **kind))
    table = open_table(builder.root, "delta")
    assert table.version == 12
    assert ids_of(table) == list(range(13))


def test_cleaned_up_while_it_is_refreshed(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered_commits(builder, 3)
    table = open_table(builder.root, "delta")
    builder.commit(builder.add(ids(4)))
    builder.commit(builder.add(ids(5)))
    _once_before(monkeypatch, f"{4:020d}.json", lambda: _write_on(builder, 9, 8))
    assert table.refresh().version == 9
    assert ids_of(table) == list(range(10))


@pytest.mark.parametrize(("is_open", "described"), [(False, 0), (False, 2), (True, 0)])
def test_cleaned_up_while_the_log_is_listed(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch, is_open: bool, described: int
) -> None:
    """What the directory held when it was read is gone when its files are described: all, or all but the first."""
    numbered_commits(builder, 3)
    table = open_table(builder.root, "delta") if is_open else None
    stat = os.stat
    described_files: list[Any] = []

    def late(path: Any, **options: Any) -> os.stat_result:
        if Path(path).parent == builder.log and len(described_files) <= described:
            described_files.append(path)
            if len(described_files) > described:
                _write_on(builder, 12, 10)
        return stat(path, **options)

    monkeypatch.setattr("deltaberg.storage.local.os.stat", late)
    found = open_table(builder.root, "delta") if table is None else table.refresh()
    assert found.version == 12
    assert ids_of(found) == list(range(13))


def test_a_version_that_is_cleaned_up_while_it_is_opened(
    builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered_commits(builder, 5)
    _once_before(monkeypatch, f"{2:020d}.json", lambda: _write_on(builder, 9, 8))
    with pytest.raises(VersionNotFoundError, match="no longer available"):
        open_table(builder.root, version=3)


@pytest.mark.parametrize("kind", ["classic", "uuid-parquet"])
def test_cleaned_up_before_the_files_are_asked_for(builder: DeltaBuilder, kind: str) -> None:
    """The columns of files are read late: the table is open, and its version is lost."""
    numbered_commits(builder, 5)
    builder.checkpoint(4, kind=kind, sidecars=2)
    table = open_table(builder.root, "delta")
    unread = open_table(builder.root, "delta")
    assert len(table.live_files) == 6
    _write_on(builder, 9, 8)
    for sidecar in (builder.log / "_sidecars").iterdir():
        sidecar.unlink()
    assert ids_of(table) == list(range(6))
    with pytest.raises(CorruptTableError, match="missing"):
        ids_of(unread)
    assert ids_of(unread.refresh()) == list(range(10))


def test_statistics_of_cleaned_commits_are_unknown(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log entries are not kept where they are large; what is gone when a filter asks skips nothing."""
    monkeypatch.setattr("deltaberg.delta.log.entries._KEPT_BYTES", 0)
    builder.create(ID, builder.add(ids(1), stats="full"))
    builder.commit(builder.add(ids(2), stats="full"))
    table = open_table(builder.root)
    assert table.scan(filter="id = 2").files().num_rows == 1
    builder.checkpoint(1)
    _clean(builder, 2)
    unknown = table.scan(filter="id = 2")
    assert unknown.files().num_rows == 2
    assert unknown.to_arrow()["id"].to_pylist() == [2]


def test_a_damaged_commit_is_told_at_once(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What opening again cannot mend is not tried for ever, though the table goes on."""
    numbered_commits(builder, 3)
    builder.commit_text("{\n", 4)
    reads = []
    original = LocalStorage.get

    def get(store: LocalStorage, path: str, *most: int) -> bytes:
        if path.endswith(f"{4:020d}.json"):
            reads.append(path)
            if len(reads) < 100:
                builder.commit(builder.add(ids(9)))
        return original(store, path, *most)

    monkeypatch.setattr(LocalStorage, "get", get)
    with pytest.raises(CorruptLogError, match=f"{4:020d}.json"):
        open_table(builder.root)
    assert len(reads) < 20


def test_a_commit_that_comes_while_the_log_is_listed(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing may miss it, and have the next one: no store lists all at one moment."""
    numbered_commits(builder, 3)
    listings = []
    original = LocalStorage.list_from

    def list_from(store: LocalStorage, prefix: str, *start: str, directories: bool = False) -> Any:
        listed = list(original(store, prefix, *start, directories=directories))
        if start:
            listings.append(start)
            missed = f"{2:020d}.json" if len(listings) == 1 else ""
            listed = [meta for meta in listed if Path(meta.path).name != missed]
        return listed

    monkeypatch.setattr(LocalStorage, "list_from", list_from)
    assert ids_of(open_table(builder.root)) == [0, 1, 2, 3]
    assert len(listings) == 2
    (builder.log / f"{1:020d}.json").unlink()
    with pytest.raises(CorruptLogError, match="version 1 is missing"):
        open_table(builder.root)


class _Reader(threading.Thread):
    """Opens a table, and refreshes another one, until it is told to stop; keeps what is not as it should be."""

    def __init__(self, root: Path, over: threading.Event, opened: threading.Semaphore) -> None:
        super().__init__()
        self._root, self._over, self._opened = root, over, opened
        self.wrong: list[Any] = []

    def run(self) -> None:
        try:
            kept = open_table(self._root)
            while not self._over.is_set():
                self._look(open_table(self._root))
                self._look(kept.refresh())
                self._opened.release()
        except Exception as error:  # noqa: BLE001
            self.wrong.append(error)
            self._opened.release(1000)

    def _look(self, table: Any) -> None:
        try:
            rows = table.live_files.num_rows
        except CorruptTableError as error:
            # Between opening and asking, its files may be cleaned up, which is what it says.
            self.wrong.extend([error] * ("missing" not in str(error)))
        else:
            self.wrong.extend([(table.version, rows)] * (rows != table.version + 1))


def test_readers_beside_a_writer(builder: DeltaBuilder) -> None:
    """Whatever a reader opens is a version, with the files that it holds."""
    add = builder.add(ids(0), path="f0.parquet")
    builder.create(ID, add, protocol=builder.features("v2Checkpoint"))
    over, opened = threading.Event(), threading.Semaphore(0)
    readers = [_Reader(builder.root, over, opened) for _ in range(2)]
    for reader in readers:
        reader.start()
    kinds: list[dict[str, Any]] = [{"kind": "classic"}, {"kind": "uuid-parquet", "sidecars": 2}, {"kind": "uuid-json"}]
    try:
        for version in range(1, 121):
            _publish_commit(builder, version, {"add": {**add["add"], "path": f"f{version}.parquet"}})
            if version % 10 == 0:
                _publish_checkpoint(builder, version, kinds[version // 10 % 3])
                _clean(builder, version - 5)
            if version % 3 == 0:
                assert opened.acquire(timeout=60)
    finally:
        over.set()
        for reader in readers:
            reader.join()
    assert [reader.wrong for reader in readers] == [[], []]
    assert open_table(builder.root, "delta").live_files.num_rows == 121


def _publish_commit(builder: DeltaBuilder, version: int, action: Action) -> None:
    """Write a commit under a name that no reader sees, and move it into place."""
    hidden = builder.log / ".next"
    hidden.write_text(json.dumps(action) + "\n")
    hidden.rename(builder.log / f"{version:020d}.json")
    builder.commits[version] = [action]
    builder.version = version


def _publish_checkpoint(builder: DeltaBuilder, version: int, kind: dict[str, Any]) -> None:
    """Do the same with a checkpoint."""
    (written,) = builder.checkpoint(version, name=".checkpoint", **kind)
    form = "json" if kind["kind"].endswith("json") else "parquet"
    identity = "" if kind["kind"] == "classic" else f"80a083e8-7026-4e79-81be-{version:012d}."
    written.rename(builder.log / f"{version:020d}.checkpoint.{identity}{form}")
