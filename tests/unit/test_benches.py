"""The benchmarks run, and all sides of a case find the same; their times decide nothing."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import benches.__main__ as suite
from benches.cache import FOLDER_VARIABLE
from benches.cases import CASES, SUBJECTS
from benches.measure import peak_of_processes
from benches.report import write_report
from benches.turns import CaseError, run_sides

pytestmark = pytest.mark.one_backend

_SCALE = 0.0005
#: The session of the tests has no jar; a JVM takes one only when it starts.
_OWN_JVM = {"delta-spark", "iceberg-java"}
_ON_SPARK = list(SUBJECTS["spark"].cases)
_MIB = 1 << 20


@pytest.mark.parametrize("name", [name for name in CASES if name not in _ON_SPARK])
def test_the_sides_of_a_case_agree(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    case = CASES[name]
    case.prepare(_SCALE)
    own = run_sides(name, [side for side in case.sides if side in _OWN_JVM], _SCALE)
    _agree({side: own[side]["found"] if side in own else work(_SCALE).found for side, work in case.sides.items()})


@pytest.mark.spark
def test_a_case_on_spark(rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sides of one of them find the same; each starts Spark. Many files take their time at any scale."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    name = rng.choice([name for name in _ON_SPARK if not name.endswith("00")])
    CASES[name].prepare(_SCALE)
    runs = run_sides(name, CASES[name].sides, _SCALE)
    _agree({side: run["found"] for side, run in runs.items()})
    # The driver alone takes half of it.
    assert min(run["bytes"] for run in runs.values()) > 300 * _MIB


def test_the_peak_is_that_of_children_too() -> None:
    alone = peak_of_processes()
    code = "held = b'x' * (200 << 20)\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert peak_of_processes() > alone + 200 * _MIB
        child.communicate(b"\n")


def _agree(found: dict[str, Any]) -> None:
    assert next(iter(found)) == "deltaberg"
    assert len({str(answer) for answer in found.values()}) == 1, found


def test_a_run_goes_on_after_a_case_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is repeated alone where the run is resumed."""
    broken, ran = {"mask"}, []

    def measured(case: str, sides: Iterable[str], scale: float) -> dict[str, dict[str, Any]]:
        ran.append(case)
        if case in broken:
            raise CaseError(f"{case}: no vector")
        return {side: {"amounts": [scale], "found": 1, "bytes": 1} for side in sides}

    monkeypatch.setattr(suite, "run_sides", measured)
    file = tmp_path / "all.json"
    command = ["benches", "--only", "mask", "--only", "bucket-int64", "--scale", "0.0001", "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", [*command, "--json", str(file)])
    with pytest.raises(SystemExit, match=r"^1 of 2 cases failed: mask$"):
        suite.main()
    assert "mask: no vector" in capsys.readouterr().out
    assert list(json.loads(file.read_text())["cases"]) == ["bucket-int64"]
    broken.clear()
    ran.clear()
    monkeypatch.setattr(sys, "argv", [*command, "--json", str(file), "--resume"])
    suite.main()
    assert ran == ["mask", "mask"]
    assert set(json.loads(file.read_text())["cases"]) == {"mask", "bucket-int64"}
    monkeypatch.setattr(sys, "argv", [*command, "--json", str(file), "--resume", "--scale", "0.0002"])
    with pytest.raises(SystemExit, match=r"of another kind of run: 'Scale 0\.0001.*not 'Scale 0\.0002"):
        suite.main()


def test_a_side_that_fails_says_why() -> None:
    with pytest.raises(CaseError, match=r"(?s)^mask, nobody: .*KeyError: 'nobody'"):
        run_sides("mask", ["deltaberg", "nobody"], _SCALE)


def test_the_list_of_cases() -> None:
    command = [sys.executable, "-m", "benches", "--list"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in finished.stdout.splitlines()] == list(CASES)


def test_the_list_of_a_subject() -> None:
    command = [sys.executable, "-m", "benches", "--list", "--subject", "start", "--only", "mask"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    listed = [line.split()[0] for line in finished.stdout.splitlines()]
    assert listed == [*SUBJECTS["start"].cases, "mask"]


def test_a_subject_has_one_unit_and_a_case_one_subject() -> None:
    assert all(len({case.unit for case in subject.cases.values()}) == 1 for subject in SUBJECTS.values())
    assert len(CASES) == sum(len(subject.cases) for subject in SUBJECTS.values())


def test_the_report(tmp_path: Path) -> None:
    def runs(*amounts: float, held: int = 100 * _MIB) -> list[dict[str, Any]]:
        return [{"amounts": [amount, amount], "bytes": held, "found": 1} for amount in amounts]

    (name, other), counted = list(CASES)[:2], next(iter(SUBJECTS["requests"].cases))
    results = {
        counted: {"deltaberg": runs(4, held=2048), "busy": runs(12, held=5 << 20)},
        name: {"deltaberg": runs(2.0, 1.0, 9.0), "slow <one>": runs(8.0)},
        other: {"deltaberg": runs(0.05), "fast": runs(0.02)},
    }
    write_report(tmp_path, "a machine", "a scale", results)
    lines = (tmp_path / "RESULTS.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert [row.split(" | ")[1:] for row in rows] == [
        ["side", "median", "best", "peak", "ratio |"],
        ["deltaberg", "2.00 s", "1.00 s", "100 MiB", " |"],
        ["slow <one>", "8.00 s", "8.00 s", "100 MiB", "4.0 |"],
        ["deltaberg", "50.0 ms", "50.0 ms", "100 MiB", " |"],
        ["fast", "20.0 ms", "20.0 ms", "100 MiB", "0.4 |"],
        ["side", "median", "best", "received", "ratio |"],
        ["deltaberg", "4 requests", "4 requests", "2 KiB", " |"],
        ["busy", "12 requests", "12 requests", "5120 KiB", "3.0 |"],
    ]
    titles = [SUBJECTS[subject].title for subject in ("planning", "requests")]
    assert [line for line in lines if line.startswith("## ")] == [f"## {title}" for title in titles]
    chart = ET.parse(tmp_path / "results.svg")
    texts = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    drawn = [titles[0], f"{name}: slow <one>", "4.0", f"{other}: fast", "0.4", titles[1], f"{counted}: busy", "3.0"]
    assert texts[-8:] == drawn
