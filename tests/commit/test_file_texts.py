"""Statistics and partition values as commits record them, and as readers take them back."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.data.partition_values import partition_value_texts, read_partition_values
from deltaberg.delta.data.statistics_text import statistics_texts
from deltaberg.delta.transaction.file_changes import encode_path
from deltaberg.errors import InvalidPartitionValueError
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct
from deltaberg.schema.types import Decimal as DecimalType
from deltaberg.storage.location import decode_path
from tests.support.effort import unhurried

_UTC = dt.timezone.utc
_MOMENT = dt.datetime(2020, 1, 1, 0, 0, 0, 123456, _UTC)


def _texts(kind: DataType, lower: Any, upper: Any, nans: int | None = 0, *, tight: bool = False) -> dict[str, Any]:
    """Return the statistics of one file with one column ``x``."""

    def struct(value: Any, of: pa.DataType) -> pa.Array:
        return pa.array([{"0": value}], pa.struct([("0", of)]))

    files = pa.table(
        {
            "record_count": pa.array([5], pa.int64()),
            "lower": struct(lower, arrow_type(kind)),
            "upper": struct(upper, arrow_type(kind)),
            "null_count": struct(2, pa.int64()),
            "nan_count": struct(nans, pa.int64()),
        }
    )
    text = statistics_texts(files, Struct((Field("x", kind),)), tight=tight)[0].as_py()
    found: dict[str, Any] = json.loads(text, parse_float=str, parse_int=str)
    return found


@pytest.mark.req("DL-STAT-02", "DL-STAT-06", "DL-STAT-07", "DL-STAT-12", half="writer")
@pytest.mark.parametrize(
    ("kind", "lower", "upper", "texts"),
    [
        (Primitive("byte"), -128, 127, ("-128", "127")),
        (Primitive("long"), -(2**63), 2**63 - 1, (str(-(2**63)), str(2**63 - 1))),
        (Primitive("float"), -0.0, 0.1, ("-0.0", "0.10000000149011612")),
        (Primitive("double"), -1e300, 5e-324, ("-1e+300", "5e-324")),
        (Primitive("double"), float("-inf"), float("inf"), ("-Infinity", "Infinity")),
        (DecimalType(38, 2), Decimal("-1.50"), Decimal(10**35), ("-1.50", "1" + "0" * 35 + ".00")),
        (Primitive("string"), 'a"b\\', "ü\n", ('a"b\\', "ü\n")),
        (Primitive("date"), dt.date(1, 1, 1), dt.date(9999, 12, 31), ("0001-01-01", "9999-12-31")),
        (Primitive("timestamp"), _MOMENT, _MOMENT, ("2020-01-01T00:00:00.123Z", "2020-01-01T00:00:00.124Z")),
        (
            Primitive("timestamp_ntz"),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
            dt.datetime(1970, 1, 1),
            ("1969-12-31T23:59:59.999", "1970-01-01T00:00:00.000"),
        ),
        (
            Primitive("timestamp"),
            dt.datetime(1, 1, 1, tzinfo=_UTC),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999, _UTC),
            ("0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"),
        ),
        (Primitive("boolean"), False, True, (False, True)),
        (Primitive("binary"), b"a", b"b", (None, None)),
    ],
)
def test_bounds(kind: DataType, lower: Any, upper: Any, texts: tuple[Any, Any]) -> None:
    bounds = _texts(kind, lower, upper)
    wanted: dict[str, Any] = {"numRecords": "5", "nullCount": {"x": "2"}}
    for name, text in zip(("minValues", "maxValues"), texts, strict=True):
        if text is not None:
            wanted[name] = {"x": text}
    assert bounds == wanted


def test_timestamps_are_rounded_outward() -> None:
    """A bound holds for every row, also for a reader that does not know that it was rounded."""
    found = _texts(Primitive("timestamp"), _MOMENT, _MOMENT)
    lower, upper = (found[name]["x"].removesuffix("Z") for name in ("minValues", "maxValues"))
    assert lower < "2020-01-01T00:00:00.123456" < upper


def test_a_nan_leaves_no_maximum() -> None:
    for nans in (1, None):
        found = _texts(Primitive("double"), 1.0, 2.0, nans)
        assert found["minValues"] == {"x": "1.0"}
        assert "maxValues" not in found


def test_bounds_that_are_exact_say_so() -> None:
    assert _texts(Primitive("long"), 1, 2, tight=True)["tightBounds"] is True


@pytest.mark.req("DL-STAT-13", half="writer")
def test_nested_columns_and_physical_names() -> None:
    """Leaves inside lists and maps have numbers, and no statistics."""
    items = List(Field("element", Struct((Field("p", Primitive("long")), Field("q", Primitive("long"))))))
    entries = Map(Field("key", Primitive("string")), Field("value", Primitive("long")))
    inside = Struct((Field("y", Primitive("long"), physical_name="col-y"), Field("z", Primitive("date"))))
    schema = Struct((Field("l", items), Field("m", entries), Field("s", inside), Field("t", Primitive("string"))))
    kinds = pa.struct([("4", pa.int64()), ("6", pa.string())])
    bounds = pa.array([{"4": 7, "6": "t"}, {"4": None, "6": "u"}, None], kinds)
    files = pa.table(
        {
            "record_count": pa.array([1, 2, None], pa.int64()),
            **dict.fromkeys(("lower", "upper"), bounds),
            "null_count": pa.array([{"5": 1}, None, None], pa.struct([("5", pa.int64())])),
            "nan_count": pa.array([{}, None, None], pa.struct([])),
        }
    )
    found = [json.loads(text) for text in statistics_texts(files, schema, tight=False).to_pylist()]
    first = {"s": {"col-y": 7}, "t": "t"}
    assert found[0] == {"numRecords": 1, "minValues": first, "maxValues": first, "nullCount": {"s": {"z": 1}}}
    assert found[1:] == [{"numRecords": 2, "minValues": {"t": "u"}, "maxValues": {"t": "u"}}, {}]


_VALUES: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "string": (Primitive("string"), st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
    "byte": (Primitive("byte"), st.integers(-128, 127)),
    "long": (Primitive("long"), st.integers(-(2**63), 2**63 - 1)),
    "double": (Primitive("double"), st.floats(allow_nan=False)),
    "float": (Primitive("float"), st.floats(allow_nan=False, width=32)),
    "decimal": (DecimalType(20, 4), st.decimals(-(10**15), 10**15, places=4)),
    "boolean": (Primitive("boolean"), st.booleans()),
    "binary": (Primitive("binary"), st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(str.encode)),
    "date": (Primitive("date"), st.dates()),
    "timestamp": (Primitive("timestamp"), st.datetimes(timezones=st.just(_UTC))),
    "timestamp_ntz": (Primitive("timestamp_ntz"), st.datetimes()),
}


@pytest.mark.req(
    *(f"DL-PART-{number:02}" for number in (2, 3, 4, 7, 8, 9, 10)),
    half="writer",
)
@pytest.mark.parametrize("name", _VALUES)
@unhurried()
@given(data=st.data())
def test_partition_values_are_read_back(name: str, data: st.DataObject) -> None:
    """Whatever zone the reader is in."""
    kind, values = _VALUES[name]
    drawn = data.draw(st.lists(st.none() | values, min_size=1, max_size=6))
    array = pa.array(drawn, arrow_type(kind))
    columns = [Field('a "b"', kind, physical_name="col-1")]
    structs = pa.StructArray.from_arrays([array], names=["x"])
    texts = [json.loads(text) for text in partition_value_texts(structs, columns).to_pylist()]
    assert all(set(text) == {"col-1"} for text in texts)
    maps = pa.array([list(text.items()) for text in texts], pa.map_(pa.string(), pa.string()))
    files = pa.table({"path": ["f"] * len(texts), "partitionValues": maps})
    for zone in ("UTC", "America/Los_Angeles"):
        (found,) = read_partition_values(files, columns, zone)
        assert found.cast(array.type).to_pylist() == array.to_pylist()


@pytest.mark.req("DL-PART-01", half="writer")
def test_special_partition_values() -> None:
    columns = [Field("s", Primitive("string")), Field("d", Primitive("double")), Field("n", DecimalType(10, 2))]
    kinds = [arrow_type(column.type) for column in columns]
    rows = [("", float("nan"), Decimal("1.5")), (None, float("inf"), None), ("a=b/c %", 1e10, Decimal("0.00"))]
    arrays = [pa.array(list(values), kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    structs = pa.StructArray.from_arrays(arrays, names=["s", "d", "n"])
    assert [json.loads(text) for text in partition_value_texts(structs, columns).to_pylist()] == [
        {"s": None, "d": "NaN", "n": "1.50"},
        {"s": None, "d": "Infinity", "n": None},
        {"s": "a=b/c %", "d": "1e+10", "n": "0.00"},
    ]
    for value in (b"\xff", b"a\xc3"):
        broken = pa.StructArray.from_arrays([pa.array([value])], names=["b"])
        with pytest.raises(InvalidPartitionValueError, match="are no text in UTF-8"):
            partition_value_texts(broken, [Field("b", Primitive("binary"))])


@pytest.mark.req("DL-ACT-09")
@unhurried()
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_paths_are_encoded_once(path: str) -> None:
    recorded = encode_path(path)
    assert recorded.isascii()
    assert not set(recorded) & set('"\\:?#% ') - {"%"}
    assert decode_path(recorded) == path


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (Primitive("date"), (1 << 31) - 1),
        (Primitive("date"), -(1 << 31)),
        (Primitive("timestamp"), (1 << 63) - 1),
        (Primitive("timestamp_ntz"), -(1 << 63)),
    ],
)
def test_years_of_more_digits_than_readers_expect_are_refused(kind: Primitive, number: int) -> None:
    stored = arrow_type(kind)
    wide = pa.int32() if kind.name == "date" else pa.int64()
    values = pa.StructArray.from_arrays([pa.array([0, number, None], wide).view(stored)], ["x"])
    with pytest.raises(InvalidPartitionValueError, match="too far from 1970"):
        partition_value_texts(values, [Field("x", kind)])
    assert len(partition_value_texts(values.slice(0, 1), [Field("x", kind)])) == 1


def test_readings_that_a_clock_skips_are_read_as_by_java() -> None:
    """They move by the length of the gap, so that they stay apart; those that occur twice mean the first time."""
    texts = ["2021-03-28 02:15:00", "2021-03-28 02:30:00", "2021-10-31 02:30:00", "2021-06-01 00:00:00", None]
    maps = pa.array([[("p", text)] for text in texts], pa.map_(pa.string(), pa.string()))
    files = pa.table({"path": [str(number) for number in range(len(texts))], "partitionValues": maps})
    (found,) = read_partition_values(files, [Field("p", Primitive("timestamp"))], "Europe/Paris")
    wanted = [(3, 28, 1, 15), (3, 28, 1, 30), (10, 31, 0, 30), (5, 31, 22, 0)]
    assert found.to_pylist() == [*(dt.datetime(2021, *parts, tzinfo=_UTC) for parts in wanted), None]
