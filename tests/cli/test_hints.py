"""Hints name what their reader can type: options and commands, options of a Data Source, methods of delta-spark."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg
from deltaberg import create_table, open_table, write_table
from deltaberg.cli.app import COMMANDS, cli
from deltaberg.cli.hints import as_typed
from deltaberg.errors import ColumnNotFoundError, DeltabergError, in_words
from deltaberg.hints import Hint, verbatim
from deltaberg.spark.hints import in_data_source, in_delta_spark
from tests.support.command_line import call
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_PACKAGE = Path(deltaberg.__file__).parent
#: A call, a keyword argument, or a name of ours in the spelling of Python.
_PYTHON = re.compile(
    r"\w\(\)|alter\(|\b\w+=(?=['\"\w{(]|$)|\b(?:load_catalog|storage_options|location_map|schema_mode)\b"
)
_MARK = re.compile("⟪([^⟪⟫]*)⟫")
#: How a word begins or ends that says where its Python belongs, or that is none: of the library, and options.
_OURS = re.compile(r"(?:deltaberg|\.option|the option|--|-o ).*|.* (?:in Python|of deltaberg)", re.DOTALL)
#: Modules with hints for those who pass Python objects, and a variable of the environment.
_OBJECTS = {
    "delta/write/write_rows.py": "frame.toArrow()",
    "expressions/build/column.py": "is_true()",
    "expressions/build/filters.py": "col()",
    "catalogs/rest/vended.py": "pass X=X to allow it",
    "kernels/select.py": "set X=python",
    "table/arguments.py": "pa.int64()",
    "table/read/scan.py": "to_pandas()",
    "table/rows/stream.py": "frames and streams",
}


def _options() -> dict[str, click.Option]:
    """Return the options of all commands, by the arguments that they stand for."""
    found = {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        options = command.get_params(click.Context(command))
        found.update({one.name or "": one for one in options if isinstance(one, click.Option)})
    return found


@cache
def _hints() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, node in _trees():
        if name.startswith(("spark/", "cli/", "errors.py", "hints.py")):
            continue
        if isinstance(node, ast.keyword) and node.arg == "hint":
            found += ((name, text) for text in _texts(node.value))
        elif isinstance(node, (ast.Constant, ast.JoinedStr)):
            found += ((name, text) for text in _texts(node) if text.count("⟪") == text.count("⟫") > 0)
    return found


def _texts(node: ast.expr) -> list[str]:
    """Return what a hint can be; X stands for what is known only when it is raised."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else _placeholder(part) for part in node.values)
        return ["".join(map(str, parts))]
    return [*_texts(node.body), *_texts(node.orelse)] if isinstance(node, ast.IfExp) else []


@cache
def _trees() -> list[tuple[str, ast.AST]]:
    """Return the parts of all modules that texts are in."""
    kinds = (ast.Call, ast.Constant, ast.JoinedStr, ast.keyword)
    return [
        (path.relative_to(_PACKAGE).as_posix(), node)
        for path in sorted(_PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, kinds)
    ]


#: What texts with marks hold besides what went through `verbatim`: words of ours.
_OUR_TEXTS = {
    "_ARGUMENTS[self.kind]",
    *("there[0]", "kind!r", "found!r", "key", "activating!r", "hint", "_VECTORS", "_ENABLED", "one.name", "name"),
    *(
        "found",
        "store",
        "other[0]",
        "self.other",
        "self.own",
        "ADD_COLUMNS",
        "MAPPING_MODE",
        "', '.join((f'⟪{name}=⟫' for name in commit))",
    ),
    *("states[0]", "states[1]", "asked", "mode", "wanted", "len(directories)", "len(partition)"),
    "', as azure_storage_sas_token' if scheme in _WITH_CONTAINER else ''",
}


def test_texts_of_others_go_into_hints_verbatim() -> None:
    marked = [node for _, node in _trees() if isinstance(node, ast.JoinedStr) and "⟪" in _texts(node)[0]]
    values = [part for node in marked for part in node.values if isinstance(part, ast.FormattedValue)]
    assert len(values) > 12
    shown = {ast.unparse(part.value) + ("!r" if part.conversion == ord("r") else "") for part in values}
    assert {text for text in shown if not text.startswith("verbatim(")} - {
        "store",
        "self.other",
        "self.own",
    } <= _OUR_TEXTS


