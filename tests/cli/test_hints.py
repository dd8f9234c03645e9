"""Hints name what their reader can type: options and commands, options of a Data Source, methods of delta-spark."""

from __future__ import annotations

import ast
import pickle
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg
from deltaberg import create_table, open_table, write_table
from deltaberg.cli.app import cli
from deltaberg.cli.command_table import COMMANDS
from deltaberg.cli.hints import ELSEWHERE, as_typed
from deltaberg.errors import ColumnNotFoundError, in_words
from deltaberg.hints import Hint, Mark, verbatim
from deltaberg.spark.hints import in_data_source, in_delta_spark
from deltaberg.spark.source.delta_options import DeltaReadOptions
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from deltaberg.spark.source.iceberg_options import IcebergReadOptions
from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
from deltaberg.spark.tables.builder import DeltaTableBuilder
from deltaberg.spark.tables.delta_table import DeltaTable
from deltaberg.spark.tables.merge import DeltaMergeBuilder
from deltaberg.spark.tables.optimize import DeltaOptimizeBuilder
from deltaberg.words import DELTA_SPARK, DELTALAKE, ICEBERG_SPARK, PYICEBERG
from tests.support.command_line import call
from tests.support.delta_builder import DeltaBuilder
from tests.support.option_table import DOORS
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_PACKAGE = Path(deltaberg.__file__).parent
_SURFACE = (Path(__file__).parents[1] / "guards" / "public_surface.txt").read_text("utf-8")
_MARK = re.compile("⟪([^⟪⟫]*)⟫")


def _arguments_of_verbs() -> dict[str, set[str]]:
    """Return the arguments of functions, tables and their methods in our words, as the public surface lists them."""
    theirs: dict[str, set[str]] = defaultdict(set)
    for words in (DELTALAKE, PYICEBERG, DELTA_SPARK, ICEBERG_SPARK):
        for verb, of_verb in words.items():
            theirs[verb] |= of_verb.keys()
    verbs: dict[str, set[str]] = {}
    owner = ""
    for line in _SURFACE.splitlines():
        example = re.fullmatch(r"(deltaberg\.| +)(\w+)\((.*)\)", line)
        if not line.startswith(" "):
            owner = line.partition("(")[0]
        if (
            example is not None
            and (example[2].islower() or example[2] in _TABLES)
            and owner.split(".")[-1] in (*_TABLES, example[2])
        ):
            arguments = set(re.findall(r"(?:^|, )([a-z_]+)(?==|,|$)", example[3]))
            verbs[example[2]] = verbs.get(example[2], set()) | (arguments - theirs[example[2]])
    return verbs


_TABLES = ("DeltaTable", "IcebergTable")
_VERBS = _arguments_of_verbs()
#: Modules with texts for those who pass Python objects, and with functions of SQL.
_OBJECTS = {
    "expressions/build/column.py": "is_true()",
    "expressions/build/filters.py": "col()",
    "catalogs/rest/vended.py": "pass X=X to allow it",
    "delta/write/write_rows.py": "frame.toArrow()",
    "expressions/bind/bind.py": "X()",
    "expressions/build/parse.py": "if()",
    "kernels/select.py": "set X=python",
    "signatures.py": "calls of Python alone",
    "table/arguments.py": "pa.int64()",
    "table/read/scan.py": "to_pandas()",
    "table/read/unread_rows.py": "write count()",
    "table/rows/stream.py": "frames and streams",
    "table/write/hive_names.py": "such as X=1",
}


