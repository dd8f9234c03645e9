"""A plugin of pytest for ``make mutants``: notes which tests reach which blocks, and runs chosen tests.

``REACHED`` names the folder where a run with probes writes one file for each file of tests, and ``CHOSEN`` a file with
the names of those tests that a run is about.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import resource
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.probes import hits

__all__ = ["CHOSEN", "REACHED", "Reached", "reached_by", "recorded"]

REACHED, CHOSEN = "DELTABERG_REACHED", "DELTABERG_CHOSEN_TESTS"
#: A mutant may gather rows without end. The machine must not swap for it.
_MEMORY = 6 << 30


class Reached(NamedTuple):
    """A test that passes, its seconds, and the blocks that it reaches: one byte for each block of the package."""

    test: str
    seconds: float
    blocks: bytes


def recorded(folder: Path, root: Path, file: str) -> bool:
    """Return whether the folder tells what this file of tests reaches, as it is now."""
    record = _record_of(folder, file)
    return record.exists() and json.loads(record.read_text("utf-8"))["digest"] == _digest(root / file)


def reached_by(folder: Path, files: Iterable[str]) -> Iterator[Reached]:
    """Return what the tests of these files reach, by the last run of each file."""
    for record in (_record_of(folder, file) for file in files):
        if record.exists():
            for test, (seconds, blocks) in json.loads(record.read_text("utf-8"))["tests"].items():
                yield Reached(test, seconds, zlib.decompress(base64.b64decode(blocks)))


def _record_of(folder: Path, file: str) -> Path:
    return folder / f"{file.replace('/', '.')}.json"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


class _Recorder:
    """Writes what each test reaches, once all tests of a file have run, so that a run can go on where it was ended."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._seconds: dict[str, float] = {}
        self._tests: dict[str, tuple[float, str]] = {}
        self._left: dict[str, int] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            file = item.nodeid.partition("::")[0]
            self._left[file] = self._left.get(file, 0) + 1

    def pytest_runtest_logstart(self) -> None:
        hits[:] = bytes(len(hits))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test that does not pass tells nothing about a mutant.
        if report.passed and (report.when == "setup" or report.nodeid in self._seconds):
            self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0) + report.duration
        else:
            self._seconds.pop(report.nodeid, None)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if nodeid in self._seconds:
            blocks = base64.b64encode(zlib.compress(bytes(hits[:]))).decode()
            self._tests[nodeid] = self._seconds[nodeid], blocks
        file = nodeid.partition("::")[0]
        self._left[file] -= 1
        if not self._left[file]:
            self._write(file)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            # All tests of these files have marks that leave them out.
            for file in set(session.config.args) - set(self._left):
                self._write(file)

    def _write(self, file: str) -> None:
        tests = {name: record for name, record in self._tests.items() if name.partition("::")[0] == file}
        record = {"digest": _digest(self._root / file), "tests": tests}
        _record_of(self._folder, file).write_text(json.dumps(record), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Limit the memory of this process, and of those that it starts."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    if REACHED in os.environ:
        config.pluginmanager.register(_Recorder(Path(os.environ[REACHED]), config.rootpath))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests alone."""
    if CHOSEN in os.environ:
        chosen = set(json.loads(Path(os.environ[CHOSEN]).read_text("utf-8")))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]
