"""The text of CSV files: quotes that swallow lines are refused, wherever pieces of the text end."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from deltaberg.cli.rows import csv_text
from deltaberg.cli.rows.csv_text import CsvText
from deltaberg.errors import InvalidArgumentError
from tests.support.command_line import call, json_lines, printed

pytestmark = pytest.mark.one_backend


def _fault(text: bytes, escape: bytes) -> str | None:
    """Return what is wrong with the quotes of a text, byte by byte."""
    at, begins = 0, True
    while at < len(text):
        byte = text[at : at + 1]
        if byte == escape:
            at, begins = at + 2, False
        elif begins and byte == b'"':
            line, at = 1 + text.count(b"\n", 0, at), at + 1
            while text[at : at + 1] != b'"' or text[at + 1 : at + 2] == b'"':
                if at >= len(text):
                    return f"line {line} is not closed"
                at += 2 if text[at : at + 1] in (b'"', escape) else 1
            after = text[at + 1 : at + 2]
            if after not in (b"", b",", b"\r", b"\n"):
                return f"began in line {line}"
            at, begins = at + 1, False
        else:
            at, begins = at + 1, byte in (b",", b"\r", b"\n")
    return None


@pytest.mark.parametrize("escape", ["", "\\"])
def test_every_fault_of_quotes_is_found_in_pieces_of_any_size(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch, escape: str
) -> None:
    faults = 0
    for _ in range(3000):
        text = "".join(rng.choices('"",ab\n\r' + escape, k=rng.randrange(14))).encode()
        monkeypatch.setattr(csv_text, "_BLOCK", rng.randrange(1, 9))
        expected = _fault(text, escape.encode() or b"none")
        if expected is None:
            assert CsvText(io.BytesIO(text), None, ",", '"', escape).read() == text
            continue
        faults += 1
        with pytest.raises(InvalidArgumentError, match=expected):
            CsvText(io.BytesIO(text), None, ",", '"', escape).read()
    assert 500 < faults < 2500


def test_a_quote_that_nothing_closes_takes_no_time_and_memory() -> None:
    text = io.BytesIO(b'id,name\n1,"' + b"x\n" * (8 << 20))
    with pytest.raises(InvalidArgumentError, match="line 2 is not closed"):
        CsvText(text, None, ",", '"', "").read()
    assert text.tell() < 5 << 20


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ('id,name\n1,"abc\n2,x\n3,y\n', [], "the quote that opens a field in line 2 is not closed (file:"),
        ('id,name\n1,"abc\n2,x\n3,"y"\n', [], "text follows the quote that closes a field, which began in line 2"),
        ("id,name\n1,'abc\n2,x\n", ["--quote", "'"], "in line 2 is not closed"),
        ("id,name\nx,a\n", [], "column 'id' of the type int64: invalid value 'x'"),
        ("id,name\n1\n", [], "Expected 2 columns, got 1: 1"),
        ("id;name\n1;a\n", ["--delimiter", ";", "--quote", ";"], "--delimiter and --quote are both ;"),
    ],
)
def test_csv_that_cannot_be_read(tmp_path: Path, text: str, options: list[str], message: str) -> None:
    printed("create", tmp_path / "t", "--column", "id bigint", "--column", "name string")
    (tmp_path / "rows.csv").write_text(text)
    ended = call("append", tmp_path / "t", tmp_path / "rows.csv", *options)
    assert ended.exit_code == 2
    assert message in ended.stderr
    assert "#0" not in ended.stderr
    assert json_lines("head", tmp_path / "t") == []


@pytest.mark.parametrize("ending", ["", "\n"])
@pytest.mark.parametrize(
    ("options", "first"), [(["--no-header"], ["name"]), (["--header", "name"], ["name"]), ([], [])]
)
def test_lines_with_nothing_are_rows_of_a_single_column(
    tmp_path: Path, ending: str, options: list[str], first: list[str]
) -> None:
    printed("create", tmp_path / "t", "--column", "name string")
    (tmp_path / "rows.csv").write_text("name\na\n\n\nb" + ending)
    printed("append", tmp_path / "t", tmp_path / "rows.csv", *options)
    assert [row["name"] for row in json_lines("head", tmp_path / "t")] == [*first, "a", None, None, "b"]


def test_lines_with_nothing_are_no_rows_of_several_columns(tmp_path: Path) -> None:
    printed("create", tmp_path / "t", "--column", "id int", "--column", "name string")
    (tmp_path / "rows.csv").write_text('\ufeff"id",name\n\n1,"a\n\nb"\n\n', "utf-16")
    printed("append", tmp_path / "t", tmp_path / "rows.csv", "--encoding", "utf-16")
    assert json_lines("head", tmp_path / "t") == [{"id": 1, "name": "a\n\nb"}]
