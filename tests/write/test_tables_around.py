"""Clean-up in a directory that is in that of another table, which may have files there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg import DeltaTable, IcebergTable, drop_table, write_table
from deltaberg.errors import InvalidArgumentError
from tests.support.rows import ids, ids_of
from tests.support.vacuums import DAY, Clock, age

pytestmark = pytest.mark.one_backend

_ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})
_NOW: dict[str, Any] = {"older_than": "9999-12-31", "enforce_retention_duration": False}


@pytest.fixture(params=["delta", "iceberg"])
def outer(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A table that is partitioned, with a file in the directory of each partition."""
    write_table(tmp_path / "t", _ROWS, format=request.param, partition_by=["p"])
    return deltaberg.open_table(tmp_path / "t")


def _partition(root: Path) -> Path:
    (file,) = (path for path in root.rglob("*.parquet") if path.parent.name == "p=a")
    return file.parent


def test_a_delta_table_in_a_partition_of_another(outer: Any, tmp_path: Path, clock: Clock) -> None:
    """Rows that were written to a partition by its directory are a table of their own."""
    place = _partition(tmp_path / "t")
    inner = deltaberg.create_table(place, ids(3).schema, format="delta")
    inner.append(ids(3))
    inner.overwrite(ids(4))
    clock.ahead = 30 * DAY
    assert inner.vacuum(dry_run=False).deleted_files == 1
    for dry_run in (True, False):
        with pytest.raises(InvalidArgumentError, match=r"is in that of an? \w+ table, .*which may have files in it"):
            drop_table(place, purge=True, dry_run=dry_run)
    assert (ids_of(outer.refresh()), ids_of(inner.refresh())) == ([1, 2], [4])


def test_an_iceberg_table_in_a_partition_of_another(outer: Any, tmp_path: Path) -> None:
    place = _partition(tmp_path / "t")
    write_table(place, ids(3), format="iceberg")
    inner = IcebergTable(place)
    for path in place.rglob("*"):
        age(path, 30)
    for chosen in ({}, {"location": place / "data"}, {"dry_run": False}):
        with pytest.raises(InvalidArgumentError, match="is also the directory of another table"):
            inner.remove_orphan_files(**{**_NOW, **chosen})
    # It has no files but its own, which alone go.
    inner.overwrite(ids(4))
    assert inner.expire_snapshots(older_than="9999-12-31").deleted_files > 0
    assert (ids_of(outer.refresh()), ids_of(inner.refresh())) == ([1, 2], [4])
    drop_table(place, purge=True)
    assert ids_of(outer.refresh()) == [1, 2]


def _expire(table: Any) -> Any:
    table.overwrite(ids(9))
    return table.expire_snapshots(older_than="9999-12-31")


def _orphans(table: Any) -> Any:
    table.expire_snapshots(older_than="9999-12-31")
    return table.remove_orphan_files(dry_run=False, **_NOW)


@pytest.mark.parametrize("act", [_expire, _orphans, lambda table: drop_table(table.location, purge=True)])
def test_files_that_were_added_from_another_table(outer: Any, tmp_path: Path, act: Callable[[Any], Any]) -> None:
    """A property names the directory of a partition of that table."""
    place = _partition(tmp_path / "t")
    table = deltaberg.create_table(
        tmp_path / "mine", _ROWS.schema, format="iceberg", properties={"write.data.path": str(place)}
    )
    (file,) = place.glob("*.parquet")
    table.add_files([str(file)])
    act(table)
    assert ids_of(outer.refresh()) == [1, 2]


def _mark(root: Path) -> None:
    newest = max((root / "metadata").glob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    raw = json.loads(newest.read_text())
    newest.write_text(json.dumps({**raw, "properties": {**raw.get("properties", {}), "delta-version": "1"}}))


@pytest.mark.parametrize("features", [{}, {"delta.columnMapping.mode": "name", "delta.enableIcebergCompatV2": "true"}])
def test_metadata_that_says_it_was_made_of_the_delta_table(tmp_path: Path, clock: Clock, features: Any) -> None:
    """An Iceberg writer has gone on from there, or made it all: nothing that it reads goes."""
    root = tmp_path / "t"
    write_table(root, ids(1), format="iceberg")
    log = deltaberg.create_table(tmp_path / "d", ids(1).schema, format="delta", properties=features)
    log.append(ids(2))
    (name,) = (path.name for path in (tmp_path / "d").glob("*.parquet"))
    shutil.copytree(tmp_path / "d", root, dirs_exist_ok=True)
    _mark(root)
    (root / "left.parquet").write_bytes(b"x")
    table, iceberg = DeltaTable(root), IcebergTable(root)
    clock.ahead = 30 * DAY
    done = table.vacuum(dry_run=False)
    assert done.files.column("path").to_pylist() == ["left.parquet"]
    assert (ids_of(table), ids_of(iceberg)) == ([2], [1])
    with pytest.raises(InvalidArgumentError, match="is now metadata of an Iceberg table"):
        drop_table(root, purge=True)
    assert (ids_of(DeltaTable(root)), ids_of(iceberg)) == ([2], [1])
    # What the log names, too, is of the same table.
    assert (root / name).exists()
