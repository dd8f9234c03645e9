"""What commands say is what to type next: the state, the option, the delimiter, the command for the other format."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.choices import Format
from tests.support.command_line import call, printed

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("region", pa.string())])


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_what_a_command_did_names_the_state(tmp_path: Path, format: Format) -> None:
    """Such as a snapshot by its id, by which it is opened again; and it says where nothing was done."""
    root = tmp_path / "t"
    table = create_table(root, _COLUMNS, format=format)
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1], "day": [dt.date(2026, 1, 2)], "region": ["north"]}), file)
    said = printed("append", root, file)
    table.refresh()
    state = f"version: {table.version}" if isinstance(table, DeltaTable) else f"snapshot id: {table.snapshot_id}"
    assert state in " ".join(said.split())
    assert f"{state}, unchanged: there was nothing to do" in " ".join(printed("delete", root, "id = 9").split())
    for command in ("compact", "reorg"):
        options = () if command == "compact" else ("--yes",)
        assert printed(command, root, *options).split()[-4:] == ["all", "are", "in", "order"]
    printed("append", root, file)
    tried = " ".join(printed("compact", root, "--dry-run").split())
    assert "dry run: nothing was changed" in tried
    assert "removed files: 2" in tried


@pytest.mark.parametrize(("line", "typed"), [("id;day;region", "';'"), ("id\tday", "tab"), ("id|day", "'|'")])
def test_another_delimiter_is_proposed(tmp_path: Path, line: str, typed: str) -> None:
    root = create_table(tmp_path / "t", _COLUMNS).location
    file = tmp_path / "rows.csv"
    file.write_text(f"{line}\n1\n", "utf-8")
    for command in (("append", root, file), ("create", tmp_path / "new", "--like", file)):
        refused = call(*command)
        assert (refused.exit_code, f"pass --delimiter {typed}" in refused.stderr) == (2, True)
    kept = ("--delimiter", ",", "--table-format", "iceberg")
    assert call("create", tmp_path / "new", "--like", file, *kept).exit_code == 0


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (("upsert", "t", "f.csv"), "pass --key NAME"),
        (("update", "t"), "pass --set COLUMN=SQL"),
        (("merge", "t", "f.csv"), "pass --on SQL"),
    ],
)
def test_a_missing_option_is_shown_as_it_is_typed(command: tuple[str, ...], hint: str) -> None:
    assert hint in call(*command).stderr


@pytest.mark.parametrize(
    ("format", "command", "hint"),
    [
        ("delta", ("expire",), "use deltaberg vacuum TABLE"),
        ("delta", ("rewrite-manifests",), "use deltaberg checkpoint TABLE"),
        ("delta", ("publish", "w"), "use a command that takes Delta tables"),
        ("iceberg", ("vacuum",), "use deltaberg expire TABLE"),
        ("iceberg", ("checkpoint",), "use deltaberg rewrite-manifests TABLE"),
    ],
)
def test_a_command_of_the_other_format_names_the_one_to_type(
    tmp_path: Path, format: Format, command: tuple[str, ...], hint: str
) -> None:
    create_table(tmp_path / "t", _COLUMNS, format=format)
    name, *more = command
    refused = call(name, tmp_path / "t", *more)
    assert (refused.exit_code, hint in refused.stderr) == (3, True)
