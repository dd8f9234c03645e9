"""Rows of Spark DataFrames that Spark's tasks write to Delta tables, by the arrow road and the fused one."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table, open_table, write_table
from deltaberg.errors import ConstraintViolationError, InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.schema.from_arrow import table_schema
from deltaberg.spark import FrameRows
from deltaberg.spark.types import spark_schema
from deltaberg.spark.write.write_tasks import WriteTask, written_of_replies
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.write.sources import WriteRoad, open_rows, open_source
from deltaberg.table.write.spec import WriteSpec
from tests.spark.doors import needs_variants
from tests.spark.native_road import setting
from tests.support.canon import canonical_lines

pytestmark = pytest.mark.spark

_UTC = dt.timezone.utc
_PLACES = pa.table(
    {
        "flag": [True, None, False],
        "small": pa.array([-(1 << 15), None, 7], pa.int16()),
        "wide": pa.array([-(1 << 63), None, 1], pa.int64()),
        "single": pa.array([float("nan"), None, -0.0], pa.float32()),
        "double": pa.array([float("inf"), None, float("nan")], pa.float64()),
        "money": pa.array([Decimal("-0.01"), None, Decimal("9" * 20)], pa.decimal128(38, 18)),
        "text": ["", None, "\U0001f4b0 é\x00z"],
        "bytes": pa.array([b"", None, bytes(range(256))]),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        "at": pa.array([dt.datetime(1883, 11, 18, 12, 3, 57, 1, _UTC), None, dt.datetime(9999, 12, 31, tzinfo=_UTC)]),
        "wall": pa.array([dt.datetime(1582, 10, 4, 23, 59), None, dt.datetime(2023, 11, 5, 1, 30)]),
        "tags": pa.array([[], None, ["a", None]], pa.list_(pa.string())),
        "spot": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int32())])),
        "by": pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
    }
)


def _statistics(table: DeltaTable) -> list[dict[str, Any]]:
    log = Path(table.location) / "_delta_log" / f"{table.version:020d}.json"
    lines = (json.loads(line) for line in log.read_text("utf-8").splitlines())
    return [json.loads(line["add"]["stats"]) for line in lines if "add" in line]


def _with_rows(root: Path, rows: pa.Table, **options: Any) -> DeltaTable:
    write_table(root, rows, **options)
    return open_table(root, "delta")


def test_rows_are_those_that_one_machine_writes(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, statistics and columns do not depend on who writes, nor on the zone of the session."""
    monkeypatch.setattr("deltaberg.spark.write.frame_rows.why_not_native", lambda *_: "this test writes by Arrow")
    local = _with_rows(tmp_path / "local", _PLACES)
    frame = local.scan().to_spark(spark).coalesce(1)
    with setting(spark, "spark.sql.session.timeZone", "Asia/Kolkata"):
        result = write_table(tmp_path / "spark", frame)
    assert (result.road, result.why_not_native) == ("arrow", "this test writes by Arrow")
    assert result.added_rows == 3
    written = open_table(tmp_path / "spark", "delta")
    assert written.schema == local.schema
    assert canonical_lines(written.scan().to_arrow()) == canonical_lines(local.scan().to_arrow())
    assert _statistics(written) == _statistics(local)


