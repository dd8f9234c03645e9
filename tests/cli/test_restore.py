"""`deltaberg restore`: nothing is set back unasked, and both formats are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deltaberg
from deltaberg.cli import confirm
from deltaberg.cli.app import cli
from tests.support.command_line import call, json_lines, printed
from tests.support.rows import ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made: Any = deltaberg.create_table(str(tmp_path / "t"), ids().schema, format=request.param)
    made.append(ids(1))
    made.append(ids(2))
    return made


def _first(table: Any) -> str:
    return str(
        table.history()[1].version if isinstance(table, deltaberg.DeltaTable) else table.history()[1].snapshot_id
    )


def test_a_table_is_set_back_after_a_question(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = call("restore", table.location, _first(table))
    assert ended.exit_code == 2
    assert "pass --yes to do it" in ended.stderr
    monkeypatch.setattr(confirm, "_can_ask", lambda: True)
    arguments = ["restore", table.location, _first(table)]
    ended = CliRunner().invoke(cli, arguments, input="n\n", prog_name="deltaberg")
    assert ended.exit_code == 1
    assert "nothing was changed" in ended.stderr
    assert ids_of(table.refresh()) == [1, 2]
    assert CliRunner().invoke(cli, arguments, input="y\n", prog_name="deltaberg").exit_code == 0
    assert ids_of(table.refresh()) == [1]


def test_what_would_be_done_is_told_in_numbers(table: Any) -> None:
    (planned,) = json_lines("restore", table.location, _first(table), "--dry-run")
    assert (planned["dry_run"], planned["version"], str(planned["state"])) == (True, None, _first(table))
    says = ["--message", "undo"] if isinstance(table, deltaberg.DeltaTable) else []
    (done,) = json_lines("restore", table.location, _first(table), "--yes", *says)
    assert (done["dry_run"], done["missing_files"]) == (False, [])
    if isinstance(table, deltaberg.DeltaTable):
        assert (done["version"], done["removed_files"], done["restored_files"]) == (3, 1, 0)
        assert table.refresh().history()[0].info["userMetadata"] == "undo"
    assert ids_of(table.refresh()) == [1]


def test_a_time_that_is_before_the_table_is_refused(table: Any) -> None:
    ended = call("restore", table.location, "1999-01-01", "--yes")
    assert ended.exit_code != 0
    assert "1999-01-01" in ended.stderr
    assert ids_of(table.refresh()) == [1, 2]


def test_flags_reach_a_delta_table(table: Any) -> None:
    ended = call("restore", table.location, _first(table), "--yes", "--unsafe-expired", "--ignore-missing-files")
    if isinstance(table, deltaberg.DeltaTable):
        assert ids_of(table.refresh()) == [1]
    else:
        assert "is for Delta tables" in ended.stderr
    assert "restore" in printed("--help")
