"""How values, tables and progress are printed: exact for programs, harmless for terminals."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.cli.show.text import JsonText, clean, json_text, shown
from tests.support.command_line import call, json_lines, printed, spawn, terminal_text
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids

pytestmark = pytest.mark.one_backend

_terminal = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")

#: What takes over a terminal or misleads who reads it: escapes of 7 and 8 bits, a bell, a backspace, a new line, a
#: turn of direction, an invisible letter, a line separator.
_EVIL = "\x1b[31m\x1b]0;owned\x07\x9b2J\x08\nred\r\u202e\u200b\u2028\x7f"
#: What chooses colours and moves the cursor of a terminal.
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _rows(**columns: Any) -> pa.Table:
    return pa.table(columns)


def test_json_is_exact(builder: DeltaBuilder) -> None:
    rows = _rows(
        nan=pa.array([float("nan"), float("-inf"), float("inf"), 0.1, None]),
        single=pa.array([0.1, -0.0, 1e38, float("nan"), None], pa.float32()),
        big=pa.array([2**63 - 1, -(2**63), 0, 1, None], pa.int64()),
        bin=pa.array([b"\x00\xff", b"", b"a", b"b", None]),
        text=pa.array(["", "NaN", 'quote " and \\', "\u00fc\U0001f600", None]),
        at=pa.array([-(10**17), 0, 10**17, 1, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
        wall=pa.array([-(10**17), 0, 10**17, 1, None], pa.int64()).cast(pa.timestamp("us")),
        day=pa.array([-719163, 0, 3_000_000, 1, None], pa.int32()).cast(pa.date32()),
        money=pa.array(["0.0000000001", "1234567890123456789012345678.9", "-1", "0", None]).cast(pa.decimal128(38, 10)),
        flag=pa.array([True, False, None, True, None]),
        map=pa.array(
            [[("k", 1.5)], [], [("k", None)], [("k", float("nan"))], None], pa.map_(pa.string(), pa.float64())
        ),
        list=pa.array([[Decimal("1.10")], [], [None], [Decimal(0)], None], pa.list_(pa.decimal128(5, 2))),
        struct=pa.array(
            [{"a": {"b": b"\x01"}}, {"a": None}, {"a": {"b": None}}, None, None],
            pa.struct([("a", pa.struct([("b", pa.binary())]))]),
        ),
    )
    protocol = builder.features("timestampNtz")
    builder.create(rows.schema, builder.add(rows), protocol=protocol)
    found = json_lines("head", builder.root)
    by_column = {name: [row[name] for row in found] for name in rows.column_names}
    assert by_column == {
        "nan": ["NaN", "-Infinity", "Infinity", 0.1, None],
        "single": [*pa.array([0.1, -0.0, 1e38], pa.float32()).to_pylist(), "NaN", None],
        "big": [2**63 - 1, -(2**63), 0, 1, None],
        "bin": ["00ff", "", "61", "62", None],
        "text": ["", "NaN", 'quote " and \\', "\u00fc\U0001f600", None],
        "at": [
            "-1199-02-15T14:13:20.000000Z",
            "1970-01-01T00:00:00.000000Z",
            "5138-11-16T09:46:40.000000Z",
            "1970-01-01T00:00:00.000001Z",
            None,
        ],
        "wall": [
            "-1199-02-15T14:13:20.000000",
            "1970-01-01T00:00:00.000000",
            "5138-11-16T09:46:40.000000",
            "1970-01-01T00:00:00.000001",
            None,
        ],
        "day": ["0000-12-31", "1970-01-01", "10183-09-21", "1970-01-02", None],
        "money": ["0.0000000001", "1234567890123456789012345678.9000000000", "-1.0000000000", "0.0000000000", None],
        "flag": [True, False, None, True, None],
        "map": [
            [{"key": "k", "value": 1.5}],
            [],
            [{"key": "k", "value": None}],
            [{"key": "k", "value": "NaN"}],
            None,
        ],
        "list": [["1.10"], [], [None], ["0.00"], None],
        "struct": [{"a": {"b": "01"}}, {"a": None}, {"a": {"b": None}}, None, None],
    }
    assert [str(value) for value in by_column["single"][:2]] == ["0.10000000149011612", "-0.0"]


def test_rows_of_a_slice_are_those_of_the_slice(builder: DeltaBuilder) -> None:
    """Lists and maps of a part of a batch begin in the middle of their children."""
    rows = _rows(
        id=[1, 2, 3, 4],
        list=[[1], [2, 2], None, [4]],
        map=pa.array([[(1, "a")], [(2, "b"), (3, "c")], [], [(4, None)]], pa.map_(pa.int64(), pa.string())),
        struct=[{"x": [1]}, {"x": [2]}, None, {"x": None}],
    )
    builder.create(
        rows.schema, builder.add(rows, vector=builder.vector([0])), protocol=builder.features("deletionVectors")
    )
    assert json_lines("head", builder.root, "-f", "id <> 3") == [
        {"id": 2, "list": [2, 2], "map": [{"key": 2, "value": "b"}, {"key": 3, "value": "c"}], "struct": {"x": [2]}},
        {"id": 4, "list": [4], "map": [{"key": 4, "value": None}], "struct": {"x": None}},
    ]


def test_variants_are_what_they_hold(conformance: Path) -> None:
    path = conformance / "delta" / "golden--spark-variant-checkpoint"
    rows = json_lines("head", path, "-f", "id = 0", "-n", 1)
    assert rows[0]["v"] == {"key": 0}
    assert isinstance(rows[0]["array_of_variants"], list)


def test_json_in_json_keeps_its_digits() -> None:
    assert json_text({"v": JsonText("1.10"), "w": [JsonText('{"a": 123456789012345678901234567890.5}')]}) == (
        '{"v": 1.10, "w": [{"a": 123456789012345678901234567890.5}]}'
    )


def test_what_a_log_has_of_numbers_beyond_json_is_printed_as_json(builder: DeltaBuilder) -> None:
    kept = {"odd": [float("nan"), float("inf")]}
    builder.create([{"name": "id", "type": "long", "nullable": True, "metadata": kept}])
    builder.commit_text('{"commitInfo":{"operation":"WRITE","x":[-1e400]}}')
    assert json_lines("schema", builder.root)[0][0]["metadata"] == {"odd": ["NaN", "Infinity"]}
    commit = json_lines("history", builder.root, "-n", 1)[0]
    assert commit["commitInfo"] == {"operation": "WRITE", "x": ["-Infinity"]}


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_depth_without_end_is_an_error_in_a_line(builder: DeltaBuilder, form: list[str]) -> None:
    builder.create(ID)
    deep = "[" * 700 + "]" * 700
    builder.commit_text(f'{{"commitInfo":{{"operationParameters":{deep}}}}}')
    ended = call("history", builder.root, *form)
    assert ended.exit_code in (6, 10)
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("text", [_EVIL, "\udcff", "a\x00b", "\U000e0041", "\u00ad\ufeff"])
def test_what_steers_is_spelled_out(text: str) -> None:
    assert clean(text).isprintable()
    assert shown(text).isprintable()
    assert clean(clean(text)) == clean(text)
    encoded = json_text([text, {text: JsonText(json.dumps(text, ensure_ascii=False))}])
    assert encoded.isprintable()
    assert json.loads(encoded) == [text, {text: text}]


def test_other_letters_stay() -> None:
    text = "Stra\u00dfe \u4e1c\u4eac \U0001f600 \u05e9\u05dc\u05d5\u05dd"
    assert clean(text) == shown(text) == text
    assert json_text(text) == f'"{text}"'


def _unsafe(text: str) -> set[str]:
    return {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp")} - {"\n", "\t"}


@pytest.fixture
def hostile(builder: DeltaBuilder) -> DeltaBuilder:
    """A table whose names, values, paths, partitions and properties steer terminals."""
    data, part = f"d{_EVIL}", f"p{_EVIL}"
    rows = _rows(**{data: [_EVIL]})
    schema = [
        {"name": data, "type": "string", "nullable": True, "metadata": {"comment": _EVIL}},
        {"name": part, "type": "string", "nullable": True, "metadata": {}},
    ]
    file = builder.add(rows, path=f"a{_EVIL.replace('/', '')}.parquet", partition={part: _EVIL}, stats="full")
    configuration = {f"k{_EVIL}": _EVIL}
    protocol = builder.features("columnMapping", writer_only=[f"f{_EVIL}"])
    metadata = builder.metadata(schema, [part], configuration, name=_EVIL, description=_EVIL)
    builder.commit(protocol, metadata, file, info={"operation": _EVIL, "userName": _EVIL, "engineInfo": _EVIL})
    return builder


_COMMANDS = [
    ["inspect"],
    ["schema"],
    ["history"],
    ["files", "--stats"],
    ["plan", "-f", f"`d{_EVIL}` = 'x{_EVIL}'"],
    ["head"],
]


@pytest.mark.parametrize("command", _COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_nothing_in_a_table_steers_a_terminal(hostile: DeltaBuilder, command: list[str], form: list[str]) -> None:
    text = printed(command[0], hostile.root, *command[1:], *form)
    assert "red" in text
    assert _unsafe(text) == set()
    if form:
        assert _EVIL in repr_of_strings([json.loads(line) for line in text.splitlines()])
    else:
        # A new line in a name or a value makes no line of its own.
        assert not any(line.startswith("red") for line in text.splitlines())


def repr_of_strings(value: Any) -> str:
    """Return all the text in a JSON value, keys too."""
    if isinstance(value, dict):
        return "".join(repr_of_strings(part) for pair in value.items() for part in pair)
    return "".join(map(repr_of_strings, value)) if isinstance(value, list) else str(value)


@_terminal
@pytest.mark.slow
def test_a_real_terminal_gets_no_escape_of_a_table(hostile: DeltaBuilder) -> None:
    """Colours are ours; besides them nothing that steers reaches the terminal."""
    for command in (["inspect"], ["head"]):
        text = terminal_text(command[0], hostile.root, *command[1:])
        assert "\x1b[1m" in text
        for forbidden in ("\x1b[31m", "\x1b]0;", "\x07", "\x9b", "\x08", "\u202e", "\u200b", "\u2028", "\x7f", "\nred"):
            assert forbidden not in text, ascii(forbidden)


@pytest.mark.parametrize("arguments", [["inspect", f"/no/{_EVIL}"], ["head", "/t", f"--{_EVIL}"], [_EVIL]])
def test_errors_do_not_steer_either(arguments: list[str]) -> None:
    ended = call(*arguments)
    assert ended.exit_code in (2, 3)
    assert ended.stderr.count("\n") == 1
    assert _unsafe(ended.stderr) == set()


def test_nothing_is_cut_short_in_a_pipe(builder: DeltaBuilder) -> None:
    rows = _rows(**{f"column_{number:03}": ["x" * 300 + str(number)] for number in range(60)})
    builder.create(rows.schema, builder.add(rows))
    with spawn("head", builder.root, COLUMNS="40", TERM="xterm") as process:
        out, err = process.communicate(timeout=60)
    assert err == ""
    names, values = (line.split("\t") for line in out.splitlines())
    assert names == rows.column_names
    assert values == [column[0].as_py() for column in rows.columns]


@_terminal
@pytest.mark.slow
def test_a_terminal_gets_a_table_or_where_it_is_too_narrow_a_block_for_each_row(builder: DeltaBuilder) -> None:
    builder.create(
        pa.schema([("id", pa.int64()), ("name", pa.string())]), builder.add(_rows(id=[7, 8], name=["a" * 30, None]))
    )
    wide = _STYLES.sub("", terminal_text("head", builder.root, columns=200))
    assert wide.replace("\u2500", "").split()[-6:] == ["id", "name", "7", "a" * 30, "8", "null"]
    narrow = _STYLES.sub("", terminal_text("head", builder.root, columns=20))
    assert [line.rstrip() for line in narrow.splitlines()[-8:]] == [
        *("row 0", "  id    7", f"  name  {'a' * 12}", f"        {'a' * 12}", f"        {'a' * 6}"),
        *("row 1", "  id    8", "  name  null"),
    ]


@_terminal
@pytest.mark.slow
def test_columns_without_values_make_room_on_a_narrow_terminal_and_are_named(builder: DeltaBuilder) -> None:
    names = ["id", "a_long_name_of_a_column", "another_long_name_of_a_column"]
    values = {"id": [7, 8], **{name: pa.array([None, None], pa.int64()) for name in names[1:]}}
    builder.create(pa.schema([(name, pa.int64()) for name in names]), builder.add(_rows(**values)))
    wide = _STYLES.sub("", terminal_text("head", builder.root, columns=100))
    assert wide.replace("\u2500", "").split()[-6:] == ["7", "null", "null", "8", "null", "null"]
    narrow = _STYLES.sub("", terminal_text("head", builder.root, columns=40))
    assert narrow.replace("\u2500", "").split()[-9:-6] == ["id", "7", "8"]
    assert narrow.splitlines()[-1] == f"null in all rows: {', '.join(names[1:])}"
    # Where that does not make enough room, each row is a block of the other columns.
    blocks = _STYLES.sub("", terminal_text("head", builder.root, columns=4))
    assert blocks[blocks.rindex("row 0") :].splitlines() == [
        *("row 0", "  id  7", "row 1", "  id  8"),
        f"null in all rows: {', '.join(names[1:])}",
    ]


@_terminal
@pytest.mark.slow
def test_facts_go_on_below_themselves_on_a_narrow_terminal(builder: DeltaBuilder) -> None:
    names = [f"column_{number}" for number in range(6)]
    builder.create(pa.schema([(name, pa.int64()) for name in names]))
    shown = _STYLES.sub("", terminal_text("inspect", builder.root, columns=50))
    lines = shown[shown.index("columns:") : shown.index("partitioned by:")].splitlines()
    assert len(lines) > 1
    assert all(line.startswith(" " * 23) and line[23] != " " for line in lines[1:])


def test_parameters_of_operations_are_words(builder: DeltaBuilder) -> None:
    builder.create(ID)
    parameters = {"mode": "Append", "partitionBy": "[]", "predicate": '["id = 1"]', "description": "null"}
    builder.commit(info={"operation": "WRITE", "operationParameters": parameters})
    assert printed("history", builder.root, "-n", 1).splitlines()[1].split("\t")[3] == "mode: Append, predicate: id = 1"


@_terminal
@pytest.mark.slow
def test_columns_are_named_where_there_are_no_rows(builder: DeltaBuilder) -> None:
    names = ["a_long_name_of_a_column", "another_long_name_of_a_column"]
    builder.create(pa.schema([(name, pa.int64()) for name in names]))
    for columns in (100, 40):
        shown = _STYLES.sub("", terminal_text("head", builder.root, columns=columns))
        assert all(name in shown for name in names)
    assert shown.splitlines()[-1] == f"no rows of {', '.join(names)}"


@_terminal
@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_alone(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    assert f"opening {builder.root}"[:60] in terminal_text("head", builder.root, columns=300)
    with spawn("head", builder.root, TERM="xterm") as process:
        assert process.communicate(timeout=60) == ("id\n1\n", "")


def test_an_output_that_lacks_letters_gets_their_numbers(builder: DeltaBuilder) -> None:
    rows = _rows(text=["\u00fc\U0001f600"])
    builder.create(rows.schema, builder.add(rows))
    with spawn("head", builder.root, PYTHONIOENCODING="ascii", PYTHONUTF8="0") as process:
        assert process.communicate(timeout=60) == ("text\n\\xfc\\U0001f600\n", "")
    with spawn("head", builder.root, "--json", PYTHONIOENCODING="ascii", PYTHONUTF8="0") as process:
        out, err = process.communicate(timeout=60)
    assert (out, err) == ('{"text": "\\u00fc\\ud83d\\ude00"}\n', "")
