"""Iceberg tables that are made of trees of files, in place and beside them, are read and changed by others."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import convert_to_iceberg
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.judges
@pytest.mark.timeout(600)
@pytest.mark.parametrize("in_place", [True, False])
def test_in_iceberg_spark(tmp_path: Path, judge: Judge, *, in_place: bool) -> None:
    judged = JudgedTable(judge, f"tree_{in_place}".lower())
    root = Path(judged.root) if in_place else tmp_path / "tree"
    for number in range(3):
        folder = root / f"day=2026-01-0{number + 1}" / ("kind=a%2Fb" if number else "kind=__HIVE_DEFAULT_PARTITION__")
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number, 10 + number], "x": ["p", None]}), folder / "a.parquet")
    kinds = pa.schema([("day", pa.date32()), ("kind", pa.string())])
    convert_to_iceberg(root, None if in_place else judged.root, partition_by=kinds)
    rows = judged.check().scan().to_arrow()
    assert sorted(zip(rows["id"].to_pylist(), rows["day"].to_pylist(), rows["kind"].to_pylist(), strict=True)) == [
        (10 * one + number, dt.date(2026, 1, number + 1), "a/b" if number else None)
        for one in (0, 1)
        for number in range(3)
    ]
    judged.sql("DELETE FROM {t} WHERE id = 1")
    judged.sql("INSERT INTO {t} VALUES (20, 'q', DATE'2026-01-02', 'a/b')")
    judged.check().compact("day = date '2026-01-02'", min_files=2)
    assert sorted(judged.check().scan().to_arrow()["id"].to_pylist()) == [0, 2, 10, 11, 12, 20]
    assert len(list(root.rglob("day=*/kind=*/a.parquet"))) == 3
