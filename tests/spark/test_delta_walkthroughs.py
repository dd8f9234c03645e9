"""Public walk-throughs of delta-spark, with the import changed; its quickstart is in `test_delta_table`.

What else differs is what Spark refuses to a source in Python: `mode("append")` stands for the default mode, builders
and paths for SQL and names of tables, and `foreachBatch` for a sink of streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark import DeltaTable
from tests.spark.doors import needs_data_sources, needs_native, register

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]


def _rows(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in columns) for row in frame.collect()), key=str)


@needs_data_sources
@pytest.mark.full
def test_the_change_data_feed(spark: Any, tmp_path: Path) -> None:
    """``change_data_feed.py`` of Delta's examples: an update, deletes and a merge, and what each changed."""
    from pyspark.sql.functions import expr

    path, other = str(tmp_path / "student"), str(tmp_path / "student_source")
    register(spark)

    def read_cdc(starting_version: int) -> list[tuple[Any, ...]]:
        reader = spark.read.format("delta").option("readChangeFeed", "true")
        changes = reader.option("startingVersion", str(starting_version)).load(path)
        return _rows(changes, "_change_type", "id", "age")

    (
        DeltaTable.create(spark)
        .location(path)
        .addColumns(spark.createDataFrame([], "id int, name string, age int").schema)
        .partitionedBy("age")
        .property("delta.enableChangeDataFeed", "true")
        .execute()
    )
    columns = ("CAST(id as INT) as id", "CAST(id as STRING) as name", "CAST(id % 4 + 18 as INT) as age")
    spark.range(0, 10).selectExpr(*columns).write.format("delta").mode("append").save(path)
    assert read_cdc(1) == sorted((("insert", number, number % 4 + 18) for number in range(10)), key=str)

    table = DeltaTable.forPath(spark, path)
    table.update(set={"id": expr("id + 1")})
    ages = {number: number % 4 + 18 for number in range(10)}
    updated = [("update_preimage", number, age) for number, age in ages.items()]
    updated += [("update_postimage", number + 1, age) for number, age in ages.items()]
    assert read_cdc(2) == sorted(updated, key=str)

    table.delete(condition=expr("id >= 7"))
    assert read_cdc(3) == sorted((("delete", number + 1, ages[number]) for number in range(6, 10)), key=str)
    table.delete(condition=expr("age = 18"))
    assert read_cdc(4) == [("delete", 1, 18), ("delete", 5, 18)]

    spark.range(0, 3).selectExpr(*columns).write.format("delta").mode("append").save(other)
    source = spark.read.format("delta").load(other)
    (
        table.alias("target")
        .merge(source.alias("source"), "target.id = source.id")
        .whenMatchedUpdate(set={"id": "source.id", "age": "source.age + 10"})
        .whenNotMatchedInsertAll()
        .execute()
    )
    assert read_cdc(5) == [
        ("insert", 0, 18),
        ("insert", 1, 19),
        ("update_postimage", 2, 30),
        ("update_preimage", 2, 19),
    ]
    assert _rows(table.toDF(), "id", "age") == [(0, 18), (1, 19), (2, 30), (3, 20), (4, 21), (6, 19)]


