"""How a scan is shared out to Spark's tasks: evenly, in few bytes, and with the size that Spark is to expect."""

from __future__ import annotations

import ast
import contextlib
import io
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

import deltaberg.spark
from deltaberg import Scan, open_table
from deltaberg.choices import Planning
from deltaberg.files.read.task import pack_tasks, task_schema, unpack_tasks
from deltaberg.schema.arrow import arrow_schema
from deltaberg.spark.read.read_tasks import FusedTask, ReadTask
from deltaberg.spark.read.task_frames import partition_keys
from deltaberg.spark.types import spark_width
from deltaberg.table.read.scan import bound_scan
from deltaberg.table.read.sharing import grouped_tasks
from tests.spark.doors import needs_native
from tests.spark.native_road import setting, shown_plan
from tests.support.delta_builder import DeltaBuilder
from tests.support.iceberg_builder import IcebergBuilder, arrow_of
from tests.support.roads import collect

Batches = Iterator[pa.RecordBatch]

_ID = pa.schema([("id", pa.int64())])


def _rows_by_partition(scan: Scan, spark: Any) -> list[int]:
    def count(batches: Batches) -> Batches:
        yield pa.record_batch({"rows": [sum(batch.num_rows for batch in batches)]})

    return sorted(row["rows"] for row in scan.map_in_arrow(spark, count, "rows bigint").collect())


def test_small_files_are_packed(builder: DeltaBuilder) -> None:
    builder.create(_ID, *[builder.add(pa.table({"id": [number]})) for number in range(300)])
    tasks = grouped_tasks(bound_scan(open_table(builder.root).scan()), 4)
    sizes = [batch.num_rows for batch in tasks]
    assert sum(sizes) == 300
    # Opening a file counts as reading 4 MiB, so that these files fill more than four groups of 128 MiB.
    assert len(sizes) == 12
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("files", "groups"), [(1, [1]), (3, [1, 2]), (4, [2, 2]), (31, [15, 16])])
def test_groups_are_even(files: int, groups: list[int], builder: DeltaBuilder) -> None:
    builder.create(_ID, *[builder.add(pa.table({"id": [number]})) for number in range(files)])
    scan = bound_scan(open_table(builder.root).scan())
    assert sorted(batch.num_rows for batch in grouped_tasks(scan, 2)) == groups


