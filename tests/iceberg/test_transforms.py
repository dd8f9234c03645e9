"""Partition transforms: their results for values of every type that they take."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.partition.transforms import Bucket, DatePart, Transform, Truncate, Unknown, parse_transform
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Primitive, Struct
from tests.support.effort import examples

_DATE, _INT, _LONG, _STRING = (Primitive(name) for name in ("date", "integer", "long", "string"))
_NTZ, _UTC, _NANOS = (Primitive(name) for name in ("timestamp_ntz", "timestamp", "timestamp_ns"))
_NTZ_NANOS = Primitive("timestamp_ntz_ns")
_TIMESTAMPS = (_NTZ, _UTC, _NANOS, _NTZ_NANOS)
_MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)
_SEVEN = ("identity", "bucket[16]", "truncate[10]", "year", "month", "day", "hour")


def _apply(text: str, source: DataType, *values: Any) -> list[Any]:
    """Apply a transform, and check the type of its result; dates are returned as days."""
    transform = parse_transform(text)
    found = transform.apply(pa.array(values, arrow_type(source)), source)
    assert found.type == arrow_type(transform.result_type(source))
    days: list[Any] = (found.view(pa.int32()) if found.type == pa.date32() else found).to_pylist()
    return days


@pytest.mark.parametrize("text", [*_SEVEN, "void", "zorder", "bucketV2[4]", "bucket[0]", "truncate[-1]", "bucket[]"])
def test_names_are_kept(text: str) -> None:
    assert str(parse_transform(text)) == text


def test_names_are_read_without_regard_to_case() -> None:
    assert [parse_transform(text) for text in ("Bucket[4]", "TRUNCATE[4]", "Day")] == [
        Bucket(4), Truncate(4), DatePart("day"),
    ]  # fmt: skip


@pytest.mark.req("ICE-TRF-01", half="reader")
@pytest.mark.req("ICE-TRF-01", half="writer")
@pytest.mark.parametrize("text", _SEVEN)
def test_null_is_null(text: str) -> None:
    sources = _TIMESTAMPS if text != "truncate[10]" else (_INT, _LONG, Decimal(9, 2), _STRING, Primitive("binary"))
    for source in sources:
        assert _apply(text, source, None, None) == [None, None]


@pytest.mark.req("ICE-TRF-02", half="reader")
@pytest.mark.req("ICE-TRF-02", half="writer")
def test_identity() -> None:
    assert _apply("identity", _STRING, "a b/c") == ["a b/c"]
    assert parse_transform("identity").result_type(_STRING) == _STRING
    for source in (Primitive("boolean"), Primitive("double"), Primitive("uuid"), Fixed(3), Decimal(9, 2), *_TIMESTAMPS):
        assert parse_transform("identity").result_type(source) == source
    for refused in (Primitive("variant"), Struct(), List(Field("element", _INT))):
        with pytest.raises(SchemaError, match="identity does not take"):
            parse_transform("identity").result_type(refused)


def test_bucket() -> None:
    assert _apply("bucket[16]", _STRING, "iceberg", None) == [9, None]
    assert _apply("bucket[16]", Decimal(9, 2), PyDecimal("14.20")) == [3]
    for source in (*_TIMESTAMPS, _DATE, Primitive("time"), Primitive("uuid"), Fixed(4), Primitive("binary")):
        assert parse_transform("bucket[16]").result_type(source) == _INT
    for name in ("boolean", "float", "double", "variant"):
        with pytest.raises(SchemaError, match=rf"bucket\[4\] does not take a column of type {name}"):
            parse_transform("bucket[4]").result_type(Primitive(name))
        with pytest.raises(SchemaError, match=r"the transform bucket\[4\] does not take a column of type"):
            parse_transform("bucket[4]").apply(pa.nulls(1), Primitive(name))


def test_nanoseconds_are_hashed_as_microseconds() -> None:
    nanos = pa.array([1510871468000001001]).view(pa.timestamp("ns"))
    micros = pa.array([1510871468000001]).view(pa.timestamp("us"))
    for buckets in (100, 2147483647):
        transform = parse_transform(f"bucket[{buckets}]")
        assert transform.apply(nanos, _NTZ_NANOS).to_pylist() == [(-1207196810 & 0x7FFFFFFF) % buckets]
        assert transform.apply(micros, _NTZ).equals(transform.apply(nanos, _NTZ_NANOS))


@pytest.mark.req("ICE-TRF-05", half="reader")
@pytest.mark.req("ICE-TRF-05", half="writer")
def test_truncate_integers() -> None:
    for source in (_INT, _LONG):
        assert _apply("truncate[10]", source, 1, -1, 0, -10, -11, None) == [0, -10, 0, -10, -20, None]


def test_truncate_the_least_integers_wraps_as_in_java() -> None:
    assert _apply("truncate[10]", _INT, -(1 << 31), -(1 << 31) + 8) == [2147483646, -2147483640]
    assert _apply("truncate[10]", _LONG, -(1 << 63)) == [9223372036854775806]
    assert _apply("truncate[2147483647]", _INT, 2147483647, 2147483646, -1) == [2147483647, 0, -2147483647]


@pytest.mark.req("ICE-TRF-06", half="reader")
@pytest.mark.req("ICE-TRF-06", half="writer")
def test_truncate_decimals() -> None:
    found = _apply("truncate[50]", Decimal(9, 2), PyDecimal("10.65"), PyDecimal("-10.65"), None)
    assert list(map(str, found)) == ["10.50", "-11.00", "None"]
    most = 10**38 - 1
    assert _apply("truncate[10]", Decimal(38, 0), PyDecimal(most)) == [most - 9]
    with pytest.raises(InvalidArgumentError, match=r"decimal128\(4, 2\)"):
        _apply("truncate[50]", Decimal(4, 2), PyDecimal("-99.99"))


@pytest.mark.req("ICE-TRF-07", half="reader")
@pytest.mark.req("ICE-TRF-07", half="writer")
def test_truncate_strings() -> None:
    texts = ("iceberg", "日本語です", "\U0001f600\U0001f601ab", "ab", "", None)
    assert _apply("truncate[3]", _STRING, *texts) == ["ice", "日本語", "\U0001f600\U0001f601a", "ab", "", None]


@pytest.mark.req("BEY-45", half="reader")
@pytest.mark.req("BEY-45", half="writer")
def test_truncate_binary() -> None:
    values = (bytes([1, 2, 3, 4, 5]), b"\xf0\x9f", None)
    assert _apply("truncate[3]", Primitive("binary"), *values) == [bytes([1, 2, 3]), b"\xf0\x9f", None]


@pytest.mark.req("ICE-TRF-08", half="reader")
@pytest.mark.req("ICE-TRF-08", half="writer")
def test_truncate_keeps_the_type() -> None:
    for source in (_LONG, _INT, Decimal(9, 2), _STRING, Primitive("binary")):
        assert parse_transform("truncate[10]").result_type(source) == source
        assert _apply("truncate[10]", source, None) == [None]
    for refused in (_DATE, Primitive("double"), Primitive("uuid"), Fixed(4)):
        with pytest.raises(SchemaError, match="does not take"):
            parse_transform("truncate[10]").result_type(refused)


_BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59)


@pytest.mark.req("ICE-TRF-09", half="reader")
@pytest.mark.req("ICE-TRF-09", half="writer")
def test_year() -> None:
    assert _apply("year", _DATE, dt.date(2017, 11, 16), dt.date(1969, 12, 31)) == [47, -1]
    for source in _TIMESTAMPS:
        assert _apply("year", source, _MOMENT, _BEFORE) == [47, -1]
        assert parse_transform("year").result_type(source) == _INT


@pytest.mark.req("ICE-TRF-10", half="reader")
@pytest.mark.req("ICE-TRF-10", half="writer")
def test_month() -> None:
    assert _apply("month", _DATE, dt.date(2017, 11, 16), dt.date(1969, 12, 31), dt.date(1969, 1, 1)) == [574, -1, -12]
    for source in _TIMESTAMPS:
        assert _apply("month", source, _MOMENT, _BEFORE, dt.datetime(1969, 1, 1)) == [574, -1, -12]
        assert parse_transform("month").result_type(source) == _INT


@pytest.mark.req("ICE-TRF-11", half="writer")
def test_day() -> None:
    assert _apply("day", _DATE, dt.date(2017, 11, 16), dt.date(1969, 12, 31)) == [17486, -1]
    for source in _TIMESTAMPS:
        assert _apply("day", source, _MOMENT, _BEFORE) == [17486, -1]
        assert parse_transform("day").result_type(source) == _DATE


@pytest.mark.req("ICE-TRF-12", half="reader")
@pytest.mark.req("ICE-TRF-12", half="writer")
def test_hour() -> None:
    for source in _TIMESTAMPS:
        assert _apply("hour", source, _MOMENT, dt.datetime(1969, 12, 31, 22, 59, 59)) == [419686, -2]
        assert parse_transform("hour").result_type(source) == _INT
    with pytest.raises(SchemaError, match="hour does not take a column of type date"):
        parse_transform("hour").apply(pa.nulls(1, pa.date32()), _DATE)
    with pytest.raises(InvalidArgumentError, match="too far from 1970"):
        _apply("hour", _NTZ, (1 << 63) - 1)


@pytest.mark.req("ICE-TRF-13", half="reader")
@pytest.mark.req("ICE-TRF-13", half="writer")
def test_parts_of_dates_are_rounded_down_and_of_utc() -> None:
    for unit in ("year", "month", "day", "hour"):
        for source in (_NTZ, _UTC):
            assert _apply(unit, source, -1, 0) == [-1, 0]
        assert _apply(unit, _NANOS, -1, 0) == [-1, 0]
    pacific = dt.timezone(dt.timedelta(hours=-8))
    assert _apply("day", _UTC, dt.datetime(2017, 11, 16, 17, 10, 34, tzinfo=pacific)) == [17487]


@examples(300)
@given(st.dates() | st.sampled_from([dt.date(1900, 2, 28), dt.date(2000, 2, 29), dt.date(1, 1, 1)]))
def test_the_calendar(day: dt.date) -> None:
    months = (day.year - 1970) * 12 + day.month - 1
    assert _apply("month", _DATE, day) == [months]
    assert _apply("year", _DATE, day) == [day.year - 1970]
    assert DatePart("day").to_text(day, _DATE) == day.isoformat()


def test_the_calendar_goes_on_where_python_ends() -> None:
    days = [(1 << 31) - 1, -(1 << 31)]
    assert _apply("year", _DATE, *days) == [5881580 - 1970, -5877641 - 1970]
    assert _apply("month", _DATE, *days) == [(5881580 - 1970) * 12 + 6, (-5877641 - 1970) * 12 + 5]


def test_void() -> None:
    void = parse_transform("void")
    for source in (_UTC, Primitive("boolean"), Struct((Field("a", _INT),)), Fixed(2)):
        assert void.apply(pa.nulls(2, arrow_type(source)), source).equals(pa.nulls(2, arrow_type(source)))
    assert _apply("void", _UTC, _MOMENT, None) == [None, None]
    assert void.to_text(None, _UTC) == "null"


def test_unknown_transforms_write_nothing() -> None:
    unknown = parse_transform("zorder")
    assert unknown == Unknown("zorder")
    with pytest.raises(UnsupportedFeatureError, match="'zorder' is not known"):
        unknown.apply(pa.array([1]), _LONG)


@pytest.mark.parametrize(
    ("text", "source", "value", "expected"),
    [
        ("identity", _STRING, "a b/c", "a b/c"),
        ("identity", _LONG, -1234567890000, "-1234567890000"),
        ("identity", Primitive("boolean"), True, "true"),
        ("identity", Decimal(9, 2), PyDecimal("-1.50"), "-1.50"),
        ("identity", Primitive("binary"), b"\1\2\3", "AQID"),
        ("identity", Fixed(3), b"\1\2\3", "AQID"),
        ("identity", Primitive("uuid"), bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("identity", _DATE, dt.date(2017, 12, 1), "2017-12-01"),
        ("identity", Primitive("time"), dt.time(10, 12, 55, 38194), "10:12:55.038194"),
        ("identity", Primitive("time"), dt.time(10, 12), "10:12:00"),
        ("identity", _UTC, dt.datetime(2017, 12, 1, 18, 12, 55, 38194), "2017-12-01T18:12:55.038194+00:00"),
        ("identity", _NTZ, dt.datetime(2017, 12, 1, 10, 12, 55, 500000), "2017-12-01T10:12:55.5"),
        ("identity", _NTZ, _BEFORE, "1969-12-31T23:59:59"),
        ("identity", _NTZ_NANOS, -1, "1969-12-31T23:59:59.999999999"),
        ("identity", Primitive("double"), 1.0, "1.0"),
        ("identity", Primitive("double"), 1e10, "1.0E10"),
        ("identity", Primitive("double"), -1.25e-7, "-1.25E-7"),
        ("identity", Primitive("double"), 1234567.5, "1234567.5"),
        ("identity", Primitive("double"), 12345678.0, "1.2345678E7"),
        ("identity", Primitive("double"), 0.001, "0.001"),
        ("identity", Primitive("double"), float("nan"), "NaN"),
        ("identity", Primitive("double"), float("-inf"), "-Infinity"),
        ("identity", Primitive("double"), -0.0, "-0.0"),
        ("identity", Primitive("float"), 0.1, "0.1"),
        ("identity", _STRING, None, "null"),
        ("bucket[16]", _STRING, 3, "3"),
        ("truncate[10]", _LONG, 20, "20"),
        ("truncate[3]", _STRING, "ice", "ice"),
        ("truncate[3]", Primitive("binary"), b"\1\2\3", "AQID"),
        ("year", _DATE, 47, "2017"),
        ("year", _DATE, -1, "1969"),
        ("month", _UTC, 574, "2017-11"),
        ("month", _UTC, -1, "1969-12"),
        ("day", _UTC, 17486, "2017-11-16"),
        ("day", _UTC, dt.date(1969, 12, 31), "1969-12-31"),
        ("hour", _UTC, 419686, "2017-11-16-22"),
        ("hour", _UTC, -1, "1969-12-31-23"),
        ("hour", _UTC, None, "null"),
    ],
)  # fmt: skip
def test_values_in_paths(text: str, source: DataType, value: Any, expected: str) -> None:
    transform: Transform = parse_transform(text)
    assert transform.to_text(value, source) == expected
    scalar = pa.scalar(value, arrow_type(transform.result_type(source)))
    assert transform.to_text(scalar, source) == expected