def test_frames_may_have_any_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over Spark Connect, PySpark 4.3 takes any name for that of a column."""
    taken: list[Any] = []

    class Taken(FrameRows):
        def __init__(self, frame: Any) -> None:
            taken.append(frame)
            self._schema = pa.schema([])

    monkeypatch.setattr("deltaberg.spark.FrameRows", Taken)
    members = {"__getattr__": lambda _, name: name, "__module__": "pyspark.sql.connect.dataframe"}
    frame = type("DataFrame", (), members)()
    assert isinstance(open_rows(frame), Taken)
    assert isinstance(open_source(frame), Taken)
    assert taken == [frame, frame]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_partitions_have_few_files(adaptive: str, spark: Any, tmp_path: Path) -> None:
    """Rows of a partition come together before they are written, whatever tasks they come from."""
    frame = spark.range(0, 600, 1, 6).selectExpr(
        "id", "CASE WHEN id % 3 = 0 THEN NULL ELSE concat('ä/', id % 3) END `a.b`"
    )
    table = create_table(tmp_path / "t", pa.schema([("a.b", pa.string()), ("id", pa.int64())]), partition_by=[("a.b",)])
    with setting(spark, "spark.sql.adaptive.enabled", adaptive):
        result = table.append(frame)
    assert (result.road, result.added_files, result.added_rows) == ("arrow", 3, 600)
    found = table.scan().to_arrow().group_by("a.b").aggregate([("id", "count"), ("id", "sum")]).to_pylist()
    assert {row["a.b"]: (row["id_count"], row["id_sum"]) for row in found} == {
        None: (200, sum(range(0, 600, 3))),
        "ä/1": (200, sum(range(1, 600, 3))),
        "ä/2": (200, sum(range(2, 600, 3))),
    }


def test_a_function_of_a_scan_is_written_where_it_runs(spark: Any, tmp_path: Path) -> None:
    """Read, compute and write are one task: the rows never enter the JVM."""
    source = _with_rows(tmp_path / "source", pa.table({"id": range(100), "p": ["x", "y"] * 50}), partition_by="p")

    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = [2 * number for number in batch.column("id").to_pylist()]
            yield pa.record_batch({"id": ids, "p": batch.column("p")})

    frame = source.scan("p = 'x'").map_in_arrow(spark, doubled, "id bigint, p string")
    target = create_table(tmp_path / "target", source.schema)
    assert target.append(frame).road == "fused"
    assert sorted(target.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == list(range(0, 200, 4))
    # A frame that something was done to is an ordinary one, and so are rows that partitions must bring together.
    assert target.overwrite(frame.where("id < 40")).road in ("native", "arrow")
    assert target.scan().count() == 10
    assert write_table(tmp_path / "parts", frame, partition_by="p").road == "arrow"


def test_cached_rows_are_not_computed_again(spark: Any, tmp_path: Path) -> None:
    """A function may return other rows the next time; what the user has seen is what is written."""
    source = _with_rows(tmp_path / "source", pa.table({"id": [1]}))

    def drawn(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"text": [uuid.uuid4().hex for _ in range(batch.num_rows)]})

    frame = source.scan().map_in_arrow(spark, drawn, "text string")
    target = create_table(tmp_path / "target", pa.schema([("text", pa.string())]))
    assert target.append(frame).road == "fused"
    frame.cache()
    seen = [row["text"] for row in frame.collect()]
    assert target.overwrite(frame).road in ("native", "arrow")
    assert target.scan().to_arrow()["text"].to_pylist() == seen
    assert target.upsert(frame, "text").metrics["numTargetRowsInserted"] == 0
    frame.unpersist()
    assert target.append(frame).road == "fused"


@needs_variants
def test_variants_come_from_frames(spark: Any, tmp_path: Path) -> None:
    """Spark has the parts of variants in another order than tables do."""
    rows = spark.sql(
        "SELECT id, parse_json(text) AS v, array(named_struct('x', parse_json(text))) AS l "
        """FROM VALUES (1L, '{"a": [1, "two"]}'), (2L, NULL), (3L, 'null') AS t(id, text)"""
    )
    write_table(tmp_path / "t", rows)
    table = open_table(tmp_path / "t", "delta")
    assert [str(child.type) for child in table.schema] == ["long", "variant", "array<struct<x: variant>>"]
    shown = "id", "to_json(v) AS v", "to_json(l[0].x) AS x"
    assert table.scan().to_spark(spark).selectExpr(*shown).sort("id").collect() == rows.selectExpr(*shown).collect()
    # A frame that is read from a table, one of the fused road, and the source of a merge.
    copy = create_table(tmp_path / "copy", table.schema)
    assert copy.append(table.scan().to_spark(spark)).road == "arrow"
    fused = table.scan().map_in_arrow(spark, lambda batches: batches, spark_schema(table.schema))
    assert copy.overwrite(fused).road == "fused"
    assert copy.upsert(rows.where("id > 1").unionByName(rows.selectExpr("id + 7 AS id", "v", "l")), "id").committed
    found = copy.scan("id <> 9").to_spark(spark).selectExpr(*shown).collect()
    assert sorted((row["id"], row["v"], row["x"]) for row in found if row["v"]) == [
        (1, '{"a":[1,"two"]}', '{"a":[1,"two"]}'),
        (3, "null", "null"),
        (8, '{"a":[1,"two"]}', '{"a":[1,"two"]}'),
        (10, "null", "null"),
    ]


def test_verbs_and_schemas(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "x"), (2, "y")], "id int, p string")
    assert write_table(tmp_path / "t", rows, partition_by="p").version == 0
    table = open_table(tmp_path / "t", "delta")
    table.append(rows.selectExpr("id + 2 AS ID", "p", "0.5D AS price"), schema_mode="merge")
    table.overwrite(spark.createDataFrame([(9, "x")], "id long, p string"), where="p = 'x'")
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    assert found == [
        {"id": 2, "p": "y", "price": None},
        {"id": 4, "p": "y", "price": 0.5},
        {"id": 9, "p": "x", "price": None},
    ]
    with pytest.raises(ConstraintViolationError, match="violates the filter of the rows to be replaced"):
        table.overwrite(rows, where="p = 'x'")
    table.overwrite(spark.createDataFrame([(5, "y")], "id int, p string"), dynamic=True)
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [5, 9]
    assert table.append(rows, txn=("app", 1)).committed
    assert not table.append(rows, txn=("app", 1)).committed
    assert table.overwrite(table.scan().to_spark(spark).where("id = 9")).removed_files == 4
    assert table.scan().count() == 1
    assert write_table(table, spark.range(0), mode="overwrite").added_files == 0


def test_bad_rows_leave_the_table_as_it_was(spark: Any, tmp_path: Path) -> None:
    """The errors are those of one machine, and the files of tasks that had succeeded are deleted."""
    table = create_table(tmp_path / "t", pa.schema([pa.field("id", pa.int32(), nullable=False)]))
    with pytest.raises(SchemaError, match="string cannot be written"):
        table.append(spark.createDataFrame([("x",)], "id string"))
    with pytest.raises(SchemaError, match="does not have: other"):
        table.append(spark.createDataFrame([(1, 2)], "id int, other int"))
    with pytest.raises(ConstraintViolationError, match="null"):
        table.append(spark.createDataFrame([(1,), (None,)], "id int").repartition(2))
    with pytest.raises(SchemaError, match="does not fit"):
        table.append(spark.range(0, 1 << 33, 1 << 31, 2))
    with pytest.raises(UnsupportedFeatureError, match="interval"):
        table.append(spark.sql("SELECT INTERVAL '1' DAY AS id"))
    with pytest.raises(InvalidArgumentError, match="same name: id") as caught:
        table.append(spark.sql("SELECT 1 AS id, 2 AS id"))
    assert "toDF" in str(caught.value.hint)
    assert table.refresh().version == 0
    assert not list((tmp_path / "t").glob("*.parquet"))


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_comments_of_columns_are_kept(spark: Any, tmp_path: Path, format: Any) -> None:
    """As Spark keeps them when it makes a table of a DataFrame, at every depth; later rows leave them as they are."""
    inner = "struct<n: bigint COMMENT 'inner', plain: int>"
    columns = f"id bigint COMMENT 'the key', s {inner} COMMENT 'outer', l array<{inner}>, m map<string, {inner}>, x int"
    frame = spark.createDataFrame([], columns)
    write_table(tmp_path / "t", frame, format=format)
    table: Any = open_table(tmp_path / "t")
    name = "comment" if format == "delta" else "doc"

    def comments() -> list[Any]:
        top = [field.metadata.get(name) for field in table.schema]
        outer, listed, mapped = (table.schema.get(one).type for one in ("s", "l", "m"))
        nested = [outer, listed.element.type, mapped.value.type]
        return [*top, *([field.metadata.get(name) for field in one] for one in nested)]

    expected = ["the key", "outer", None, None, None, *([["inner", None]] * 3)]
    assert comments() == expected
    table.append(spark.createDataFrame([(1,)], "id bigint COMMENT 'other'"))
    assert comments() == expected
    table.append(spark.createDataFrame([(2, 3)], "id bigint, added int COMMENT 'new'"), schema_mode="merge")
    assert table.schema.get("added").metadata[name] == "new"


def test_a_table_in_memory_is_refused(spark: Any) -> None:
    table = create_table("memory://frames/table", pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidArgumentError, match="exists only in this process"):
        table.append(spark.range(3))


def test_tasks_that_run_twice_leave_no_duplicates(tmp_path: Path) -> None:
    """A twin writes files of other names, and only what the driver hears of is committed."""
    root = parse_location(str(tmp_path))
    table = create_table(root.path, pa.schema([("id", pa.int64())]))
    task = WriteTask(WriteSpec(table.schema), StoreSpec(), root, ("id",))
    batches = pa.table({"id": [1, 2, 3]}).to_batches()
    replies = [next(iter(task(iter(batches)))).to_pylist()[0] for _ in range(2)]
    tables, errors = written_of_replies([(reply["files"], reply["error"]) for reply in replies[1:]])
    assert not errors
    assert len(list(tmp_path.glob("*.parquet"))) == 2

    class Second:
        """Rows whose second attempt is the one that Spark took."""

        schema = batches[0].schema

        def write(self, *_: object) -> pa.Table:
            return pa.concat_tables(tables)

        def road(self, *_: object) -> WriteRoad:
            return WriteRoad("arrow")

    assert table.append(Second()).added_rows == 3
    assert table.scan().count() == 3


def test_tasks_without_rows_reply_nothing(tmp_path: Path) -> None:
    schema = table_schema(pa.schema([("id", pa.int64())]))
    task = WriteTask(WriteSpec(schema), StoreSpec(), parse_location(str(tmp_path)), ("id",))
    assert list(task(iter([pa.record_batch({"id": pa.array([], pa.int64())})]))) == []
    assert not list(tmp_path.iterdir())
