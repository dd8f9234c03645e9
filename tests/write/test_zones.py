"""The zone of timestamps without one, in rows, conditions and values of one verb."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, write_table

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("p", pa.timestamp("us", "UTC"))])
#: Midnight in Paris, and in Greenwich.
_PARIS, _GREENWICH = (dt.datetime(2024, 5, day, hour, tzinfo=dt.timezone.utc) for day, hour in ((30, 22), (31, 0)))
_MIDNIGHT = "TIMESTAMP '2024-05-31 00:00:00'"


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = create_table(tmp_path / "t", _COLUMNS, format=request.param, partition_by=["p"])
    made.append(pa.table({"id": [1, 2], "at": [_PARIS, _GREENWICH], "p": [_PARIS, _GREENWICH]}, _COLUMNS))
    return made


def _left(table: Any) -> dict[int, dt.datetime]:
    return {row["id"]: row["at"] for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("column", ["at", "p"])
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("written", ["overwrite", "write_table"])
def test_what_is_overwritten_and_by_what(table: Any, column: str, check: bool, written: str) -> None:
    midnight = dt.datetime(2024, 5, 31)
    rows = pa.table({"id": [7], "at": [midnight], "p": [midnight]})
    where = f"{column} = {_MIDNIGHT}"
    if written == "overwrite":
        table.overwrite(rows, where=where, timezone="Europe/Paris", check=check)
    else:
        write_table(table, rows, mode="overwrite", where=where, timezone="Europe/Paris", check=check)
    assert _left(table.refresh()) == {2: _GREENWICH, 7: _PARIS}


@pytest.mark.parametrize("column", ["at", "p"])
def test_what_is_deleted(table: Any, column: str) -> None:
    table.delete(f"{column} = {_MIDNIGHT}", timezone="Europe/Paris")
    assert _left(table) == {2: _GREENWICH}
    table.delete(f"{column} = {_MIDNIGHT}")
    assert _left(table) == {}


@pytest.mark.parametrize("strategy", ["copy-on-write", "merge-on-read"])
def test_what_is_updated(table: Any, strategy: Any) -> None:
    if strategy == "merge-on-read" and isinstance(table, DeltaTable):
        table.alter().set({"delta.enableDeletionVectors": "true"}).commit()
    naive = dt.datetime(2024, 6, 1)
    table.update({"at": naive}, f"at = {_MIDNIGHT}", timezone="Europe/Paris", strategy=strategy)
    assert _left(table) == {1: dt.datetime(2024, 5, 31, 22, tzinfo=dt.timezone.utc), 2: _GREENWICH}
