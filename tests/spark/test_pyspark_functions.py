"""Functions as PySpark calls them, with all arguments that it sends, in Columns of classic sessions and of Connect."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import DeltabergError
from deltaberg.expressions.bind.bind import bind_value
from deltaberg.expressions.functions.function_table import FUNCTIONS
from deltaberg.schema.from_arrow import table_schema
from deltaberg.spark.columns.sql_text import column_text
from deltaberg.spark.session import SessionFacts
from tests.spark.doors import needs_connect, needs_native
from tests.support.spark_values import shown

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_ZONE = "America/New_York"
_ROW = {
    "s": pa.array([" a,b,, "]),
    "n": pa.array([-5], pa.int32()),
    "b": pa.array([b"\x01ab"]),
    "x": pa.array([2.5]),
    "q": pa.array([Decimal("-7.25")], pa.decimal128(10, 2)),
    "d": pa.array([dt.date(2020, 1, 31)]),
    "t": pa.array([dt.datetime(2020, 3, 8, 12, 34, 56, 789_000, dt.timezone.utc)], pa.timestamp("us", "UTC")),
    "y": pa.array(["2020-05-20"]),
    "l": pa.array([[3, None, 4]], pa.list_(pa.int32())),
    "m": pa.array([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int32())),
    "p": pa.array([True]),
    "z": pa.array([None], pa.string()),
}


def _calls(f: Any) -> dict[str, list[Any]]:
    """Return Columns for each function that PySpark has and that values can use, by its name here."""
    lit, same = f.lit, ("d", "t")
    calls: dict[str, list[Any]] = {
        **{f"try_{verb}": [getattr(f, f"try_{verb}")("n", lit(3))] for verb in ("add", "subtract", "multiply")},
        **{name: [getattr(f, name)("n", lit(3))] for name in ("try_divide", "try_mod", "pmod")},
        **{name: [getattr(f, name)("q")] for name in ("negative", "positive", "abs", "sign", "signum")},
        **{name: [getattr(f, name)("z"), getattr(f, name)("n")] for name in ("isnull", "isnotnull")},
        "isnan": [f.isnan("x")],
        "coalesce": [f.coalesce("z"), f.coalesce("z", "s", "y")],
        **{name: [getattr(f, name)("z", "s")] for name in ("nvl", "ifnull", "nullif")},
        "nvl2": [f.nvl2("z", "s", "y")],
        "case": [f.when(f.col("p"), 1), f.when(f.col("n") > 0, "a").when(f.col("p"), "b").otherwise("c")],
        **{name: [getattr(f, name)("x"), getattr(f, name)("q", lit(1))] for name in ("ceil", "ceiling", "floor")},
        **{name: [getattr(f, name)("x"), getattr(f, name)("q", 1), getattr(f, name)("n", -1)] for name in _ROUNDING},
        "sqrt": [f.sqrt("x")],
        **{name: [getattr(f, name)("n", "x"), getattr(f, name)("n", "x", "q")] for name in ("greatest", "least")},
        "nanvl": [f.nanvl("x", lit(1.0))],
        "~": [f.bitwise_not("n")],
        **{name: [getattr(f, name)("s")] for name in (*_OF_TEXT, "md5", "sha", "sha1", "crc32", "base64")},
        **{name: [getattr(f, name)("s"), getattr(f, name)("s", lit(" ,"))] for name in ("trim", "ltrim", "rtrim")},
        "btrim": [f.btrim("s"), f.btrim("s", lit(" ,"))],
        "substring": [f.substring("s", 2, 3), f.col("s").substr(2, 1)],
        "substr": [f.substr("s", lit(-3)), f.substr("s", lit(2), lit(2))],
        **{name: [getattr(f, name)("s", lit(2))] for name in ("left", "right")},
        "concat": [f.concat("s", "y"), f.concat("s", lit(1)), f.concat("s")],
        "concat_ws": [f.concat_ws("-", "s", "z", "y"), f.concat_ws("-", "s")],
        "replace": [f.replace("s", lit(",")), f.replace("s", lit(","), lit("x"))],
        **{name: [getattr(f, name)("s", 9, "ab"), getattr(f, name)("s", 2, " ")] for name in ("lpad", "rpad")},
        "instr": [f.instr("s", ",")],
        "locate": [f.locate(",", "s"), f.locate(",", "s", 4), f.locate("b", "s", 0), f.locate("", "s", 9)],
        **{name: [getattr(f, name)("s", lit("b"))] for name in ("startswith", "endswith", "contains")},
        "split_part": [f.split_part("s", lit(","), lit(2))],
        "repeat": [f.repeat("s", 2), f.repeat("s", lit(3))],
        "translate": [f.translate("s", "ab", "x")],
        **{name: [getattr(f, name)("s", lit("% A_%"))] for name in ("like", "ilike")},
        **{name: [getattr(f, name)("s", lit("b,+"))] for name in ("rlike", "regexp", "regexp_like")},
        "regexp_extract": [f.regexp_extract("s", "(a),(b)", 2)],
        "regexp_replace": [f.regexp_replace("s", ",+", "-"), f.regexp_replace("s", lit(","), lit("-"))],
        "split": [
            f.split("s", ","),
            f.split("s", ",", -1),
            f.split("s", ",", 0),
            f.split("s", ",", 2),
            f.split("s", ",", 1),
        ],
        **{name: [getattr(f, name)(one) for one in same] for name in _OF_DATE},
        **{name: [getattr(f, name)("t")] for name in ("hour", "minute", "second")},
        **{name: [getattr(f, name)(lit("SECOND"), "t"), getattr(f, name)(lit("doy"), "d")] for name in _PARTS},
        **{name: [getattr(f, name)("d", 3), getattr(f, name)("d", "n")] for name in _MOVES},
        **{name: [getattr(f, name)("d", "t")] for name in ("datediff", "date_diff")},
        "last_day": [f.last_day("d")],
        "trunc": [f.trunc("d", "mon")],
        "date_trunc": [f.date_trunc("hour", "t")],
        "date_format": [f.date_format("t", "yyyy-MM-dd HH:mm")],
        **{name: [getattr(f, name)("y"), getattr(f, name)("y", "yyyy-MM-dd")] for name in ("to_date", "to_timestamp")},
        "try_to_timestamp": [f.try_to_timestamp("s"), f.try_to_timestamp("y", lit("yyyy-MM-dd"))],
        "unix_date": [f.unix_date("d")],
        "date_from_unix_date": [f.date_from_unix_date("n")],
        "make_date": [f.make_date(lit(2020), lit(2), lit(29))],
        **{f"unix_{unit}": [getattr(f, f"unix_{unit}")("t")] for unit in ("seconds", "millis", "micros")},
        **{f"timestamp_{unit}": [getattr(f, f"timestamp_{unit}")("n")] for unit in ("seconds", "millis", "micros")},
        **{name: [getattr(f, name)().isNotNull()] for name in _CLOCKS},
        **{name: [getattr(f, name)("l")] for name in ("size", "cardinality", "array_size")},
        "element_at": [f.element_at("l", 1), f.element_at("m", "b")],
        "get": [f.get("l", 9), f.get("l", lit(0))],
        "array_contains": [f.array_contains("l", 4)],
        "array": [f.array("n", lit(1)), f.array(["n", "n"])],
        "map": [f.create_map("s", "n"), f.create_map([lit("a"), f.col("n")])],
        "named_struct": [f.named_struct(lit("a"), "n", lit("b"), "s")],
        **{name: [getattr(f, name)("m")] for name in ("map_keys", "map_values")},
        "map_contains_key": [f.map_contains_key("m", "b")],
        "sha2": [f.sha2("s", 256), f.sha2("s", 0)],
        "hex": [f.hex("n"), f.hex("b")],
        "[]": [f.col("l")[0], f.col("m")["a"], f.col("m").getItem("b")],
        "in": [f.col("n").isin(1, -5), f.col("n").isin([1, 2])],
        "not": [~f.col("p"), f.col("n") != 3],
        "^": [f.col("n").bitwiseXOR(3), f.col("n").bitwiseAND(3), f.col("n").bitwiseOR(3)],
        "<=>": [f.col("z").eqNullSafe(None)],
        "int": [f.col("s").try_cast("int"), f.col("y").try_cast("date"), f.col("q").cast("int")],
    }
    return calls


_ROUNDING = ("round", "bround")
_OF_TEXT = (
    *("upper", "ucase", "lower", "lcase", "length", "char_length", "character_length", "octet_length", "reverse"),
    "ascii",
)
_OF_DATE = (*("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear"),)
_PARTS = ("date_part", "datepart")
_MOVES = ("date_add", "dateadd", "date_sub", "add_months")
_CLOCKS = ("current_date", "curdate", "current_timestamp", "now", "localtimestamp")
#: What PySpark calls differently, or needs a variant for.
_ELSEWHERE = {"if", "len", "map", "case", "variant_get", "try_variant_get", "mod", "decimal", "and", "or", "not", "in"}


def _of_pyspark(f: Any) -> set[str]:
    return {name for name in FUNCTIONS if callable(getattr(f, name, None))} - _ELSEWHERE


def _texts(f: Any, text_of: Callable[[Any], str]) -> list[tuple[str, Any]]:
    calls = _calls(f)
    assert _of_pyspark(f) <= set(calls), "a function that PySpark has is not tried"
    return [(text_of(column), column) for columns in calls.values() for column in columns]


@needs_native
def test_functions_are_those_of_spark(spark: Any) -> None:
    import pyspark.sql.functions as f

    facts = SessionFacts.of(spark)
    batch = pa.RecordBatch.from_pydict(_ROW)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    tried = _texts(f, lambda column: column_text(column, facts))
    theirs = frame.select(*(column.alias(f"c{number}") for number, (_, column) in enumerate(tried))).toArrow()
    wrong = []
    for number, (text, _) in enumerate(tried):
        other = theirs.column(number)
        expected = f"{shown(other)}, {str(other.type).replace(' not null', '')}"
        try:
            ours = bind_value(text, table_schema(batch.schema), timezone=_ZONE).evaluate(batch)
            found = f"{shown(ours)}, {ours.type}"
        except DeltabergError as error:
            found = str(error)
        if found != expected:
            wrong.append(f"{text}: {found}, and in Spark {expected}")
    assert not wrong, "\n".join(wrong)


@needs_connect
def test_functions_of_connect_are_written_as_the_classic_ones() -> None:
    f: Any = import_module("pyspark.sql.connect.functions")
    facts = SessionFacts(object())  # type: ignore[arg-type]
    batch = pa.RecordBatch.from_pydict(_ROW)
    for text, _ in _texts(f, lambda column: column_text(column, facts)):
        bind_value(text, table_schema(batch.schema), timezone=_ZONE)
