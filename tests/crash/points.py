"""Kills an operation at its points, one after the other, and looks at what is left."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from deltaberg.storage import open_store, parse_location
from tests.crash.aftermath import look_after
from tests.crash.operations import Operation
from tests.crash.starts import STARTS
from tests.crash.states import Verdict
from tests.support.serial_log import read_folder
from tests.support.tally import Budget, Tally

__all__ = ["Nursery", "kill_everywhere"]

_ROOT = Path(__file__).resolve().parents[2]
#: Points around these calls are tried first: they change what others see.
_DECISIVE = ("put", "link_if_absent", "publish", "delete_many")
#: So many are tried in any case.
_LEAST = 4
#: What data files are called that no version names yet, or never will.
_DATA = ("part-", "deletion_vector_", "cdc-", "old-")


class Nursery:
    """A process that starts the children; see ``tests.crash.nursery``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, **request: Any) -> int:
        """Run an operation in a child, and return how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ended: int = json.loads(self._process.stdout.readline())["ended"]
        return ended

    def __enter__(self) -> Nursery:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


def kill_everywhere(
    operation: Operation, nursery: Nursery, folder: Path, seconds: float | None, generator: random.Random
) -> Tally:
    """Kill an operation before and after every call of its store, and say what was found.

    Parameters
    ----------
    folder
        A folder for the tables.
    seconds
        How long points are tried; None tries all. The points that are left out are others each time.
    generator
        Chooses the order of the points.
    """
    tally = Tally(operation.name, "crash points")
    original, whole = folder / "original", folder / "whole"
    STARTS[operation.start](original)
    shutil.copytree(original, whole)
    counted, acknowledged = folder / "counted", folder / "acknowledged"
    files = {"counted": str(counted), "acknowledged": str(acknowledged), "operation": operation.name}
    assert nursery.run(root=str(whole), number=None, when="", **files) == 0, operation.name
    names = json.loads(counted.read_text())
    assert set(names) & {"put", "delete_many"}, operation.name
    verdict = Verdict.of(operation, str(original), str(whole))
    points = [(number, when) for number in range(len(names)) for when in ("before", "after")]
    generator.shuffle(points)
    points.sort(key=lambda point: names[point[0]] not in _DECISIVE)
    tally.planned = len(points)
    as_before = 0
    budget = Budget(seconds)
    for number, when in points:
        if budget.is_spent and tally.tried >= _LEAST:
            break
        acknowledged.unlink(missing_ok=True)
        root = folder / f"{number}-{when}"
        shutil.copytree(original, root)
        where = f"killed {when} call {number}, {names[number]}"
        ended = nursery.run(root=str(root), number=number, when=when, **files)
        tally.tried += 1
        if ended != -signal.SIGKILL:
            tally.wrong.append(f"{where}: the process ended with {ended}")
            continue
        done = acknowledged.exists()
        state = look_after(tally, verdict, where, str(root), partial(read_folder, root), acknowledged=done)
        as_before += state == verdict.before
        tally.wrong += [f"{where}: {sentence}" for sentence in _leftovers(root, original)]
        shutil.rmtree(root)
    tally.note = f"{as_before} left the table as it was"
    tally.seconds = budget.passed
    return tally


def _leftovers(root: Path, original: Path) -> list[str]:
    """Whatever a killed writer left behind is a log entry, or shows itself to who looks for orphans."""
    location = parse_location(root)
    known = {path.relative_to(original).as_posix() for path in original.rglob("*")}
    shown = {meta.path[len(location.path) + 1 :] for meta in open_store(location).walk(location.path)}
    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    faults = [f"{name} is hidden from who looks for orphans" for name in sorted(there - shown)]
    for name in sorted(shown - known):
        last = name.rpartition("/")[2]
        in_log = name.startswith("_delta_log/") and not last.startswith(_DATA)
        if not in_log and not last.startswith((".deltaberg-", *_DATA)):
            faults.append(f"nobody would know what {name} is")
    return faults
