"""A writer is killed before and after every call of its store: the table is as before or as after, and goes on."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable
from deltaberg.errors import TableNotFoundError
from deltaberg.storage import open_store, parse_location
from tests.crash.operations import OPERATIONS
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids
from tests.support.serial_log import check_history, read_folder

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]

_ROOT = Path(__file__).resolve().parents[2]


class _Nursery:
    def __init__(self, table: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery", str(table)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, **request: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ended: int = json.loads(self._process.stdout.readline())["ended"]
        return ended

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


@pytest.fixture
def original(builder: DeltaBuilder) -> Path:
    """A table of three versions, a checkpoint and a file that was removed."""
    adds = [builder.add(ids(number), stats="full", path=f"old-{number}.parquet") for number in range(3)]
    builder.create(ID, *adds[:2])
    builder.commit(adds[2])
    builder.checkpoint()
    builder.commit(builder.remove(adds[0]))
    return builder.root


@pytest.fixture
def nursery(original: Path) -> Iterator[_Nursery]:
    """What starts the writers."""
    found = _Nursery(original)
    yield found
    found.close()


def _state(root: Path) -> tuple[Any, ...]:
    """Return what a reader sees of the tables below a folder."""
    found: list[Any] = []
    for place in (root, root / "other"):
        try:
            table = DeltaTable(place)
        except TableNotFoundError:
            found.append(None)
            continue
        # Files that were written have a new name each time.
        paths = (path if path.startswith("old-") else "new" for path in table.live_files.column("path").to_pylist())
        found.append(
            (table.version, table.metadata.description, tuple(sorted(paths)), tuple(sorted(table.transactions)))
        )
    return tuple(found)


def _go_on(root: Path) -> None:
    """Let another writer commit on top of what is there."""
    before = DeltaTable(root)
    with before.transaction() as transaction:
        transaction.set_transaction("later", 1)
    after = DeltaTable(root)
    assert after.version == before.version
    assert "later" in after.transactions
    assert check_history(read_folder(root)).faults == []


def _check_leftovers(root: Path, original: Path) -> None:
    """Whatever a killed writer left behind is a log entry, or shows itself to who looks for orphans."""
    location = parse_location(root)
    known = {path.relative_to(original).as_posix() for path in original.rglob("*")}
    for meta in open_store(location).walk(location.path):
        name = meta.path[len(location.path) + 1 :]
        last = name.rpartition("/")[2]
        in_log = last.removesuffix(".json").removesuffix(".crc").isdigit()
        is_data = last.startswith("part-") and last.endswith(".parquet")
        assert name in known or last.startswith(".deltaberg-") or in_log or is_data, name


@pytest.mark.req("DL-GEN-04")
@pytest.mark.req("DL-LOG-03", half="writer")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_point(tmp_path: Path, original: Path, nursery: _Nursery, operation: str) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(original, whole)
    counted, acknowledged = tmp_path / "counted", tmp_path / "acknowledged"
    files = {"counted": str(counted), "acknowledged": str(acknowledged)}
    assert nursery.run(operation=operation, root=str(whole), number=None, when="", **files) == 0
    names = json.loads(counted.read_text())
    before, after = _state(original), _state(whole)
    assert before != after
    assert "put" in names
    seen = {before: 0, after: 0}
    for number in range(len(names)):
        for when in ("before", "after"):
            acknowledged.unlink(missing_ok=True)
            root = tmp_path / f"{number}-{when}"
            shutil.copytree(original, root)
            ended = nursery.run(operation=operation, root=str(root), number=number, when=when, **files)
            where = f"killed {when} call {number}, {names[number]}"
            assert ended == -signal.SIGKILL, where
            state = _state(root)
            assert state in seen, where
            seen[state] += 1
            assert state == after or not acknowledged.exists(), where
            _check_leftovers(root, original)
            _go_on(root)
            shutil.rmtree(root)
    # Both happen: it is not that every point comes too early or too late.
    assert all(seen.values())
    print(f"{operation}: {2 * len(names)} points, of which {seen[before]} left the table as it was")
