"""``deltaberg.spark.DeltaTable``: code for delta-spark runs with another import."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as st

import deltaberg
from deltaberg.errors import (
    ConstraintViolationError,
    DeltabergError,
    InvalidArgumentError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaberg.spark import DeltaTable
from deltaberg.spark.tables import IdentityGenerator
from deltaberg.spark.write import row_tasks
from tests.spark.doors import VERSION, needs_data_sources, needs_native, register
from tests.spark.native_road import setting
from tests.support.spark_session import REMOTE

pytestmark = pytest.mark.spark


def _ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def _opened(spark: Any, root: Path, rows: dict[str, list[Any]], **options: Any) -> DeltaTable:
    deltaberg.write_table(root, pa.table(rows), **options)
    return DeltaTable.forPath(spark, str(root))


def _content(table: DeltaTable, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in columns) for row in table.toDF().collect()), key=str)


@needs_data_sources
def test_the_quickstart_of_delta(spark: Any, tmp_path: Path) -> None:
    """Delta's own, with the import changed, and ``mode("append")`` for the mode that Spark refuses."""
    from pyspark.sql.functions import col, expr

    spark = register(spark)
    path = str(tmp_path / "delta-table")
    data = spark.range(0, 5)
    data.write.format("delta").mode("append").save(path)

    new_data = spark.range(0, 20)
    table = DeltaTable.forPath(spark, path)
    (
        table.alias("oldData")
        .merge(new_data.alias("newData"), "oldData.id = newData.id")
        .whenMatchedUpdate(set={"id": col("newData.id")})
        .whenNotMatchedInsert(values={"id": col("newData.id")})
        .execute()
    )
    assert _ids(table.toDF()) == list(range(20))

    spark.range(5, 10).write.format("delta").mode("overwrite").save(path)
    assert _ids(table.toDF()) == list(range(5, 10))

    table = DeltaTable.forPath(spark, path)
    table.update(condition=expr("id % 2 == 0"), set={"id": expr("id + 100")})
    assert _ids(table.toDF()) == [5, 7, 9, 106, 108]
    table.delete(condition=expr("id % 2 == 0"))
    assert _ids(table.toDF()) == [5, 7, 9]
    assert _ids(spark.read.format("delta").option("versionAsOf", 0).load(path)) == list(range(5))
    assert [row["operation"] for row in table.history().select("operation").collect()] == [
        "DELETE",
        "UPDATE",
        "WRITE",
        "MERGE",
        "WRITE",
    ]


@needs_native
def test_columns_of_the_source(spark: Any, tmp_path: Path) -> None:
    """``updates["id"]`` and ``updates.id`` are what Spark takes them for: columns of this frame, whatever its alias."""
    from pyspark.sql.functions import col

    table = _opened(spark, tmp_path / "t", {"id": [1, 2, 3], "name": ["a", "b", "c"]}).alias("t")
    updates = spark.createDataFrame([(2, "x", 1), (4, "y", 2)], "id bigint, name string, `n.o` int")
    (
        table.merge(updates.alias("u"), (col("t.id") == updates["id"]) & (col("u.name") != "z"))
        .whenMatchedUpdate(condition=updates["`n.o`"] == 1, set={"name": updates["name"]})
        .whenNotMatchedInsert(values={"id": updates.id, "name": "concat(u.name, '!')"})
        .execute()
    )
    assert _content(table, "id", "name") == [(1, "a"), (2, "x"), (3, "c"), (4, "y!")]
    # Of frames that were made of it, Spark knows which columns are still the same.
    moved = updates.withColumn("id", col("id") - 1)
    table.merge(moved, moved.id == col("t.id")).whenMatchedUpdate(set={"name": updates["name"]}).execute()
    assert _content(table, "id", "name") == [(1, "x"), (2, "x"), (3, "y"), (4, "y!")]
    # Spark 4.0 takes them by name over Connect, where the frame was made of theirs.
    is_told_apart = VERSION >= (4, 1) or os.environ.get(REMOTE) != "1"
    for other in (updates["id"], table.toDF()["id"])[0 if is_told_apart else 1 :]:
        with pytest.raises(UnsupportedExpressionError, match="not the source of the merge") as caught:
            table.merge(moved, other == col("t.id"))
        assert 'col("t.id") with table.alias("t")' in str(caught.value.hint)
    # A frame of the table that the source was made of: the source alone would be compared with itself.
    frame = table.toDF()
    with pytest.raises(InvalidArgumentError, match="names no column of the table"):
        table.merge(frame.where("id > 1").alias("u"), frame["id"] == col("u.id")).whenMatchedDelete().execute()
    with pytest.raises(UnsupportedExpressionError, match="not the table"):
        table.delete(frame["id"] == 1)


