"""Rows are conformed to the columns of a table without any loss, or refused with the name of the field."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal as PyDecimal
from io import StringIO
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from deltaberg.errors import ConstraintViolationError, InvalidArgumentError, SchemaError
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.rows.conform import Conformer, ConformOptions
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct
from deltaberg.table.rows.stream import all_rows, can_be_read_again, open_stream, small_batches

pytestmark = pytest.mark.one_backend


def P(name: str) -> Primitive:  # noqa: N802 - as short as a literal
    return Primitive(name)


def conformed(array: pa.Array, want: DataType, **options: Any) -> list[Any]:
    """Return the values of an array as those of a column ``c``."""
    batch = pa.record_batch([array], ["c"])
    made = Conformer(batch.schema, Struct((Field("c", want),)), ConformOptions(**options)).apply(batch)
    made.validate(full=True)
    assert made.schema.field("c").type == arrow_type(want)
    values: list[Any] = made.column(0).to_pylist()
    return values


def struct(**children: DataType) -> Struct:
    return Struct(tuple(Field(name, kind) for name, kind in children.items()))


def array_of(kind: DataType, nullable: bool = True) -> List:
    return List(Field("element", kind, nullable))


def map_of(value: DataType, nullable: bool = True) -> Map:
    return Map(Field("key", P("string"), nullable=False), Field("value", value, nullable))


def entries(value: pa.DataType) -> pa.DataType:
    return pa.map_(pa.string(), value)


_US, _NS = pa.timestamp("us"), pa.timestamp("ns")
_UTC = dt.timezone.utc
_NOON = dt.datetime(2024, 5, 6, 12, 0, 0, 7)
_BEFORE_1677 = dt.datetime(1500, 1, 1)
_UUID = "78787878-7878-7878-7878-787878787878"

_KEPT = [
    (pa.array([1, None], pa.int64()), P("byte"), [1, None]),
    (pa.array([127, -128], pa.int64()), P("byte"), [127, -128]),
    (pa.array([(1 << 63) - 1], pa.uint64()), P("long"), [(1 << 63) - 1]),
    (pa.array([1 << 53], pa.int64()), P("double"), [float(1 << 53)]),
    (pa.array([1.5, math.inf, None]), P("float"), [1.5, math.inf, None]),
    (pa.array([0.1], pa.float32()), P("double"), [0.10000000149011612]),
    (pa.array([1, 2], pa.int8()), Decimal(3, 1), [PyDecimal("1.0"), PyDecimal("2.0")]),
    (pa.array([PyDecimal("1.50")]), Decimal(10, 1), [PyDecimal("1.5")]),
    (pa.array([PyDecimal("1.5")], pa.decimal256(40, 2)), Decimal(38, 37), [PyDecimal("1.5") + PyDecimal(0)]),
    (pa.array(["é", None], pa.large_string()), P("string"), ["é", None]),
    (pa.array(["a" * 40, None, "b"], pa.string_view()), P("string"), ["a" * 40, None, "b"]),
    (pa.array(["a", None, "a"]).dictionary_encode(), P("string"), ["a", None, "a"]),
    (
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", None], pa.string_view())),
        P("string"),
        ["x", None],
    ),
    (pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([5, None])), P("integer"), [5, 5, None]),
    (pa.array([b"a"], pa.large_binary()), P("binary"), [b"a"]),
    (pa.array([b"abcd"], pa.binary_view()), Fixed(4), [b"abcd"]),
    (pa.array([b"x" * 16], pa.binary(16)), P("uuid"), [b"x" * 16]),
    (pa.array([_UUID, None, _UUID.upper()], pa.string_view()), P("uuid"), [b"x" * 16, None, b"x" * 16]),
    (pa.array([_UUID, None]).dictionary_encode(), P("uuid"), [b"x" * 16, None]),
    (pa.array([[_UUID], None], pa.list_(pa.large_string())), array_of(P("uuid")), [[b"x" * 16], None]),
    (pa.array([dt.date(1, 1, 1)], pa.date64()), P("date"), [dt.date(1, 1, 1)]),
    (pa.array([_NOON], _NS), P("timestamp_ntz"), [_NOON]),
    (pa.array([_NOON], _US), P("timestamp_ntz_ns"), [pd.Timestamp(_NOON)]),
    (pa.array([_BEFORE_1677], pa.timestamp("s")), P("timestamp_ntz"), [_BEFORE_1677]),
    (pa.array([_NOON], pa.timestamp("us", "Asia/Tokyo")), P("timestamp"), [_NOON.replace(tzinfo=_UTC)]),
    (pa.array([dt.time(1, 2, 3)], pa.time32("s")), P("time"), [dt.time(1, 2, 3)]),
    (pa.array([None], pa.null()), struct(x=P("long")), [None]),
    (pa.array([[1, None], None, []], pa.large_list(pa.int8())), array_of(P("long")), [[1, None], None, []]),
    (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), array_of(P("long")), [[1, 2], None]),
    (pa.array([[1, 2], None, []], pa.list_view(pa.int8())), array_of(P("long")), [[1, 2], None, []]),
    (pa.array([{"Y": "a", "x": 1}, None]), struct(x=P("byte"), y=P("string"), z=P("date")), [
        {"x": 1, "y": "a", "z": None},
        None,
    ]),
    (pa.array([[("k", 1)], None, []], entries(pa.int8())), map_of(P("long")), [[("k", 1)], None, []]),
    (pa.array([[{"key": "k", "value": 1}], None]), map_of(P("byte")), [[("k", 1)], None]),
    (
        pa.array([{"value": b"\x00", "metadata": b"\x01\x00\x00"}, None]),
        P("variant"),
        [{"metadata": b"\x01\x00\x00", "value": b"\x00"}, None],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("array", "want", "values"), _KEPT, ids=lambda part: str(getattr(part, "type", part))[:40])
def test_values_are_kept(array: pa.Array, want: DataType, values: list[Any]) -> None:
    assert conformed(array, want) == values
    # A slice has the values of a slice.
    assert conformed(pa.concat_arrays([array, array]).slice(1, len(array)), want) == [*values[1:], values[0]]


_REFUSED = [
    (pa.array([300]), P("byte"), "c"),
    (pa.array([1 << 63], pa.uint64()), P("long"), "c"),
    (pa.array([(1 << 53) + 1]), P("double"), "c"),
    (pa.array([(1 << 24) + 1], pa.int32()), P("float"), "c"),
    (pa.array([0.1]), P("float"), "c"),
    (pa.array([1.0, 1.5]), P("long"), "c"),
    (pa.array([math.nan]), P("long"), "c"),
    (pa.array([math.inf]), P("integer"), "c"),
    (pa.array([300.0]), P("byte"), "c"),
    (pa.array([2.0**63]), P("long"), "c"),
    (pa.array([0.125]), Decimal(10, 2), "c"),
    (pa.array([math.nan]), Decimal(10, 2), "c"),
    (pa.array([1e9]), Decimal(10, 2), "c"),
    (pa.array([None, 1.5]), P("string"), "c"),
    (pa.array(["2024-02-30"]), P("date"), "c"),
    (pa.array(["2024-01-01 12:00:00"]), P("timestamp"), "c"),
    (pa.array(["2024-01-01 12:00:00Z"]), P("timestamp_ntz"), "c"),
    (pa.array(["2024-01-01 12:00:00.1234567"]), P("timestamp_ntz"), "c"),
    (pa.array([1], pa.duration("s")), P("long"), "c"),
    (pa.array([1], pa.time64("us")), P("string"), "c"),
    (pa.array([PyDecimal("1.55")]), Decimal(10, 1), "c"),
    (pa.array([1000]), Decimal(3, 1), "c"),
    (pa.array([b"a"]), P("string"), "c"),
    (pa.array(["a"]), P("binary"), "c"),
    (pa.array(["1"]), P("long"), "c"),
    (pa.array([1]), P("string"), "c"),
    (pa.array([1]), P("boolean"), "c"),
    (pa.array([b"abc"]), Fixed(4), "c"),
    (pa.array([b"abc"], pa.binary(3)), P("uuid"), "c"),
    (pa.array([_UUID.replace("-", "")]), P("uuid"), "c"),
    (pa.array([f"{_UUID}\n"]), P("uuid"), "c"),
    (pa.array([""]), P("uuid"), "c"),
    (pa.array([1], pa.date64()), P("date"), "c"),
    (pa.array([_NOON], _US), P("date"), "c"),
    (pa.array([_NOON], _US), P("timestamp"), "c"),
    (pa.array([_NOON], pa.timestamp("us", "UTC")), P("timestamp_ntz"), "c"),
    (pa.array([1], _NS), P("timestamp_ntz"), "c"),
    (pa.array([1 << 60], pa.timestamp("s")), P("timestamp_ntz"), "c"),
    (pa.array([1], pa.time64("ns")), P("time"), "c"),
    (pa.array([[1]]), struct(x=P("long")), "c"),
    (pa.array([{"x": 1}]), array_of(P("long")), "c"),
    (pa.array([[1]]), map_of(P("long")), "c"),
    (pa.array([{"x": 1, "a.b": 2}]), struct(x=P("long")), "c.`a.b`"),
    (pa.array([{"x": 1, "X": 2}]), struct(x=P("long")), "c.x"),
    (pa.array([[{"x": 300}]]), array_of(struct(x=P("byte"))), "c.element.x"),
    (pa.array([[("k", "v")]], entries(pa.string())), map_of(P("long")), "c.value"),
    (pa.array([{"metadata": b"", "value": None}], VARIANT_LIKE := pa.struct([("metadata", pa.binary()), ("value", pa.binary())])), P("variant"), "c"),  # noqa: E501
    (pa.array([{"metadata": b"", "value": b"", "x": 1}]), P("variant"), "c"),
    (pa.array(["x"]), P("void"), "c"),
]  # fmt: skip


@pytest.mark.parametrize(("array", "want", "column"), _REFUSED, ids=lambda part: str(getattr(part, "type", part))[:40])
def test_what_would_change_is_refused(array: pa.Array, want: DataType, column: str) -> None:
    with pytest.raises(SchemaError) as caught:
        conformed(array, want)
    assert caught.value.context["column"] == column


@pytest.mark.req("DL-SCHEMA-05", half="writer")
def test_text_must_be_utf8() -> None:
    damaged = pa.array([b"\xff"]).view(pa.string())
    for array in (damaged, damaged.cast(pa.large_string()), pa.DictionaryArray.from_arrays([0], damaged)):
        with pytest.raises(SchemaError, match=r"does not fit the type string.*column: c"):
            conformed(array, P("string"))
    assert conformed(pa.array(["日本"]), P("string")) == ["日本"]


@pytest.mark.req("DL-SCHEMA-06", half="writer")
@pytest.mark.parametrize(("name", "bits"), [("byte", 8), ("short", 16), ("integer", 32), ("long", 64)])
def test_integers_keep_to_their_range(name: str, bits: int) -> None:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    assert conformed(pa.array([least, most]), P(name)) == [least, most]
    beyond = [pa.array([most + 1], pa.uint64()), *([pa.array([least - 1])] if bits < 64 else [])]
    for array in beyond:
        with pytest.raises(SchemaError, match=f"does not fit the type {name}"):
            conformed(array, P(name))


def test_truncation_is_asked_for() -> None:
    nanos = pa.array([-1, 1_999], _NS)
    with pytest.raises(SchemaError, match="allow_truncation=True"):
        conformed(nanos, P("timestamp_ntz"))
    before, after = conformed(nanos, P("timestamp_ntz"), allow_truncation=True)
    assert (before, after) == (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1, 0, 0, 0, 1))


def test_naive_timestamps_need_a_zone() -> None:
    naive = pa.array([dt.datetime(2024, 7, 1, 12)], _US)
    with pytest.raises(SchemaError, match="timezone="):
        conformed(naive, P("timestamp"))
    assert conformed(naive, P("timestamp"), timezone="Europe/Paris") == [dt.datetime(2024, 7, 1, 10, tzinfo=_UTC)]
    skipped = pa.array([dt.datetime(2024, 3, 31, 2, 30)], _US)
    with pytest.raises(SchemaError, match="does not fit the type timestamp"):
        conformed(skipped, P("timestamp"), timezone="Europe/Paris")


_REQUIRED = [
    (pa.array([1, None]), P("long"), "c"),
    (pa.array([{"x": 1}, {"x": None}]), Struct((Field("x", P("long"), nullable=False),)), "c.x"),
    (pa.array([[1], [None]]), array_of(P("long"), nullable=False), "c.element"),
    (pa.array([[("k", None)]], entries(pa.int64())), map_of(P("long"), nullable=False), "c.value"),
    (pa.array([[{"key": None, "value": 1}]]), map_of(P("long")), "c.key"),
]


@pytest.mark.req("DL-SCHEMA-03", "DL-SCHEMA-04", half="writer")
@pytest.mark.parametrize(("array", "want", "column"), _REQUIRED, ids=["column", "field", "element", "value", "key"])
def test_required_fields_have_no_nulls(array: pa.Array, want: DataType, column: str) -> None:
    batch = pa.record_batch([array], ["c"])
    conformer = Conformer(batch.schema, Struct((Field("c", want, nullable=False),)))
    with pytest.raises(ConstraintViolationError, match="has 1 null ") as caught:
        conformer.apply(batch)
    assert caught.value.context["column"] == column


def test_nulls_below_null_parents_are_allowed() -> None:
    """What a null struct or list hides is no value, whatever it holds."""
    inner = pa.StructArray.from_arrays([pa.array([1, None, 999])], ["x"], mask=pa.array([False, True, True]))
    want = Struct((Field("x", P("byte"), nullable=False),))
    assert conformed(inner, want) == [{"x": 1}, None, None]
    outer = pa.StructArray.from_arrays([inner], ["s"], mask=pa.array([False, True, True]))
    assert conformed(outer, Struct((Field("s", want, nullable=False),))) == [{"s": {"x": 1}}, None, None]
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 3], pa.int32()), pa.array([1, None, 999]), mask=pa.array([False, True])
    )
    assert hidden.flatten().to_pylist() == [1]
    assert conformed(hidden, array_of(P("byte"), nullable=False)) == [[1], None]


def test_columns_are_matched_by_name() -> None:
    schema = Struct((Field("a", P("long"), nullable=False), Field("A", P("long")), Field("b", P("string"))))
    rows = pa.record_batch({"B": ["x"], "A": [2], "a": [1]})
    assert Conformer(rows.schema, schema).apply(rows).to_pylist() == [{"a": 1, "A": 2, "b": "x"}]
    for columns, message in [
        ({"a": [1], "c": [1], "d.e": [2]}, r"does not have: c, `d\.e`"),
        ({"b": ["x"]}, r"lack a column that must not be null .*column: a"),
        ({"a": [1], "b": ["x"], "B": ["y"]}, "two columns for 'b': 'b' and 'B'"),
    ]:
        with pytest.raises(SchemaError, match=message):
            Conformer(pa.record_batch(columns).schema, schema)


class Stream:
    """Rows that are known by Arrow's interface alone."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


