"""The benchmarks run, and all sides of a case find the same result; no test depends on times."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import psutil
import pyarrow as pa
import pytest

import benches.__main__ as suite
from benches import iceberg_data, turns
from benches.cache import FOLDER_VARIABLE, read_through
from benches.cases import CASES, SUBJECTS
from benches.measure import contents, peak_of_processes, repeated
from benches.report import write_report
from benches.turns import CaseError, run_sides
from deltaberg import kernels, open_table

pytestmark = pytest.mark.one_backend

_SCALE = 0.0005
#: The session of the tests has no jar; a JVM takes one only when it starts.
_OWN_JVM = ("delta-spark", "iceberg-java", "iceberg-spark")
_ON_SPARK = [name for subject in ("spark", "spark-streams", "spark-writing") for name in SUBJECTS[subject].cases]
_MIB = 1 << 20


#: Each case starts processes of its own; one of each subject shows that the suite runs.
_FIRST = {next(iter(subject.cases)) for subject in SUBJECTS.values()}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in _FIRST else pytest.mark.full) for name in CASES if name not in _ON_SPARK],
)
def test_the_sides_of_a_case_agree(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    case = CASES[name]
    case.prepare(_SCALE)
    found = {side: work(_SCALE).found for side, work in case.sides.items() if side not in _OWN_JVM}
    _agree(name, found)


@pytest.mark.full
@pytest.mark.parametrize("side", _OWN_JVM)
def test_a_side_with_a_jvm_of_its_own(
    side: str, rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one of its cases; each of them starts Spark."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    name = rng.choice([name for name, case in CASES.items() if side in case.sides and name not in _ON_SPARK])
    CASES[name].prepare(_SCALE)
    runs = run_sides(name, ["deltaberg", side], _SCALE)
    _agree(name, {ran: run["found"] for ran, run in runs.items()})


@pytest.mark.full
@pytest.mark.spark
def test_a_case_on_spark(rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three sides of a case agree; each starts Spark. Many files take their time at any scale."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    name = rng.choice([name for name in _ON_SPARK if not name.endswith("00")])
    CASES[name].prepare(_SCALE)
    ours, *others = CASES[name].sides
    runs = run_sides(name, [ours, *rng.sample(others, min(len(others), 2))], _SCALE)
    _agree(name, {side: run["found"] for side, run in runs.items()})
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


def _agree(case: str, found: dict[str, Any]) -> None:
    suite._check(case, {side: [{"found": json.loads(json.dumps(answer))}] for side, answer in found.items()})


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
    with pytest.raises(SystemExit, match=r"^1 of 2 cases failed: mask; no report was written$"):
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


def test_ours_is_compared_with_an_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its best time; cases that the earlier run lacks, or that have changed since, are left out."""
    amounts = {"mask": [4.0, 2.0], "bucket-int64": [1.0], "bucket-string": [1.0]}

    def measured(case: str, sides: Iterable[str], scale: float) -> dict[str, dict[str, Any]]:
        return {side: {"amounts": amounts[case], "found": 1, "bytes": 1} for side in sides}

    monkeypatch.setattr(suite, "run_sides", measured)
    before = tmp_path / "before.json"
    command = ["benches", "--scale", "0.0001", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", [*command, "--only", "mask", "--only", "bucket-string", "--json", str(before)])
    suite.main()
    amounts["mask"] = [9.0, 2.5]
    monkeypatch.setitem(CASES, "bucket-string", CASES["bucket-string"]._replace(title="another"))
    cases = ["--only", "mask", "--only", "bucket-int64", "--only", "bucket-string"]
    monkeypatch.setattr(sys, "argv", [*command, *cases, "--against", str(before)])
    capsys.readouterr()
    suite.main()
    *_, head, line, count = capsys.readouterr().out.splitlines()
    assert head.startswith(f"beside {before}: deltaberg at commit ")
    assert line.split() == ["mask", "1.25", "x", "slower"]
    assert count == "  1 of 1 cases are slower"
    monkeypatch.setattr(sys, "argv", ["benches", "--only", "mask", "--scale", "0.1", "--against", str(before)])
    with pytest.raises(SystemExit, match=r"of another scale: Scale 0\.0001 .*, not Scale 0\.1 "):
        suite.main()


def test_a_side_that_fails_says_why() -> None:
    with pytest.raises(CaseError, match=r"(?s)^mask, nobody, ended with 1: .*KeyError: 'nobody'"):
        run_sides("mask", ["deltaberg", "nobody"], _SCALE)


@pytest.mark.parametrize("found", [[], [1], [1, "b"], [1, "a", 3], 1, None])
def test_sides_that_found_different_things(found: Any) -> None:
    ours = {"found": [1, "a"]}
    suite._check("iceberg-plan", {"deltaberg": [ours], "same": [ours], "iceberg-java": [{"found": [1]}]})
    with pytest.raises(CaseError, match=r"^iceberg-plan: deltaberg found"):
        suite._check("iceberg-plan", {"deltaberg": [ours] * 2, "other": [ours, {"found": found}]})
    with pytest.raises(CaseError, match=r"^iceberg-plan: deltaberg found"):
        suite._check("iceberg-plan", {"deltaberg": [ours], "iceberg-java": [{"found": [2]}]})


def test_what_a_table_holds_is_told_whatever_the_order() -> None:
    columns = {
        "i": pa.array([1, 2, None], pa.int32()),
        "f": pa.array([0.1, 0.2, 0.3]),
        "s": ["a", "bc", None],
        "t": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
    }
    table = pa.table(columns)
    assert contents(table) == contents(table.take([2, 0, 1])) == contents(table.cast(_other_types(table.schema)))
    changed = {"i": [1, 3, None], "f": [0.1, 0.25, 0.25], "s": ["a", "bb", None], "t": [1, 2, 4]}
    for name, values in changed.items():
        other = pa.table({**columns, name: pa.array(values, table.schema.field(name).type)})
        assert contents(other) != contents(table), name
        assert contents(table.set_column(0, "x", pa.nulls(3, pa.int64()))) != contents(table)


def _other_types(schema: pa.Schema) -> pa.Schema:
    others = {pa.int32(): pa.int64(), pa.string(): pa.large_string()}
    return pa.schema([field.with_type(others.get(field.type, field.type)) for field in schema])


def test_work_that_finds_different_things() -> None:
    numbers = iter(range(9))
    with pytest.raises(ValueError, match=r"different things: \[0, 1, 2, 3\]"):
        repeated(lambda: next(numbers), int, 4)


@pytest.mark.parametrize("count", [0, 10_000_000])
def test_equality_deletes_delete(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    table = open_table(iceberg_data.keys(_SCALE / 10, count)).scan().to_arrow()
    assert len(table) == 1000 - int(count * _SCALE / 10)
    table = open_table(iceberg_data.key_files(_SCALE, 3)).scan().to_arrow()
    assert 1000 - 30 <= len(table) <= 1000 - 10


def test_older_data_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    root = iceberg_data.keys(_SCALE, 0)
    (root / ".done").write_text("1")
    (root / "metadata" / "v1.metadata.json").unlink()
    assert len(open_table(iceberg_data.keys(_SCALE, 0)).scan().to_arrow()) == 2000


def test_the_data_is_read_before_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No side reads the disk for the others."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    seen: list[Any] = []

    def read(root: Path) -> int:
        files = [path for path in root.rglob("*") if path.is_file()]
        assert read_through(root) == sum(path.stat().st_size for path in files)
        seen.append(root)
        return 0

    def run(case: str, sides: Iterable[str], scale: float) -> dict[str, dict[str, Any]]:
        seen.append(case)
        return {side: {"found": [1], "amounts": [1], "bytes": 1} for side in sides}

    monkeypatch.setattr(suite, "read_through", read)
    monkeypatch.setattr(suite, "run_sides", run)
    monkeypatch.setattr(sys, "argv", ["benches", "--only", "scan-2", "--rounds", "2", "--scale", str(_SCALE)])
    suite.main()
    assert seen == [CASES["scan-2"].prepare(_SCALE), "scan-2"] * 2


def test_an_interrupted_run_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The side has processes of its own, as Spark has; one of them keeps the pipes open."""
    before, family = set(psutil.Process().children()), []

    def interrupted(_: object) -> None:
        sides = set(psutil.Process().children()) - before
        family.extend([*sides, *(child for side in sides for child in side.children(recursive=True))])
        raise KeyboardInterrupt

    code = "import subprocess, sys\nsubprocess.Popen(['sleep', '600'])\nprint('@ turn', flush=True)\ninput()"
    monkeypatch.setattr(turns, "_COMMAND", [sys.executable, "-c", code])
    monkeypatch.setattr(turns._Side, "go_on", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_sides("mask", ["deltaberg", "pyroaring"], _SCALE)
    assert len(family) == 4
    _, alive = psutil.wait_procs(family, timeout=60)
    assert all(map(_has_ended, alive))


def _has_ended(process: psutil.Process) -> bool:
    """Say so, too, where nobody asked yet how it ended: in a container without an init, nobody does."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rounds", "0"], "must be positive"),
        (["--resume"], "--resume needs --json"),
        (["--report", ".", "--only", "mask"], "--report is of all cases"),
        (["--json", "no/such/folder/all.json"], "there is no folder no/such/folder"),
        (["--against", "no/such/file.json"], "there is no file no/such/file.json"),
    ],
)
def test_options_are_refused_before_anything_runs(
    options: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benches", *options])
    with pytest.raises(SystemExit):
        suite.main()
    assert said in capsys.readouterr().err


def test_data_that_cannot_be_made_fails_its_case_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "taken"))
    monkeypatch.setattr(sys, "argv", ["benches", "--only", "scan-2", "--scale", "0.0001"])
    with pytest.raises(SystemExit, match=r"^1 of 1 cases failed: scan-2"):
        suite.main()
    assert "scan-2: its data cannot be made" in capsys.readouterr().out


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


def test_every_kernel_has_a_case_of_its_own() -> None:
    titles = " ".join(CASES[name].title for name in SUBJECTS["single-kernels"].cases)
    assert [name for name in kernels.FUNCTIONS if f"`{name}`" not in titles] == []


def test_the_report(tmp_path: Path) -> None:
    def runs(*amounts: float, held: int = 100 * _MIB) -> list[dict[str, Any]]:
        return [{"amounts": [amount, amount], "bytes": held, "found": 1} for amount in amounts]

    (name, other), counted = list(CASES)[:2], next(iter(SUBJECTS["requests"].cases))
    results = {
        counted: {"deltaberg": runs(4, held=2048), "busy": runs(12, held=5 << 20)},
        name: {"deltaberg": runs(2.0, 1.0, 9.0), "slow <one>": runs(8.0)},
        other: {"deltaberg": runs(0.05), "fast": runs(0.02)},
    }
    write_report(tmp_path, {"machine": "a machine", "how": "a scale"}, results)
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
