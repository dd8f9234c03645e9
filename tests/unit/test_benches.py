"""The benchmarks run, and all sides of a case find the same; their times decide nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benches.cache import FOLDER_VARIABLE
from benches.cases import CASES
from benches.measure import fresh

pytestmark = pytest.mark.one_backend

_SCALE = 0.0005
#: The session of the tests has no jar; a JVM takes one only when it starts.
_OWN_JVM = {"iceberg-java"}
_ON_SPARK = [name for name in CASES if name.startswith(("spark", "fused"))]


@pytest.mark.parametrize("name", [name for name in CASES if name not in _ON_SPARK])
def test_the_sides_of_a_case_agree(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    case = CASES[name]
    case.prepare(_SCALE)
    _agree(
        {
            side: fresh(name, side, _SCALE)["found"] if side in _OWN_JVM else work(_SCALE).found
            for side, work in case.sides.items()
        }
    )


@pytest.mark.spark
def test_a_case_on_spark(rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sides of one of them find the same; each starts Spark."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    name = rng.choice(_ON_SPARK)
    CASES[name].prepare(_SCALE)
    _agree({side: fresh(name, side, _SCALE)["found"] for side in CASES[name].sides})


def _agree(found: dict[str, Any]) -> None:
    assert next(iter(found)) == "deltaberg"
    assert len({str(answer) for answer in found.values()}) == 1, found


def test_the_list_of_cases() -> None:
    command = [sys.executable, "-m", "benches", "--list"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in finished.stdout.splitlines()] == list(CASES)
