"""A plugin of pytest for ``make mutants``: notes which tests reach the places of mutants, and runs chosen tests.

``REACHED`` names the folder where a run with probes writes what its tests reach, and ``CHOSEN`` a file of those tests
that a run is about. The processes that a test starts write on its behalf.
"""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest

__all__ = ["CHOSEN", "REACHED", "Reach", "probe", "reach_of"]

REACHED, CHOSEN = "DELTABERG_REACHED", "DELTABERG_CHOSEN_TESTS"
#: A mutant may gather rows without end. The machine must not swap for it.
_MEMORY = 6 << 30
_seen: set[tuple[int, str]] = set()
_seconds: dict[str, float] = {}

#: The tests that passed and reach a place, with their seconds, by the number of the place.
Reach = dict[int, dict[str, float]]


def probe(number: int) -> None:
    """Note that the running test reaches a place."""
    # pytest keeps the name of the running test and its phase there, where processes inherit it.
    name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if name and (number, name) not in _seen:
        _seen.add((number, name))
        with Path(os.environ[REACHED], f"{number}.txt").open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")


def reach_of(folder: Path) -> Reach:
    """Return what a run with probes wrote."""
    passed = json.loads((folder / "passed.json").read_text("utf-8"))
    found: Reach = {}
    for file in folder.glob("*.txt"):
        names = set(file.read_text("utf-8").splitlines())
        found[int(file.stem)] = {name: passed[name] for name in names if name in passed}
    return found


def pytest_configure() -> None:
    """Limit the memory of this process, and of those that it starts."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the seconds of a test, or forget it if it does not pass."""
    if report.passed and (report.when == "setup" or report.nodeid in _seconds):
        _seconds[report.nodeid] = _seconds.get(report.nodeid, 0) + report.duration
    else:
        _seconds.pop(report.nodeid, None)


def pytest_sessionfinish() -> None:
    """Write which tests passed, and how long they took."""
    if REACHED in os.environ:
        Path(os.environ[REACHED], "passed.json").write_text(json.dumps(_seconds), "utf-8")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests alone."""
    if CHOSEN in os.environ:
        chosen = json.loads(Path(os.environ[CHOSEN]).read_text("utf-8"))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]