def test_large_files_are_split_and_the_rest_is_balanced(builder: DeltaBuilder) -> None:
    """The size in the log counts; splitting opens no data file."""
    sizes = [1 << 30, 100 << 20, 10 << 20]
    tasks = grouped_tasks(bound_scan(_large(builder, sizes)), 4)
    spans = [
        (row["location"].rpartition("/")[2], row["start"], min(row["stop"], row["size"]))
        for batch in tasks
        for row in batch.to_pylist()
    ]
    for number, size in enumerate(sizes):
        own = sorted(span[1:] for span in spans if span[0] == f"{number}.parquet")
        assert own[0][0] == 0
        assert own[-1][1] == size
        assert [stop for _, stop in own[:-1]] == [start for start, _ in own[1:]]
        assert len(own) == -(-size // (128 << 20))
    loads = [sum(min(row["stop"], row["size"]) - row["start"] for row in batch.to_pylist()) for batch in tasks]
    assert max(loads) <= 160 << 20


_NESTED = pa.struct({"a": pa.int32(), "b": pa.list_(pa.int64()), "c": pa.map_(pa.string(), pa.decimal128(20, 2))})


@pytest.mark.parametrize(
    ("columns", "condition", "groups"),
    [
        (None, None, 64),
        (["id"], None, 18),
        ([], None, 18),
        (["nested.a"], None, 18),
        (["nested"], None, 45),
        (["id"], "nested.c IS NOT NULL", 38),
        (["text", "bytes"], None, 22),
    ],
)
def test_tasks_have_as_many_bytes_of_the_wanted_columns(
    columns: list[str] | None, condition: str | None, groups: int, builder: DeltaBuilder
) -> None:
    """The width of a column is estimated by its type; at least a quarter of a file counts, and the cost to open it."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("bytes", pa.binary()), ("nested", _NESTED)])
    scan = _large(builder, [128 << 20] * 64, schema, columns=columns, filter=condition)
    found = grouped_tasks(bound_scan(scan), 1)
    assert sum(batch.num_rows for batch in found) == 64
    assert len(found) == groups


@pytest.mark.parametrize(("format", "groups"), [("parquet", 6), ("avro", 16)])
def test_formats_of_rows_are_read_whole(format: str, groups: int, tmp_path: Path) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "text": "string"})
    files = [builder.data([{"id": number}], format=format) for number in range(16)]
    for file in files:
        file.size = 128 << 20
    builder.commit(*files)
    assert len(grouped_tasks(bound_scan(open_table(builder.root).scan(columns=["id"])), 1)) == groups


@pytest.mark.spark
def test_one_large_file_is_read_by_several_tasks(spark: Any, builder: DeltaBuilder) -> None:
    rows = pa.table({"id": range(40_000), "text": [f"{number:0>40}" for number in range(40_000)]})
    deleted = {0, 9_999, 10_000, 39_999}
    add = builder.add(rows, vector=builder.vector(deleted), writer={"row_group_size": 10_000})
    builder.create(rows.schema, add, protocol=builder.features("deletionVectors"))
    scan = open_table(builder.root).scan(split_size=add["add"]["size"] // 4 + 1)
    parts = _rows_by_partition(scan, spark)
    assert sum(parts) == 40_000 - len(deleted)
    assert len(parts) == 2
    assert min(parts) > 19_990
    found = collect(scan.to_spark(spark))["id"].to_pylist()
    assert sorted(found) == [number for number in range(40_000) if number not in deleted]


@pytest.mark.spark
def test_every_group_has_a_partition_of_its_own(spark: Any) -> None:
    """Spark's own hash judges the keys that are chosen for it."""
    for count in (1, 2, 7, 64):
        rows = [(key,) for key in partition_keys(count)]
        frame = spark.createDataFrame(rows, "slot int").repartition(count, "slot")
        found = frame.selectExpr("spark_partition_id() AS partition").collect()
        assert sorted(row["partition"] for row in found) == list(range(count))


def _large(builder: DeltaBuilder, sizes: list[int], schema: pa.Schema = _ID, **options: Any) -> Scan:
    """Return a scan of files that have these sizes in the log; the files do not exist."""
    adds = [builder.add(path=f"{number}.parquet") for number in range(len(sizes))]
    for add, size in zip(adds, sizes, strict=True):
        add["add"]["size"] = size
    builder.create(schema, *adds)
    scan: Scan = open_table(builder.root).scan(**options)
    return scan


def _explained(frame: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        frame.explain(mode="cost")
    return text.getvalue()


def _as_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaberg.spark.read.task_frames._MOST_CARRIED", 0)


@pytest.mark.spark
@pytest.mark.parametrize("carried", [True, pytest.param(False, marks=needs_native)])
@pytest.mark.parametrize("by_rows", ["false", "true"])
def test_spark_expects_the_bytes_of_the_files(
    carried: bool, by_rows: str, spark: Any, builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would take any table for a small one, and broadcast it for a join.

    If it plans by the number of rows, it multiplies that by the width of the columns.
    """
    if not carried:
        _as_rows(monkeypatch)
    schema = pa.schema([("id", pa.int64()), ("d", pa.decimal128(38, 0)), ("s", pa.string()), ("t", pa.string())])
    sizes = [300 << 20, 100 << 20, 1 << 20]
    with setting(spark, "spark.sql.cbo.enabled", by_rows):
        for name, columns, size in (
            ("all", None, 401),
            ("some", ["id", "s"], 401 * 28 // 64),
            ("one", ["id"], 401 / 4),
        ):
            made = DeltaBuilder(builder.root / name)
            frame = _large(made, sizes, schema, columns=columns).to_spark(spark, road="arrow")
            plan = _explained(frame.filter("id IS NOT NULL"))
            estimates = [
                float(text) for text in re.findall(r"(?:MapInArrow|Filter isnotnull).*sizeInBytes=([0-9.]+) MiB", plan)
            ]
            assert len(estimates) == 2
            # It may expect more: by the width of tasks that are rows, and before it knows the wanted columns.
            is_exact = carried and by_rows == "false"
            assert size * 0.99 < min(estimates) <= max(estimates) < size * (1.01 if is_exact else 8.1)


@pytest.mark.spark
def test_widths_are_those_of_spark(spark: Any) -> None:
    """Spark's own estimate for a thousand rows of each type judges."""
    for text in (
        *(
            "boolean",
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "string",
            "binary",
            "date",
            "timestamp",
        ),
        *("decimal(18, 2)", "decimal(19, 2)", "array<int>", "map<string, bigint>", "struct<a: int, b: array<string>>"),
        *("timestamp_ntz", "interval day to second", "array<struct<x: decimal(30, 0), y: date>>"),
    ):
        frame = spark.sql(f"SELECT CAST(NULL AS {text}) AS x FROM range(1000)")
        found = re.search(r"Project.*sizeInBytes=([0-9.]+) (K?i?B)", _explained(frame))
        assert found is not None
        wanted = 8000 * (8 + spark_width(frame.schema)) / 16
        assert float(found[1]) * (1024 if found[2] == "KiB" else 1) == pytest.approx(wanted, rel=0.02), text


@pytest.mark.spark
@needs_native
def test_a_vast_table_is_expected_to_be_vast(spark: Any, builder: DeltaBuilder) -> None:
    """Its size is above every threshold for broadcasts that a session may set; Spark broadcasts at most 8 GiB.

    Its tasks are rows, which Spark 3.5 expects to be endless.
    """
    frame = _large(builder, [1 << 34] * 3).to_spark(spark, road="arrow")
    found = re.search(r"MapInArrow.*sizeInBytes=([0-9.]+) GiB", _explained(frame))
    assert found is not None
    assert 47 < float(found[1]) < 60


@pytest.mark.spark
@needs_native
@pytest.mark.parametrize("planning", ["driver", "executors"])
def test_a_large_table_is_not_broadcast_after_the_shuffle_of_its_tasks(
    planning: Planning, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark plans again after the shuffle, when it knows how small the tasks are."""
    _as_rows(monkeypatch)
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    rows = pa.table({"id": range(1 << 18)}, schema=arrow_of(builder.fields))
    builder.commit(*(builder.data(rows.slice(start, 1 << 17)) for start in (0, 1 << 17)))
    scan = open_table(builder.root).scan(planning=planning)
    wide = spark.range(1 << 18).selectExpr("id", "repeat(CAST(id AS STRING), 9) AS s").repartition(3)
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "200000"):
        joined = scan.to_spark(spark, road="arrow").join(wide, "id")
        assert joined.toArrow().num_rows == len(rows)
        plan = shown_plan(joined)
    assert "isFinalPlan=true" in plan or "connect" in type(spark).__module__
    assert "BroadcastHashJoin" not in plan


@pytest.mark.spark
@pytest.mark.parametrize("carried", [True, False])
def test_a_large_table_is_not_broadcast(
    carried: bool, spark: Any, builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not carried:
        _as_rows(monkeypatch)
    frame = _large(builder, [1 << 30]).to_spark(spark, road="arrow")
    assert "BroadcastHashJoin" not in _explained(frame.join(spark.range(1 << 40), "id"))


@pytest.mark.spark
@pytest.mark.parametrize("carried", [True, pytest.param(False, marks=needs_native)])
def test_a_small_table_is_broadcast(
    carried: bool, spark: Any, builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not carried:
        _as_rows(monkeypatch)
    small = DeltaBuilder(builder.root / "small")
    small.create(_ID, small.add(pa.table({"id": [1]})))
    tables = [open_table(small.root).scan(), _large(builder, [1 << 30])]
    left, right = (scan.to_spark(spark, road="arrow") for scan in tables)
    assert "BroadcastHashJoin" in _explained(left.join(right, "id"))


@pytest.mark.spark
def test_rows_do_not_depend_on_how_tasks_travel(
    spark: Any, builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.create(_ID, *[builder.add(pa.table({"id": [number, number]})) for number in range(9)])
    scan = open_table(builder.root).scan()
    carried = collect(scan.to_spark(spark, road="arrow"))
    _as_rows(monkeypatch)
    rows = collect(scan.to_spark(spark, road="arrow"))
    assert sorted(carried["id"].to_pylist()) == sorted(rows["id"].to_pylist()) == sorted([*range(9), *range(9)])


def test_tasks_are_small(builder: DeltaBuilder) -> None:
    """Each has a few hundred bytes in addition to its deletes, however many there are."""
    adds = [
        builder.add(
            path=f"region=r{number}/part-{number:05d}-0f9c4a1e-5f1c-4b6e-9d3c-abcdef{number:06d}.c000.snappy.parquet",
            partition={"region": f"r{number}"},
            stats={"numRecords": 1000, "minValues": {"id": number}, "maxValues": {"id": number + 1000}},
        )
        for number in range(200)
    ]
    schema = pa.schema([("id", pa.int64()), ("region", pa.string())])
    builder.create(schema, *adds, partition_by=["region"])
    scan = bound_scan(open_table(builder.root).scan(filter="id >= 0"))
    single = pa.Table.from_batches(grouped_tasks(scan, 1)).combine_chunks().to_batches()[0]
    packed = pack_tasks(single)
    assert len(packed) / 200 < 100
    alone = [len(pickle.dumps(pack_tasks(single.slice(index, 1)))) for index in range(200)]
    assert max(alone) < 600
    # Nothing was lost on the way.
    back = unpack_tasks(packed, task_schema(arrow_schema(scan.read_spec.constants)))
    assert back.to_pylist() == single.to_pylist()


def test_what_all_tasks_share_does_not_grow_with_the_table(builder: DeltaBuilder) -> None:
    def pickled(scan: Scan) -> int:
        return len(pickle.dumps(FusedTask(ReadTask(bound_scan(scan).read_spec), len, ("id",))))  # type: ignore[arg-type]

    builder.create(_ID, builder.add(pa.table({"id": [1]})))
    small = pickled(open_table(builder.root).scan())
    builder.commit(*[builder.add(path=f"{number}.parquet") for number in range(500)])
    assert pickled(open_table(builder.root).scan()) == small < 2_000


def _attributes(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _imports(path: Path) -> set[str]:
    """Return the top-level packages that a module imports anywhere."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
    return modules


def test_nothing_uses_py4j() -> None:
    """Over Spark Connect there is neither a JVM in reach nor a SparkContext.

    Columns of classic sessions exist only in the JVM, and one module reads and makes them there. Another one writes by
    Spark's own writer in a clone of a classic session, which PySpark cannot make. A third one cancels the jobs of
    classic sessions by their context, and a fourth one asks the context of which stream a batch is.
    """
    sources = sorted(Path(deltaberg.spark.__file__).parent.rglob("*.py"))
    assert len(sources) >= 7
    assert [path.name for path in sources if "_jc" in _attributes(path)] == ["classic.py"]
    classic = {path.name for path in sources if {"_jvm", "_jdf", "_jsparkSession"} & _attributes(path)}
    assert classic == {"classic.py", "current_batch.py", "spark_parquet.py"}
    assert [path.name for path in sources if "sparkContext" in _attributes(path)] == ["jobs.py"]
    sources = [path for path in sources if path.name not in classic]
    forbidden = {"_jvm", "_jsc", "_jdf", "_jsparkSession", "_sc", "rdd"}
    for path in sources:
        assert not _attributes(path) & forbidden, path.name
        assert "py4j" not in _imports(path), path.name


def test_a_table_in_memory_is_refused() -> None:
    """Executors are processes of their own."""
    from deltaberg.errors import InvalidArgumentError
    from deltaberg.storage.location import parse_location
    from deltaberg.storage.stores import open_store

    schema = '{\\"type\\":\\"struct\\",\\"fields\\":[]}'
    root = parse_location("memory://for-spark/table")
    lines = (
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
        f'{{"metaData":{{"id":"m","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}",'
        '"partitionColumns":[],"configuration":{}}}\n'
    )
    open_store(root).put("table/_delta_log/00000000000000000000.json", lines.encode())
    with pytest.raises(InvalidArgumentError, match="exists only in this process"):
        open_table("memory://for-spark/table").scan().to_spark(cast(Any, SimpleNamespace(createDataFrame=print)))
