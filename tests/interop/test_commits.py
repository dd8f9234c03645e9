"""Commits of ours are read alike by delta-spark and deltalake, and they go on from there, and we from theirs.

delta-spark compares the state of a table with its version checksums, and raises where they differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from tests.interop.judged import few, same
from tests.support.below_verbs import begin
from tests.support.judge import Judge
from tests.support.rows import ids, ids_of

_PROPERTIES: dict[str, dict[str, str]] = {
    "plain": {},
    "in-commit timestamps": {"delta.enableInCommitTimestamps": "true"},
    "row ids": {"delta.feature.rowTracking": "supported"},
    "everything": {
        "delta.enableInCommitTimestamps": "true",
        "delta.feature.rowTracking": "supported",
        "delta.enableDeletionVectors": "true",
        "delta.columnMapping.mode": "name",
        "delta.feature.v2Checkpoint": "supported",
    },
}


def _commits(root: Path, properties: dict[str, str]) -> DeltaTable:
    """Make commits of every kind: appends, a removal, a file that is added again, progress, domains and metadata."""
    table = create_table(root, ids().schema, format="delta", properties=properties)
    assert isinstance(table, DeltaTable)
    for number in range(4):
        table.append(ids(10 * number, 10 * number + 1))
    with begin(table, txn=("app", 7)) as transaction:
        live = transaction.snapshot.live.table
        transaction.remove_files(live.slice(0, 1))
        transaction.set_metadata(transaction.snapshot.metadata.with_members({"description": "as\nours"}))
        if "domainMetadata" in table.features:
            transaction.set_domain("com.example", "ours")
    with begin(table) as transaction:
        # As an operation does that only moves rows, or changes the statistics of files.
        moved = recorded_adds(transaction.snapshot.live, pa.array([0], pa.int64()))
        transaction.add_actions([add.with_members({"dataChange": False}) for add in moved])
    table.append(ids(100))
    return table


def _infos(root: Path) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in sorted((root / "_delta_log").glob("*.json"))]
    return [json.loads(text.splitlines()[0])["commitInfo"] for text in texts]


@pytest.mark.parametrize("kind", ["plain", "in-commit timestamps"])
def test_in_deltalake(tmp_path: Path, kind: str) -> None:
    table = _commits(tmp_path, _PROPERTIES[kind])
    peer = deltalake.DeltaTable(tmp_path)
    same(table.scan().to_arrow(), pa.table(peer.to_pyarrow_table()))
    assert peer.version() == table.version
    history = peer.history()
    assert [entry.get("txnId") for entry in history] == [info["txnId"] for info in _infos(tmp_path)][::-1]
    assert peer.transaction_version("app") == 7
    assert peer.metadata().description == "as\nours"
    if kind == "plain":
        deltalake.write_deltalake(tmp_path, ids(500), mode="append")
        assert 500 in ids_of(table.refresh())
        table.append(ids(600))
        same(table.scan().to_arrow(), pa.table(deltalake.DeltaTable(tmp_path).to_pyarrow_table()))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", few({kind: kind for kind in _PROPERTIES}, "everything"))
def test_in_delta_spark(judge: Judge, tmp_path: Path, kind: str) -> None:
    root = tmp_path / "t"
    table = _commits(root, _PROPERTIES[kind])
    same(table.scan().to_arrow(), judge.sql(f"SELECT * FROM delta.`{root}`"))
    history = judge.sql(f"DESCRIBE HISTORY delta.`{root}`")
    history = history.select(["version", "operation", "readVersion", "isBlindAppend"])
    wanted = [
        (number, info["operation"], info.get("readVersion"), info["isBlindAppend"])
        for number, info in enumerate(_infos(root))
    ]
    assert sorted(tuple(row.values()) for row in history.to_pylist()) == wanted
    # They go on from ours, with the checksums that they find, and we from theirs.
    judge.sql(f"INSERT INTO delta.`{root}` SELECT id + 1000 AS id FROM range(3)")
    judge.sql(f"DELETE FROM delta.`{root}` WHERE id = 10")
    table.refresh()
    assert {1000, 1001, 1002} <= set(ids_of(table))
    assert 10 not in ids_of(table)
    table.append(ids(2000))
    # The checksum of delta-spark is carried on, and is what delta-spark counts when it comes to our version.
    assert (root / "_delta_log" / f"{table.version:020d}.crc").exists()
    DeltaTable(root, validate=True)
    same(table.scan().to_arrow(), judge.sql(f"SELECT * FROM delta.`{root}`"))
    judge.sql(f"INSERT INTO delta.`{root}` VALUES (3000)")
    assert 3000 in ids_of(table.refresh())
    if "delta.feature.rowTracking" in _PROPERTIES[kind]:
        ranges = [
            (row["baseRowId"], row["defaultRowCommitVersion"])
            for row in table.live_files.select(["baseRowId", "defaultRowCommitVersion"]).to_pylist()
        ]
        assert len({first for first, _ in ranges}) == len(ranges)
        assert all(first is not None and version is not None for first, version in ranges)