def _parameters() -> dict[str, dict[str, click.Parameter]]:
    """Return the parameters of each command, by the arguments that they stand for."""
    of_commands = {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        of_commands[name] = {one.name or "": one for one in command.get_params(click.Context(command))}
    return of_commands


_PARAMETERS = _parameters()
_ALL = {name: one for parameters in _PARAMETERS.values() for name, one in parameters.items()}
_KINDS = (DeltaTable, DeltaOptimizeBuilder, DeltaMergeBuilder, DeltaTableBuilder)
#: The verbs behind the Data Sources, and those behind delta-spark, with its methods.
_OF_SOURCES = ("DeltaTable", "IcebergTable", "append", "appends", "changes", "overwrite", "scan")
_OF_DELTA_SPARK = {
    "DeltaTable": ["forPath"],
    "compact": ["optimize", "executeCompaction", "executeZOrderBy", "where"],
    "convert_to_delta": ["convertToDelta"],
    "create_table": ["execute"],
    "clone": ["clone", "cloneAtVersion", "cloneAtTimestamp"],
    "delete": ["delete"],
    "drop_feature": ["dropFeatureSupport"],
    "merge": ["merge", "execute"],
    "restore": ["restoreToVersion", "restoreToTimestamp"],
    "update": ["update"],
    "vacuum": ["vacuum"],
}
#: Python's own objects, as arguments, and how this process reads.
_OBJECTS_OF_PYTHON = {"policy", "post_commithook_properties", "progress", "writer_properties"}
_TUNING = {"memory", "options", "planning", "split_size", "threads"}
#: What has no word at a door: the suffix says then where it belongs.
_WITHOUT_WORD = {
    "command line": _OBJECTS_OF_PYTHON
    | _TUNING
    # Commands show changes as they were recorded, and times without a zone as such; only create asks for the format.
    | {"batch_size", "carry_over", "compute_updates", "format", "identifier_columns", "net_changes", "timezone"}
    # Objects of Python that other verbs take, and what commands that create, count, clone or expire do not offer.
    | {"branch", "columns", "findings", "layout", "limit", "partition_by", "partition_strategy", "stop", "validate"}
    # What deltalake calls properties of a commit.
    | {"commit_properties"}
    # Methods that no command stands for.
    | {"col", "commit", "find_commit", "list_namespaces", "list_tables", "refresh", "register_table", "scan"}
    | {"on_spark", "set_domain", "transaction"},
    "Data Source": _OBJECTS_OF_PYTHON
    | _TUNING
    # The rows are the frame; Spark reads to the end, and writes by its own rules.
    | {"allow_truncation", "check", "data", "isolation", "limit", "safe", "unsafe_single_writer", "validate"}
    # An overwrite by a frame goes as the table says.
    | {"strategy", "col", "commit", "list_namespaces", "list_tables", "register_table"},
    "delta-spark": _OBJECTS_OF_PYTHON
    # delta-spark has no parameters for these; a session or a property of the table says some of them.
    | {"allow_truncation", "branch", "catalog", "cluster", "commit_properties", "compression", "dry_run", "format"}
    | {"enforce_retention_duration", "full", "group_size", "hilbert_by", "if_exists", "ignore_missing_files"}
    | {"inventory", "isolation", "keep_versions", "location_map", "logging", "max_concurrent", "max_deleted"}
    | {"max_file_size", "memory", "min_file_size", "min_files", "partition_strategy", "schema", "schema_mode"}
    | {"rewrite_all", "sort_by", "strategy", "target_file_size", "txn", "unsafe_expired", "unsafe_single_writer"}
    # Some of its methods have those of the second line, and others have none.
    | {"safe", "spec_id", "untracked_hours", "user_metadata", "validate"}
    | {"location", "mode", "name", "storage_options", "target", "timestamp", "version", "where"}
    | {"col", "commit", "list_namespaces", "list_tables", "register_table"},
}


@cache
def _hints() -> list[tuple[str, str]]:
    """Return the hints and messages of errors, and all other texts with marks, with the modules that they are in."""
    hints = []
    for name, node in _trees():
        if name.startswith(("spark/", "cli/", "errors.py", "hints.py")):
            continue
        if isinstance(node, ast.keyword) and node.arg == "hint":
            hints += [(name, text) for text in _texts(node.value)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"):
            hints += [(name, text) for one in node.args[:1] for text in _texts(one)]
        elif isinstance(node, (ast.Constant, ast.JoinedStr)):
            hints += [(name, text) for text in _texts(node) if text.count("⟪") == text.count("⟫") > 0]
    return hints


@cache
def _marks() -> dict[str, Mark]:
    marks = {text: Mark.read(text) for _, hint in _hints() for text in _MARK.findall(hint)}
    assert len(marks) > 100
    return marks


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
    return [
        (path.relative_to(_PACKAGE).as_posix(), node)
        for path in sorted(_PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    ]


#: What texts with marks hold besides what went through `verbatim`: words of ours.
_OUR_TEXTS = {
    "', '.join((f'⟪{name}=⟫' for name in commit))",
    "', as azure_storage_sas_token' if scheme in _WITH_CONTAINER else ''",
    *("_ARGUMENTS[self.kind]", "SHOWN_FORMATS[other[0]]", "_WIDER[want]", "type(findings).__name__", "there[0]"),
    *("metadata.format_version", "states[0]", "states[1]", "other[0]", "kind!r", "found!r", "activating!r"),
    *("len(directories)", "len(partition)", "_VECTORS", "_ENABLED", "ADD_COLUMNS", "MAPPING_MODE", "NEW_STREAM"),
    *("self.other", "self.argument", "self.own", "self.min_file_size", "self.max_file_size", "self.target_size"),
    *("self.naming", "one.name", "name", "key", "hint", "found", "store", "form", "asked", "mode", "wanted"),
}


def test_texts_of_others_go_into_hints_verbatim() -> None:
    marked = [node for _, node in _trees() if isinstance(node, ast.JoinedStr) and "⟪" in _texts(node)[0]]
    values = [part for node in marked for part in node.values if isinstance(part, ast.FormattedValue)]
    assert len(values) > 12
    shown = {ast.unparse(part.value) + ("!r" if part.conversion == ord("r") else "") for part in values}
    assert {text for text in shown if not text.startswith("verbatim(")} - {
        "store",
        "self.other",
        "self.argument",
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


def _asked(verbs: Iterable[str]) -> dict[str, str]:
    """Return the names of the arguments of verbs and of all calls in marks, by the texts of the marks."""
    names = set().union(*(_VERBS.get(verb, set()) for verb in verbs))
    marked = {text: one.name for text, one in _marks().items() if one.given is not None or one.name in names}
    return {name: name for name in names} | marked


def test_no_hint_speaks_python_at_the_command_line() -> None:
    wordless = set()
    for command, parameters in _PARAMETERS.items():
        # Only an overwrite is told to replace columns.
        options = {one for known in parameters.values() for one in (*known.opts, *known.secondary_opts)} | {
            "--catalog",
            "--replace-schema",
        }
        for text, name in _asked(DOORS["command line"].entries[command][0]).items():
            word = as_typed(text, parameters)
            if word is None:
                wordless.add(name)
            else:
                assert word != text
                assert options.issuperset(re.findall(r"(?<!\S)--[a-z-]+", word)), (command, text)
    assert wordless == _WITHOUT_WORD["command line"]


def test_no_hint_speaks_python_in_a_data_source() -> None:
    words = {text: (name, in_data_source(text)) for text, name in _asked(_OF_SOURCES).items()}
    assert {name for name, word in words.values() if word is None} == _WITHOUT_WORD["Data Source"]
    options = {
        option
        for kind in (DeltaReadOptions, DeltaWriteOptions, IcebergReadOptions, IcebergWriteOptions)
        for option in kind._known().values()
    }
    said = {
        one for _, word in words.values() for one in re.findall(r'option (\S+)|option\("(\S+)"|or (\S+)', word or "")
    }
    assert {next(filter(None, one)) for one in said} - options == {"snapshot-property.NAME"}


def test_no_hint_speaks_python_in_delta_spark() -> None:
    wordless = set()
    for verb, methods in _OF_DELTA_SPARK.items():
        found = [getattr(kind, method) for method in methods for kind in _KINDS if hasattr(kind, method)]
        parameters = {name for method in found for name in signature(method).parameters}
        wordless |= {name for text, name in _asked([verb]).items() if in_delta_spark(text, parameters) is None}
    assert wordless == _WITHOUT_WORD["delta-spark"]


def _any(names: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(names))})"


_ARGUMENTS = set().union(*_VERBS.values())
#: An argument with a value, a call, an argument whose name is no English word, and one that a text begins with.
_UNMARKED = re.compile(
    rf"\b\w+=(?=['\"\w{{( ]|$)|\w\(\)|\b{_any(_VERBS.keys() - set(_TABLES))}\("
    rf"|\b{_any(name for name in _ARGUMENTS if '_' in name)}\b"
    rf"|^{_any(_ARGUMENTS - {'data'})} (?:must|is|are|has|have|needs?|cannot|names?) "
)


def test_every_argument_and_call_is_marked() -> None:
    unmarked = {name for name, hint in _hints() if _UNMARKED.search(_MARK.sub("", hint))}
    assert unmarked == _OBJECTS.keys()


@pytest.mark.parametrize(
    "text",
    ["min_file_size is 3 bytes", "cluster must be True", "pass threads=2", "call compact(where) first", "call x()"],
)
def test_what_is_not_marked_is_found(text: str) -> None:
    assert _UNMARKED.search(text) is not None


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
            "⟪alter().unset('delta.enableTypeWidening')⟫ first⟦, in the same ⟪transaction()⟫⟧",
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
        ('use ⟪if_exists="ignore"⟫ or ⟪if_exists="replace"⟫', "use --if-exists ignore or --if-exists replace"),
        (
            "pass ⟪cluster=False⟫, or put it under ⟪source_prefix⟫",
            "pass --cluster false, or put it under SOURCE_PREFIX",
        ),
        ("pass it to ⟪drop_feature(name)⟫ of the table", "pass it to deltaberg drop-feature TABLE NAME of the table"),
        ('pass ⟪txn=("nightly", 7)⟫', "pass --txn nightly=7"),
        ("pass ⟪timezone=⟫ to say it", "pass --timezone ZONE to say it"),
        ("pass ⟪planning='driver'⟫", "pass planning='driver' in Python"),
        ('use ⟪schema_mode="merge"⟫ or ⟪schema_mode="overwrite"⟫', "use --merge-schema or --replace-schema"),
        ("a column named partition_by_day", "a column named partition_by_day"),
    ],
)
def test_values_go_into_the_options(hint: str, said: str) -> None:
    assert Hint(hint).said(lambda mark: as_typed(mark, _ALL), ELSEWHERE) == said
    assert Hint(hint) == re.sub("[⟪⟫⟦⟧]", "", hint)


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
    with pytest.raises(ColumnNotFoundError) as missing:
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
    assert hint.said(lambda mark: as_typed(mark, {})) == "rename it by deltaberg alter TABLE rename '⟪txn⟫' NEW_NAME"
    assert pickle.loads(pickle.dumps(hint)).marked == hint.marked