def test_hints_name_methods_of_delta_spark(spark: Any, tmp_path: Path) -> None:
    table = _opened(spark, tmp_path / "t", {"id": [1, 2], "name": ["a", "b"]}).alias("t")
    less = spark.range(1).alias("u")
    iceberg = tmp_path / "i"
    deltaberg.write_table(iceberg, pa.table({"id": [1]}), format="iceberg")
    create = DeltaTable.create(spark).location(str(tmp_path / "t")).addColumn("id", "bigint")
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: table.merge(less, "t.id = u.id").whenMatchedUpdateAll().execute(), "withSchemaEvolution()"),
        (create.execute, "createIfNotExists or createOrReplace"),
        (lambda: DeltaTable.forPath(spark, f"{tmp_path}/t@v0"), "open_table(path, version=0)"),
        (lambda: DeltaTable.forPath(spark, str(iceberg)), 'open_table(path, "iceberg")'),
    ]
    for call, hint in calls:
        with pytest.raises(DeltabergError) as caught:
            call()
        assert hint in str(caught.value.hint)


@needs_native
def test_merges_with_all_clauses(spark: Any, tmp_path: Path) -> None:
    """Columns and text mean the same; the source has one alias, which Spark knows."""
    from pyspark.sql.functions import col, lit, upper

    table = _opened(spark, tmp_path / "t", {"id": [1, 2, 3, 4], "name": ["a", "b", "c", "d"]})
    updates = spark.createDataFrame(
        [(1, "x", 1.5), (2, None, 2.5), (7, "z", 7.5)], "id bigint, name string, price double"
    )
    done = (
        table.alias("t")
        .merge(updates.alias("u"), col("t.id") == col("u.id"))
        .whenMatchedDelete(col("u.name").isNull())
        .whenMatchedUpdate(set={"name": upper(col("u.name")), "t.id": "t.id + 10"})
        .whenNotMatchedInsertAll(condition="u.price > 1")
        .whenNotMatchedBySourceUpdate(col("t.id") == 3, set={"name": lit("gone")})
        .whenNotMatchedBySourceDelete()
        .withSchemaEvolution()
        .execute()
    )
    assert done.collect()[0].asDict() == {
        "num_affected_rows": 5,
        "num_updated_rows": 2,
        "num_deleted_rows": 2,
        "num_inserted_rows": 1,
    }
    assert _content(table, "id", "name", "price") == [(11, "X", None), (3, "gone", None), (7, "z", 7.5)]
    # Without aliases the names are those of `deltaberg.DeltaTable.merge`.
    table.merge(updates, "target.id = source.id").whenMatchedUpdateAll().execute()
    assert (7, "z", 7.5) in _content(table, "id", "name", "price")
    with pytest.raises(ConstraintViolationError, match="several rows"):
        table.merge(updates.union(updates), "target.id = source.id").whenMatchedUpdateAll().execute()
    with pytest.raises(InvalidArgumentError, match="is not clear"):
        table.merge(updates.alias("name"), "target.id = name.id").whenMatchedDelete().execute()
    with pytest.raises(InvalidArgumentError, match="not a DataFrame"):
        table.merge(pa.table({"id": [1]}), "target.id = source.id")
    with pytest.raises(InvalidArgumentError, match="t is the alias of the table and of the source"):
        table.alias("t").merge(updates.alias("t"), "t.id = t.id").whenMatchedDelete().execute()
    with pytest.raises(InvalidArgumentError, match="is not an alias"):
        table.alias(updates)
    joined = updates.alias("a").join(updates.withColumnRenamed("id", "other").alias("b"), col("a.id") == col("b.other"))
    with pytest.raises(InvalidArgumentError, match="a is the alias of only some columns of the source") as caught:
        table.alias("t").merge(joined, "t.id = a.id").whenMatchedDelete().execute()
    assert 'frame.select("a.id", …).alias("u")' in str(caught.value.hint)
    with pytest.raises(InvalidArgumentError, match="same name: name"):
        table.alias("t").merge(joined.alias("u"), "t.id = u.id").whenMatchedUpdateAll().execute()
    chosen = joined.select("a.id", "b.name", "b.price").where("false").alias("u")
    assert table.alias("t").merge(chosen, "t.id = u.id").whenMatchedUpdateAll().execute().collect()[0][0] == 0
    # A struct qualifies its fields, and is no alias.
    nested = updates.selectExpr("id", "struct(name AS id) AS s").where("false").alias("u")
    table.alias("t").merge(nested, "t.id = u.id AND s.id = 'x'").whenMatchedDelete().execute()
    table.alias("t").delete("t.id = 7")
    table.alias("t").update("t.id = 3", {"t.name": "concat(t.name, '!')"})
    assert _content(table, "id", "name") == [(11, "X"), (3, "gone!")]
    assert not [path.name for path in (tmp_path / "t").iterdir() if path.suffix == ".arrow"]


