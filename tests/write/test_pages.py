"""The examples of the pages about one machine run as they are pasted. Only the places of tables are others."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, load_catalog, open_table, write_table
from tests.crash.operations import BEFORE, Operation
from tests.support.pages import blocks, run_blocks
from tests.support.rows import ids_of

pytestmark = pytest.mark.one_backend


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which a user pastes the examples."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _places(folder: Path) -> dict[str, Path]:
    """Make the tables that the pages about reading take for granted."""
    days = [dt.date(2026, 1, 1), None]
    rows = {"id": [1, 2], "day": days, "region": ["north", None], "price": [None, 2.5]}
    for place in ("data/orders", "mnt/copy"):
        write_table(folder / place, pa.table(rows))
    return {f"/{place}": folder / place for place in ("data", "mnt")}


def test_the_first_block(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks("README.md", heading="# deltaberg")
    assert ids_of(DeltaTable(folder / "visits")) == [1, 2, 3, 4]
    shown = capsys.readouterr().out
    assert "41.0" in shown
    assert "7.0" in shown
    assert shown.endswith("\n4 rows; 3 in version 0\n")


def test_writing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks("README.md", heading="## Writing")
    orders = DeltaTable(folder / "orders")
    assert (orders.version, orders.schema.names, ids_of(orders)) == (3, ["id", "region", "price"], [1, 3, 4])
    assert capsys.readouterr().out.endswith("\n2\n1\n")


def test_reading(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table({"id": [1, 2], "region": ["north"] * 2, "day": [dt.date(2026, 1, 1)] * 2, "price": [1.5, 2.5]})
    write_table(folder / "orders", rows)
    for _ in range(2):
        write_table(folder / "events", rows, format="iceberg", mode="append")
    open_table(folder / "events", "iceberg").alter().create_branch("audit").commit()
    catalog = load_catalog("shop", type="sql", uri="sqlite:///catalog.db", warehouse=str(folder / "shop"))
    catalog.create_namespace("sales")
    write_table("sales.orders", rows, catalog=catalog)
    names = run_blocks("README.md", heading="## Reading", places={"s3://bucket": folder})
    assert names["events"].changes(start=names["events"].history()[-1].snapshot_id).count() == 2
    assert capsys.readouterr().out.endswith("\n[(4.0,)]\n2\n")


def test_maintenance(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks("docs/maintenance.md", heading="## All at once")
    run_blocks("docs/maintenance.md", heading="## Vacuum")
    assert "CleanupResult(would delete 0 files" in capsys.readouterr().out
    assert ids_of(DeltaTable(folder / "visits")) == [2, 3]
    run_blocks("docs/maintenance.md", heading="## Expiry")
    assert capsys.readouterr().out.startswith("ExpiryResult(would expire 1 snapshot, would delete 3 files")
    run_blocks("docs/maintenance.md", heading="## Orphans")
    assert capsys.readouterr().out.startswith("CleanupResult(would delete 0 files")
    run_blocks("docs/maintenance.md", heading="## Manifests")
    assert capsys.readouterr().out.splitlines()[1] == "6 became 1"
    run_blocks("docs/maintenance.md", heading="## Rewriting deletes")
    assert capsys.readouterr().out.splitlines() == [
        "RewriteDeletesResult(would replace 1 delete files that may be about 1 data files)",
        "RewriteDeletesResult(1 delete files into 1, of 1 data files)",
        "RewriteDeletesResult(0 delete files into 0, of 0 data files)",
    ]
    run_blocks("docs/maintenance.md", heading="## Statistics")
    assert "'data_record_count': 2, 'data_file_count': 1}" in capsys.readouterr().out
    run_blocks("docs/maintenance.md", heading="## Copies in another place")
    assert capsys.readouterr().out == "3\n"
    run_blocks("docs/maintenance.md", heading="## Purge")
    assert capsys.readouterr().out.splitlines()[1] == "CompactResult(1 file into 1, 1 commit)"
    run_blocks("docs/maintenance.md", heading="### Upgrade for Iceberg")
    assert "'columnMapping'" in capsys.readouterr().out
    run_blocks("docs/maintenance.md", heading="## Data file statistics")
    assert "'numFilesUpdated': 1" in capsys.readouterr().out
    run_blocks("docs/maintenance.md", heading="## Symlink manifests")
    assert "_symlink_format_manifest/day=mon/manifest" in capsys.readouterr().out
    run_blocks("docs/maintenance.md", heading="## Dropping features")
    assert "DropFeatureResult(deletionVectors, 4 steps)" in capsys.readouterr().out
    assert "deletionVectors" not in DeltaTable(folder / "logins").features
    run_blocks("docs/maintenance.md", heading="## Restore")
    assert "1 file restored, 1 file removed" in capsys.readouterr().out
    assert ids_of(DeltaTable(folder / "orders")) == [1, 2, 3]
    run_blocks("docs/maintenance.md", heading="## Clone")
    assert "1 file, 1 copied" in capsys.readouterr().out
    run_blocks("docs/maintenance.md", heading="## Verify and repair")
    assert capsys.readouterr().out.splitlines()[0].startswith("True {")
    assert (DeltaTable(folder / "readings").version, ids_of(DeltaTable(folder / "readings"))) == (0, [1, 2, 3])


def test_writing_delta_tables(folder: Path) -> None:
    run_blocks("docs/write.md")
    assert ids_of(DeltaTable(folder / "orders")) == [1, 3, 5, 6, 8, 9, 10, 11]
    assert DeltaTable(folder / "sales").scan().to_arrow()["region"].to_pylist() == ["north"]


def test_writing_iceberg_tables(folder: Path) -> None:
    names = run_blocks("docs/write-iceberg.md", places={"s3://bucket": folder})
    assert ids_of(open_table("events", "iceberg")) == [3, 5, 7, 8, 9]
    assert sorted(names["catalog"].load_table("sales.clicks").scan().to_arrow()["url"].to_pylist()) == ["/", "/cart"]


def test_scans(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks("docs/scan.md", places=_places(folder))
    assert "by partition values" in capsys.readouterr().out


def test_stores(folder: Path) -> None:
    run_blocks("docs/storage.md", places=_places(folder))


def test_expressions(folder: Path) -> None:
    run_blocks("docs/expressions.md", places=_places(folder))


def test_contributing(folder: Path) -> None:
    """The entry for the crash tests does what it says."""
    names = run_blocks("CONTRIBUTING.md", {"Operation": Operation})
    (block,) = blocks("CONTRIBUTING.md", "python")
    (entry,) = eval(block.text, names)
    write_table(folder / "t", pa.table({"id": list(BEFORE), "value": list(BEFORE.values())}))
    entry.run(SimpleNamespace(table=open_table(folder / "t")))
    rows = open_table(folder / "t").scan().to_arrow().to_pydict()
    assert dict(zip(rows["id"], rows["value"], strict=True)) == entry.after
