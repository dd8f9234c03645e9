"""Tables that deltalake writes are read alike by both; so are tables that the builder writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import open_table
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import Road
from tests.support.rows import ids, ids_of


def _rows(first: int, count: int) -> pa.Table:
    numbers = list(range(first, first + count))
    moment = dt.datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=dt.timezone.utc)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "flag": pa.array([None if one % 5 == 0 else one % 2 == 0 for one in numbers]),
            "small": pa.array([one % 100 - 50 for one in numbers], pa.int8()),
            "price": pa.array([Decimal(one).scaleb(-2) for one in numbers], pa.decimal128(12, 2)),
            "score": pa.array([one / 7 for one in numbers]),
            "day": pa.array([moment.date() + dt.timedelta(days=one) for one in numbers], pa.date32()),
            "at": pa.array([moment + dt.timedelta(microseconds=one) for one in numbers], pa.timestamp("us", "UTC")),
            "data": pa.array([bytes([one % 256]) * (one % 4) for one in numbers], pa.binary()),
            "list": pa.array([[one, None] if one % 3 else None for one in numbers], pa.list_(pa.int32())),
            "deep": pa.array([{"x": one, "y": {"z": str(one)}} for one in numbers]),
            "map": pa.array([[("k", one)] for one in numbers], pa.map_(pa.string(), pa.int64())),
            "region": pa.array(["north", "so uth/%", None, "ü"][one % 4] for one in numbers),
        }
    )


def _same(path: Path, road: Road) -> None:
    """Compare all rows, and a few filters, with what deltalake reads."""
    peer = pa.table(deltalake.DeltaTable(path).to_pyarrow_table())
    table = open_table(path, "delta")
    assert table.version == deltalake.DeltaTable(path).version()
    wanted = sorted(map(repr, peer.select(table.schema.names).to_pylist()))
    found = road.table(table.scan()).cast(peer.select(table.schema.names).schema)
    assert sorted(map(repr, found.to_pylist())) == wanted
    assert table.scan().count() == len(wanted)


@pytest.mark.parametrize("partition_by", [[], ["region"], ["day", "region"]])
def test_tables_of_deltalake(tmp_path: Path, road: Road, partition_by: list[str]) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(path, _rows(0, 20), partition_by=partition_by)
    deltalake.write_deltalake(path, _rows(20, 10), mode="append")
    _same(path, road)
    table = deltalake.DeltaTable(path)
    table.delete("id % 7 = 0")
    table.update(predicate="id > 20", updates={"score": "0.5"})
    _same(path, road)
    table.create_checkpoint()
    table.optimize.compact()
    _same(path, road)
    assert ids_of(open_table(path, version=0)) == list(range(20))


def test_column_mapping_and_new_columns(tmp_path: Path, road: Road) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(path, _rows(0, 8).select(["id", "region"]), partition_by=["region"])
    wider = _rows(8, 8).select(["id", "region", "price"])
    deltalake.write_deltalake(path, wider, mode="append", schema_mode="merge")
    _same(path, road)
    found = open_table(path).scan("price IS NULL", columns=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found) == list(range(8))


def test_the_change_feed_of_deltalake(tmp_path: Path) -> None:
    path = tmp_path / "t"
    configuration: dict[str, Any] = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(path, _rows(0, 6).select(["id", "score"]), configuration=configuration)
    table = deltalake.DeltaTable(path)
    table.update(predicate="id = 3", updates={"score": "9.5"})
    table.delete("id = 4")
    names = ["id", "score", "_change_type", "_commit_version"]
    peer = pa.table(deltalake.DeltaTable(path).load_cdf(starting_version=0)).select(names)
    found = open_table(path).changes(0, columns=names).to_arrow()
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, peer.to_pylist()))
    assert found.num_rows == 6 + 2 + 1


def test_vectors_of_the_builder_in_deltalake(builder: DeltaBuilder) -> None:
    adds = [
        builder.add(ids(*range(100)), vector=vector, stats="count")
        for vector in builder.vectors([range(0, 100, 3), [0], range(1, 100)])
    ]
    builder.create(pa.schema([("id", pa.int64())]), *adds, protocol=builder.features("deletionVectors"))
    peer = pa.table(
        deltalake.QueryBuilder().register("t", deltalake.DeltaTable(builder.root)).execute("SELECT id FROM t")
    )
    assert sorted(peer["id"].to_pylist()) == ids_of(open_table(builder.root))
