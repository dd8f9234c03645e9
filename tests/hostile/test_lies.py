"""Metadata that lies, is nested endlessly, or leads outside the table only raises our exceptions, within limits."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.hostile.lies import CASES, PATHS


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str | int]:
    """What came of every case, read in a process of its own that may take 1 GiB more than it begins with.

    What does not end is ended, so that the tests fail.
    """
    finished = subprocess.run(
        [sys.executable, "-m", "tests.hostile.lies"], capture_output=True, text=True, timeout=280, check=False
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    found: dict[str, str | int] = json.loads(finished.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, outcomes: dict[str, str | int]) -> None:
    assert outcomes[name] == CASES[name][1]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40] or "empty")
def test_path(path: str, outcomes: dict[str, str | int]) -> None:
    assert outcomes[path] == PATHS[path]
