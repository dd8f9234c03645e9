"""How the command ends: exit codes, errors on one line, closed pipes, interrupts, missing packages."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from deltaberg import DeltaTable, __version__, errors, open_table, write_table
from deltaberg.cli.command_table import COMMANDS
from deltaberg.cli.endings import ENDINGS, exit_code
from tests.support.command_line import call, json_lines, printed, spawn
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_ROOT = Path(__file__).resolve().parents[2]
_posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes and signals of POSIX")


@pytest.fixture
def numbers(builder: DeltaBuilder) -> str:
    """A table of the numbers 0 to 3."""
    builder.create(ID, builder.add(ids(*range(4)), path="f.parquet"))
    return str(builder.root)


def test_every_error_has_its_code() -> None:
    """Each class by itself or by its base; only defects of ours have none."""
    classes = {name: getattr(errors, name) for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    exit_codes = {name: exit_code(kind("x")) for name, kind in classes.items()}
    # A name that there is not is asked for by Python code alone.
    defects = ["DeltabergError", "ImportNameError", "KernelPanicError", "UnknownNameError"]
    assert [name for name, code in exit_codes.items() if code == 1] == defects
    assert exit_codes["ColumnNotFoundError"] == exit_codes["InvalidArgumentError"] == 2
    assert exit_codes["CorruptDeletionVectorError"] == exit_codes["SchemaError"] == 6
    assert exit_codes["ObjectNotFoundError"] == exit_codes["StorageError"] == 8
    codes = [ending.code for ending in ENDINGS]
    assert codes == sorted(set(codes))


def test_the_codes_are_documented() -> None:
    text = (_ROOT / "docs" / "cli.md").read_text("utf-8")
    documented = {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| ([^|]+?) \|", text, re.MULTILINE)}
    assert set(documented) == {0, 1, 130, 141, *(ending.code for ending in ENDINGS)}
    for code, meaning, _ in ENDINGS:
        assert documented[code].startswith(meaning)
    words = " ".join(printed("--help").split())
    assert all(f"{code} {meaning}" in words for code, meaning, _ in ENDINGS)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["inspect", "/nowhere"], 3, "deltaberg: there is no table: .*; hint: check the location"),
        (["inspect", "{}", "--version", "9"], 4, "deltaberg: .*9"),
        (["inspect", "{}", "--timestamp", "1999-01-01"], 4, "deltaberg: .*1999"),
        (["inspect", "{}", "--timestamp", "soon"], 2, "deltaberg: .*soon.*; hint: write it as"),
        (["head", "{}", "-f", "id >"], 2, "deltaberg: the filter 'id >'"),
        (["head", "{}", "-f", "no = 1"], 2, "deltaberg: there is no column 'no'"),
        (["head", "{}", "-c", "idd"], 2, "deltaberg: .*'idd'.*; hint: did you mean id"),
        (["head", "{}", "-c", ""], 2, "deltaberg head: .*--columns.*: no columns are named; hint: see"),
        (["plan", "{}", "-c", " , "], 2, "deltaberg plan: .*--columns.*: no columns are named; hint: see"),
        (["head", "{}", "-n", "-1"], 2, "deltaberg head: .*-n.*; hint: see deltaberg head --help"),
        (["head", "{}", "--jsn"], 2, "deltaberg head: No such option.*--jsn.*; hint: see deltaberg head --help"),
        (["head"], 2, "deltaberg head: Missing argument 'TABLE'; hint: see"),
        (["dance", "{}"], 2, "deltaberg: No such command 'dance'; hint: see deltaberg --help"),
        (["--dance"], 2, "deltaberg: No such option.*--dance.*; hint: see deltaberg --help"),
    ],
)
def test_an_error_is_a_line_and_a_code(numbers: str, arguments: list[str], code: int, text: str) -> None:
    ended = call(*(argument.format(numbers) for argument in arguments))
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert re.match(text, ended.stderr), ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_malformed_pair_is_not_repeated(numbers: str) -> None:
    """It may be a secret."""
    for option, form in (("-o", "KEY=VALUE"), ("--storage-option", "KEY=VALUE"), ("--location-map", "FROM=TO")):
        for value in ("hunter2", "=hunter2"):
            ended = call("inspect", numbers, option, value)
            assert ended.exit_code == 2
            assert form in ended.stderr
            assert "hunter2" not in ended.stderr


def test_a_key_with_two_values_is_refused(numbers: str, tmp_path: Path) -> None:
    """One of them would be dropped, and nobody would know which."""
    write_table(tmp_path / "t", ids(1))
    for command in (
        ["update", str(tmp_path / "t"), "--set", "id=1", "--set", "id=2"],
        ["update", str(tmp_path / "t"), "--set", "id=1", "--commit-property", "id=a", "--commit-property", "id=b"],
        ["create", str(tmp_path / "n"), "--column", "a int", "-p", "id=1", "-p", "id=2"],
        ["alter", str(tmp_path / "t"), "set", "id=1", "id=2"],
        ["inspect", numbers, "-o", "id=hunter1", "-o", "id=hunter2"],
        ["inspect", numbers, "--location-map", "id=/hunter1", "--location-map", "id=/hunter2"],
    ):
        ended = call(*command)
        assert (ended.exit_code, ended.stdout) == (2, ""), command
        assert "id is given two values" in ended.stderr
        assert "hunter" not in ended.stderr
    table = open_table(tmp_path / "t")
    assert isinstance(table, DeltaTable)
    assert table.version == 0
    assert call("alter", tmp_path / "t", "set", "id=1", "id=1").exit_code == 0


def test_tables_that_cannot_be_read_have_codes(builder: DeltaBuilder) -> None:
    builder.create(ID, protocol=builder.features("fooFeature"))
    ended = call("inspect", builder.root)
    assert ended.exit_code == 5
    assert "fooFeature" in ended.stderr
    builder.commit_text("{", version=0)
    assert call("inspect", builder.root).exit_code == 6
    builder.create(ID, builder.add(log_path="../up.parquet"))
    builder.version = -1
    builder.commit_text((builder.log / f"{1:020d}.json").read_text(), version=0)
    (builder.log / f"{1:020d}.json").unlink()
    assert call("head", builder.root).exit_code == 9


def test_a_file_that_is_gone_has_a_code(numbers: str) -> None:
    Path(numbers, "f.parquet").unlink()
    ended = call("head", numbers)
    assert ended.exit_code == 7
    assert "f.parquet" in ended.stderr


def test_tracebacks_are_for_those_who_ask(numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = call("head", numbers, "-c", "no")
    assert "Traceback" not in quiet.stderr
    loud = call("head", numbers, "-c", "no", "--traceback")
    assert "Traceback" in loud.stderr
    assert loud.stderr.endswith(quiet.stderr)
    assert loud.exit_code == quiet.exit_code
    monkeypatch.setenv("DELTABERG_TRACEBACK", "1")
    assert "Traceback" in call("head", numbers, "-c", "no").stderr


def test_a_defect_is_a_line_too(numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaberg.table.read.scan.Scan.explanation", lambda _scan: 1 / 0)
    ended = call("plan", numbers)
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith("deltaberg: ZeroDivisionError: ")
    assert "report" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_without_a_command_there_is_help() -> None:
    assert printed() == printed("--help") == printed("-h")
    assert all(f"\n  {name} " in printed() for name in COMMANDS)


def test_each_command_has_help() -> None:
    for name in COMMANDS:
        text = printed(name, "--help")
        for option in ("--storage-option", "--json", "--traceback"):
            assert option in text
        reads = COMMANDS[name] in ("inspect", "scan")
        for option in ("--version", "--timestamp", "--location-map"):
            # A clone is made of a version or a time, too, and one can be verified.
            assert (option in text) == (reads or name == "verify" or (name == "clone" and option != "--location-map"))


def test_version() -> None:
    assert printed("--version") == f"deltaberg, version {__version__}\n"


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["head", "--help"], ["head"]])
def test_answers_before_the_work_load_no_heavy_package(arguments: list[str]) -> None:
    with spawn(*arguments, PYTHONPROFILEIMPORTTIME="1") as process:
        _, trace = process.communicate(timeout=60)
    loaded = set(re.findall(r"\| +([\w.]+)$", trace, re.MULTILINE))
    assert "click" in loaded
    assert not loaded & {"pyarrow", "obstore", "sqlglot", "rich.console", "deltaberg._native", "deltaberg.api"}


def test_the_command_runs_by_itself(numbers: str) -> None:
    with spawn("head", numbers, "-f", "id = 1", "--json") as process:
        out, err = process.communicate(timeout=60)
    assert (json.loads(out), err, process.returncode) == ({"id": 1}, "", 0)
    with spawn("inspect", "/nowhere") as process:
        out, err = process.communicate(timeout=60)
    assert (out, err.count("\n"), process.returncode) == ("", 1, 3)


@_posix
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_has_seen_enough_ends_it_quietly(builder: DeltaBuilder, form: list[str]) -> None:
    builder.create(ID, builder.add(ids(*range(200_000))))
    with spawn("head", builder.root, "-n", "200000", *form) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == ('{"id": 0}\n' if form else "id\n")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@_posix
def test_an_interrupt_ends_it_quietly(builder: DeltaBuilder) -> None:
    """The process waits for the pipe to empty when the signal comes."""
    builder.create(ID, builder.add(ids(*range(200_000))))
    with spawn("head", builder.root, "-n", "200000") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "id\n"
        process.send_signal(signal.SIGINT)
        # It ends while the pipe is full. Otherwise a process that the signal reaches late could print everything.
        process.wait(60)
        assert len(process.stdout.read().splitlines()) < 200_000
        assert process.stderr.read() == ""
    assert process.returncode == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_an_output_that_is_full_is_an_error(numbers: str) -> None:
    command = [sys.executable, "-m", "deltaberg", "head", numbers]
    full = os.open("/dev/full", os.O_WRONLY)
    reading, writing = os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        command,
        dict(os.environ),
        file_actions=[(os.POSIX_SPAWN_DUP2, full, 1), (os.POSIX_SPAWN_DUP2, writing, 2)],
    )
    os.close(full)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        err = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert err.startswith("deltaberg: [Errno 28]")
    assert err.count("\n") == 1


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_its_packages_it_says_what_to_install(tmp_path: Path, package: str) -> None:
    """The finder of installed packages does not find it."""
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "found = PathFinder.find_spec\n"
        "def find_spec(name, path=None, target=None):\n"
        f"    return None if name == {package!r} else found(name, path, target)\n"
        "PathFinder.find_spec = find_spec\n"
    )
    with spawn("--help", PYTHONPATH=str(tmp_path)) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err) == ("", f"deltaberg: {package} is not installed; hint: pip install 'deltaberg[cli]'\n")
    assert process.returncode == exit_code(errors.MissingDependencyError("x"))


def test_kernels_that_are_missing_are_an_error_in_a_line(numbers: str) -> None:
    with spawn("inspect", numbers, DELTABERG_KERNELS="nonsense") as process:
        out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("", 2)
    assert err.startswith("deltaberg: DELTABERG_KERNELS has the unknown value 'nonsense'")
    assert err.count("\n") == 1


def test_results_do_not_depend_on_the_way_to_start_it(numbers: str) -> None:
    with spawn("inspect", numbers, "--json") as process:
        out, _ = process.communicate(timeout=60)
    assert [json.loads(out)] == json_lines("inspect", numbers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["append", "{}/new", "rows.csv"],
            "hint: deltaberg create .*/new --like rows.csv creates one with these columns",
        ),
        (["append", "{}/new", "-", "--format", "csv"], "hint: deltaberg create .*/new --format csv --like -"),
        (["ls", "{}"], "Did you mean files?"),
        (["select", "{}"], "Did you mean head?"),
        (["alter", "{}", "renam", "a", "b"], "did you mean rename"),
        (["alter", "{}"], "Missing argument 'CHANGE'; hint: see"),
    ],
)
def test_the_next_command_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = call(*(one.format(tmp_path) for one in arguments))
    assert re.search(message, ended.stderr), ended.stderr
    assert ended.exit_code in (2, 3)
    assert ended.stderr.count("\n") == 1
