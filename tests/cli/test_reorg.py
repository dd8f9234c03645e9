"""`deltaberg reorg` and `deltaberg drop-feature`: nothing is rewritten or dropped unasked."""

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
from tests.support.vacuums import VECTORS

pytestmark = pytest.mark.one_backend


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    properties = VECTORS if request.param == "delta" else {"format-version": "2"}
    made: Any = deltaberg.create_table(str(tmp_path / "t"), ids().schema, format=request.param, properties=properties)
    made.append(ids(1, 2, 3))
    made.append(ids(4))
    made.delete("id = 2", strategy="merge-on-read")
    return made


def test_files_are_written_anew_after_a_question(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = call("reorg", table.location)
    assert ended.exit_code == 2
    assert "would put 1 file into 1" in ended.stderr
    monkeypatch.setattr(confirm, "_can_ask", lambda: True)
    ended = CliRunner().invoke(cli, ["reorg", table.location], input="n\n", prog_name="deltaberg")
    assert (ended.exit_code, "nothing was changed" in ended.stderr) == (1, True)
    (planned,) = json_lines("reorg", table.location, "--dry-run")
    assert (planned["dry_run"], planned["removed_files"], planned["commits"]) == (True, 1, 1)
    assert planned["copied_rows"] is None
    assert len(table.refresh().history()) == (4 if isinstance(table, deltaberg.DeltaTable) else 3)
    (done,) = json_lines("reorg", table.location, "--yes", "--where", "id < 3", "--group-size", "1000")
    assert (done["removed_files"], done["added_files"], done["copied_rows"]) == (1, 1, 2)
    assert "all are in order" in printed("reorg", table.location)
    assert ids_of(table.refresh()) == [1, 3, 4]


def test_a_feature_is_dropped_after_a_question(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if not isinstance(table, deltaberg.DeltaTable):
        assert "there is no Delta table" in call("drop-feature", table.location, "deletionVectors", "--yes").stderr
        return
    words = ["drop-feature", table.location, "deletionVectors"]
    ended = call(*words)
    assert ended.exit_code == 2
    assert "set delta.enableDeletionVectors to false" in ended.stderr
    monkeypatch.setattr(confirm, "_can_ask", lambda: True)
    ended = CliRunner().invoke(cli, words, input="n\n", prog_name="deltaberg")
    assert (ended.exit_code, table.refresh().version) == (1, 3)
    (planned,) = json_lines(*words, "--dry-run")
    assert (planned["dry_run"], planned["version"], len(planned["steps"])) == (True, None, 4)
    assert planned["copied_rows"] is None
    early = call(*words, "--yes", "--truncate-history")
    assert early.exit_code != 0
    assert "drop the feature again then; or leave out --truncate-history to drop it now" in early.stderr
    before = table.refresh().version
    (done,) = json_lines(*words, "--yes", "--message", "downgrade")
    assert done["version"] == table.refresh().version == before + done["commits"]
    # The first call has done that.
    assert done["copied_rows"] == 0
    assert table.history(1)[0].info["userMetadata"] == "downgrade"
    assert "deletionVectors" not in table.features
    assert ids_of(table) == [1, 3, 4]
    printed("alter", table.location, "set", "delta.enableChangeDataFeed=true")
    assert "changeDataFeed, 2 steps" in printed("drop-feature", table.location, "changeDataFeed", "--yes")