def test_errors_of_commands(tmp_path: Path, builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    assert _hint("changes", builder.root).startswith("--derived derives them")
    assert _hint("head", builder.root, "--snapshot-id", 5) == "use --version"
    rows = tmp_path / "rows.csv"
    rows.write_text("id,more\n1,2\n")
    assert "--merge-schema" in _hint("append", builder.root, rows)
    create_table(tmp_path / "t", pa.schema([("id", pa.int64())]))
    assert _hint("create", tmp_path / "t", "--column", "id bigint") == "use --if-exists ignore or --if-exists replace"
    write_table(tmp_path / "both", pa.table({"id": [1]}))
    (tmp_path / "both" / "metadata").mkdir()
    (tmp_path / "both" / "metadata" / "v1.metadata.json").write_text("{}")
    assert "name the metadata file" in _hint("head", tmp_path / "both")


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["head", "{}", "--ref", "main", "--timestamp", "2024-01-01"], "--ref and --timestamp cannot be combined"),
        (["alter", "{}", "move", "a", "--first", "--after", "b"], "--after, --before and --first exclude each other"),
        (["append", "{}", "{}.csv", "--branch", ""], "--branch must be text that is not empty"),
        (["compact", "{}", "--min-file-size", "9", "--target-file-size", "8"], "--min-file-size is 9 bytes"),
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
    assert _hint("convert", tmp_path / "t") == "use --if-exists ignore to leave it as it is"
    assert call("convert", tmp_path / "t", "--if-exists", "ignore").exit_code == 0
    assert len(open_table(tmp_path / "t").history()) == 1


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_an_overwrite_with_other_rows_names_the_option(tmp_path: Path, format: Any) -> None:
    table = write_table(tmp_path / "t", ids(1, 2), format=format)
    assert table.committed
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n3\n")
    hint = "write only rows that match it, or use --no-check"
    assert _hint("overwrite", tmp_path / "t", rows, "--where", "id = 1") == hint


