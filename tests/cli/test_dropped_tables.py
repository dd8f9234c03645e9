"""Delta tables that the command line drops with their files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, write_table
from deltaberg.delta.maintain.cleaning.dropped_table import drop_table
from deltaberg.errors import CommitConflictError
from tests.support.command_line import call, json_lines
from tests.support.rows import ids, ids_of


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """A table with live and removed files, a deletion vector, change files and a checkpoint."""
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    rows = pa.table({"id": [1, 2, 3, 4], "_p": ["a", "a", "b", "b"]})
    made = create_table(tmp_path / "t", rows.schema, partition_by=["_p"], properties=properties)
    made.append(rows)
    made.delete("id = 1")
    made.update({"id": "5"}, "id = 3")
    made.checkpoint()
    return made


def test_dropped_with_all_files(table: DeltaTable, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    write_table(root / "inner", ids(7))
    elsewhere.write_text("of others")
    (root / "link").symlink_to(elsewhere)
    (root / "_hidden").write_text("of others")
    stay = {"_hidden", "link", *(str(one.relative_to(root)) for one in (root / "inner").rglob("*") if one.is_file())}
    words = ("drop-table", str(root), "--purge")
    (planned,) = json_lines(*words, "--dry-run")
    assert {file["kind"] for file in planned["files"]} == {"data file", "deletion vector", "change data", "log"}
    asked = call(*words)
    assert (asked.exit_code, "pass --yes" in asked.stderr, len(DeltaTable(root).live_files)) == (2, True, 3)
    assert call("drop-table", str(root), "--yes").exit_code == 2
    (done,) = json_lines(*words, "--yes")
    assert sorted(file["path"] for file in done["files"]) == sorted(file["path"] for file in planned["files"])
    assert {str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()} == stay
    assert (ids_of(DeltaTable(root / "inner")), elsewhere.read_text()) == ([7], "of others")
    assert "there is no" in call(*words, "--yes").stderr


def test_a_commit_meanwhile_keeps_the_log(table: DeltaTable, tmp_path: Path) -> None:
    snapshot = DeltaTable(tmp_path / "t")._snapshot
    table.append(pa.table({"id": [9], "_p": ["c"]}))
    with pytest.raises(CommitConflictError, match="others committed meanwhile"):
        drop_table(snapshot, dry_run=False)
    assert ids_of(DeltaTable(tmp_path / "t"), filter="_p = 'c'") == [9]
    # It is dropped by another try, whatever is gone by then.
    drop_table(DeltaTable(tmp_path / "t")._snapshot, dry_run=False)
    assert not (tmp_path / "t").exists()