def test_tasks_look_for_rows(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is much to read, Spark's tasks find the rows that the driver deletes and updates."""
    monkeypatch.setattr(row_tasks, "_LEAST_BYTES", 0)
    for first in (0, 50):
        rows = pa.table({"id": range(first, first + 50), "name": [f"n{number}" for number in range(50)]})
        deltaberg.write_table(tmp_path, rows, mode="append", configuration={"delta.enableDeletionVectors": "true"})
    table = DeltaTable.forPath(spark, str(tmp_path))
    assert table.delete("upper(name) LIKE 'N4%' AND id % 2 = 0").metrics["numDeletedRows"] == 12
    assert table.update("length(name) = 2", {"id": "id + 1000"}).metrics["numUpdatedRows"] == 18
    updates = spark.range(90, 110).selectExpr("id", "'new' AS name")
    merge = table.merge(updates, "target.id = source.id AND target.id < 98")
    (done,) = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll("id > 105").execute().collect()
    assert tuple(done) == (8, 4, 0, 4)
    assert not list(tmp_path.glob("*.arrow"))


def test_builders_of_tables(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    assert not DeltaTable.isDeltaTable(spark, path)
    with pytest.raises(TableNotFoundError, match="there is no Delta table"):
        DeltaTable.replace(spark).location(path).addColumn("id", "bigint").execute()
    builder = (
        DeltaTable.create(spark)
        .location(path)
        .comment("what was ordered")
        .addColumn("id", st.LongType(), nullable=False, comment="its number")
        .addColumn("day", "date")
        .addColumn("year", "int", generatedAlwaysAs="year(day)")
        .addColumn("seq", "bigint", generatedByDefaultAs=IdentityGenerator(10, 5))
        .addColumns(st.StructType([st.StructField("a b.c", st.ArrayType(st.StringType()))]))
        .partitionedBy("year")
        .property("owner", "ada")
        .property("delta.columnMapping.mode", "name")
    )
    table = builder.execute()
    created = deltaberg.open_table(path, "delta")
    assert [(child.name, str(child.type), child.nullable) for child in created.schema] == [
        ("id", "long", False),
        ("day", "date", True),
        ("year", "integer", True),
        ("seq", "long", True),
        ("a b.c", "array<string>", True),
    ]
    assert (created.partition_columns, created.properties["owner"]) == (["year"], "ada")
    assert (created.metadata.description, created.generated_columns) == ("what was ordered", {"year": "year(day)"})
    assert (created.identity_columns["seq"].start, created.identity_columns["seq"].step) == (10, 5)
    with pytest.raises(TableExistsError, match="there is a table already"):
        builder.execute()
    updates = spark.sql("SELECT 1L AS id, DATE '2020-05-01' AS day")
    values = {"id": "source.id", "day": "source.day"}
    table.merge(updates, "target.id = source.id").whenNotMatchedInsert(values=values).execute()
    assert _content(table, "id", "year", "seq") == [(1, 2020, 10)]
    left = DeltaTable.createIfNotExists(spark).location(path).addColumn("other", "int").execute()
    assert _content(left, "id") == [(1,)]
    replaced = DeltaTable.createOrReplace(spark).location(path).addColumn("n", "int").clusterBy("n").execute()
    assert replaced.toDF().columns == ["n"]
    assert DeltaTable.isDeltaTable(spark, path)
    with pytest.raises(UnsupportedFeatureError, match="cannot be named orders"):
        DeltaTable.create(spark).tableName("orders")
    with pytest.raises(InvalidArgumentError, match="where the table is"):
        DeltaTable.create(spark).addColumn("n", "int").execute()
    with pytest.raises(InvalidArgumentError, match="two ways"):
        DeltaTable.create(spark).addColumn("n", "int", generatedAlwaysAs="1", generatedByDefaultAs=IdentityGenerator())


def test_texts_have_the_lengths_that_builders_are_told(spark: Any, tmp_path: Path) -> None:
    """Spark's tasks write, read and find them as this process does, and leave rows alone that an upsert leaves."""
    path = str(tmp_path / "t")
    inner = st.StructField("s", st.StructType([st.StructField("a", st.ArrayType(st.VarcharType(3)))]))
    builder = DeltaTable.create(spark).location(path).addColumn("id", "bigint").addColumn("c", "Char (3)")
    builder.addColumn("v", st.VarcharType(3)).addColumns([inner]).addColumn("p", "char(2)").partitionedBy("p").execute()
    table = deltaberg.DeltaTable(path)
    frame = spark.sql("SELECT 1L AS id, 'a' AS c, 'b    ' AS v, named_struct('a', array('x  ')) AS s, 'p' AS p")
    result = table.append(frame)
    assert (result.road, table.scan().to_arrow().to_pylist()) == (
        "arrow",
        [{"id": 1, "c": "a  ", "v": "b  ", "s": {"a": ["x  "]}, "p": "p "}],
    )
    assert [tuple(row) for row in table.scan("c = 'a' AND p = 'p'").to_spark(spark).select("c", "p").collect()] == [
        ("a  ", "p ")
    ]
    for wrong in ("1L AS id, 'abcd' AS c", "1L AS id, named_struct('a', array('abcd')) AS s", "1L AS id, 'abc' AS p"):
        with pytest.raises(ConstraintViolationError, match="too long"):
            table.append(spark.sql(f"SELECT {wrong}"))
    on_spark = table.on_spark(spark)
    assert "there was nothing to do" in str(on_spark.upsert(frame, "c"))
    changed = on_spark.upsert(
        frame.withColumn("v", frame.c).unionByName(frame.selectExpr("2L AS id", "'z' AS c", "v", "s", "p")), "c"
    )
    assert [changed.metrics[f"numTargetRows{name}"] for name in ("Updated", "Inserted")] == [1, 1]
    assert sorted(row["v"] for row in table.refresh().scan().to_arrow().to_pylist()) == ["a", "b  "]


def test_builders_lose_nothing_that_they_are_told(spark: Any) -> None:
    """Nor do they take arguments of other types."""
    builder: Any = DeltaTable.create(spark)
    for ddl in ("int NOT NULL", "int COMMENT 'its number'", "int, other int"):
        with pytest.raises(InvalidArgumentError, match="says more than the type"):
            builder.addColumn("n", ddl)
    with pytest.raises(UnsupportedFeatureError, match="type interval day cannot be created"):
        builder.addColumn("c", "interval day")
    wrong: dict[str, Callable[[], object]] = {
        "the name of a column must be of the type str, not int": lambda: builder.addColumn(1, "int"),
        "the type of the column n must be of the type str or DataType, not int": lambda: builder.addColumn("n", 1),
        "identity column n is of the type int": lambda: builder.addColumn(
            "n", "int", generatedAlwaysAs=IdentityGenerator()
        ),
        "identity column n has the step 0": lambda: builder.addColumn(
            "n", "bigint", generatedByDefaultAs=IdentityGenerator(1, 0)
        ),
        "a column must be of the type StructField, not str": lambda: builder.addColumns(["n int"]),
        "the columns must be of the type StructType or list or tuple, not str": lambda: builder.addColumns("n int"),
        "must be of the type str, not float": lambda: builder.partitionedBy(["n", 0.5]),
    }
    for message, call in wrong.items():
        with pytest.raises(InvalidArgumentError, match=message):
            call()


def test_a_table_is_restored(spark: Any, tmp_path: Path) -> None:
    table = _opened(spark, tmp_path / "t", {"id": [1]}, properties={"delta.enableInCommitTimestamps": "true"})
    deltaberg.write_table(tmp_path / "t", pa.table({"id": [2, 3]}), mode="overwrite")
    (counts,) = table.restoreToVersion(0).collect()
    assert _ids(table.toDF()) == [1]
    assert counts["num_restored_files"] == counts["num_removed_files"] == counts["num_of_files_after_restore"] == 1
    assert counts["table_size_after_restore"] == counts["restored_files_size"] > 0
    then = deltaberg.DeltaTable(tmp_path / "t").history()[1].timestamp.astimezone(ZoneInfo("Asia/Tokyo"))
    with setting(spark, "spark.sql.session.timeZone", "Asia/Tokyo"):
        (counts,) = table.restoreToTimestamp(f"{then:%Y-%m-%d %H:%M:%S.%f}").collect()
    assert _ids(table.toDF()) == [2, 3]
    assert table.history(1).collect()[0]["operation"] == "RESTORE"


def test_a_table_is_cloned(spark: Any, tmp_path: Path) -> None:
    properties = {"delta.enableInCommitTimestamps": "true"}
    table = _opened(spark, tmp_path / "t", {"id": [1]}, properties=properties)
    deltaberg.write_table(tmp_path / "t", pa.table({"id": [2, 3]}), mode="append")
    deep, shallow, old, then = (str(tmp_path / name) for name in ("deep", "shallow", "old", "then"))
    assert _ids(table.clone(deep).toDF()) == _ids(table.clone(shallow, isShallow=True).toDF()) == [1, 2, 3]
    assert (len(list((tmp_path / "deep").glob("*.parquet"))), list((tmp_path / "shallow").glob("*.parquet"))) == (2, [])
    assert _ids(table.cloneAtVersion(0, old, True, False, {"owner": "ada"}).toDF()) == [1]
    assert deltaberg.DeltaTable(old).properties == {**properties, "owner": "ada"}
    at = deltaberg.DeltaTable(tmp_path / "t").history()[1].timestamp.astimezone(ZoneInfo("Asia/Tokyo"))
    with setting(spark, "spark.sql.session.timeZone", "Asia/Tokyo"):
        assert _ids(table.cloneAtTimestamp(f"{at:%Y-%m-%d %H:%M:%S.%f}", then).toDF()) == [1]
    with pytest.raises(TableExistsError, match="no deep clone of this one"):
        table.clone(old)
    assert _ids(table.clone(old, replace=True).toDF()) == [1, 2, 3]


def test_a_feature_is_dropped(spark: Any, tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    table = _opened(spark, tmp_path / "t", {"id": list(range(100))}, properties=properties)
    deltaberg.DeltaTable(tmp_path / "t").delete("id < 10", strategy="merge-on-read")
    with pytest.raises(UnsupportedFeatureError, match="or leave out truncateHistory to drop it now"):
        table.dropFeatureSupport("deletionVectors", truncateHistory=True)
    table.dropFeatureSupport("deletionVectors")
    (detail,) = table.detail().collect()
    assert (detail["minReaderVersion"], "deletionVectors" in detail["tableFeatures"]) == (1, False)
    assert _ids(table.toDF()) == list(range(10, 100))
    with pytest.raises(InvalidArgumentError, match="pass truncateHistory=True"):
        table.dropFeatureSupport("checkpointProtection")


def test_what_a_table_tells_of_itself(spark: Any, tmp_path: Path) -> None:
    directory = tmp_path / "parquet" / "p=1"
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64())}), directory / "a.parquet")
    table = DeltaTable.convertToDelta(spark, f"parquet.`{directory.parent}`", "p int")
    assert _content(table, "id", "p") == [(1, 1), (2, 1)]
    deltaberg.write_table(directory.parent, pa.table({"id": [3], "p": pa.array([1], pa.int32())}), mode="append")
    (done,) = table.optimize().where("p = 1").executeCompaction().collect()
    assert (done["path"], done["metrics"]["numFilesAdded"], done["metrics"]["numFilesRemoved"]) == (
        str(directory.parent),
        1,
        2,
    )
    (newest,) = table.history(1).collect()
    assert (newest["version"], newest["operation"], newest["readVersion"]) == (2, "OPTIMIZE", 1)
    assert newest["operationMetrics"]["numRemovedFiles"] == "2"
    table.upgradeTableProtocol(1, 4)
    table.upgradeTableProtocol(1, 2)
    table.addFeatureSupport("deletionVectors")
    table.addFeatureSupport("deletionVectors")
    (detail,) = table.detail().collect()
    assert (detail["format"], detail["location"], detail["numFiles"]) == ("delta", str(directory.parent), 1)
    assert (detail["partitionColumns"], detail["clusteringColumns"]) == (["p"], [])
    assert (detail["minReaderVersion"], detail["minWriterVersion"]) == (3, 7)
    assert {"changeDataFeed", "deletionVectors"} <= set(detail["tableFeatures"])
    assert detail["createdAt"] <= detail["lastModified"]
    with setting(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"):
        assert table.history(1).schema["timestamp"].dataType == st.TimestampType()
        assert table.detail().collect() == [detail]
    assert table.history().count() == 5
    with pytest.raises(InvalidArgumentError, match="168 hours"):
        table.vacuum(0)
    assert table.vacuum().collect() == []
    with setting(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        assert table.vacuum(0).columns == ["path", "kind", "bytes", "modified", "reason"]
    assert table.history(1).collect()[0]["operation"] == "VACUUM END"
    (done,) = table.optimize().executeZOrderBy("id").collect()
    assert (done["metrics"]["numFilesAdded"], done["metrics"]["numFilesRemoved"]) == (1, 1)
    assert table.history(1).collect()[0]["operationParameters"]["zOrderBy"] == '["id"]'
    refused: dict[str, Callable[[], object]] = {
        "executeZOrderBy": lambda: table.optimize().executeZOrderBy("id", "p"),
        "catalog": lambda: DeltaTable.forName(spark, "orders"),
    }
    for name, call in refused.items():
        with pytest.raises(UnsupportedFeatureError, match=name):
            call()
    with pytest.raises(TableNotFoundError, match="there is no Delta table"):
        DeltaTable.forPath(spark, str(tmp_path / "none"))
    with pytest.raises(InvalidArgumentError, match="names no directory"):
        DeltaTable.convertToDelta(spark, "orders")
