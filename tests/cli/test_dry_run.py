"""``--dry-run`` says in numbers what a command would do, and leaves every file as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import IcebergTable, create_table, open_table
from deltaberg.cli.app import cli
from deltaberg.cli.command_table import COMMANDS
from tests.support.command_line import call, json_lines
from tests.support.rows import ids_of

pytestmark = pytest.mark.one_backend

_READS = {"inspect", "schema", "history", "files", "plan", "count", "head", "changes", "tail", "metadata", "verify"}
_BOTH = ["delta", "iceberg"]
_CONDITION = ["--on", "target.id = source.id", "--set-all", "--insert"]
#: Commands, what they do to rows 1 to 3 with a file of rows 3 and 4, and what of it the result of the commit calls so.
_CHANGES: list[tuple[list[str], dict[str, int]]] = [
    (["append", "{t}", "{f}"], {"insert": 2}),
    (["overwrite", "{t}", "{f}"], {"insert": 2, "delete": 3}),
    (["update", "{t}", "--set", "name='x'", "-w", "id < 3"], {"update": 2, "copy": 1}),
    (["upsert", "{t}", "{f}", "-k", "id"], {"insert": 1, "update": 1, "copy": 2}),
    (["merge", "{t}", "{f}", *_CONDITION], {"insert": 1, "update": 1, "copy": 2}),
    (["append", "{t}", "{f}", "--txn", "app=1"], {}),
]
_WORDS = {"insert": "inserted", "update": "updated", "delete": "deleted", "copy": "copied"}


_COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def _rows(*numbers: int) -> pa.Table:
    return pa.table({"id": numbers, "name": [f"n{number}" for number in numbers]}, schema=_COLUMNS)


def _made(folder: Path, format: Any) -> dict[str, Any]:
    """Make a table and a file of rows, and give the words of commands for them."""
    table = create_table(folder / "t", _COLUMNS, format=format)
    table.append(_rows(1, 2, 3), txn=("app", 1))
    pq.write_table(pa.table({"id": [3, 4], "name": ["new", "new"]}, schema=_COLUMNS), folder / "f.parquet")
    return {"t": folder / "t", "f": folder / "f.parquet", "folder": folder, "format": format}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _run(words: list[str], places: dict[str, Any], *more: str) -> dict[str, Any]:
    (printed,) = json_lines(*(word.format(**places) for word in words), *more)
    assert isinstance(printed, dict)
    return printed


def test_every_command_that_changes_something_takes_it() -> None:
    context = click.Context(cli)
    for name in COMMANDS.keys() - _READS:
        command = cli.get_command(context, name)
        assert command is not None
        flags = [option for one in command.get_params(context) for option in one.opts]
        assert flags.count("--dry-run") == 1, name


@pytest.mark.parametrize("format", _BOTH)
@pytest.mark.parametrize(
    ("words", "expected"), _CHANGES, ids=[" ".join(words[:1]) + str(len(words)) for words, _ in _CHANGES]
)
def test_numbers_of_rows(tmp_path: Path, format: str, words: list[str], expected: dict[str, int]) -> None:
    places = _made(tmp_path, format)
    before = _files(tmp_path)
    planned = _run(words, places, "--dry-run")
    assert (planned["dry_run"], _files(tmp_path)) == (True, before)
    assert {name: planned[f"rows_to_{name}"] for name in _WORDS} == {**dict.fromkeys(_WORDS, 0), **expected}
    done = _run(words, places)
    assert {name: planned[f"rows_to_{name}"] for name in _WORDS} == {
        name: done[f"{word}_rows"] for name, word in _WORDS.items()
    }
    assert (planned["files_to_add"], planned["files_to_remove"]) == (done["added_files"], done["removed_files"])


@pytest.mark.parametrize("format", _BOTH)
def test_what_would_be_refused_is(tmp_path: Path, format: str) -> None:
    places = _made(tmp_path, format)
    before = _files(tmp_path)
    for words, code in (
        (["update", "{t}", "--set", "id=id div 0"], 16),
        (["overwrite", "{t}", "{f}", "--where", "id > 3"], 15),
        (["create", "{t}", "-c", "id int", "--table-format", "{format}"], 12),
    ):
        assert call(*(word.format(**places) for word in words), "--dry-run").exit_code == code
    assert _files(tmp_path) == before


@pytest.mark.parametrize("format", _BOTH)
def test_files_that_a_change_of_the_partitioning_writes_are_deleted(tmp_path: Path, format: str) -> None:
    places = _made(tmp_path, format)
    before = _files(tmp_path)
    planned = _run(["alter", "{t}", "partition-by", "name"], places, "--dry-run")
    assert (planned["columns"][0], planned.get("rows_to_copy")) == ("id long", 3 if format == "delta" else None)
    assert _files(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "formats", "expected"),
    [
        (
            ["create", "{folder}/new", "-c", "id int"],
            _BOTH,
            {"tables_to_create": 1, "tables_to_replace": 0, "columns": 1},
        ),
        (
            ["create", "{t}", "-c", "id int", "--if-exists", "replace", "--table-format", "{format}"],
            _BOTH,
            {"tables_to_create": 0, "tables_to_replace": 1, "columns": 1},
        ),
        (
            ["create", "{folder}/new", "-c", "id int", "--if-exists", "replace", "--table-format", "{format}"],
            _BOTH,
            {"tables_to_create": 1, "tables_to_replace": 0},
        ),
        (
            ["create", "{t}", "-c", "id int", "--if-exists", "ignore", "--table-format", "{format}"],
            _BOTH,
            {"tables_to_create": 0, "tables_to_replace": 0},
        ),
        (["convert", "{folder}/parquet"], ["delta"], {"files_to_add": 1, "rows_to_add": 2}),
        (["checkpoint", "{t}"], ["delta"], {"version": 1, "live_files": 1}),
        (["generate", "{t}"], ["delta"], {"live_files": 1}),
        (["compact-log", "{t}"], ["delta"], {"first": 0, "last": 1, "entries": 2}),
        (["compact", "{t}"], _BOTH, {"commits": 0}),
        (["stats", "{t}"], _BOTH, {"files": 1}),
        (["copy-plan", "{t}", "{t}", "{folder}/copy"], ["iceberg"], {"snapshots": 1, "data_files": 1}),
        (["rewrite-manifests", "{t}"], ["iceberg"], {"rewritten_manifests": 0}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_other_numbers(tmp_path: Path, words: list[str], formats: list[str], expected: dict[str, int]) -> None:
    (tmp_path / "parquet").mkdir()
    pq.write_table(_rows(1, 2), tmp_path / "parquet" / "rows.parquet")
    for kind in formats:
        (tmp_path / kind).mkdir()
        places = _made(tmp_path / kind, kind) | {"folder": tmp_path}
        before = _files(tmp_path)
        planned = _run(words, places, "--dry-run")
        assert {name: planned[name] for name in expected} == expected
        assert (planned["dry_run"], _files(tmp_path)) == (True, before)


def test_snapshots_that_are_picked(tmp_path: Path) -> None:
    places = _made(tmp_path, "iceberg")
    table = open_table(places["t"])
    assert isinstance(table, IcebergTable)
    staged = table.append(_rows(7, 8), properties={"wap.id": "load"})
    before = _files(tmp_path)
    for words in (["publish", "{t}", "load"], ["cherry-pick", "{t}", str(staged.snapshot_id)]):
        planned = _run(words, places, "--dry-run")
        assert (planned["picked_snapshot_id"], planned["rows_to_insert"]) == (staged.snapshot_id, 2)
        assert _files(tmp_path) == before
    _run(["publish", "{t}", "load"], places)
    assert ids_of(table.refresh()) == [1, 2, 3, 7, 8]
    assert call("publish", places["t"], "load", "--dry-run").exit_code == 13
