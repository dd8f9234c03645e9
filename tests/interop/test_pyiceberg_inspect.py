"""Metadata tables of what pyiceberg wrote hold what pyiceberg's own hold."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from deltaberg import IcebergTable, create_table, open_table
from deltaberg.choices import MetadataTable

pytestmark = pytest.mark.one_backend

_SPECS: list[list[tuple[int, str]]] = [
    [(2, "identity")],
    [(1, "bucket[4]"), (2, "truncate[1]")],
    [(5, "month"), (6, "day"), (7, "hour")],
    [(3, "identity"), (5, "identity"), (8, "identity"), (6, "identity")],
]
_FIELDS = (
    NestedField(1, "id", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "flag", BooleanType()),
    NestedField(4, "d", DoubleType()),
    NestedField(5, "day", DateType()),
    NestedField(6, "ts", TimestampType()),
    NestedField(7, "tstz", TimestamptzType()),
    NestedField(8, "dec", DecimalType(9, 2)),
)


@pytest.fixture(scope="module", params=range(len(_SPECS)), ids=str)
def peer(catalog: SqlCatalog, request: pytest.FixtureRequest) -> Any:
    """Return a table with three snapshots, of which the last deletes rows."""
    parts = [
        PartitionField(source, 1000 + number, parse_transform(text), f"p{number}")
        for number, (source, text) in enumerate(_SPECS[request.param])
    ]
    table = catalog.create_table(f"db.t{request.param}", Schema(*_FIELDS), partition_spec=PartitionSpec(*parts))
    arrow = table.schema().as_arrow()
    for first in (0, 4):
        table.append(pa.Table.from_pylist([_row(number) for number in range(first, first + 6)], arrow))
    table.delete("id = 3 or s is null")
    return table


def _row(number: int) -> dict[str, Any]:
    instant = dt.datetime(1969, 12, 31, 23, 59, 59) + dt.timedelta(days=40 * (number % 3), hours=number % 2)
    return {
        "id": number * 1000 - 2000 if number else 3,
        "s": None if number == 5 else "xy"[number % 2] * 3,
        "flag": None if number == 4 else bool(number % 2),
        "d": float("nan") if number == 2 else number / 4,
        "day": instant.date(),
        "ts": instant,
        "tstz": instant.replace(tzinfo=dt.timezone.utc),
        "dec": None if number == 1 else number,
    }


def _ours(peer: Any) -> IcebergTable:
    return open_table(peer.location(), "iceberg")


def _same(found: pa.Table, expected: pa.Table, key: str) -> None:
    """Compare the columns that pyiceberg has, which are all but the newest."""
    assert set(expected.column_names) <= set(found.column_names)
    rows = found.select(expected.column_names).to_pylist()
    assert sorted(map(_plain, rows), key=lambda row: str(row[key])) == sorted(
        map(_plain, expected.to_pylist()), key=lambda row: str(row[key])
    )
    assert len(rows) > 0


def _plain(value: Any) -> Any:
    """Return maps in the order of their keys, and instants without their zone, which pyiceberg leaves out."""
    if isinstance(value, dict):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        plain = [_plain(child) for child in value]
        return sorted(plain) if plain and all(isinstance(child, tuple) for child in plain) else plain
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize("name", ["files", "data_files"])
def test_files(peer: Any, name: MetadataTable) -> None:
    found = _ours(peer).inspect(name)
    _same(found, getattr(peer.inspect, name)(), "file_path")
    bounds = found["readable_metrics"].combine_chunks().field("tstz").field("lower_bound")
    assert bounds.type == pa.timestamp("us", "UTC")
    assert bounds.null_count < len(bounds)


def test_delete_files_have_the_same_columns(peer: Any) -> None:
    """Pyiceberg writes none."""
    found = _ours(peer).inspect("delete_files")
    assert len(found) == 0
    assert set(peer.inspect.delete_files().column_names) <= set(found.column_names)


def test_entries(peer: Any) -> None:
    expected = peer.inspect.entries()
    entries = _ours(peer).inspect("entries")
    names = [child.name for child in expected.schema.field("data_file").type]
    data_file = entries["data_file"].combine_chunks()
    mine = pa.StructArray.from_arrays([data_file.field(name) for name in names], names=names)
    entries = entries.set_column(entries.column_names.index("data_file"), "data_file", mine)
    assert entries.column_names == expected.column_names
    # Pyiceberg gives an empty map for one that is missing.
    ours, theirs = (
        sorted(map(_without_empty, map(_plain, table.to_pylist())), key=str) for table in (entries, expected)
    )
    assert ours == theirs
    assert len({row["status"] for row in ours}) > 1


def _without_empty(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "data_file": {name: value for name, value in row["data_file"].items() if value not in ([], None)}}


@pytest.mark.parametrize("name", ["manifests", "all_manifests"])
def test_manifests(peer: Any, name: MetadataTable) -> None:
    _same(_ours(peer).inspect(name), getattr(peer.inspect, name)(), "path")


def test_partitions(peer: Any) -> None:
    """The rows of a partition; pyiceberg keeps no order of them."""
    _same(_ours(peer).inspect("partitions"), peer.inspect.partitions(), "partition")


@pytest.mark.parametrize("name", ["metadata_log_entries", "history", "snapshots", "refs"])
def test_what_the_metadata_file_says(peer: Any, name: MetadataTable) -> None:
    keys = {"metadata_log_entries": "timestamp", "history": "made_current_at", "refs": "name"}
    mine, expected = _ours(peer).inspect(name), getattr(peer.inspect, name)()
    if name == "refs":
        expected = expected.set_column(1, "type", expected["type"].cast(pa.string()))
    if name == "snapshots":
        # Pyiceberg names the operation by its member of an enumeration.
        mine, expected = mine.drop_columns(["operation"]), expected.drop_columns(["operation"])
    _same(mine, expected, keys.get(name, "committed_at"))


def test_tables_that_we_write(tmp_path: Path) -> None:
    kind = {"id": pa.int64(), "s": pa.string()}
    properties = {"write.delete.mode": "merge-on-read"}
    table = create_table(tmp_path, kind, format="iceberg", partition_by="truncate(1, s)", properties=properties)
    table.append(pa.table({"id": [1, 2, 3, 4], "s": ["aa", "ab", "b", None]}))
    table.delete("id = 1")
    table.alter().partition_by("bucket(2, id)").create_tag("v1").commit()
    table.append(pa.table({"id": [5, 6], "s": ["z", "y"]}))
    table.delete("id = 3")
    peer = StaticTable.from_metadata(table.metadata_location)
    keys: dict[MetadataTable, str] = {
        "data_files": "file_path",
        "delete_files": "file_path",
        "manifests": "path",
        "partitions": "partition",
        "history": "snapshot_id",
        "snapshots": "snapshot_id",
    }
    for name, key in keys.items():
        found, wanted = table.inspect(name), getattr(peer.inspect, name)()
        shown = [column for column in wanted.column_names if column not in ("operation", "readable_metrics")]
        _same(found.select(shown), wanted.select(shown), key)
