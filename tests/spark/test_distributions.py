"""How rows of DataFrames come to the tasks that write them to Iceberg tables (``write.distribution-mode``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from deltaberg.errors import ConstraintViolationError, InvalidArgumentError
from deltaberg.iceberg import IcebergTable
from tests.spark.native_road import setting

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("s", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("r", pa.struct([("x", pa.int32())])),
    ]
)
_ROWS = (
    "id",
    "IF(id % 7 = 0, NULL, concat('t', id % 3, '-', id)) s",
    "timestamp_seconds(id * 40000) at",
    "IF(id % 5 = 0, NULL, named_struct('x', INT(id % 2))) r",
)


def _tables(root: Path, mode: str | None, **layout: Any) -> list[IcebergTable]:
    properties = {} if mode is None else {"write.distribution-mode": mode}
    return [
        create_table(root / name, _COLUMNS, format="iceberg", properties=properties, **layout)
        for name in ("spark", "local")
    ]


def _files(table: IcebergTable) -> list[str]:
    hidden = ("file_path", "file_size_in_bytes", "column_sizes", "split_offsets")
    rows = table.inspect("files").to_pylist()
    return sorted(repr({name: value for name, value in row.items() if name not in hidden}) for row in rows)


@pytest.mark.parametrize(
    ("mode", "adaptive"),
    [
        (None, "true"),
        pytest.param("range", "true", marks=pytest.mark.full),
        pytest.param("hash", "false", marks=pytest.mark.full),
    ],
)
def test_files_are_those_of_one_machine(spark: Any, tmp_path: Path, mode: str | None, adaptive: str) -> None:
    """Rows of a partition come together by the values of its transforms, whatever tasks they come from."""
    layout = ["bucket(2, id)", "month(at)", "r.x"]
    table, local = _tables(tmp_path, mode, partition_by=layout)
    with setting(spark, "spark.sql.adaptive.enabled", adaptive), setting(spark, "spark.sql.shuffle.partitions", "3"):
        frame = spark.range(0, 120, 1, 3).selectExpr(*_ROWS)
        done = table.append(frame)
        local.append(table.scan().to_arrow())
    assert (done.road, done.added_rows) == ("arrow", 120)
    assert _files(table) == _files(local)
    if mode is None:
        table.alter().set({"write.distribution-mode": "none"}).commit()
        again = table.append(frame)
        assert again.added_files > done.added_files
        assert table.scan().count() == 240
        with pytest.raises(ConstraintViolationError):
            table.append(frame.selectExpr("IF(id = 7, NULL, id) id", "s"))
        table.alter().set({"write.distribution-mode": "sideways"}).commit()
        with pytest.raises(InvalidArgumentError, match="set it to none, hash or range"):
            table.append(frame)


@pytest.mark.parametrize("kind", ["DATE", "SMALLINT"])
def test_generated_partitions_come_together(spark: Any, tmp_path: Path, kind: str) -> None:
    """Each partition gets one file, though the rows of each task belong to all, and do not have the column."""
    value = "CAST(at AS DATE)" if kind == "DATE" else "CAST(day(at) AS SMALLINT)"
    columns = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("at", pa.timestamp("us")),
            pa.field(
                "p", pa.date32() if kind == "DATE" else pa.int16(), metadata={"delta.generationExpression": value}
            ),
        ]
    )
    table = create_table(tmp_path / "t", columns, partition_by="p")
    rows = ("id", "TIMESTAMP_NTZ '2026-01-01 12:00:00' + make_dt_interval(INT(id % 3)) AS at")
    with setting(spark, "spark.sql.shuffle.partitions", "3"):
        done = table.append(spark.range(0, 60, 1, 4).selectExpr(*rows))
    assert (done.road, done.added_rows, done.added_files) == ("arrow", 60, 3)
    assert table.scan("p IS NULL").count() == 0
    found = table.scan().to_arrow()
    assert all(
        p == (at.date() if kind == "DATE" else at.day)
        for at, p in zip(found["at"].to_pylist(), found["p"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize(
    "order", [pytest.param("id desc nulls last", marks=pytest.mark.full), "truncate(2, s) asc nulls first"]
)
def test_ranges_of_a_sorted_table_do_not_overlap(spark: Any, tmp_path: Path, order: str) -> None:
    table, local = _tables(tmp_path, None, sort_by=[order, "at"])
    with (
        setting(spark, "spark.sql.adaptive.coalescePartitions.enabled", "false"),
        setting(spark, "spark.sql.shuffle.partitions", "3"),
    ):
        frame = spark.range(0, 120, 1, 3).selectExpr("(id * 7) % 120 id").selectExpr(*_ROWS)
        done = table.append(frame)
        local.append(table.scan().to_arrow())
    assert done.added_files == 3
    assert table.scan().to_arrow().sort_by("id") == local.scan().to_arrow().sort_by("id")
    wanted = local.scan().to_arrow()["id"].to_pylist()
    parts = [
        table.scan(columns=["id", "_file"]).to_arrow().filter(pa.compute.field("_file") == path)["id"].to_pylist()
        for path in table.inspect("files")["file_path"].to_pylist()
    ]
    joined = [number for part in sorted(parts, key=lambda part: wanted.index(part[0])) for number in part]
    assert joined == wanted