def test_a_message_with_marks_is_a_hint() -> None:
    plain = {
        name
        for name, node in _trees()
        if isinstance(node, ast.Call) and node.args
        for text in _texts(node.args[0])
        if "⟪" in text and ast.unparse(node.func).endswith("Error")
    }
    assert plain == set()


def _placeholder(part: ast.expr) -> str:
    return "'X'" if isinstance(part, ast.FormattedValue) and part.conversion == ord("r") else "X"


_DOORS: dict[str, Callable[[str], str]] = {
    "command line": partial(as_typed, options=_options()),
    "Data Source": in_data_source,
    "delta-spark": in_delta_spark,
}


@pytest.mark.parametrize("door", _DOORS)
def test_no_hint_speaks_python_at_another_door(door: str) -> None:
    hints = _hints()
    assert len(hints) > 300
    marks = {mark for _, hint in hints for mark in _MARK.findall(hint)}
    assert len(marks) > 50
    words = {mark: _DOORS[door](mark) for mark in marks}
    kept = {mark for mark, word in words.items() if mark == word or (mark in word and not _OURS.fullmatch(word))}
    assert kept - {"deltaberg.find_commit"} == set()


def test_every_argument_and_call_is_marked() -> None:
    unmarked = {name for name, hint in _hints() if _PYTHON.search(_MARK.sub("", hint))}
    assert unmarked == _OBJECTS.keys()


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (
            "to allow it, pass ⟪location_map={'s3://a': 's3://a'}⟫",
            "to allow it, pass --location-map s3://a=s3://a",
        ),
        (
            'enable them by ⟪alter().set({"delta.enableDeletionVectors": "true"}).commit()⟫',
            "enable them by deltaberg alter TABLE set delta.enableDeletionVectors=true",
        ),
        ("set it by ⟪alter().set(…)⟫", "set it by deltaberg alter TABLE set KEY=VALUE..."),
        (
            "⟪unset('delta.enableTypeWidening')⟫ first⟪, in the same alteration⟫",
            "deltaberg alter TABLE unset delta.enableTypeWidening first",
        ),
        ('⟪alter().rename("a b", new_name)⟫', "deltaberg alter TABLE rename 'a b' NEW_NAME"),
        ('⟪alter().rename("a, b(c)", new_name)⟫', "deltaberg alter TABLE rename 'a, b(c)' NEW_NAME"),
        (
            '⟪alter().set({"a": "1, 2", "b": "(3)"}).commit()⟫',
            "deltaberg alter TABLE set 'a=1, 2' 'b=(3)'",
        ),
        ('⟪alter().unset(["a", "b"])⟫', "deltaberg alter TABLE unset a b"),
        ('⟪alter().rename("a" b", new_name)⟫', 'alter().rename("a" b", new_name) in Python'),
        (
            'leave #snapshots out of the location, and read it by ⟪inspect("snapshots")⟫',
            "leave #snapshots out of the location, and read it by deltaberg metadata TABLE snapshots",
        ),
        (
            "call ⟪history()⟫ for its versions, or ⟪scan().files()⟫ for its files",
            "call deltaberg history TABLE for its versions, or deltaberg files TABLE for its files",
        ),
        ("pass ⟪type='rest'⟫, or leave type out", "pass -o type=rest, or leave type out"),
        ("pass ⟪type⟫ and ⟪uri⟫", "pass -o type=TYPE and -o uri=URI"),
        ('⟪pass if_exists="ignore" or if_exists="replace"⟫', "pass --if-exists ignore or --if-exists replace"),
        ('pass ⟪txn=("nightly", 7)⟫', "pass --txn nightly=7"),
        ("pass ⟪timezone=⟫ to say it", "pass --timezone ZONE to say it"),
        ("pass ⟪planning='driver'⟫", "pass planning='driver' in Python"),
        ('use ⟪schema_mode="merge"⟫ or ⟪schema_mode="overwrite"⟫', "use --merge-schema or --replace-schema"),
        ("a column named partition_by_day", "a column named partition_by_day"),
    ],
)
def test_values_go_into_the_options(hint: str, said: str) -> None:
    assert Hint(hint).said(_DOORS["command line"]) == said
    assert Hint(hint) == hint.replace("⟪", "").replace("⟫", "")


