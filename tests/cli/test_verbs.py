"""The options of verbs are the arguments of the library, on tables of both formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import IcebergTable, create_table, open_table
from deltaberg.cli.app import cli
from deltaberg.words import words_of
from tests.support.command_line import call, json_lines, printed
from tests.support.pages import ROOT

pytestmark = pytest.mark.one_backend

#: The method of a table behind each command, and words that make the command change one row.
_VERBS = {
    "append": ("append", ["{rows}"]),
    "overwrite": ("overwrite", ["{rows}"]),
    "delete": ("delete", ["id = 1"]),
    "update": ("update", ["--set", "name='x'", "--where", "id = 1"]),
    "upsert": ("upsert", ["{rows}", "--key", "id"]),
    "merge": ("merge", ["{rows}", "--on", "target.id = source.id", "--set-all"]),
    "compact": ("compact", []),
    "reorg": ("reorg", ["--yes"]),
    "alter": ("alter", ["add", "more", "string"]),
}
_PICKS = {"publish": "publish", "cherry-pick": "cherrypick_snapshot"}
#: Objects of Python, which no option can hold.
_OBJECTS = {"commit_properties", "policy", "post_commithook_properties", "progress", "writer_properties"}
_ONLY = {"delta": {"branch": "main"}, "iceberg": {"user_metadata": "said"}}
#: A value for each option.
_VALUES = {
    "allow_truncation": True,
    "safe": False,
    "compression": "gzip",
    "isolation": {"delta": "Serializable", "iceberg": "serializable"},
    "memory": "1000000",
    "properties": "load=nightly",
    "schema_mode": True,
    "source_alias": "source",
    "strategy": "copy-on-write",
    "target_alias": "target",
    "target_file_size": "1000000",
    "timezone": "UTC",
    "txn": "app=1",
    "unsafe_single_writer": True,
    **_ONLY["delta"],
    **_ONLY["iceberg"],
}


def _options(command: str) -> dict[str, str]:
    """Return the options of a command, by the arguments of the library that they give."""
    group = click.Context(cli)
    found = cli.get_command(group, command)
    assert found is not None
    context = click.Context(found, parent=group)
    return {one.name or "": one.opts[0] for one in found.get_params(context) if isinstance(one, click.Option)}


def _taken(command: str) -> set[str]:
    """Return the arguments that the verb behind a command shares with others."""
    method = _PICKS.get(command) or _VERBS[command][0]
    taken: set[str] = set(getattr(IcebergTable, method).__takes__)
    return taken - words_of(method).keys()


@pytest.mark.parametrize("command", [*_VERBS, *_PICKS])
def test_each_shared_argument_has_an_option(command: str) -> None:
    assert _taken(command) - _options(command).keys() - _OBJECTS == set()


@pytest.mark.parametrize("option", ["--message", "--txn", "--branch", "--isolation", "--commit-property"])
def test_the_docs_say_which_commands_take_an_option(option: str) -> None:
    takers = {name: set(_options(name).values()) for name in cli.list_commands(click.Context(cli))}
    committing = {name for name, options in takers.items() if "--unsafe-single-writer" in options} - {"expire"}
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    (said,) = re.findall(rf"^\|[^|]*{option} [^|]*\| ([^|]*) \|", text, re.MULTILINE)
    named = set(re.findall(r"`([a-z-]+)`", said))
    assert {name for name, options in takers.items() if option in options} == (
        committing - named if said.startswith("all that commit") else named
    )


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Tables of both formats with one row, and a file of another one that has its key."""
    rows = pa.table({"id": [1], "name": ["a"]})
    create_table(tmp_path / "delta", rows.schema).append(rows)
    create_table(tmp_path / "iceberg", rows.schema, format="iceberg").append(rows)
    pq.write_table(pa.table({"id": [1], "name": ["b"]}), tmp_path / "rows.parquet")
    return {name: str(tmp_path / name) for name in ("delta", "iceberg")} | {"rows": str(tmp_path / "rows.parquet")}


