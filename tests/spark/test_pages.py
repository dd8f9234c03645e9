"""The examples of the page about Spark run as they are pasted, one after another."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table, open_table, write_table
from tests.spark.doors import VERSION

_PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def _orders() -> pa.Table:
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(2019, 12, 31)]
    prices = pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("3.25")], pa.decimal128(18, 2))
    return pa.table({"id": [1, 2, 3], "region": ["north", "south", "south"], "price": prices, "day": days})


@pytest.mark.spark
@pytest.mark.full
@pytest.mark.skipif(VERSION < (4, 1), reason="the page is about Spark 4.1")
def test_the_examples_run(spark: Any, tmp_path: Path) -> None:
    """Only the places of tables are others, and the session has its settings already."""
    rows = _orders()
    bookings = rows.select(["region", "day"]).append_column("price", rows["price"].cast(pa.float64()))
    for number in range(2):
        write_table(tmp_path / "data/orders", rows.slice(2 * number, 2), mode="append")
    create_table(tmp_path / "data/totals", {"region": pa.string(), "price": pa.decimal128(28, 2)})
    write_table(tmp_path / "data/events", rows, format="iceberg", partition_by="day")
    open_table(tmp_path / "data/events", "iceberg").alter().create_branch("audit").commit()
    write_table(tmp_path / "data/bookings", bookings)
    write_table(tmp_path / "lake/bookings", bookings, format="iceberg")
    (tmp_path / "data/arrivals").mkdir()
    arrived = {"region": ["east"], "price": pa.array([Decimal("0.25")], pa.decimal128(28, 2))}
    pq.write_table(pa.table(arrived), tmp_path / "data/arrivals/first.parquet")
    examples = re.findall(r"```python\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    for number, example in enumerate(examples):
        code = re.sub("""(["'])/(data|lake)/""", rf"\1{tmp_path}/\2/", example)
        exec(compile(code, f"docs/spark.md, example {number}", "exec"), names)
    assert names["spark"] is spark
    found = {}
    for place in ("data/totals", "data/halves", "lake/halves", "data/orders", "data/events"):
        found[place] = [str(price) for price in open_table(tmp_path / place).scan().to_arrow()["price"].to_pylist()]
        found[place].sort()
    assert found == {
        "data/totals": ["0.25", "1.50", "1.50", "2.00", "2.00"],
        "data/halves": ["0.75", "2.0"],
        "lake/halves": ["0.75", "2.0"],
        "data/orders": ["3.00", "4.00"],
        "data/events": ["2.00", "3.00"],
    }