def _hint(*arguments: object) -> str:
    ended = call(*arguments)
    assert ended.exit_code != 0
    _, _, hint = ended.stderr.strip().partition("; hint: ")
    return hint


_ODD = "⟪id⟫\ufdd0["


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_marks_in_texts_of_others_are_none(tmp_path: Path, format: Any) -> None:
    write_table(tmp_path / "⟪t⟫", pa.table({_ODD: [1]}), format=format)
    table = open_table(tmp_path / "⟪t⟫")
    with pytest.raises(ColumnNotFoundError) as raised:
        table.scan(columns=["id"])
    assert raised.value.hint == f"did you mean {_ODD}?"
    with pytest.raises(DeltabergError) as missing:
        table.scan(columns=["⟪filter⟫"])
    for error in (raised.value, missing.value):
        copy = pickle.loads(pickle.dumps(error))
        in_words(error, lambda mark: f"--{mark}")
        assert (str(copy), copy.hint) == (str(error), error.hint)
    assert missing.value.message == "there is no column '⟪filter⟫'"
    assert missing.value.context["column"] == "⟪filter⟫"
    ended = call("head", tmp_path / "⟪t⟫", "--columns", "⟪where⟫")
    assert "'⟪where⟫'" in ended.stderr
    assert "⟪id⟫" in ended.stderr
    ended = call("head", tmp_path / "⟪none⟫")
    assert "/⟪none⟫" in ended.stderr


def test_marks_keep_what_they_hold() -> None:
    hint = Hint(f'rename it by ⟪alter().rename("{verbatim("⟪txn⟫")}", new_name)⟫')
    assert hint == 'rename it by alter().rename("⟪txn⟫", new_name)'
    assert hint.said(_DOORS["command line"]) == "rename it by deltaberg alter TABLE rename '⟪txn⟫' NEW_NAME"
    assert pickle.loads(pickle.dumps(hint)).marked == hint.marked


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


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["head", "{}", "--ref", "main", "--timestamp", "2024-01-01"], "--ref and --timestamp cannot be combined"),
        (["alter", "{}", "move", "a", "--first", "--after", "b"], "--after, --before and --first exclude each other"),
        (["append", "{}", "{}.csv", "--branch", ""], "--branch must be text that is not empty"),
    ],
)
def test_messages_name_options(tmp_path: Path, format: Any, arguments: list[str], said: str) -> None:
    write_table(tmp_path / "t", pa.table({"a": [1], "b": [2]}), format=format)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    ended = call(*(word.format(tmp_path / "t") for word in arguments))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_a_table_is_not_converted_twice(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(ids(1), tmp_path / "t" / "a.parquet")
    assert call("convert", tmp_path / "t").exit_code == 0
    assert _hint("convert", tmp_path / "t") == "pass --if-exists ignore to leave it as it is"
    assert call("convert", tmp_path / "t", "--if-exists", "ignore").exit_code == 0
    assert len(open_table(tmp_path / "t").history()) == 1


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_an_overwrite_with_other_rows_names_the_option(tmp_path: Path, format: Any) -> None:
    table = write_table(tmp_path / "t", ids(1, 2), format=format)
    assert table.committed
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n3\n")
    hint = "write only rows that match it, or pass --no-check"
    assert _hint("overwrite", tmp_path / "t", rows, "--where", "id = 1") == hint


def test_a_command_for_tables_of_the_other_format(tmp_path: Path) -> None:
    write_table(tmp_path / "d", ids(1, 2))
    write_table(tmp_path / "i", ids(1, 2), format="iceberg")
    hint = "the directory looks like that of a table of the other format: use a command for such tables"
    assert _hint("publish", tmp_path / "d", "w") == hint
    assert _hint("checkpoint", tmp_path / "i") == hint


def test_properties_of_a_catalog_are_options() -> None:
    assert _hint("head", "a.b", "--catalog", "c", "-o", "type=sql").startswith("pass -o uri=URI, or configure it")
    assert _hint("head", "a.b", "--catalog", "http://c") == "pass --catalog NAME and -o uri=URI"