def _given(command: str, format: str, names: set[str]) -> list[str]:
    options, words = _options(command), []
    for name in sorted(names):
        value: Any = _VALUES[name]
        value = value[format] if isinstance(value, dict) else value
        flag = options[name].replace("--", "--no-" if value is False else "--", 1)
        words += [flag] if isinstance(value, bool) else [flag, value]
    return words


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("command", _VERBS)
def test_every_option_of_the_format_is_taken(places: dict[str, str], command: str, format: str) -> None:
    others = _ONLY[format].keys()
    # No snapshot is made by changes of columns, whose summary could hold properties.
    refused = {"properties"} if (command, format) == ("alter", "iceberg") else set()
    given = _given(command, format, _taken(command) - _OBJECTS - others - refused)
    words = [word.format(**places) for word in _VERBS[command][1]]
    (done,) = json_lines(command, places[format], *words, *given)
    table = open_table(places[format])
    if command in ("compact", "reorg"):
        # There is nothing to be done, and nothing was lost.
        assert (done["commits"], table.scan().count()) == (0, 1)
        return
    said: Any = table.snapshots[-1].summary if isinstance(table, IcebergTable) else table.history(1)[0].info
    assert (said.get("load") == "nightly") is not (command == "alter" and format == "iceberg")
    if command in ("append", "overwrite", "update", "upsert", "merge"):
        files = table.scan().files()["file_path"].to_pylist()
        assert "GZIP" in {pq.ParquetFile(file).metadata.row_group(0).column(0).compression for file in files}


@pytest.mark.parametrize(
    ("command", "format", "name"),
    [
        (command, kind, name)
        for command in _VERBS
        for kind, names in _ONLY.items()
        for name in names
        if name in _taken(command)
    ],
)
def test_options_of_the_other_format_are_refused_by_name(
    places: dict[str, str], command: str, format: str, name: str
) -> None:
    before = open_table(places[format]).scan().to_arrow()
    words = [word.format(**places) for word in _VERBS[command][1]]
    ended = call(command, places[format], *words, *_given(command, format, {name}))
    own, other = ("a Delta", "Iceberg") if format == "delta" else ("an Iceberg", "Delta")
    expected = f"deltaberg: {_options(command)[name]} applies only to {other} tables; this is {own} table"
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(expected)
    # What is said instead is no Python.
    assert "=, " not in ended.stderr
    assert not ended.stderr.rstrip().endswith("=")
    assert open_table(places[format]).scan().to_arrow() == before


def test_arguments_of_commits_that_make_or_keep_tables(tmp_path: Path) -> None:
    root = tmp_path / "t"
    printed("create", root, "--column", "id bigint", "--txn", "app=3", "--message", "begun")
    printed("alter", root, "add-constraint", "small", "id < 9")
    table: Any = open_table(root)
    assert (table.transactions["app"].version, table.history()[-1].info["userMetadata"]) == (3, "begun")
    assert call("alter", root, "set", "delta.constraints.small=id < 8").exit_code != 0
    printed("alter", root, "drop-constraint", "small")
    printed("stats", root, "--message", "counted", "--unsafe-single-writer")
    printed("clone", root, tmp_path / "c", "--yes", "--property", "owner=ada")
    assert open_table(tmp_path / "c").properties["owner"] == "ada"
    printed("create", tmp_path / "i", "--column", "id bigint", "--table-format", "iceberg", "--unsafe-single-writer")
    printed("expire", tmp_path / "i", "--yes", "--unsafe-single-writer")
    assert "--message" in call("stats", tmp_path / "i", "--message", "counted").stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cluster-by", "id"], "deltaberg: --cluster-by applies only to Delta tables; this is an Iceberg table"),
        (["--name", "orders"], "deltaberg: --name applies only to Delta tables; this is an Iceberg table"),
    ],
)
def test_a_creation_refuses_options_by_name(tmp_path: Path, options: list[str], message: str) -> None:
    ended = call("create", tmp_path / "t", "--column", "id bigint", "--table-format", "iceberg", *options)
    assert (ended.exit_code, ended.stdout, (tmp_path / "t").exists()) == (2, "", False)
    assert ended.stderr.startswith(message)


@pytest.mark.parametrize("others", [["--where", "id = 1"], ["--dynamic"]])
def test_columns_are_replaced_with_all_rows(places: dict[str, str], others: list[str]) -> None:
    ended = call("overwrite", places["delta"], places["rows"], "--replace-schema", *others)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert f"{others[0]} and --replace-schema exclude each other" in ended.stderr


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_every_verb_says_how_many_rows_it_changed(places: dict[str, str], format: str) -> None:
    expected = [("append", 1, 0, 0), ("update", 0, 2, 0), ("delete", 0, 0, 2), ("upsert", 1, 0, 0), ("merge", 0, 1, 0)]
    for command, *numbers in [*expected, ("overwrite", 1, 0, 1)]:
        words = [word.format(**places) for word in _VERBS[command][1]]
        (done,) = json_lines(command, places[format], *words)
        assert [done[f"{what}_rows"] for what in ("inserted", "updated", "deleted")] == numbers, command
    assert "\ninserted:              1 row\n" in printed("append", places[format], places["rows"])
    (done,) = json_lines("compact", places[format])
    assert (done["commits"], done["copied_rows"]) == (1, 2)
