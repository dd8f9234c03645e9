"""How long the progress of applications counts: ``delta.setTransactionRetentionDuration``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable
from deltaberg.table.commit.commit import ClockedPolicy
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

_DAY = 86_400_000


@pytest.fixture
def builder_of_progress(builder: DeltaBuilder) -> DeltaBuilder:
    """A table with progress of ten days ago, of now, and of no recorded time."""
    now = time.time_ns() // 1_000_000
    properties = {"delta.setTransactionRetentionDuration": "interval 7 days"}
    txn = [
        {"txn": {"appId": "old", "version": 5, "lastUpdated": now - 10 * _DAY}},
        {"txn": {"appId": "new", "version": 5, "lastUpdated": now - _DAY}},
        {"txn": {"appId": "undated", "version": 5}},
    ]
    builder.create(ID, builder.add(ids(1), stats="full"), *txn, configuration=properties)
    return builder


@pytest.mark.one_backend
def test_progress_expires(builder_of_progress: DeltaBuilder) -> None:
    table = DeltaTable(builder_of_progress.root)
    assert sorted(table.transactions) == ["new", "undated"]
    for application, written in (("new", False), ("undated", False), ("old", True)):
        assert table.append(ids(2), txn=(application, 5)).committed == written
    assert ids_of(table) == [1, 2]
    assert table.transactions["old"].version == 5
    table.alter().unset("delta.setTransactionRetentionDuration").commit()
    assert sorted(table.transactions) == ["new", "old", "undated"]


def test_checkpoints_leave_expired_progress_out(builder_of_progress: DeltaBuilder) -> None:
    (name,) = DeltaTable(builder_of_progress.root).checkpoint().files
    rows = pq.read_table(builder_of_progress.log / name, columns=["txn"]).column("txn").to_pylist()
    assert sorted(row["appId"] for row in rows if row is not None) == ["new", "undated"]
    opened = DeltaTable(builder_of_progress.root)
    assert opened.base_checkpoint is not None
    assert sorted(opened.transactions) == ["new", "undated"]


@pytest.mark.one_backend
def test_the_time_of_the_attempt_decides(tmp_path: Path, builder_of_progress: DeltaBuilder) -> None:
    table = DeltaTable(builder_of_progress.root)
    later = time.time_ns() // 1_000_000 + 30 * _DAY
    with table.transaction(txn=("new", 5), policy=ClockedPolicy(now=lambda: later)) as transaction:
        transaction.append(ids(2))
    assert transaction.result is not None
    assert transaction.result.committed
    text = (builder_of_progress.log / f"{1:020d}.json").read_text("utf-8")
    (txn,) = [action["txn"] for action in map(json.loads, text.splitlines()) if "txn" in action]
    assert txn == {"appId": "new", "version": 5, "lastUpdated": later}
