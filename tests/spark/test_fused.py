"""The fused road: a function runs in the tasks that read the files."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import types as st

from deltaberg import open_table
from deltaberg.errors import InvalidArgumentError
from tests.spark.doors import needs_variants
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import collect

pytestmark = pytest.mark.spark

Batches = Iterator[pa.RecordBatch]


def _three_files(builder: DeltaBuilder) -> Any:
    """Three files of ten rows, of which the first two of each are deleted."""
    adds = [
        builder.add(
            pa.table({"id": list(range(10 * file, 10 * file + 10)), "name": [f"n{file}"] * 10}),
            stats="count",
            vector=builder.vector([0, 1]),
        )
        for file in range(3)
    ]
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    builder.create(schema, *adds, protocol=builder.features("deletionVectors"))
    return open_table(builder.root)


_LEFT = [file * 10 + row for file in range(3) for row in range(2, 10)]


def _doubled(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.record_batch({"twice": pc.multiply(batch["id"], 2), "name": batch["name"]})


@pytest.mark.parametrize(
    "schema",
    [
        "twice bigint, name string",
        st.StructType([st.StructField("twice", st.LongType()), st.StructField("name", st.StringType())]),
        pa.schema([("twice", pa.int64()), ("name", pa.string())]),
    ],
    ids=["ddl", "StructType", "pyarrow"],
)
def test_the_schema_is_text_or_of_spark_or_of_pyarrow(schema: Any, spark: Any, builder: DeltaBuilder) -> None:
    frame = _three_files(builder).scan().map_in_arrow(spark, _doubled, schema)
    assert frame.schema.simpleString() == "struct<twice:bigint,name:string>"
    rows = sorted(tuple(row) for row in frame.collect())
    assert rows == [(2 * number, f"n{number // 10}") for number in _LEFT]


@pytest.mark.parametrize("schema", [7, None, {"id": "bigint"}])
def test_another_schema_is_refused(schema: Any, spark: Any, builder: DeltaBuilder) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a schema"):
        _three_files(builder).scan().map_in_arrow(spark, _doubled, schema)


def test_the_schema_of_a_scan_of_every_type_will_do(spark: Any, builder: DeltaBuilder) -> None:
    """Text and binary, both kinds of timestamp, at any depth."""
    instant = dt.datetime(2020, 1, 2, 3, 4, 5, 678_901)
    kinds = {
        "plain": (pa.timestamp("us"), instant),
        "zoned": (pa.timestamp("us", "UTC"), instant.replace(tzinfo=dt.timezone.utc)),
        "inside": (pa.struct([("many", pa.list_(pa.timestamp("us")))]), {"many": [instant]}),
        "day": (pa.date32(), instant.date()),
        "price": (pa.decimal128(38, 9), Decimal("1.5")),
        "raw": (pa.binary(), b"x"),
    }
    rows = pa.table({name: pa.array([value], kind) for name, (kind, value) in kinds.items()})
    builder.create(rows.schema, builder.add(rows), protocol=builder.features("timestampNtz"))
    scan = open_table(builder.root).scan()
    frame = scan.map_in_arrow(spark, iter, scan.schema)
    assert frame.schema["plain"].dataType == st.TimestampNTZType()
    assert collect(frame).to_pylist() == scan.to_arrow().to_pylist()


def test_what_cannot_be_called_is_refused(spark: Any, builder: DeltaBuilder) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be called"):
        _three_files(builder).scan().map_in_arrow(spark, "doubled", "id bigint")


def test_the_function_sees_the_schema_of_the_scan_and_runs_once_a_task(spark: Any, builder: DeltaBuilder) -> None:
    def seen(batches: Batches) -> Batches:
        taken = list(batches)
        schemas = {str(batch.schema.remove_metadata()) for batch in taken}
        rows = sum(batch.num_rows for batch in taken)
        yield pa.record_batch({"process": [os.getpid()], "schema": [";".join(schemas)], "rows": [rows]})

    scan = _three_files(builder).scan(columns=["name", "id"], filter="id != 5")
    calls = scan.map_in_arrow(spark, seen, "process int, schema string, rows bigint").collect()
    assert {row["schema"] for row in calls} == {str(scan.schema)}
    assert sum(row["rows"] for row in calls) == len(_LEFT) - 1
    # The session has two cores, so that the files are shared out to two tasks, each of which gave one row.
    assert len(calls) == 2
    assert os.getpid() not in {row["process"] for row in calls}


def test_a_function_may_gather_everything_before_it_gives(spark: Any, builder: DeltaBuilder) -> None:
    def totals(batches: Batches) -> Batches:
        table = pa.Table.from_batches(batches)
        yield from table.group_by("name").aggregate([("id", "sum")]).to_batches()

    frame = _three_files(builder).scan().map_in_arrow(spark, totals, "name string, id_sum bigint")
    wanted = {f"n{file}": sum(number for number in _LEFT if number // 10 == file) for file in range(3)}
    found: dict[str, int] = {}
    for row in frame.collect():
        found[row["name"]] = found.get(row["name"], 0) + row["id_sum"]
    assert found == wanted


def test_a_function_may_stop_early(spark: Any, builder: DeltaBuilder) -> None:
    def first(batches: Batches) -> Batches:
        yield next(batches).slice(0, 1)

    frame = _three_files(builder).scan(batch_size=3).map_in_arrow(spark, first, "id bigint, name string")
    assert [row["id"] % 10 for row in frame.collect()] == [2, 2]


def test_a_function_may_give_nothing(spark: Any, builder: DeltaBuilder) -> None:
    def nothing(batches: Batches) -> Batches:
        return iter(())

    frame = _three_files(builder).scan().map_in_arrow(spark, nothing, "id bigint")
    assert frame.count() == 0


def test_more_rows_may_come_out_than_went_in(spark: Any, builder: DeltaBuilder) -> None:
    def thrice(batches: Batches) -> Batches:
        for batch in batches:
            yield from [batch.select(["id"])] * 3

    assert _three_files(builder).scan().map_in_arrow(spark, thrice, "id bigint").count() == 3 * len(_LEFT)


def test_columns_are_matched_by_name(spark: Any, builder: DeltaBuilder) -> None:
    """Spark takes columns by position and would silently swap two columns of one type."""

    def swapped(batches: Batches) -> Batches:
        for batch in batches:
            yield pa.record_batch({"negative": pc.negate(batch["id"]), "id": batch["id"]})

    frame = _three_files(builder).scan().map_in_arrow(spark, swapped, "id bigint, negative bigint")
    assert sorted(tuple(row) for row in frame.collect()) == [(number, -number) for number in _LEFT]


def test_types_are_brought_to_the_schema_where_no_value_changes(spark: Any, builder: DeltaBuilder) -> None:
    """Spark itself fails on an integer of another width with a message about a method."""

    def others(batches: Batches) -> Batches:
        for batch in batches:
            instants = pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)], pa.timestamp("ms", "Europe/Paris"))
            yield pa.record_batch(
                {
                    "number": batch["id"][:1],
                    "money": pa.array([Decimal(7)], pa.decimal128(38, 2)),
                    "ratio": pa.array([0.5], pa.float32()),
                    "nothing": pa.nulls(1),
                    "parts": pa.array([[1, None]], pa.large_list(pa.int64())),
                    "point": pa.array([{"x": 1}], pa.struct([("x", pa.int8())])),
                    "text": pa.array(["t"], pa.large_string()),
                    "at": instants,
                }
            )

    schema = (
        "number int, money decimal(9,2), ratio double, nothing string, parts array<int>, point struct<x: int>, "
        "text string, at timestamp"
    )
    scan = _three_files(builder).scan(columns=["id"], filter="id = 2")
    found = collect(scan.map_in_arrow(spark, others, schema)).to_pylist()
    row = {"number": 2, "money": 7, "ratio": 0.5, "nothing": None, "parts": [1, None], "point": {"x": 1}, "text": "t"}
    assert found == [{**row, "at": dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)}]


def test_dictionaries_and_views_are_made_plain(spark: Any, builder: DeltaBuilder) -> None:
    """Spark cannot take them, and functions of pyarrow return them."""

    def encoded(batches: Batches) -> Batches:
        for batch in batches:
            coded = batch["name"].dictionary_encode()
            nested = pa.StructArray.from_arrays([coded], ["inner"])
            views = pa.array(batch["name"].to_pylist(), pa.string_view())
            yield pa.record_batch({"coded": coded, "nested": nested, "views": views})

    schema = "coded string, nested struct<inner: string>, views string"
    frame = _three_files(builder).scan(filter="id < 4").map_in_arrow(spark, encoded, schema)
    assert [(row.coded, row.nested.inner, row["views"]) for row in frame.collect()] == [("n0", "n0", "n0")] * 2


def _fails(batches: Batches) -> Batches:
    for batch in batches:
        if batch.num_rows:
            raise LookupError(f"no price for {batch['id'][0]}")
        yield batch


def _gives_none(batches: Batches) -> Any:
    list(batches)


def _gives_tables(batches: Batches) -> Any:
    for batch in batches:
        yield pa.table(batch)


def _gives_others(batches: Batches) -> Any:
    for batch in batches:
        yield batch.rename_columns(["identity", "name"])


def _gives_doubles(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.record_batch({"id": batch["id"].cast(pa.float64()), "name": batch["name"]})


def _gives_too_much(batches: Batches) -> Batches:
    for batch in batches:
        many = pa.repeat(pa.scalar(1 << 63, pa.uint64()), batch.num_rows)
        yield pa.record_batch({"id": many, "name": batch["name"]})


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_fails, ["LookupError: no price for 2", "in _fails"]),
        (_gives_none, ["the function returned NoneType", "hint: return an iterator of pyarrow record batches"]),
        (_gives_tables, ["the function yielded Table", "hint: yield pyarrow record batches"]),
        (_gives_doubles, ["the function yielded double as the column id, whose type is int64"]),
        (_gives_too_much, ["the column id does not fit its type int64", "9223372036854775808"]),
        (_gives_others, ["the function yielded the columns identity, name", "hint: the schema has id, name"]),
    ],
)
def test_errors_of_the_function_are_told(function: Any, words: list[str], spark: Any, builder: DeltaBuilder) -> None:
    frame = _three_files(builder).scan().map_in_arrow(spark, function, "id bigint, name string")
    with pytest.raises(Exception, match=r"PythonException|Error") as raised:
        frame.collect()
    for said in words:
        assert said in str(raised.value)


def test_an_empty_plan_gives_an_empty_frame_of_that_schema(spark: Any, builder: DeltaBuilder) -> None:
    frame = _three_files(builder).scan(limit=0).map_in_arrow(spark, _fails, "twice bigint, name string")
    assert frame.schema.simpleString() == "struct<twice:bigint,name:string>"
    assert frame.collect() == []


@pytest.mark.parametrize("filter", [None, "id >= 0"])
@pytest.mark.parametrize("limit", [1, 9, 100])
def test_a_limit_is_one_for_all_tasks(limit: int, filter: str | None, spark: Any, builder: DeltaBuilder) -> None:
    """This holds even where the number of rows in each file is not known beforehand."""
    scan = _three_files(builder).scan(limit=limit, filter=filter)

    def unchanged(batches: Batches) -> Batches:
        yield from batches

    found = collect(scan.map_in_arrow(spark, unchanged, "id bigint, name string"))["id"].to_pylist()
    assert len(set(found)) == len(found) == min(limit, len(_LEFT))
    assert set(found) <= set(_LEFT)


def test_no_columns_are_rows_still(spark: Any, builder: DeltaBuilder) -> None:
    def count(batches: Batches) -> Batches:
        yield pa.record_batch({"rows": [sum(batch.num_rows for batch in batches)]})

    frame = _three_files(builder).scan(columns=[]).map_in_arrow(spark, count, "rows bigint")
    assert sum(row["rows"] for row in frame.collect()) == len(_LEFT)


def test_a_function_may_hold_things_of_its_caller(spark: Any, builder: DeltaBuilder) -> None:
    rates = {f"n{file}": dt.timedelta(days=file) for file in range(3)}

    def days(batches: Batches) -> Batches:
        for batch in batches:
            yield pa.record_batch({"days": [rates[name].days for name in batch["name"].to_pylist()]})

    frame = _three_files(builder).scan().map_in_arrow(spark, days, "days bigint")
    assert sorted(row["days"] for row in frame.collect()) == [number // 10 for number in _LEFT]


@needs_variants
def test_variants_pass_through_a_function(spark: Any, builder: DeltaBuilder) -> None:
    from tests.support.delta_schemas import field

    stored = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    value = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x2a"}
    rows = pa.table({"id": [1, 2], "v": pa.array([value, None], stored)})
    schema = [field("id", "long"), field("v", "variant")]
    builder.create(schema, builder.add(rows), protocol=builder.features("variantType"))

    def kept(batches: Batches) -> Batches:
        for batch in batches:
            yield batch.filter(pc.equal(batch["id"], 1))

    frame = open_table(builder.root).scan().map_in_arrow(spark, kept, "id bigint, v variant")
    assert [(row.id, row.text) for row in frame.selectExpr("id", "to_json(v) AS text").collect()] == [(1, "42")]
