"""Whole numbers of thousands of digits, which Python refuses to read, and digits that are none to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table, write_table
from deltaberg.choices import Format
from deltaberg.errors import DeltabergError
from deltaberg.whole_numbers import whole_number
from tests.support.command_line import call

_DIGITS = "9" * 5000
_ROWS = pa.table({"id": [1, 2], "n": [5, 6]})


def _member(name: str, digits: str = _DIGITS) -> Callable[[str], str]:
    return lambda text: re.sub(rf'(\\?"{name}\\?"):\d+', rf"\g<1>:{digits}", text)


def _more(before: str, member: str) -> Callable[[str], str]:
    return lambda text: text.replace(before, f"{before}{member}:{_DIGITS},", 1)


_CHANGES: dict[str, list[Callable[[str], str]]] = {
    "delta": [
        *map(_member, ("size", "numRecords", "minReaderVersion", "modificationTime")),
        _more('"commitInfo":{', '"unknown"'),
        lambda text: text.replace('"n":"5"', f'"n":"{_DIGITS}"'),
    ],
    "iceberg": [
        *map(
            _member, ("last-updated-ms", "current-snapshot-id", "format-version", "last-column-id", "sequence-number")
        ),
        _more("{", '"unknown"'),
        lambda text: text.replace('"total-records":"2"', f'"total-records":"{_DIGITS}"'),
    ],
}


@pytest.mark.parametrize(
    ("form", "number"), [(form, number) for form in _CHANGES for number in range(len(_CHANGES[form]))]
)
def test_numbers_of_thousands_of_digits_in_files(tmp_path: Path, form: Format, number: int) -> None:
    """Where they mean nothing here they do no harm, and elsewhere the error is one of this library."""
    write_table(tmp_path / "t", _ROWS, format=form, partition_by=["n"])
    files = sorted((tmp_path / "t").rglob("*.json" if form == "delta" else "*.metadata.json"))
    before = files[-1].read_text("utf-8")
    after = _CHANGES[form][number](before)
    assert _DIGITS in after
    files[-1].write_text(after, "utf-8")
    for checks in (False, True):
        try:
            table = open_table(tmp_path / "t", validate=checks)
            assert table.scan().count() == 2
            assert table.scan("id = 1").count() == 1
        except DeltabergError:
            continue


@pytest.mark.one_backend
@pytest.mark.parametrize("text", [_DIGITS, "²", "\u0661"])
@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("delta", "delta.checkpointInterval"),
        ("delta", "deltaberg.logCompactionInterval"),
        ("delta", "delta.dataSkippingNumIndexedCols"),
        ("delta", "delta.minReaderVersion"),
        ("iceberg", "write.target-file-size-bytes"),
        ("iceberg", "commit.manifest.min-count-to-merge"),
        ("iceberg", "write.metadata.metrics.max-inferred-column-defaults"),
        ("iceberg", "commit.retry.num-retries"),
    ],
)
def test_numbers_in_properties(tmp_path: Path, form: Format, name: str, text: str) -> None:
    write_table(tmp_path / "t", _ROWS, format=form)
    table: Any = open_table(tmp_path / "t")
    with suppress(DeltabergError):
        table.alter().set({name: text}).commit()
        table.append(_ROWS)
    assert table.refresh().scan().count() in (2, 4)


@pytest.mark.one_backend
@pytest.mark.parametrize("text", [_DIGITS, "²"])
def test_numbers_in_commands(tmp_path: Path, text: str) -> None:
    for form in ("delta", "iceberg"):
        write_table(tmp_path / form, _ROWS, format=form)
        place = tmp_path / form
        for words in (
            ("head", place, "-n", text),
            ("head", place, "--version", text),
            ("changes", place, "--from", text),
        ):
            ended = call(*words)
            assert ended.exit_code
            assert isinstance(ended.exception, SystemExit)
            assert ended.stderr.startswith("deltaberg")


@pytest.mark.one_backend
def test_whole_numbers() -> None:
    assert [whole_number(text) for text in ("0", "-0", "007", "-12", "0" * 9000 + "7")] == [0, 0, 7, -12, 7]
    for text in ("", "-", "+1", " 1", "1_0", "1.0", "²", "\u0661", "9" * 401, _DIGITS, "1\n"):
        assert whole_number(text) is None, text
    assert [whole_number(text, 1) for text in ("-1", "0", "1")] == [None, None, 1]
