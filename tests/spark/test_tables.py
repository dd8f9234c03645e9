"""Whole tables read in each way on Spark: deleted rows, renamed columns, partitions, many files, none."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from tests.spark.doors import DOORS, read
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.roads import collect

pytestmark = pytest.mark.spark

_ID = pa.schema([("id", pa.int64())])
_MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}


def _mapped(name: str, kind: str, number: int) -> dict[str, Any]:
    physical = f"col-{number}"
    return field(name, kind, delta__columnMapping__id=number, delta__columnMapping__physicalName=physical)


def _everything(builder: DeltaBuilder, rng: random.Random) -> list[dict[str, Any]]:
    """Partitions with odd values, mapped columns of which one was renamed, deletion vectors of each kind."""
    days = [dt.date(2024, 2, 29), dt.date(1582, 10, 15), None]
    adds, rows = [], []
    for number, day in enumerate(days * 2):
        ids = range(100 * number, 100 * number + 50)
        deleted = set(rng.sample(range(50), rng.randrange(1, 50)))
        kind = ["u", "p", "i", None][number % 4]
        adds.append(
            builder.add(
                pa.table({"col-1": list(ids), "col-2": [f"n{one}" for one in ids]}),
                path=f"part {number}%.parquet",
                partition={"col-3": None if day is None else day.isoformat()},
                stats="count",
                vector=None if kind is None else builder.vector(deleted, kind),
                writer={"row_group_size": 7},
            )
        )
        kept = [one for at, one in enumerate(ids) if kind is None or at not in deleted]
        rows += [{"id": one, "customer, name": f"n{one}", "day": day} for one in kept]
    before = [_mapped("id", "long", 1), _mapped("name", "string", 2), _mapped("day", "date", 3)]
    after = [_mapped("id", "long", 1), _mapped("customer, name", "string", 2), _mapped("day", "date", 3)]
    protocol = builder.features("columnMapping", "deletionVectors")
    builder.create(before, *adds, partition_by=["day"], configuration=_MAPPED, protocol=protocol)
    builder.commit(builder.metadata(after, ["day"], _MAPPED))
    return rows


@pytest.mark.both_backends
@pytest.mark.parametrize("door", DOORS)
def test_vectors_mapping_and_partitions(door: str, spark: Any, builder: DeltaBuilder, rng: random.Random) -> None:
    rows = _everything(builder, rng)
    found = read(door, spark, builder.root).to_pylist()
    assert sorted(found, key=repr) == sorted(rows, key=repr)
    old = read(door, spark, builder.root, columns=["name", "id"], version=0).to_pylist()
    assert sorted(old, key=repr) == sorted(({"name": f"n{row['id']}", "id": row["id"]} for row in rows), key=repr)


@pytest.mark.parametrize("door", DOORS)
def test_positions_are_those_in_the_file(door: str, spark: Any, builder: DeltaBuilder, rng: random.Random) -> None:
    rows = _everything(builder, rng)
    columns = ["id", "_metadata.row_index", "_metadata.file_name"]
    for row in read(door, spark, builder.root, columns=columns).to_pylist():
        number, position = divmod(row["id"], 100)
        assert row["_metadata"] == {"row_index": position, "file_name": f"part {number}%.parquet"}
    assert rows


@pytest.mark.parametrize("door", DOORS)
def test_row_ids(door: str, spark: Any, builder: DeltaBuilder) -> None:
    adds = [
        builder.add(pa.table({"id": [number, number + 1]}), baseRowId=10 * number, defaultRowCommitVersion=number)
        for number in range(3)
    ]
    configuration = {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
    }
    protocol = builder.protocol(1, 7, None, ["rowTracking", "domainMetadata"])
    builder.create(_ID, *adds, configuration=configuration, protocol=protocol)
    columns = ["_metadata.row_id", "_metadata.row_commit_version"]
    found = read(door, spark, builder.root, columns=columns)["_metadata"].to_pylist()
    wanted = [{"row_id": 10 * number + at, "row_commit_version": number} for number in range(3) for at in range(2)]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize("door", DOORS)
def test_many_small_files(door: str, spark: Any, builder: DeltaBuilder) -> None:
    builder.create(_ID, *[builder.add(pa.table({"id": [number]})) for number in range(300)])
    assert sorted(read(door, spark, builder.root)["id"].to_pylist()) == list(range(300))


@pytest.mark.parametrize("door", DOORS)
def test_a_table_without_rows(door: str, spark: Any, builder: DeltaBuilder) -> None:
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string())), ("at", pa.timestamp("us", "UTC"))])
    builder.create(schema)
    found = read(door, spark, builder.root)
    assert (found.num_rows, found.column_names) == (0, schema.names)
    # A file whose rows are all deleted, and one without rows.
    gone = builder.add(pa.table({"id": [1]}), vector=builder.vector([0]))
    builder.commit(gone, builder.add(pa.table({"id": pa.array([], pa.int64())})), builder.features("deletionVectors"))
    assert read(door, spark, builder.root).num_rows == 0


def test_rows_without_columns(spark: Any, builder: DeltaBuilder, rng: random.Random) -> None:
    rows = _everything(builder, rng)
    table = open_table(builder.root)
    assert table.scan(columns=[]).to_spark(spark).count() == len(rows)
    assert table.scan(columns=[], filter="id < 120").to_spark(spark).count() == sum(row["id"] < 120 for row in rows)
    assert table.scan(columns=[], limit=3).to_spark(spark).count() == 3
    frame = table.scan(columns=[]).to_spark(spark)
    assert frame.columns == []
    assert frame.selectExpr("count(*) AS rows").collect()[0]["rows"] == len(rows)


def test_limits_are_global(spark: Any, builder: DeltaBuilder, rng: random.Random) -> None:
    rows = _everything(builder, rng)
    for limit, condition in ((0, None), (7, None), (7, "id >= 0"), (10_000, None)):
        found = collect(open_table(builder.root).scan(limit=limit, filter=condition).to_spark(spark))
        assert found.num_rows == min(limit, len(rows))
        assert {row["id"] for row in found.to_pylist()} <= {row["id"] for row in rows}


def test_a_frame_is_used_twice_while_the_table_moves_on(spark: Any, builder: DeltaBuilder) -> None:
    """The planned files are read; removed files stay in place until they are vacuumed."""
    add = builder.add(pa.table({"id": [1, 2, 3]}))
    builder.create(_ID, add)
    frame = open_table(builder.root).scan().to_spark(spark)
    assert frame.count() == 3
    builder.commit(builder.remove(add), builder.add(pa.table({"id": [9]})))
    both = frame.filter("id > 1").union(frame.filter("id < 2"))
    assert sorted(row["id"] for row in both.collect()) == [1, 2, 3]
    assert frame.join(frame.withColumnRenamed("id", "other")).count() == 9
    assert read("to_spark", spark, builder.root)["id"].to_pylist() == [9]


@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_was_vacuumed_is_told(door: str, spark: Any, builder: DeltaBuilder) -> None:
    # No other file, so no other task: Spark 3.5 can give the next query the worker of a task that it kills.
    builder.create(_ID, builder.add(pa.table({"id": [1, 2, 3]}), path="lost.parquet"))
    Path(builder.root / "lost.parquet").unlink()
    with pytest.raises(Exception, match="DataFileNotFoundError") as raised:
        read(door, spark, builder.root)
    for said in ("a live data file is gone", f"table: {builder.root}", "lost.parquet", "refresh the table"):
        assert said in str(raised.value)


def test_sql_over_a_view_of_a_scan(spark: Any, builder: DeltaBuilder, rng: random.Random) -> None:
    rows = _everything(builder, rng)
    table = open_table(builder.root)
    table.scan(columns=["id", "day"]).to_spark(spark).createOrReplaceTempView("scanned")
    table.scan(columns=["id", "customer, name"], filter="id < 300").to_spark(spark).createOrReplaceTempView("named")
    found = spark.sql("SELECT count(*), sum(n.id) FROM scanned s JOIN named n ON s.id = n.id WHERE s.day IS NOT NULL")
    matching = [row["id"] for row in rows if row["id"] < 300 and row["day"] is not None]
    assert tuple(found.collect()[0]) == (len(matching), sum(matching) if matching else None)
