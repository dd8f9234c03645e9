"""The benchmarks run, and all sides of a case find the same; their times decide nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benches.cache import FOLDER_VARIABLE
from benches.cases import CASES
from benches.measure import fresh
from benches.report import write_report

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


def test_the_report(tmp_path: Path) -> None:
    def runs(*seconds: float) -> list[dict[str, Any]]:
        return [{"seconds": second, "peak": 100 << 20, "found": 1} for second in seconds]

    name, other = list(CASES)[:2]
    results = {
        name: {"deltaberg": runs(2.0, 1.0, 9.0), "slow <one>": runs(8.0)},
        other: {"deltaberg": runs(0.05), "fast": runs(0.02)},
    }
    write_report(tmp_path, "a machine", "a scale", results)
    rows = [line for line in (tmp_path / "RESULTS.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[1:] for row in rows] == [
        ["deltaberg", "2.00 s", "1.00 s", "100 MiB", " |"],
        ["slow <one>", "8.00 s", "8.00 s", "100 MiB", "4.0 |"],
        ["deltaberg", "50.0 ms", "50.0 ms", "100 MiB", " |"],
        ["fast", "20.0 ms", "20.0 ms", "100 MiB", "0.4 |"],
    ]
    chart = ET.parse(tmp_path / "results.svg")
    texts = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert [f"{name}: slow <one>", "4.0", f"{other}: fast", "0.4"] == texts[-4:]
