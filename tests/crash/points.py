"""Kills an operation at its points, one after the other, and looks at what is left."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from tests.crash.aftermath import local_files, look_after
from tests.crash.formats import format_of
from tests.crash.operations import Operation
from tests.crash.servers import serving
from tests.crash.starts import restore
from tests.crash.states import Verdict
from tests.crash.targets import Target
from tests.support.tally import Tally, sample

__all__ = ["Nursery", "kill_everywhere"]

_ROOT = Path(__file__).resolve().parents[2]
#: Points around these calls are tried first: they change what others see.
_DECISIVE = ("put", "link_if_absent", "publish", "delete_many", "statement", "request")


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
    operation: Operation, nursery: Nursery, folder: Path, most: int | None, generator: random.Random
) -> Tally:
    """Kill an operation before and after every call of its store, and say what was found.

    Parameters
    ----------
    folder
        A folder for the tables. Those that operations start from are kept in it.
    most
        How many points are tried; None tries all.
    generator
        Chooses the points.
    """
    root = folder / "table"
    with serving(operation.kind, str(root)) as uri:
        at = Target(str(root), kind=operation.kind, uri=uri)
        tally = Tally(operation.name, "crash points")
        with tally.timed():
            _kill_everywhere(tally, operation, nursery, at, most, generator)
        return tally


def _kill_everywhere(
    tally: Tally, operation: Operation, nursery: Nursery, at: Target, most: int | None, generator: random.Random
) -> None:
    root = Path(at.location)
    original = restore(operation.start, at)
    counted, acknowledged = root.parent / "counted", root.parent / "acknowledged"
    told = {"root": str(root), "kind": at.kind, "uri": at.uri, "operation": operation.name}
    told |= {"counted": str(counted), "acknowledged": str(acknowledged)}

    def run() -> None:
        assert nursery.run(number=None, when="", **told) == 0, operation.name

    verdict = Verdict.of(operation, at, run)
    names = json.loads(counted.read_text())
    assert set(names) & set(_DECISIVE), operation.name
    points = [(number, when) for number in range(len(names)) for when in ("before", "after")]
    tally.planned = len(points)
    as_before = 0
    for number, when in sample(points, most, generator, lambda point: names[point[0]] in _DECISIVE):
        acknowledged.unlink(missing_ok=True)
        restore(operation.start, at)
        where = f"killed {when} call {number}, {names[number]}"
        ended = nursery.run(number=number, when=when, **told)
        tally.tried += 1
        if ended != -signal.SIGKILL:
            tally.wrong.append(f"{where}: the process ended with {ended}")
            continue
        left = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
        tally.wrong += [f"{where}: {sentence}" for sentence in _leftovers(at, root, original, left)]
        done = acknowledged.exists()
        state = look_after(tally, verdict, where, at, partial(local_files, root), acknowledged=done)
        as_before += state == verdict.before
    tally.note = f"{as_before} left the table as it was"


def _leftovers(at: Target, root: Path, original: Path, left: set[str]) -> list[str]:
    """Whatever a killed writer left behind is a log entry, or shows itself to who looks for orphans."""
    location = parse_location(root)
    known = {path.relative_to(original).as_posix() for path in original.rglob("*")}
    shown = {meta.path[len(location.path) + 1 :] for meta in open_store(location).walk(location.path)}
    faults = [f"{name} is hidden from who looks for orphans" for name in sorted(left - shown)]
    found = format_of(at)
    return faults + [f"nobody would know what {name} is" for name in sorted(left - known) if not found.is_known(name)]
