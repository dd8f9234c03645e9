"""Integers that come out of pandas and numpy are taken wherever those of Python are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaberg import ScanOptions, create_table, open_table
from deltaberg.errors import InvalidArgumentError

pytestmark = pytest.mark.one_backend


_SCHEMA = pa.schema([("id", pa.int64())])


def _append(table: Any) -> list[Any]:
    """Append three times."""
    return [table.append(pa.table({"id": [number]}, _SCHEMA)) for number in range(3)]


def test_of_delta_tables(tmp_path: Path) -> None:
    _append(create_table(tmp_path / "t", _SCHEMA, properties={"delta.enableChangeDataFeed": "true"}))
    first, last = np.int64(1), np.int64(3)
    old = open_table(tmp_path / "t", "delta", version=first)
    assert (old.version, type(old.version)) == (1, int)
    table = open_table(tmp_path / "t", "delta")
    assert table.changes(first, last).count() == 3
    assert table.scan(limit=np.int32(2), options=ScanOptions(batch_size=np.int64(1))).count() == 2
    assert table.append(pa.table({"id": [9]}), txn=("numpy", np.int64(4))).committed
    assert table.transactions["numpy"].version == 4
    assert table.compact(target_file_size=np.int64(1 << 20), min_files=np.int8(2)).commits
    assert table.compact_log(first, last) == f"{1:020d}.{3:020d}.compacted.json"
    for commit in (tmp_path / "t" / "_delta_log").glob("*.json"):
        assert all(json.loads(line) for line in commit.read_text().splitlines())


def test_of_iceberg_tables(tmp_path: Path) -> None:
    written = create_table(tmp_path / "t", _SCHEMA, format="iceberg")
    _append(written)
    snapshots = sorted(written.history(), key=lambda one: one.sequence_number)
    first, last = np.int64(snapshots[0].snapshot_id), np.int64(snapshots[-1].snapshot_id)
    assert open_table(tmp_path / "t", "iceberg", snapshot_id=first).scan().count() == 1
    table = open_table(tmp_path / "t", "iceberg")
    assert table.changes(first, last).count() == 2
    table.alter().create_tag("one", snapshot_id=first).commit()
    assert open_table(tmp_path / "t", "iceberg", ref="one").snapshot_id == snapshots[0].snapshot_id
    table.alter().rollback_to_snapshot(first).commit()
    assert table.scan().count() == 1


@pytest.mark.parametrize("wrong", [np.float64(1), np.bool_(True), np.array([1, 2]), "1", True])
def test_what_is_no_integer_is_refused(tmp_path: Path, wrong: object) -> None:
    create_table(tmp_path / "t", _SCHEMA)
    with pytest.raises(InvalidArgumentError, match="version must be an integer"):
        open_table(tmp_path / "t", "delta", version=wrong)  # type: ignore[call-overload]
