"""`deltaberg clone`: nothing is copied unasked, and what would be is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deltaberg
from deltaberg.cli import confirm
from deltaberg.cli.app import cli
from tests.support.command_line import call, json_lines
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.fixture
def table(tmp_path: Path) -> Any:
    made: Any = deltaberg.create_table(str(tmp_path / "t"), ids().schema)
    made.append(ids(1))
    made.append(ids(2))
    return made


def test_a_table_is_cloned_after_a_question(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "clone"
    arguments = ["clone", table.location, str(place)]
    ended = call(*arguments)
    assert ended.exit_code == 2
    assert "pass --yes to do it" in ended.stderr
    monkeypatch.setattr(confirm, "_can_ask", lambda: True)
    ended = CliRunner().invoke(cli, arguments, input="n\n", prog_name="deltaberg")
    assert (ended.exit_code, place.exists()) == (1, False)
    assert "nothing was written" in ended.stderr
    assert CliRunner().invoke(cli, arguments, input="y\n", prog_name="deltaberg").exit_code == 0
    assert ids_of(deltaberg.open_table(str(place))) == [1, 2]


def test_what_would_be_copied_is_told_in_numbers(table: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "clone")
    (planned,) = json_lines("clone", table.location, place, "--dry-run", "--version", "1")
    assert (planned["target"], planned["dry_run"], planned["version"]) == (place, True, None)
    assert (planned["state"], planned["source_files"], planned["copied_files"]) == (1, 1, 1)
    (done,) = json_lines("clone", table.location, place, "--yes", "--message", "nightly")
    assert (done["dry_run"], done["version"], done["copied_files"]) == (False, 0, 2)
    assert deltaberg.DeltaTable(place).history()[0].info["userMetadata"] == "nightly"
    (done,) = json_lines("clone", table.location, str(tmp_path / "shallow"), "--yes", "--shallow")
    assert (done["copied_files"], done["source_files"]) == (0, 2)


def test_a_hint_names_the_option(table: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "clone")
    deltaberg.create_table(place, ids().schema)
    ended = call("clone", table.location, place, "--yes")
    assert ended.exit_code != 0
    assert "pass --replace to make that table the clone" in ended.stderr