@needs_native
def test_slowly_changing_dimensions(spark: Any, tmp_path: Path) -> None:
    """Delta's documentation of merges: addresses of customers, of which the old ones stay (type 2).

    A row whose merge key is null matches nothing, so that the new address of a known customer is inserted.
    """
    path = str(tmp_path / "customers")
    kinds = "customerId int, address string, current boolean, effectiveDate date, endDate date"
    columns = spark.createDataFrame([], kinds).schema
    customers = DeltaTable.createIfNotExists(spark).location(path).addColumns(columns).execute()
    first = "SELECT * FROM VALUES (1, 'old address for 1', false, null, DATE'2018-02-01'), "
    first += "(1, 'current address for 1', true, DATE'2018-02-01', null), "
    first += "(2, 'current address for 2', true, DATE'2018-02-01', null), "
    first += f"(3, 'current address for 3', true, DATE'2018-02-01', null) AS rows({', '.join(columns.names)})"
    customers.merge(spark.sql(first), "false").whenNotMatchedInsertAll().execute()
    updates = spark.sql(
        "SELECT * FROM VALUES (1, 'new address for 1', DATE'2018-03-03'), (3, 'current address for 3', "
        "DATE'2018-04-04'), (4, 'new address for 4', DATE'2018-04-04') AS rows(customerId, address, effectiveDate)"
    )
    known = customers.toDF().alias("customers")
    new_addresses = (
        updates.alias("updates")
        .join(known, "customerId")
        .where("customers.current = true AND updates.address <> customers.address")
    )
    staged = new_addresses.selectExpr("CAST(NULL AS INT) as mergeKey", "updates.*").union(
        updates.selectExpr("customerId as mergeKey", "*")
    )
    (
        customers.alias("customers")
        .merge(staged.alias("staged_updates"), "customers.customerId = mergeKey")
        .whenMatchedUpdate(
            condition="customers.current = true AND customers.address <> staged_updates.address",
            set={"current": "false", "endDate": "staged_updates.effectiveDate"},
        )
        .whenNotMatchedInsert(
            values={
                "customerid": "staged_updates.customerId",
                "address": "staged_updates.address",
                "current": "true",
                "effectiveDate": "staged_updates.effectiveDate",
                "endDate": "null",
            }
        )
        .execute()
    )
    found = customers.toDF().selectExpr("customerId", "address", "current", "string(effectiveDate)", "string(endDate)")
    assert sorted((tuple(row) for row in found.collect()), key=str) == [
        (1, "current address for 1", False, "2018-02-01", "2018-03-03"),
        (1, "new address for 1", True, "2018-03-03", None),
        (1, "old address for 1", False, None, "2018-02-01"),
        (2, "current address for 2", True, "2018-02-01", None),
        (3, "current address for 3", True, "2018-02-01", None),
        (4, "new address for 4", True, "2018-04-04", None),
    ]


@needs_native
def test_streams_are_merged_batch_by_batch(spark: Any, tmp_path: Path) -> None:
    """``streaming.py`` of Delta's examples, with files for the source: each batch is merged."""
    if "connect" in type(spark).__module__:
        pytest.skip("over Spark Connect, the function runs on the server")
    path, log, arrivals = str(tmp_path / "t"), tmp_path / "log", tmp_path / "arrivals"
    deltaberg.write_table(path, pa.table({"id": [0, 1, 2], "name": ["a", "b", "c"]}))
    deltaberg.create_table(log, pa.schema([("id", pa.int64()), ("name", pa.string())]))
    rows = spark.createDataFrame([(1, "B"), (7, "g")], "id bigint, name string")
    rows.write.parquet(str(arrivals))

    def upsert_to_delta(batch: Any, number: int) -> None:
        table = DeltaTable.forPath(spark, path)
        merge = table.alias("t").merge(batch.alias("s"), "s.id = t.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        deltaberg.open_table(log, "delta").append(batch, txn=("arrivals", number))
        # Spark tries a batch again if it does not know that it succeeded.
        deltaberg.open_table(log, "delta").append(batch, txn=("arrivals", number))

    def run() -> None:
        stream = spark.readStream.schema(rows.schema).parquet(str(arrivals))
        query = stream.writeStream.foreachBatch(upsert_to_delta).option("checkpointLocation", str(tmp_path / "seen"))
        query.trigger(availableNow=True).start().awaitTermination()

    run()
    spark.createDataFrame([(7, "G")], "id bigint, name string").write.mode("append").parquet(str(arrivals))
    run()
    assert _rows(DeltaTable.forPath(spark, path).toDF(), "id", "name") == [(0, "a"), (1, "B"), (2, "c"), (7, "G")]
    logged = deltaberg.open_table(log).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in logged) == [(1, "B"), (7, "G"), (7, "g")]
    endless = spark.readStream.schema(rows.schema).parquet(str(arrivals))
    with pytest.raises(InvalidArgumentError, match="have no end"):
        deltaberg.open_table(log, "delta").append(endless)
    with pytest.raises(InvalidArgumentError, match="have no end"):
        DeltaTable.forPath(spark, path).merge(endless, "target.id = source.id").whenMatchedDelete().execute()
