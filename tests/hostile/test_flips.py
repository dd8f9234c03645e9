"""Files damaged at random: a read returns rows or raises our exceptions, and never crashes or raises others."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.hostile.tables import CHECKPOINTS
from tests.support.effort import tries

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

#: The kinds of checkpoints that are damaged where time is short.
_QUICK = ("uuid-json",)
#: Far above what reading the small table takes, far below what a length that lies can ask for.
_PEAK = 1 << 30


def _run(checkpoint: str, what: str, seed: int, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.hostile.flips", checkpoint, what, str(seed), str(count)]
    print("damage made by:", *command[1:])
    finished = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert finished.returncode == 0, finished.stderr[-3000:]
    found: dict[str, Any] = json.loads(finished.stdout)
    assert not found["strange"], "\n".join(found["strange"])
    assert sum(found["outcomes"].values()) == count
    assert found["peak"] < _PEAK
    return found


@pytest.mark.parametrize(
    "checkpoint", [pytest.param(one, marks=() if one in _QUICK else pytest.mark.full) for one in CHECKPOINTS]
)
def test_damaged_log(checkpoint: str, seed: int) -> None:
    outcomes = _run(checkpoint, "log", seed, tries(150))["outcomes"]
    assert {"sound", "CorruptLogError"} <= set(outcomes)


def test_a_damaged_pointer_does_no_harm(seed: int) -> None:
    assert set(_run("classic", "pointer", seed, tries(100))["outcomes"]) == {"sound"}


def test_damaged_deletion_vectors(seed: int) -> None:
    """Every byte of them lies under a checksum, or is checked against the log."""
    outcomes = _run("none", "vectors", seed, tries(150))["outcomes"]
    assert set(outcomes) <= {"CorruptDeletionVectorError", "sound"}
    assert outcomes["CorruptDeletionVectorError"] > tries(150) // 2


def test_damaged_data_files(seed: int) -> None:
    """Values carry no checksum here, so rows may change; what cannot be decoded is our exception."""
    outcomes = _run("none", "data", seed, tries(200))["outcomes"]
    assert set(outcomes) <= {"CorruptDataFileError", "SchemaError", "sound", "other"}
    assert outcomes["CorruptDataFileError"] > tries(200) // 20
