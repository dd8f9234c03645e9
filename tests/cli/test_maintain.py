"""`deltaberg maintain`: what it prints, how it ends, and that nothing is done unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from deltaberg import DeltaTable, create_table, open_table
from deltaberg.cli import confirm
from deltaberg.cli.app import cli
from tests.support.command_line import call, json_lines, printed
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.fixture(params=["delta", "iceberg"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A table of six small files."""
    kind: Literal["delta", "iceberg"] = request.param
    table = create_table(tmp_path, ID, format=kind)
    for number in range(6):
        table.append(ids(number))
    return tmp_path


def test_nothing_is_done_without_a_question(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = call("maintain", root)
    assert ended.exit_code == 2
    assert "pass --yes to do it" in ended.stderr
    monkeypatch.setattr(confirm, "_can_ask", lambda: True)
    ended = CliRunner().invoke(cli, ["maintain", str(root)], input="n\n", prog_name="deltaberg")
    assert ended.exit_code == 1
    assert "compact: commits 1, removed files 6, added files 1" in ended.stderr
    assert "nothing was done" in ended.stderr
    assert open_table(root).scan().files().num_rows == 6
    assert "compact: nothing to do" in printed("maintain", root, "--min-files", "7", "--dry-run")
    ended = CliRunner().invoke(cli, ["maintain", str(root)], input="y\n", prog_name="deltaberg")
    assert ended.exit_code == 0
    table = open_table(root)
    assert (table.scan().files().num_rows, ids_of(table)) == (1, list(range(6)))
    # What is in order needs no question.
    assert "nothing was changed" in printed("maintain", root)


def test_documents_of_numbers(root: Path) -> None:
    (planned,) = json_lines("maintain", root, "--dry-run", "--step", "compact")
    (step,) = planned["steps"]
    assert (planned["dry_run"], step["step"], step["is_due"], step["removed_files"]) == (True, "compact", True, 6)
    (done,) = json_lines("maintain", root, "--yes", "--step", "compact", "--target-file-size", "100000")
    assert (done["dry_run"], done["steps"][0]["added_files"]) == (False, 1)


def test_compact_has_the_name_of_the_field(root: Path) -> None:
    """With the same options, documents and errors, which name what was typed."""
    assert json_lines("optimize", root, "--dry-run") == json_lines("compact", root, "--dry-run")
    refused = call("optimize", root, "--min-files", "0")
    assert refused.exit_code == 2
    assert refused.stderr == call("compact", root, "--min-files", "0").stderr.replace("compact", "optimize")
    (done,) = json_lines("optimize", root, "--where", "id < 3")
    assert (done["removed_files"], done["added_files"], ids_of(open_table(root))) == (3, 1, list(range(6)))
    assert "Did you mean optimize?" in call("optimise", root).stderr
    assert "optimize" in printed("compact", "--help")


def test_steps_of_the_other_format(tmp_path: Path) -> None:
    create_table(tmp_path / "ice", ID, format="iceberg")
    assert "no vacuum" in call("maintain", tmp_path / "ice", "--dry-run", "--step", "vacuum").stderr
    create_table(tmp_path / "delta", ID)
    lines = printed("maintain", tmp_path / "delta", "--yes", "--max-commits", "1", "--retention-hours", "200")
    assert "checkpoint: commits 1" in lines
    assert DeltaTable(tmp_path / "delta").base_checkpoint is not None
