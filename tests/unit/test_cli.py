"""The command line: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import errors, open_table
from deltaberg.cli.app import EXIT_CODES, run
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids


@pytest.fixture
def orders(builder: DeltaBuilder) -> str:
    """A partitioned table with a deletion vector, two versions and a property."""
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(9, 2)), ("region", pa.string())])

    def rows(*numbers: int) -> pa.Table:
        prices = pa.array([Decimal(number) / 4 for number in numbers], pa.decimal128(9, 2))
        return pa.table({"id": pa.array(numbers, pa.int64()), "price": prices})

    north = builder.add(rows(1, 2), path="n.parquet", partition={"region": "north"}, stats="full")
    south = builder.add(
        rows(3, 4), path="s.parquet", partition={"region": "so\tuth"}, stats="full", vector=builder.vector([0])
    )
    properties = {"delta.appendOnly": "false", "owner": "me"}
    protocol = builder.features("deletionVectors")
    builder.create(schema, north, partition_by=["region"], configuration=properties, protocol=protocol)
    builder.commit(south, info={"operation": "WRITE", "engineInfo": "e", "userName": "u"})
    return str(builder.root)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    return [json.loads(line) for line in _run(capsys, *arguments, "--json").splitlines()]


def test_inspect(capsys: pytest.CaptureFixture[str], orders: str) -> None:
    (facts,) = _json(capsys, "inspect", orders)
    expected = {
        "location": orders,
        "format": "delta",
        "version": 1,
        "partition_columns": ["region"],
        "files": 2,
        "rows": 3,
        "deleted_rows": 1,
        "deletion_vectors": 1,
        "tombstones": 0,
        "properties": {"delta.appendOnly": "false", "owner": "me"},
    }
    assert {name: facts[name] for name in expected} == expected
    assert facts["protocol"] == {"minReaderVersion": 3, "minWriterVersion": 7, "features": ["deletionVectors"]}
    text = _run(capsys, "inspect", orders, "--version", "0")
    assert "version:             0, committed" in text
    assert "property owner:      me" in text


def test_schema(capsys: pytest.CaptureFixture[str], builder: DeltaBuilder) -> None:
    nested = pa.struct([("x.y", pa.int32()), ("list", pa.list_(pa.struct([("z", pa.date32())])))])
    builder.create(pa.schema([("s", nested), ("m", pa.map_(pa.string(), pa.float64()))]))
    lines = _run(capsys, "schema", str(builder.root)).splitlines()
    assert [line.split("\t")[:2] for line in lines[1:]] == [
        ["s", "struct"],
        ["s.`x.y`", "integer"],
        ["s.list", "array<struct>"],
        ["s.list.element", "struct"],
        ["s.list.element.z", "date"],
        ["m", "map<string, double>"],
    ]


def test_history(capsys: pytest.CaptureFixture[str], orders: str) -> None:
    commits = _json(capsys, "history", orders)
    assert [commit["version"] for commit in commits] == [1, 0]
    assert commits[0]["commitInfo"] == {"operation": "WRITE", "engineInfo": "e", "userName": "u"}
    lines = _run(capsys, "history", orders, "--limit", "1").splitlines()
    assert len(lines) == 2
    assert lines[1].split("\t")[2:] == ["WRITE", "u", "e"]


def test_files_are_those_of_a_scan(capsys: pytest.CaptureFixture[str], orders: str) -> None:
    found = _json(capsys, "files", orders)
    wanted = open_table(orders).scan().files()
    for name in ("file_path", "file_size_in_bytes", "record_count", "deleted_record_count", "partition", "residual"):
        assert [row[name] for row in found] == wanted[name].to_pylist()
    assert [row["file_path"] for row in _json(capsys, "files", orders, "--filter", "region = 'north'")] == [
        f"{orders}/n.parquet"
    ]


def test_plan(capsys: pytest.CaptureFixture[str], orders: str) -> None:
    text = _run(capsys, "plan", orders, "-f", "id > 2", "-c", "id")
    assert text.rstrip("\n") == open_table(orders).scan("id > 2", ["id"]).explain().replace("\t", r"\t")
    (found,) = _json(capsys, "plan", orders, "-f", "id > 2")
    assert [step["files"] for step in found["steps"]] == [2, 2, 1]


def test_head(capsys: pytest.CaptureFixture[str], orders: str) -> None:
    assert len(_json(capsys, "head", orders, "-n", "2")) == 2
    assert _json(capsys, "head", orders, "-f", "region = 'north'") == [
        {"id": 1, "price": "0.25", "region": "north"},
        {"id": 2, "price": "0.50", "region": "north"},
    ]
    assert _json(capsys, "head", orders, "-f", "id > 3", "-c", "price, `region`") == [
        {"price": "1.00", "region": "so\tuth"}
    ]
    assert _run(capsys, "head", orders, "-n", "0") == "id\tprice\tregion\n"


def test_json_is_exact(capsys: pytest.CaptureFixture[str], builder: DeltaBuilder) -> None:
    rows = pa.table(
        {
            "nan": pa.array([float("nan"), float("-inf"), 0.1, None]),
            "big": pa.array([2**63 - 1, -(2**63), 0, None], pa.int64()),
            "bin": pa.array([b"\x00\xff", b"", b"a", None]),
            "at": pa.array([-(10**17), 0, 10**17, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "map": pa.array([[("k", 1.5)], [], [("k", None)], None], pa.map_(pa.string(), pa.float64())),
            "list": pa.array([[Decimal("1.10")], [], [None], None], pa.list_(pa.decimal128(5, 2))),
        }
    )
    builder.create(rows.schema, builder.add(rows.slice(1)), builder.add(rows.slice(0, 1)))
    found = sorted(_json(capsys, "head", str(builder.root)), key=lambda row: str(row["bin"]))
    assert found == [
        {"nan": "-inf", "big": -(2**63), "bin": "", "at": "1970-01-01 00:00:00.000000Z", "map": [], "list": []},
        {
            "nan": "nan",
            "big": 2**63 - 1,
            "bin": "00ff",
            "at": "-1199-02-15 14:13:20.000000Z",
            "map": [{"key": "k", "value": 1.5}],
            "list": ["1.10"],
        },
        {
            "nan": 0.1,
            "big": 0,
            "bin": "61",
            "at": "5138-11-16 09:46:40.000000Z",
            "map": [{"key": "k", "value": None}],
            "list": [None],
        },
        {"nan": None, "big": None, "bin": None, "at": None, "map": None, "list": None},
    ]


def test_nothing_steers_the_terminal(capsys: pytest.CaptureFixture[str], builder: DeltaBuilder) -> None:
    evil = "\x1b[31m\u202e\x9b2J\nred"
    rows = pa.table({evil: [evil]})
    builder.create(rows.schema, builder.add(rows), configuration={evil: evil})
    for arguments in (["head"], ["schema"], ["inspect"], ["plan"], ["head", "--json"], ["inspect", "--json"]):
        out = _run(capsys, arguments[0], str(builder.root), *arguments[1:])
        assert not {"\x1b", "\u202e", "\x9b"} & set(out), arguments
    assert run(["inspect", f"/no/{evil}"]) == 3
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["inspect", "/nowhere"], 3, "there is no Delta table"),
        (["inspect", "{}", "--version", "9"], 3, "9"),
        (["inspect", "{}", "--timestamp", "soon"], 2, "hint: write it as"),
        (["head", "{}", "-f", "id >"], 2, "deltaberg: "),
        (["head", "{}", "-c", "nope"], 2, "nope"),
        (["head", "{}", "-n", "-1"], 2, "-n"),
        (["head", "{}", "-o", "nonsense"], 2, "NAME=VALUE"),
        (["dance", "{}"], 2, "dance"),
    ],
)
def test_errors_are_one_line_and_a_code(
    capsys: pytest.CaptureFixture[str], orders: str, arguments: list[str], code: int, text: str
) -> None:
    assert run([argument.format(orders) for argument in arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert "Traceback" not in captured.err


def test_refused_and_corrupt_tables_have_codes(capsys: pytest.CaptureFixture[str], builder: DeltaBuilder) -> None:
    builder.create(ID, protocol=builder.features("fooFeature"))
    assert run(["inspect", str(builder.root)]) == 4
    assert "fooFeature" in capsys.readouterr().err
    builder.commit_text("{", version=0)
    assert run(["inspect", str(builder.root)]) == 5


def test_every_error_has_one_code() -> None:
    kinds = [kind for kind, _ in EXIT_CODES]
    for number, kind in enumerate(kinds):
        assert not any(issubclass(kind, earlier) for earlier in kinds[:number]), kind
    assert {getattr(errors, name) for name in ("TableNotFoundError", "StorageError")} <= set(kinds)


def _command(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "deltaberg", *arguments]
    variables = {**os.environ, **environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)


@pytest.mark.one_backend
def test_a_reader_that_has_seen_enough_ends_it_quietly(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(*range(200_000))))
    with _command("head", str(builder.root), "-n", "200000") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "id\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.one_backend
def test_the_command_runs_by_itself(orders: str) -> None:
    out, err = _command("head", orders, "-f", "id = 1", "--json").communicate(timeout=60)
    assert (json.loads(out), err) == ({"id": 1, "price": "0.25", "region": "north"}, "")
    out, _ = _command("--version").communicate(timeout=60)
    assert out.startswith("deltaberg, version ")


@pytest.mark.one_backend
def test_without_its_packages_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ImportError('gone', name='click')")
    out, err = _command("--help", PYTHONPATH=str(tmp_path)).communicate(timeout=60)
    assert (out, err) == ("", "deltaberg: click is not installed; pip install 'deltaberg[cli]'\n")
