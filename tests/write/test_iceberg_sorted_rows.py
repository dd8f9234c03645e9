"""Rows of data files in the sort order of their table."""

from __future__ import annotations

import datetime as dt
import pickle
import random
import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from deltaberg import create_table
from deltaberg.iceberg.location.new_files import DataPaths
from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder
from deltaberg.iceberg.partition.sorting import RowSorter, row_sorter
from deltaberg.schema.from_arrow import table_schema
from deltaberg.schema.types import Struct

pytestmark = pytest.mark.one_backend

_NAN, _NEGATIVE_NAN = float("nan"), struct.unpack("<d", struct.pack("<Q", 0xFFF8 << 48))[0]


def _bits(value: float) -> int:
    """Return a number that orders doubles as the specification orders them."""
    found: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return found if found >= 0 else found ^ 0x7FFF_FFFF_FFFF_FFFF


_VALUES: dict[str, tuple[pa.DataType, list[Any], Callable[[Any], Any]]] = {
    "double": (pa.float64(), [1.5, -0.0, 0.0, _NAN, _NEGATIVE_NAN, float("inf"), float("-inf"), -2.0], _bits),
    "float": (pa.float32(), [1.5, -0.0, 0.0, _NAN, _NEGATIVE_NAN, float("inf"), float("-inf"), -2.0], _bits),
    "long": (pa.int64(), [3, -1, 1 << 40, 0], int),
    "bool": (pa.bool_(), [True, False], int),
    "string": (pa.string(), ["b", "", "ä", "a", "\U0001f600", "\uffff"], str.encode),
    "bytes": (pa.binary(), [b"\xff", b"", b"a"], bytes),
    "fixed": (pa.binary(2), [b"\xff\x00", b"\x00\x01", b"zz"], bytes),
    "decimal": (pa.decimal128(20, 2), [Decimal("1.50"), Decimal("-2.25"), Decimal(0)], Decimal),
    "date": (pa.date32(), [dt.date(1960, 1, 1), dt.date(2020, 1, 1)], dt.date.toordinal),
}


@pytest.mark.req("ICE-SORT-03", half="writer")
@pytest.mark.parametrize("nulls", ["nulls-first", "nulls-last"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("name", _VALUES)
def test_rows_are_sorted_as_the_specification_orders_values(name: str, direction: str, nulls: str) -> None:
    kind, values, key = _VALUES[name]
    rng = random.Random(5)
    shuffled = [*values, None, *values, None]
    rng.shuffle(shuffled)
    rows = pa.table(
        {
            "v": pa.chunked_array([pa.array(shuffled[:3], kind), pa.array(shuffled[3:], kind)]),
            "at": range(len(shuffled)),
        }
    )
    sorter = RowSorter(_numbered(rows), (SortField((1,), "identity", direction, nulls),))
    got = pickle.loads(pickle.dumps(sorter))(rows)
    ordered = sorted(
        (at for at, value in enumerate(shuffled) if value is not None),
        key=lambda at: key(shuffled[at]),
        reverse=direction == "desc",
    )
    # Equal rows stay in their order.
    ordered = sorted(ordered, key=lambda at: (_first_place(shuffled, ordered, key, at), at))
    empty = [at for at, value in enumerate(shuffled) if value is None]
    expected = empty + ordered if nulls == "nulls-first" else ordered + empty
    assert got["at"].to_pylist() == expected


def _first_place(given: list[Any], ordered: list[int], key: Callable[[Any], Any], at: int) -> int:
    """Return the first place of a value that is equal to that of a row."""
    return next(place for place, other in enumerate(ordered) if key(given[other]) == key(given[at]))


def _numbered(rows: pa.Table) -> Struct:
    return Struct(tuple(replace(child, id=at) for at, child in enumerate(table_schema(rows.schema), start=1)))


def test_orders_that_rows_cannot_be_sorted_by() -> None:
    schema = _numbered(pa.table({"v": [1]}))
    assert row_sorter(SortOrder(0), schema) is None
    assert row_sorter(SortOrder(1, (SortField((1,), "zorder", "asc", "nulls-first"),)), schema) is None
    assert row_sorter(SortOrder(1, (SortField((9,), "identity", "asc", "nulls-first"),)), schema) is None
    assert row_sorter(SortOrder(1, (SortField((1,), "void", "asc", "nulls-first"),)), schema) is None


@pytest.mark.req("ICE-SORT-04", "ICE-SORT-05", half="writer")
@pytest.mark.parametrize("partition_by", [None, "kind"])
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_every_file_is_sorted(tmp_path: Path, version: str, partition_by: str | None) -> None:
    columns = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("s", pa.struct([("x", pa.float64())]))])
    properties = {"format-version": version, "write.metadata.metrics.default": "none"}
    table = create_table(
        tmp_path / "t",
        columns,
        format="iceberg",
        partition_by=partition_by,
        sort_by=["bucket(3, id)", "s.x desc nulls last", "id"],
        properties=properties,
    )
    rng = random.Random(3)
    ids = list(range(400))
    rng.shuffle(ids)
    rows = pa.table(
        {"id": ids, "kind": [f"k{at % 3}" for at in ids], "s": [{"x": None if at % 7 == 0 else at % 5} for at in ids]},
        schema=columns,
    )
    table.append(rows.to_reader(max_chunksize=50), target_file_size=2000)
    (order,) = (found for found in table.metadata.sort_orders.values() if found.order_id)
    sorter = row_sorter(order, table.metadata.current_schema.struct)
    assert sorter is not None
    files = table.inspect("files").to_pylist()
    assert {row["sort_order_id"] for row in files} == {1}
    # The columns of the order have bounds in any case.
    assert {number for row in files for number, _ in row["lower_bounds"]} >= {4}
    for row in files:
        stored = pq.read_table(row["file_path"].removeprefix("file://"), partitioning=None)
        assert stored["id"].to_pylist() == sorter(stored)["id"].to_pylist()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(400))
    table.alter().sort_by().commit()
    assert table.metadata.default_sort_order_id == 0
    table.append(rows.slice(0, 5))
    assert {row["sort_order_id"] for row in table.inspect("files").to_pylist()} == {0, 1}
    table.alter().sort_by("id").commit()
    done = table.compact()
    assert done.conflicts == []
    orders = {row["sort_order_id"] for row in table.inspect("files").to_pylist()}
    assert orders == ({1, 2} if partition_by else {2})
    assert orders < set(table.metadata.sort_orders)
    assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow().num_rows == 405


def test_tasks_of_a_write_choose_different_names() -> None:
    """Every task of Spark begins to count at 0, and may run twice."""
    paths = DataPaths({})
    names = {pickle.loads(pickle.dumps(paths)).path("p=1", 0) for _ in range(3)}
    assert len(names) == 3
    assert all(uuid.UUID(name.removeprefix("p=1/00000-0-").removesuffix("-00001.parquet")) for name in names)
