"""The benchmarks run, and all sides of a case find the same; their times decide nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benches.cache import FOLDER_VARIABLE
from benches.cases import CASES
from benches.measure import fresh

pytestmark = pytest.mark.one_backend

_SCALE = 0.0005
#: The session of the tests has no jar; a JVM takes one only when it starts.
_OWN_JVM = {"iceberg-java"}


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("fused")])
def test_the_sides_of_a_case_agree(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    case = CASES[name]
    case.prepare(_SCALE)
    found = {
        side: fresh(name, side, _SCALE)["found"] if side in _OWN_JVM else work(_SCALE).found
        for side, work in case.sides.items()
    }
    assert next(iter(found)) == "deltaberg"
    assert len({str(answer) for answer in found.values()}) == 1, found


def test_the_list_of_cases() -> None:
    command = [sys.executable, "-m", "benches", "--list"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in finished.stdout.splitlines()] == list(CASES)