def test_a_command_for_tables_of_the_other_format(tmp_path: Path) -> None:
    write_table(tmp_path / "d", ids(1, 2))
    write_table(tmp_path / "i", ids(1, 2), format="iceberg")
    hint = "the directory looks like that of"
    assert _hint("publish", tmp_path / "d", "w") == f"{hint} a Delta table: use a command that takes Delta tables"
    assert _hint("checkpoint", tmp_path / "i") == f"{hint} an Iceberg table: use deltaberg rewrite-manifests TABLE"


def test_properties_of_a_catalog_are_options() -> None:
    assert _hint("head", "a.b", "--catalog", "c", "-o", "type=sql").startswith("pass -o uri=URI, or configure it")
    hint = "choose a name, and configure the address as its uri, or pass it as -o uri=URI"
    assert _hint("head", "a.b", "--catalog", "http://c") == hint


def test_catalogs_of_a_data_source_are_configured() -> None:
    """The Data Source takes the name of a catalog alone."""
    hints = [hint for name, hint in _hints() if name == "catalogs/load.py" and "⟪" in hint]
    assert len(hints) > 6
    assert not [hint for hint in hints if "of deltaberg" in Hint(hint).said(in_data_source, "of deltaberg")]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_places_and_transforms_at_the_command_line(tmp_path: Path, format: Any) -> None:
    create_table(tmp_path / "t", ID, format=format)
    assert _hint("alter", tmp_path / "t", "move", "id") == "pass --after, --before or --first"
    options = ("--column", "id long", "--partition-by", "bucket(2, id)", "--table-format", format)
    if format == "iceberg":
        assert call("create", tmp_path / "new", *options).exit_code == 0
    else:
        hint = _hint("create", tmp_path / "new", *options)
        assert hint.startswith("Delta tables are partitioned by columns, not by transforms: name a column")
        assert hint.endswith("or create the table with --table-format iceberg")
