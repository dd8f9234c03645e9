"""Branches and tags of users, whose names look like those of the tags that expiries set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, create_table
from deltaberg.errors import InvalidArgumentError


def test_a_tag_of_a_user_stays(tmp_path: Path) -> None:
    table: IcebergTable = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg")
    first = table.append(pa.table({"id": [1]})).snapshot_id
    table.alter().create_tag("deltaberg-expiry-mine").create_branch("deltaberg-expiry-0123456789abcdef0").commit()
    for number in (2, 3):
        table.append(pa.table({"id": [number]}))
    done = table.expire_snapshots("9999-12-31", retain_last=1)
    assert (len(done.snapshot_ids), done.refs) == (1, ())
    table.refresh()
    assert set(table.refs) == {"main", "deltaberg-expiry-mine", "deltaberg-expiry-0123456789abcdef0"}
    assert table.refs["deltaberg-expiry-mine"].snapshot_id == first


def test_names_of_expiries_are_refused(tmp_path: Path) -> None:
    table: IcebergTable = create_table(tmp_path / "t", {"id": pa.int64()}, format="iceberg")
    table.append(pa.table({"id": [1]}))
    table.alter().create_branch("audit").commit()
    name = "deltaberg-expiry-0123456789abcdef"
    changes: list[Callable[[], object]] = [
        lambda: table.alter().create_tag(name),
        lambda: table.alter().create_branch(name, if_exists="replace"),
        lambda: table.alter().rename_branch("audit", name),
        lambda: table.alter().fast_forward(name, "main"),
    ]
    for change in changes:
        with pytest.raises(InvalidArgumentError, match="expiries give to tags"):
            change()
