"""`deltaberg rewrite-deletes`: what it does, and what it says it would do."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, create_table
from tests.support.command_line import call, json_lines, printed
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.fixture
def keyed(tmp_path: Path) -> IcebergTable:
    """A table with two position delete files and one of keys."""
    properties = {"write.delete.granularity": "partition"}
    table: IcebergTable = create_table(tmp_path / "riders", ID, format="iceberg", properties=properties)
    table.append(ids(*range(9)))
    for number in (1, 2):
        table.delete(f"id = {number}", strategy="merge-on-read")
    table.delete_by_keys(pa.table({"id": [3, 4]}))
    return table


def test_both_kinds_are_rewritten(keyed: IcebergTable) -> None:
    (planned,) = json_lines("rewrite-deletes", keyed.location, "--dry-run", "--min-files", "2")
    assert (planned["dry_run"], planned["snapshot_id"]) == (True, keyed.snapshot_id)
    assert planned["equality_deletes"]["removed_files"] == 1
    assert planned["position_deletes"]["removed_files"] == 2
    assert "would replace 1 delete files" in printed("rewrite-deletes", keyed.location, "--dry-run")
    (done,) = json_lines("rewrite-deletes", keyed.location, "--min-files", "2")
    converted = done["equality_deletes"]
    assert (converted["removed_files"], converted["added_files"], converted["data_files"]) == (1, 1, 1)
    # Two from before, and that of the keys.
    assert (done["position_deletes"]["removed_files"], done["position_deletes"]["added_files"]) == (3, 1)
    assert done["snapshot_id"] == keyed.refresh().snapshot_id
    assert sorted(ids_of(keyed)) == [0, 5, 6, 7, 8]


def test_one_kind_is_rewritten(keyed: IcebergTable) -> None:
    (done,) = json_lines("rewrite-deletes", keyed.location, "--only", "position", "--all", "--where", "id < 9")
    assert done["position_deletes"]["removed_files"] == 2
    assert "equality_deletes" not in done
    (done,) = json_lines("rewrite-deletes", keyed.location, "--only", "equality")
    assert done["equality_deletes"]["removed_files"] == 1
    assert "position_deletes" not in done
    assert sorted(ids_of(keyed.refresh())) == [0, 5, 6, 7, 8]
    assert call("rewrite-deletes", keyed.location, "--min-files", "1").exit_code == 2
