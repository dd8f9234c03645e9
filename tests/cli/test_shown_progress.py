"""Commands show how far they are: each passes on what its verb tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.cli.command_table import COMMANDS
from deltaberg.cli.show import output
from deltaberg.table.rows import shown_progress
from tests.support.command_line import call
from tests.support.option_table import VERBS_OF_COMMANDS, arguments_of_verb
from tests.support.verb_work import rows, with_leftover, with_lost_file, worked_table

pytestmark = pytest.mark.one_backend

_HIDE = {"strategy": "merge-on-read"}


def _nothing(_: Any) -> None:
    """Leave a table as it is."""


def _by_keys(table: Any) -> None:
    table.delete_by_keys(pa.table({"id": [1, 4000]}))


def _hidden(table: Any) -> None:
    table.delete("id IN (1, 4000)", **_HIDE)


def _old(table: Any) -> None:
    table.alter().set({"delta.logRetentionDuration": "interval 0 hours"}).commit()
    table.checkpoint()


#: Commands with the format of a table, what is done to it before, and their words behind the table.
_WORKS: dict[str, tuple[str, Callable[[Any], object], list[str]]] = {
    "checkpoint": ("delta", _nothing, []),
    "cleanup-metadata": ("delta", _old, ["--yes", "--at", "2100-01-01"]),
    "clone": ("iceberg", _nothing, ["{other}", "--yes"]),
    "compact": ("iceberg", _nothing, []),
    "count": ("delta", _nothing, ["--filter", "id % 7 = 0"]),
    "drop-feature": ("delta", _hidden, ["deletionVectors", "--yes"]),
    "expire": ("iceberg", _nothing, ["--yes", "--older-than", "2100-01-01"]),
    "maintain": ("delta", _nothing, ["--yes", "--min-files", "2"]),
    "orphans": ("iceberg", with_leftover, ["--yes"]),
    "reorg": ("delta", _hidden, ["--yes"]),
    "repair": ("iceberg", with_lost_file, ["--yes"]),
    "restore": ("delta", lambda table: table.delete(where=None), ["2", "--yes"]),
    "rewrite-deletes": ("iceberg", _by_keys, []),
    "rewrite-manifests": ("iceberg", _nothing, []),
    "stats": ("delta", _nothing, []),
    "stats --distinct": ("iceberg", _nothing, []),
    "vacuum": ("delta", with_leftover, ["--yes"]),
    "verify": ("delta", _nothing, []),
}
#: Commands with a bar of rows, which `test_progress_on_a_terminal` looks at.
_BY_ROWS = {"alter", "append", "cherry-pick", "delete", "merge", "overwrite", "publish", "update", "upsert"}
#: Commands that have nothing to tell, though their verbs take a progress.
_AT_ONCE = {"create": "metadata"}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is shown, as if standard error were a terminal."""
    numbers: list[Any] = []
    describe = shown_progress.described

    def noted(done: Any) -> str:
        numbers.append(done)
        return describe(done)

    monkeypatch.setattr(output, "_shows_progress", lambda: True)
    monkeypatch.setattr(shown_progress, "described", noted)
    return numbers


@pytest.mark.parametrize("command", _WORKS)
def test_it_is_shown(tmp_path: Path, told: list[Any], command: str) -> None:
    kind, prepare, words = _WORKS[command]
    table = worked_table(tmp_path, kind)
    prepare(table)
    name, *more = command.split()
    ended = call(name, table.location, *more, *(word.format(other=tmp_path / "other") for word in words))
    assert ended.exit_code == 0, ended.output
    assert told


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_that_of_conversions_is_shown(tmp_path: Path, told: list[Any], format: str) -> None:
    pq.write_table(rows(0), tmp_path / "a.parquet")
    assert call("convert", tmp_path, "--table-format", format).exit_code == 0
    assert told


def test_no_command_is_left_out() -> None:
    takes = {
        command
        for command in COMMANDS
        for verb in VERBS_OF_COMMANDS.get(command, (command.replace("-", "_"),))
        if "progress" in arguments_of_verb(verb)
    }
    known = {command.split()[0] for command in _WORKS} | _BY_ROWS | _AT_ONCE.keys() | {"convert"}
    assert takes <= known
