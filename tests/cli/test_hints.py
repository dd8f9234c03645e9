"""Hints name what the caller of the command line can type, not what a Python program would call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import create_table, write_table
from deltaberg.cli.hints import in_command_line
from tests.support.command_line import call
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_PACKAGE = Path(deltaberg.__file__).parent
#: A call, a keyword argument, or a name of ours in the spelling of Python.
_PYTHON = re.compile(
    r"\w\(\)|alter\(|\b\w+=(?=['\"\w{(]|$)|\b(?:load_catalog|storage_options|location_map|schema_mode)\b"
)
#: Modules whose hints no command shows, and why.
_UNREACHED = {
    "api/place.py": "commands pass text as a location",
    "delta/checkpoint/layout.py": "the command checkpoint chooses no layout",
    "delta/operations/alter.py": "the command alter makes one change, and sets no default values",
    "delta/operations/convert.py": "the command convert reads names such as day=1 only",
    "expressions/values/given.py": "filters of commands are text",
    "iceberg/catalogs/base.py": "commands pass no such argument",
    "table/arguments.py": "commands pass no Arrow types",
    "table/verbs/place.py": "commands call the methods of tables, not write_table",
    "table/read/sharing.py": "commands do not start Spark",
    "table/write/stream.py": "commands read rows from files",
}
#: What is right as it is: options with their values, what says that it is Python, a variable of the environment, a
#: property of a catalog, and transactions and the rows of a DataFrame, which no command has.
_SAID_SO = (
    *("--location-map", "--txn", "-o ", "alter TABLE set", "in Python", "use Python", "set X=python"),
    *("pass X=X to allow it", "frame.toArrow()", "to transaction() of the"),
)


def _hints() -> Iterator[tuple[str, str]]:
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE).as_posix()
        if name.startswith(("spark/", "cli/")):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                yield from ((name, text) for text in _texts(node.value))


def _texts(node: ast.expr) -> list[str]:
    """Return what a hint can be; X stands for what is known only when it is raised."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else _placeholder(part) for part in node.values)
        return ["".join(map(str, parts))]
    return [*_texts(node.body), *_texts(node.orelse)] if isinstance(node, ast.IfExp) else []


def _placeholder(part: ast.expr) -> str:
    return "'X'" if isinstance(part, ast.FormattedValue) and part.conversion == ord("r") else "X"


def test_no_hint_of_the_command_line_speaks_python() -> None:
    hints = list(_hints())
    assert len(hints) > 300
    wrong = [
        (name, said)
        for name, hint in hints
        if _PYTHON.search(said := in_command_line(hint))
        and name not in _UNREACHED
        and not any(words in said for words in _SAID_SO)
    ]
    assert wrong == []
    assert {name for name, hint in hints if _PYTHON.search(hint)} >= _UNREACHED.keys()


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (
            "to allow it, pass location_map={'s3://a': 's3://a'}",
            "to allow it, pass --location-map s3://a=s3://a",
        ),
        (
            'enable them by alter().set({"delta.enableDeletionVectors": "true"}).commit()',
            "enable them by deltaberg alter TABLE set delta.enableDeletionVectors=true",
        ),
        (
            "unset('delta.enableTypeWidening') first, in the same alteration",
            "deltaberg alter TABLE unset delta.enableTypeWidening, first",
        ),
        (
            'leave #snapshots out of the location, and read it by inspect("snapshots")',
            "leave #snapshots out of the location, and read it by deltaberg metadata TABLE snapshots",
        ),
        (
            "call history() for its versions, or scan().files() for its files",
            "call deltaberg history TABLE for its versions, or deltaberg files TABLE for its files",
        ),
        ("pass type='rest', or leave type out", "pass -o type=rest, or leave type out"),
        ("a column named partition_by_day", "a column named partition_by_day"),
    ],
)
def test_values_go_into_the_options(hint: str, said: str) -> None:
    assert in_command_line(hint) == said


def _hint(*arguments: object) -> str:
    ended = call(*arguments)
    assert ended.exit_code != 0
    _, _, hint = ended.stderr.strip().partition("; hint: ")
    return hint


def test_errors_of_commands(tmp_path: Path, builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    assert _hint("changes", builder.root).startswith("--derived derives them")
    assert _hint("head", builder.root, "--snapshot-id", 5) == "use --version"
    rows = tmp_path / "rows.csv"
    rows.write_text("id,more\n1,2\n")
    assert "--merge-schema" in _hint("append", builder.root, rows)
    create_table(tmp_path / "t", pa.schema([("id", pa.int64())]))
    assert _hint("create", tmp_path / "t", "--column", "id bigint") == "pass --if-exists ignore or --if-exists replace"
    write_table(tmp_path / "both", pa.table({"id": [1]}))
    (tmp_path / "both" / "metadata").mkdir()
    (tmp_path / "both" / "metadata" / "v1.metadata.json").write_text("{}")
    assert "by its metadata file" in _hint("head", tmp_path / "both")
