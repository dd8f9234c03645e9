"""Expiry and orphans of Iceberg tables: ours beside iceberg-spark's, and each right after the other's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import IcebergTable
from tests.interop.judged_catalogs import JudgedCatalog
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

_COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string())])
_END = "TIMESTAMP '2100-01-01 00:00:00'"
#: The content of a file of equality deletes.
_EQUALITY = 2
#: What iceberg-spark counts, by our kinds of files.
_COUNTS = {
    "data file": "deleted_data_files_count",
    "position deletes": "deleted_position_delete_files_count",
    "equality deletes": "deleted_equality_delete_files_count",
    "manifest": "deleted_manifest_files_count",
    "manifest list": "deleted_manifest_lists_count",
}


def _rows(part: str, *ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "part": [part] * len(ids)}, _COLUMNS)


def _history(table: IcebergTable) -> list[int]:
    """Make snapshots of all kinds, with a branch, a tag and a staged one; return their numbers in order."""
    table.append(_rows("a", 1, 2, 3))
    table.append(_rows("b", 4, 5))
    table.alter().create_tag("early", table.snapshots[0].snapshot_id).commit()
    table.delete("id = 2", strategy="merge-on-read")
    table.delete_by_keys(pa.table({"id": [4]}), columns="id")
    table.alter().create_branch("side", min_snapshots_to_keep=2).commit()
    table.append(_rows("a", 6), branch="side")
    table.update({"part": "'c'"}, "id = 6", branch="side")
    table.append(_rows("d", 7), properties={"wap.id": "staged"})
    table.overwrite(_rows("b", 8), where="part = 'b'")
    table.compact()
    table.append(_rows("a", 9))
    return [one.snapshot_id for one in table.snapshots]


def _stays(numbers: list[int], table: IcebergTable) -> tuple[list[int], dict[str, int]]:
    at = {number: place for place, number in enumerate(numbers)}
    refs = {name: at[ref.snapshot_id] for name, ref in sorted(table.refs.items())}
    return sorted(at[one.snapshot_id] for one in table.snapshots), refs


def _retained(one: JudgedTable) -> None:
    """Read every snapshot and reference that is left, by all."""
    table = one.check()
    peer = one.catalog.open_by_pyiceberg(one.name.rpartition(".")[2])
    for snapshot in table.snapshots:
        opened = one.open(snapshot_id=snapshot.snapshot_id)
        ours = sorted(opened.scan().to_arrow()["id"].to_pylist())
        # pyiceberg reads no equality deletes.
        if _EQUALITY not in opened.inspect("files")["content"].to_pylist():
            assert sorted(peer.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist()) == ours
        theirs = one.sql(f"SELECT id FROM {{t}} VERSION AS OF {snapshot.snapshot_id}")["id"].to_pylist()
        assert sorted(theirs) == ours
    for name in ("all_data_files", "all_manifests", "all_entries", "refs", "history"):
        one.sql(f"SELECT * FROM {{t}}.{name}")


def _age(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (946_684_800, 946_684_800))


@pytest.mark.req("ICE-MNT-01", "ICE-MNT-02", "ICE-MNT-07")
@pytest.mark.parametrize(
    ("version", "kept"),
    # Neither has to do with the other.
    [(2, 3), (3, 1), *(pytest.param(*other, marks=pytest.mark.full) for other in ((2, 1), (3, 3)))],
)
def test_expiry_beside_iceberg_spark(judge: Judge, version: int, kept: int) -> None:
    catalog = JudgedCatalog.of_directories(judge)
    theirs, ours = (JudgedTable(judge, f"expiry_{version}_{kept}_{who}", catalog) for who in ("theirs", "ours"))
    numbers = {}
    for one in (theirs, ours):
        table = one.create(_COLUMNS, partition_by="part", properties={"format-version": str(version)})
        numbers[one.name] = _history(table)
    namespace, name = theirs.name.split(".", 1)
    (counted,) = theirs.sql(
        f"CALL {namespace}.system.expire_snapshots(table => '{name}', older_than => {_END}, retain_last => {kept})"
    ).to_pylist()
    done = ours.open().expire_snapshots("2100-01-01", kept)
    assert _stays(numbers[ours.name], ours.open()) == _stays(numbers[theirs.name], theirs.open())
    kinds = done.files["kind"].to_pylist()
    assert {kind: kinds.count(kind) for kind in _COUNTS} == {kind: counted[name] for kind, name in _COUNTS.items()}
    for one in (ours, theirs):
        _retained(one)
    # Right after the other's there is nothing left to do.
    again = theirs.open().expire_snapshots("2100-01-01", kept)
    assert (again.snapshot_ids, again.deleted_files) == ((), 0)
    namespace, name = ours.name.split(".", 1)
    (counted,) = ours.sql(
        f"CALL {namespace}.system.expire_snapshots(table => '{name}', older_than => {_END}, retain_last => {kept})"
    ).to_pylist()
    assert not any(counted.values())
    _check_orphans(ours)
    _check_orphans(theirs)


def _check_orphans(one: JudgedTable) -> None:
    """Nothing is left behind by an expiry, and of what somebody leaves each finds the same."""
    root = one.root
    lost = [
        root / "data" / "lost.parquet",
        root / "metadata" / "lost-m0.avro",
        root / "data" / "part=a" / "lost.parquet",
    ]
    for path in lost:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    _age(root)
    namespace, name = one.name.split(".", 1)
    call = f"CALL {namespace}.system.remove_orphan_files(table => '{name}', dry_run => true)"
    theirs = {_path(row["orphan_file_location"]) for row in one.sql(call).to_pylist()}
    ours = {str(root / path) for path in one.open().remove_orphan_files().files["path"].to_pylist()}
    assert ours == {str(path) for path in lost}
    # The hint is in no snapshot; iceberg-spark knows it.
    assert theirs == ours
    one.open().remove_orphan_files(dry_run=False)
    assert one.sql(call).num_rows == 0
    _retained(one)


def _path(location: Any) -> str:
    return str(location).removeprefix("file:").replace("//", "/")
