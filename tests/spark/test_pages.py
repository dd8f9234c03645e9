"""The examples about Spark run as they are pasted, one after another. Only the places of tables are others."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table, open_table, write_table
from tests.spark.doors import VERSION
from tests.support.pages import run_blocks

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(VERSION < (4, 1), reason="the pages are about Spark 4.1"),
]


_DDL = "id long, region string, price decimal(18,2), day date"


def _orders() -> pa.Table:
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(2019, 12, 31)]
    prices = pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("3.25")], pa.decimal128(18, 2))
    return pa.table({"id": [1, 2, 3], "region": ["north", "south", "south"], "price": prices, "day": days})


@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.full)])
def test_the_first_example(table_format: Any, spark: Any, tmp_path: Path) -> None:
    if table_format == "iceberg":
        # The block overwrites a table of either format.
        rows = pa.table({"id": [8], "region": ["west"], "price": [1.0]})
        write_table(tmp_path / "sales", rows, format="iceberg")
    places = {"sales": tmp_path / "sales"}
    names = run_blocks("README.md", heading="## The same table on Spark", places=places)
    assert names["spark"] is spark
    assert type(names["orders"]).__name__ == {"delta": "DeltaTable", "iceberg": "IcebergTable"}[table_format]
    assert sorted(names["orders"].scan().to_arrow()["price"].to_pylist()) == [4.0, 16.0]


@pytest.mark.full
def test_reading(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        write_table(tmp_path / "orders", _orders().slice(number), mode="append")
        write_table(tmp_path / "events", _orders().slice(number), format="iceberg", mode="append")
    open_table(tmp_path / "events", "iceberg").alter().create_branch("audit").commit()
    run_blocks("README.md", heading="## Data sources of Spark", places={"s3://bucket": tmp_path})
    shown = capsys.readouterr().out
    assert "|2026-01-01|      1.50|" in shown
    assert shown.count("| south| 3.25|2019-12-31|") == 4


def _tables(folder: Path) -> dict[str, Path]:
    """Make the tables that docs/spark.md takes for granted, and return where they are."""
    rows = _orders()
    bookings = rows.select(["region", "day"]).append_column("price", rows["price"].cast(pa.float64()))
    for number in range(2):
        write_table(folder / "data/orders", rows.slice(2 * number, 2), mode="append")
    create_table(folder / "data/totals", {"region": pa.string(), "price": pa.decimal128(28, 2)})
    write_table(folder / "data/events", rows, format="iceberg", partition_by="day")
    open_table(folder / "data/events", "iceberg").alter().create_branch("audit").commit()
    write_table(folder / "data/bookings", bookings)
    write_table(folder / "lake/bookings", bookings, format="iceberg")
    (folder / "data/arrivals").mkdir()
    arrived = {"region": ["east"], "price": pa.array([Decimal("0.25")], pa.decimal128(28, 2))}
    pq.write_table(pa.table(arrived), folder / "data/arrivals/first.parquet")
    return {"/data": folder / "data", "/lake": folder / "lake"}


def _prices(place: Path, **moment: Any) -> list[str]:
    return sorted(map(str, open_table(place, **moment).scan().to_arrow()["price"].to_pylist()))


def test_the_page_about_spark(spark: Any, tmp_path: Path) -> None:
    places = _tables(tmp_path)
    names = run_blocks("docs/spark.md", heading="# Spark", places=places)
    assert names["spark"] is spark
    run_blocks("docs/spark.md", names, heading="## Writing", places=places)
    run_blocks("docs/spark.md", names, heading="### Streams", places=places)
    run_blocks("docs/streams.md", names, heading="## Functions in the reading tasks", places=places)
    run_blocks("docs/spark.md", names, heading="### Merge and upsert", places=places)
    run_blocks("docs/spark.md", names, heading="### Compaction", places=places)
    run_blocks("docs/spark.md", names, heading="### One pipeline for both formats", places=places)
    run_blocks("docs/spark.md", names, heading="## DeltaTable of delta-spark", places=places)
    names["frame"] = spark.createDataFrame([(1, "north", Decimal("1.5"), dt.date(2026, 1, 1))], _DDL)
    run_blocks("docs/spark.md", names, heading="## Partition transforms as columns", places=places)
    found = ("data/arrived", "data/archive", "data/totals", "data/halves", "lake/halves")
    assert {place: _prices(tmp_path / place) for place in found} == {
        "data/arrived": ["0.25"],
        "data/archive": ["0.25"],
        "data/totals": ["0.25", "1.50", "1.50", "2.00", "2.00"],
        "data/halves": ["0.75", "2.0"],
        "lake/halves": ["0.75", "2.0"],
    }
    assert _prices(tmp_path / "data/orders") == ["3.00", "4.00"]
    assert _prices(tmp_path / "data/events") == ["2.00", "3.00"]


@pytest.mark.full
def test_the_data_sources(spark: Any, tmp_path: Path) -> None:
    """Each use of a source starts Python processes, which takes most of the time of the page."""
    names = run_blocks("docs/spark.md", {"spark": spark}, heading="## The Data Sources", places=_tables(tmp_path))
    assert names["frame"].columns == ["id", "region", "price", "day"]
    # A row is appended, and then both rows of its day are overwritten by one.
    assert open_table(tmp_path / "data/orders", "delta").version == 3
    assert _prices(tmp_path / "data/orders") == ["1.50", "2.00", "3.25"]
    assert _prices(tmp_path / "data/events", ref="audit") == ["1.50", "1.50", "2.00", "3.25"]
    assert _prices(tmp_path / "data/events") == ["1.50", "2.00", "3.25"]