_ROWS = pa.table({"n": [3, 1, 2], "s": ["c", None, "b"]})


@pytest.mark.parametrize(
    "data",
    [
        _ROWS,
        _ROWS.to_batches()[0],
        _ROWS.to_reader(),
        ds.dataset(_ROWS),
        Stream(_ROWS),
        pl.from_arrow(_ROWS),
        pl.from_arrow(_ROWS).with_columns(pl.col("s").cast(pl.Categorical)),  # type: ignore[union-attr]
        pd.DataFrame({"n": [3, 1, 2], "s": ["c", None, "b"]}, index=[7, 8, 9]),
    ],
    ids=lambda data: f"{type(data).__module__.split('.')[0]}-{type(data).__name__}",
)
def test_rows_come_from_anything(data: Any) -> None:
    reader = open_stream(data)
    conformer = Conformer(reader.schema, struct(s=P("string"), n=P("integer")))
    rows = [row for batch in reader for row in conformer.apply(batch).to_pylist()]
    assert rows == [{"s": "c", "n": 3}, {"s": None, "n": 1}, {"s": "b", "n": 2}]


@pytest.mark.parametrize("values", [["x", 1], [1, "x"], [1 + 2j], [object()]])
def test_frames_that_arrow_cannot_hold_are_refused(values: list[Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be converted to Arrow"):
        open_stream(pd.DataFrame({"a": values}))


def test_the_words_of_a_dictionary_do_not_divide_its_rows() -> None:
    """Every slice shares all words, however few rows it has."""
    words = pa.array([f"{number:01024d}" for number in range(40_000)])
    column = pa.DictionaryArray.from_arrays(pa.array(range(40_000), pa.int32()), words)
    batch = pa.record_batch({"w": column, "n": pa.array(range(40_000))})
    found = list(small_batches(open_stream(batch)))
    assert len(found) < 10
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([batch]))
    # Rows without words are divided as before.
    texts = pa.record_batch({"w": words, "n": pa.array(range(40_000))})
    assert max(part.nbytes for part in small_batches(open_stream(texts))) <= 32 << 20


def _batches(*columns: dict[str, list[Any]]) -> list[pa.RecordBatch]:
    return [pa.record_batch(one) for one in columns]


_AS: dict[str, Callable[[list[pa.RecordBatch]], Any]] = {
    "list": list,
    "iterator": iter,
    "reader": lambda data: pa.RecordBatchReader.from_batches(data[0].schema, data),
}


@pytest.mark.parametrize("library", _AS)
def test_batches_have_the_same_columns(library: str) -> None:
    """pyarrow makes a reader of any batches, and takes the columns of one for those of another."""
    data = _batches({"n": [1], "s": ["a"]}, {"s": ["b"], "n": [2]})
    reader = open_stream(_AS[library](data))
    rows = [row for batch in small_batches(reader) for row in batch.to_pylist()]
    assert rows == [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]
    assert all_rows(open_stream(_AS[library](data))).to_pylist() == rows
    others: list[tuple[dict[str, list[Any]], str]] = [
        ({"s": ["b"]}, "differ in their columns: n, s; s"),
        ({"n": [2], "s": ["b"], "x": [1]}, "differ in their columns: n, s; n, s, x"),
        ({"n": [2], "t": ["b"]}, "differ in their columns: n, s; n, t"),
        ({"n": ["2"], "s": ["b"]}, "differ in the type of a column: int64; string"),
        ({"s": ["b"], "n": [True]}, "differ in the type of a column: int64; bool"),
    ]
    for other, message in others:
        wrong = [data[0], *_batches(other)]
        with pytest.raises(InvalidArgumentError, match=message):
            all_rows(open_stream(_AS[library](wrong)))
        if "type of a column" in message:
            with pytest.raises(SchemaError, match="column: n"):
                _conformed(_AS[library](wrong))
            continue
        with pytest.raises(InvalidArgumentError, match=message):
            list(small_batches(open_stream(_AS[library](wrong))))


_NUMBER_AND_TEXT = Struct((Field("n", P("long")), Field("s", P("string"))))


def _conformed(data: Any) -> list[dict[str, Any]]:
    reader = open_stream(data)
    conformer = Conformer(reader.schema, _NUMBER_AND_TEXT)
    return [row for batch in small_batches(reader) for row in conformer.apply(batch).to_pylist()]


_PARTS = [
    pd.DataFrame({"n": [1], "s": [None]}),
    pd.DataFrame({"s": ["b", None], "n": [None, 2]}),
    pl.DataFrame({"n": [3], "s": ["c"]}),
    pa.table({"n": [4.0], "s": ["d"]}),
    pl.LazyFrame({"n": [5], "s": ["e"]}),
    ds.dataset(pa.table({"n": [6], "s": ["f"]})).scanner(),
    pa.record_batch({"n": [7], "s": pa.nulls(1)}),
]


@pytest.mark.parametrize("given", [list, tuple, iter])
def test_rows_come_in_parts(given: Callable[[list[Any]], Any]) -> None:
    """Each part has the types that its values happen to have, and the table has the last word."""
    found = _conformed(given(_PARTS))
    assert [row["n"] for row in found] == [1, None, 2, 3, 4, 5, 6, 7]
    assert [row["s"] for row in found] == [None, "b", None, "c", "d", "e", "f", None]
    chunks = pd.read_csv(StringIO("n,s\n1,\n2,\n,x\n"), chunksize=2)
    assert _conformed(chunks) == [{"n": 1, "s": None}, {"n": 2, "s": None}, {"n": None, "s": "x"}]
    assert _conformed(pl.LazyFrame({"n": [1], "s": ["a"]})) == [{"n": 1, "s": "a"}]


def test_values_that_stay_the_same_are_converted() -> None:
    day, noon = dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 12, 0, 0, 250)
    for array, want, expected in (
        (pa.array([1.0, None, -0.0]), P("long"), [1, None, 0]),
        (pa.array([127.0, -128.0], pa.float32()), P("byte"), [127, -128]),
        (pa.array([2.0**53 - 1, 1 - 2.0**53]), P("long"), [(1 << 53) - 1, 1 - (1 << 53)]),
        (pa.array([0.1, 19.99]), Decimal(38, 20), [PyDecimal("0.1"), PyDecimal("19.99")]),
        (pa.array([None, None], pa.float64()), P("string"), [None, None]),
        (pa.array([None], pa.float64()), P("date"), [None]),
        (pa.array([19.99, 0.1, -2.5, None]), Decimal(10, 2), [*map(PyDecimal, ("19.99", "0.10", "-2.50")), None]),
        (pa.array([0.1], pa.float32()), Decimal(10, 1), [PyDecimal("0.1")]),
        (pa.array([dt.datetime(2024, 1, 31), None], pa.timestamp("ns")), P("date"), [day, None]),
        (pa.array(["2024-01-31", None]), P("date"), [day, None]),
        (pa.array(["2024-01-31 12:00:00.000250"]), P("timestamp_ntz"), [noon]),
        (pa.array(["2024-01-31T12:00:00.000250"], pa.large_string()), P("timestamp_ntz"), [noon]),
        (pa.array(["2024-01-31T13:00:00.000250+01:00"]), P("timestamp"), [noon.replace(tzinfo=dt.timezone.utc)]),
    ):
        assert conformed(array, want) == expected, f"{array.type} to {want}"
    rows = pa.record_batch({"c": ["2024-01-31 13:00:00.000250"]})
    paris = ConformOptions(timezone="Europe/Paris")
    made = Conformer(rows.schema, Struct((Field("c", P("timestamp")),)), paris).apply(rows)
    assert made["c"].to_pylist() == [noon.replace(tzinfo=dt.timezone.utc)]


