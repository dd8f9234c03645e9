"""Filtered scans of large row groups, whose filter columns are read ahead, give the rows of plain ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import ParquetOptions, open_table, write_table
from deltaberg.files.read import selected

_COUNT = 3000
_CONDITIONS = {
    "n < 20": lambda rows: pc.less(rows["n"], 20),
    "n = 777 OR n = 2500": lambda rows: pc.is_in(rows["n"], pa.array([777, 2500])),
    "n > 10": lambda rows: pc.greater(rows["n"], 10),
    "s = 'x3' AND n % 10 = 3": lambda rows: pc.and_kleene(pc.equal(rows["s"], "x3"), _divided(rows)),
    "s IS NULL": lambda rows: pc.is_null(rows["s"]),
    "p = 1 AND n < 40": lambda rows: pc.and_(pc.equal(rows["p"], 1), pc.less(rows["n"], 40)),
    "n < 0": lambda rows: pc.less(rows["n"], 0),
}


def _divided(rows: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([[number % 10 == 3 for number in rows["n"].to_pylist()]])


@pytest.fixture(params=["delta", "iceberg"], scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Any, pa.Table]:
    """A table with several row groups in each file, of which some rows are deleted, and the rows that are left."""
    tmp_path = tmp_path_factory.mktemp("selected")
    draw = Random(3)
    rows = pa.table(
        {
            "n": pa.array(draw.sample(range(_COUNT), _COUNT), pa.int64()),
            "s": [draw.choice(["x1", "x2", "x3", None]) for _ in range(_COUNT)],
            "v": [draw.random() for _ in range(_COUNT)],
            "p": pa.array([number % 2 for number in range(_COUNT)], pa.int64()),
        }
    )
    name = "delta.enableDeletionVectors" if request.param == "delta" else "write.delete.granularity"
    write_table(
        tmp_path / "t",
        rows,
        format=request.param,
        partition_by=["p"],
        properties={name: "true" if request.param == "delta" else "file"},
        writer_properties=ParquetOptions(row_group_rows=400),
    )
    open_table(tmp_path / "t").delete("n % 7 = 2", strategy="merge-on-read")
    return open_table(tmp_path / "t"), rows.filter(pa.array([number % 7 != 2 for number in rows["n"].to_pylist()]))


@pytest.mark.parametrize("condition", _CONDITIONS)
@pytest.mark.parametrize("columns", [None, ["v"], ["n"], ["p", "v"]])
def test_the_rows_of_plain_scans(
    table: tuple[Any, pa.Table], condition: str, columns: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selected, "_ROWS", 1)
    opened, rows = table
    expected = rows.filter(_CONDITIONS[condition](rows)).select(columns or rows.column_names)
    found = opened.scan(columns=columns, filter=condition, batch_size=100).to_arrow()
    order = [(name, "ascending") for name in expected.column_names]
    assert found.sort_by(order).equals(expected.sort_by(order).cast(found.schema))
