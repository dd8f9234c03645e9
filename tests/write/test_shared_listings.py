"""Listings that are shared out among tasks, as the store shows that they can be: each file is listed once."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.delta.maintain.cleaning import vacuum
from deltaberg.errors import CorruptMetadataError, DeltabergError, StorageError
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain import file_tasks, listed_files
from deltaberg.table.maintain.file_tasks import list_by_tasks
from deltaberg.table.removal import FileKind
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_HERE: dict[str, Any] = {"retention_hours": 0, "enforce_retention_duration": False, "untracked_hours": 0}


class _Tasks:
    """Tasks that run here, one after the other, with all that they are given and return pickled."""

    parallelism = 1

    def __init__(self) -> None:
        #: The shares of each job.
        self.jobs: list[list[Any]] = []

    def run(self, work: Callable[[Any], Any], shares: Sequence[Any]) -> list[Any]:
        self.jobs.append(list(shares))
        work = pickle.loads(pickle.dumps(work))
        return [pickle.loads(pickle.dumps(_reply(work, share))) for share in pickle.loads(pickle.dumps(shares))]


def _reply(work: Callable[[Any], Any], share: Any) -> Any:
    try:
        return work(share)
    except DeltabergError as error:
        return error


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten files are many."""
    monkeypatch.setattr(file_tasks, "_LEAST_LISTED", 10)
    monkeypatch.setattr(listed_files, "_AT_ONCE", 5)


def _listed(root: Path, tasks: _Tasks) -> list[str]:
    batches = list(list_by_tasks(tasks, StoreSpec(), parse_location(root)))
    assert pa.Table.from_batches(batches).column("bytes").unique().to_pylist() == [1]
    return sorted(path for batch in batches for path in batch.column("path").to_pylist())


def _make(root: Path, *names: str) -> list[str]:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return sorted(names)


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        pytest.param([f"{p}/{n}" for p in range(4) for n in range(3)], ["0", "1", "2", "3"], id="directories"),
        pytest.param([f"{p}/{n}" for p in range(3) for n in range(3)], None, id="few files"),
        pytest.param([f"{p}/{n}" for p in range(3) for n in range(4)], None, id="few directories"),
        pytest.param([*(str(n) for n in range(30)), *(f"d{p}/0" for p in range(9))], None, id="most of them above"),
        pytest.param(
            [f"{p}/{q}/{n}" for p in range(2) for q in range(2) for n in range(3)],
            ["0/0", "0/1", "1/0", "1/1"],
            id="two levels",
        ),
        pytest.param([f"a/b/c/d/{e}/{n}" for e in range(5) for n in range(3)], None, id="too deep"),
        pytest.param(
            [*(f"x/{q}/{n}" for q in "äb %" for n in range(3)), "x/y/z/deep", "x/above", "top"],
            ["x/ ", "x/%", "x/b", "x/y", "x/ä"],
            id="files above",
        ),
    ],
)
def test_each_file_is_listed_once(tmp_path: Path, names: list[str], shared: list[str] | None) -> None:
    tasks, made = _Tasks(), _make(tmp_path, *names)
    assert _listed(tmp_path, tasks) == made
    assert [sorted(folder for share in job for folder in share) for job in tasks.jobs] == ([shared] if shared else [])


def test_a_directory_that_has_no_levels_is_walked_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that cannot be named ends a listing of one level, and a walk gets past it."""
    files = _make(tmp_path, *(f"{p}/{q}/{n}" for p in range(2) for q in range(3) for n in range(3)))
    level = LocalStorage.level

    def without_one(self: LocalStorage, prefix: str) -> Any:
        if prefix.endswith("/1"):
            raise StorageError("it has an empty part")
        return level(self, prefix)

    monkeypatch.setattr(LocalStorage, "level", without_one)
    tasks = _Tasks()
    assert _listed(tmp_path, tasks) == files
    assert [sorted(folder for share in job for folder in share) for job in tasks.jobs] == [["0/0", "0/1", "0/2", "1"]]


def test_leftovers_of_a_small_table_are_listed_and_deleted_by_one_job_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing in the log tells that there are so many, and there are two reasons why files go."""
    monkeypatch.setattr(vacuum, "LEAST_DELETED", 1)
    table = create_table(tmp_path / "t", ID)
    table.append(ids(1))
    table.append(ids(2))
    table.delete("id = 2")
    left = _make(tmp_path / "t", *(f"p={p}/{n}.parquet" for p in range(6) for n in range(4)))
    # What was written in this very millisecond is young.
    time.sleep(0.01)
    expected = table.vacuum(**_HERE)
    tasks = _Tasks()
    table._file_tasks = tasks
    with caplog.at_level("INFO", "deltaberg.removal"):
        done = table.vacuum(dry_run=False, **_HERE)
    assert sorted(done.files["path"].to_pylist()) == sorted(expected.files["path"].to_pylist())
    assert set(left) < set(done.files["path"].to_pylist())
    assert not any((tmp_path / "t" / name).exists() for name in left)
    listing, deleting = tasks.jobs
    assert len(listing) == 4
    reasons = {f"{tmp_path}/t/{row['path']}": row["reason"] for row in expected.files.to_pylist()}
    assert deleting == [reasons]
    assert len(set(reasons.values())) == 2
    logged = {record.getMessage() for record in caplog.records}
    assert logged == {f"deleting {path}: {reason}" for path, reason in reasons.items()}


@pytest.mark.parametrize("is_whole", [False, True])
def test_what_tasks_that_failed_were_to_delete_is_told(tmp_path: Path, *, is_whole: bool) -> None:
    """An expiry has committed by then, and a purge has dropped its table: the result is not to be lost."""

    class Failing(_Tasks):
        def run(self, work: Callable[[Any], Any], shares: Sequence[Any]) -> list[Any]:
            if is_whole:
                raise OSError("no answer")
            return [*super().run(work, shares[:-1]), CorruptMetadataError("no answer")]

    root = parse_location(tmp_path)
    reasons = {str(tmp_path / name): "it is old" for name in _make(tmp_path, *map(str, range(5)))}
    told: list[str] = []
    with mock.patch.object(file_tasks, "_DELETED", 2):
        done = file_tasks.delete_by_tasks(
            Failing(), StoreSpec(), root, reasons, FileKind("any file", re.compile(".*")), deleted=told.append
        )
    assert told == done.deleted == ([] if is_whole else list(reasons)[:4])
    assert list(done.failed) == list(reasons)[len(told) :]
    assert all("no answer" in one.message for one in done.failed.values())