_MICROS = pa.timestamp("us")


@pytest.mark.parametrize(
    ("array", "want", "message"),
    [
        # An integer above it may have been rounded to it, and would be another id.
        (pa.array([2.0**53]), P("long"), "may have been rounded"),
        (pa.array([2.0**24], pa.float32()), P("long"), "may have been rounded"),
        (pa.array([-(2.0**53)]), Decimal(20, 0), "may have been rounded"),
        (pa.array([0.125]), Decimal(10, 2), "needs more digits"),
        (pa.array(["0000-01-01"]), P("date"), "not within the years 1 to 9999"),
        (pa.array(["0000-12-31 23:59:59"]), P("timestamp_ntz"), "not within the years 1 to 9999"),
        # Python cannot show it.
        (pa.array([2**62]).cast(_MICROS), P("date"), "is not at midnight"),
    ],
)
def test_values_that_might_be_others_are_refused(array: pa.Array, want: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        conformed(array, want)


def test_a_stream_among_parts_is_read_once() -> None:
    table = pa.table({"n": [1]})
    assert can_be_read_again([table, table])
    assert not can_be_read_again([table, table.to_reader()])
    assert _conformed([table.to_reader(), table]) == [{"n": 1, "s": None}] * 2


def test_iterators_of_other_values_are_refused() -> None:
    for first, message in (
        ([], "the iterator gives no rows"),
        ([1], "data of type int cannot be written"),
        ([{"n": 1}], "gives values of type dict, which are no rows"),
        ([*_ROWS.to_batches(), "x"], "gives values of type str, which are no rows"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            list(small_batches(open_stream(iter(first))))


def test_frames_that_arrow_cannot_hold() -> None:
    twice = pd.DataFrame([[1, 2]], columns=["n", "n"])
    with pytest.raises(InvalidArgumentError, match="the pandas data frame has two columns 'n'"):
        open_stream(twice)
    with pytest.raises(InvalidArgumentError, match=r"DataFrame cannot be converted to Arrow: .*column n.*: Could not"):
        open_stream(pd.DataFrame({"n": [1, "a"]}))
    with pytest.raises(InvalidArgumentError, match=r"period\[M\].*\n.*to_timestamp"):
        open_stream(pd.DataFrame({"n": pd.period_range("2024-01", periods=1, freq="M")}))
    with pytest.raises(InvalidArgumentError, match=r"interval.*\n.*astype"):
        open_stream(pd.DataFrame({"n": pd.interval_range(0, 1)}))
    with pytest.raises(InvalidArgumentError, match="column 'n' of the Polars data frame holds objects"):
        open_stream(pl.DataFrame({"n": pl.Series([object()], dtype=pl.Object)}))


def test_frames_of_pandas_on_spark_say_what_they_become() -> None:
    members = {"__module__": "pyspark.pandas.frame"}
    with pytest.raises(InvalidArgumentError, match=r"hint: call to_spark\(\) first"):
        open_stream(type("DataFrame", (), members)())


@pytest.mark.parametrize("data", [None, 1, "rows", [{"n": 1}], [], {"n": [1]}, pa.array([1])])
def test_other_data_is_refused(data: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        open_stream(data)
    assert caught.value.hint
