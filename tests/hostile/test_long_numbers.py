"""Whole numbers of thousands of digits, which Python refuses to read, and digits that are none to it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
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


def _append(table: Any) -> object:
    return table.append(_ROWS)


#: Properties with numbers, sizes and intervals, and the verbs that read them; those with others that make them count.
_NUMBERS: dict[str, dict[str, tuple[str, dict[str, str]]]] = {
    "delta": {
        "delta.checkpointInterval": ("warning", {}),
        "deltaberg.logCompactionInterval": ("warning", {}),
        "delta.dataSkippingNumIndexedCols": ("append", {}),
        "delta.randomPrefixLength": ("append", {"delta.randomizeFilePrefixes": "true"}),
        "deltaberg.parquet.rowGroupSize": ("append", {}),
        "deltaberg.keepVersions": ("vacuum", {}),
        "delta.deletedFileRetentionDuration": ("vacuum", {}),
        "delta.logRetentionDuration": ("cleanup_metadata", {}),
        "delta.setTransactionRetentionDuration": ("checkpoint", {}),
    },
    "iceberg": {
        **{
            f"write.{name}": ("append", {})
            for name in (
                "target-file-size-bytes",
                "parquet.row-group-size-bytes",
                "parquet.page-size-bytes",
                "parquet.dict-size-bytes",
                "parquet.row-group-limit",
                "parquet.page-row-limit",
                "parquet.bloom-filter-max-bytes",
                "summary.partition-limit",
            )
        },
        "write.delete.target-file-size-bytes": ("delete", {"write.delete.mode": "merge-on-read"}),
        "write.parquet.compression-level": ("append", {"write.parquet.compression-codec": "gzip"}),
        "write.avro.compression-level": ("rewrite_manifests", {}),
        "write.orc.stripe-size-bytes": ("append", {"write.format.default": "orc"}),
        "commit.manifest.target-size-bytes": ("rewrite_manifests", {}),
        "commit.manifest.min-count-to-merge": ("append", {}),
        "commit.retry.num-retries": ("alter", {}),
        "commit.retry.min-wait-ms": ("append", {}),
        "commit.retry.max-wait-ms": ("append", {}),
        "commit.retry.total-timeout-ms": ("append", {}),
        "history.expire.max-snapshot-age-ms": ("expire_snapshots", {}),
        "history.expire.min-snapshots-to-keep": ("maintain", {}),
        "history.expire.max-ref-age-ms": ("expire_snapshots", {}),
    },
}
_CALLS: dict[str, Callable[[Any], object]] = {
    "append": _append,
    "delete": lambda table: table.delete("id = 1"),
    "alter": lambda table: table.alter().set({"owner": "ada"}).commit(),
    "maintain": lambda table: table.maintain(dry_run=True),
}


def _record(root: Path, form: Format, properties: dict[str, str]) -> None:
    """Record properties in the newest metadata of a table, as others do that check nothing."""
    if form == "iceberg":
        file = max(root.glob("metadata/*.metadata.json"))
        found = json.loads(file.read_text("utf-8"))
        found["properties"] |= properties
        file.write_text(json.dumps(found), "utf-8")
        return
    file = root / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for action in actions:
        action.get("metaData", {"configuration": {}})["configuration"].update(properties)
    file.write_text("\n".join(map(json.dumps, actions)), "utf-8")


@pytest.mark.one_backend
@pytest.mark.parametrize("text", [_DIGITS, f"-{_DIGITS}", "many", "²", "1.5"])
@pytest.mark.parametrize("form", _NUMBERS)
def test_numbers_in_properties(tmp_path: Path, form: Format, text: str) -> None:
    """Whoever has recorded it: rows are read, and what needs the number names the property and the table."""
    root = tmp_path / "t"
    write_table(root, _ROWS, format=form)
    shutil.copytree(root, tmp_path / "saved")
    for name, (verb, others) in _NUMBERS[form].items():
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "saved", root)
        _record(root, form, {**others, name: text})
        table: Any = open_table(root)
        assert table.scan().count() == 2
        if verb == "warning":
            assert any(name in sentence for sentence in table.append(_ROWS).warnings), name
            continue
        with pytest.raises(DeltabergError, match=re.escape(name)) as caught:
            _CALLS.get(verb, lambda one, verb=verb: getattr(one, verb)())(table)
        assert str(root) in str(caught.value), name
        assert len(str(caught.value)) < 1000, name
        assert open_table(root).scan().count() == 2


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
