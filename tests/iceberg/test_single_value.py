"""Default values as JSON, read and written."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal as PyDecimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import CorruptMetadataError, InvalidArgumentError
from deltaberg.iceberg.schema.schema import read_schema
from deltaberg.iceberg.schema.single_values import json_of_value, value_of_json
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Primitive
from tests.iceberg.metadata_json import schema_of
from tests.support.effort import unhurried

pytestmark = pytest.mark.one_backend

_UTC = dt.timezone.utc
_CET = dt.timezone(dt.timedelta(hours=1))
_LIST = {"type": "list", "element-id": 2, "element-required": False, "element": "int"}
_MAP = {"type": "map", "key-id": 4, "key": "int", "value-id": 5, "value-required": False, "value": "string"}
_POINT = {
    "type": "struct",
    "fields": [
        {"id": 2, "name": "x", "required": True, "type": "int", "initial-default": 0},
        {"id": 3, "name": "y", "required": True, "type": "int", "initial-default": 0},
    ],
}
_GOOD = [
    ("boolean", True, True),
    ("int", -(1 << 31), -(1 << 31)),
    ("long", (1 << 63) - 1, (1 << 63) - 1),
    ("float", 1.5, 1.5),
    ("float", 2, 2.0),
    ("double", 1e300, 1e300),
    ("decimal(9,2)", "14.20", PyDecimal("14.20")),
    ("decimal(9,2)", "-14.2", PyDecimal("-14.20")),
    ("decimal(9,2)", "1E+3", PyDecimal("1000.00")),
    ("decimal(38,0)", "9" * 38, PyDecimal("9" * 38)),
    ("date", "2017-11-16", dt.date(2017, 11, 16)),
    ("date", "0001-01-01", dt.date(1, 1, 1)),
    ("time", "22:31:08.123456", dt.time(22, 31, 8, 123456)),
    ("time", "22:31:08", dt.time(22, 31, 8)),
    ("timestamp", "2017-11-16T22:31:08.123456", dt.datetime(2017, 11, 16, 22, 31, 8, 123456)),
    ("timestamp", "1969-12-31T23:59:59.5", dt.datetime(1969, 12, 31, 23, 59, 59, 500000)),
    ("timestamptz", "2017-11-16T22:31:08.123456+00:00", dt.datetime(2017, 11, 16, 22, 31, 8, 123456, _UTC)),
    ("timestamptz", "2017-11-16T22:31:08Z", dt.datetime(2017, 11, 16, 22, 31, 8, 0, _UTC)),
    ("timestamptz", "2017-11-16T22:31:08-07:30", dt.datetime(2017, 11, 17, 6, 1, 8, 0, _UTC)),
    ("timestamp_ns", "2017-11-16T22:31:08.123456789", 1510871468123456789),
    ("timestamp_ns", "1969-12-31T23:59:59.999999999", -1),
    ("timestamptz_ns", "2017-11-16T22:31:08.123456789+00:00", 1510871468123456789),
    ("string", "iceberg", "iceberg"),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
    ("fixed[4]", "00010fFF", b"\x00\x01\x0f\xff"),
    ("binary", "", b""),
    ("binary", "0001", b"\x00\x01"),
    (_LIST, [1, None, 3], [1, None, 3]),
    (_LIST, [], []),
    (_MAP, {"keys": [1, 2], "values": ["a", None]}, [(1, "a"), (2, None)]),
    (_POINT, {}, {"x": 0, "y": 0}),
    (_POINT, {"3": 5}, {"x": 0, "y": 5}),
]
_BAD = [
    ("boolean", 1),
    ("boolean", "true"),
    ("int", 1 << 31),
    ("int", True),
    ("int", 1.0),
    ("int", "1"),
    ("long", 1 << 63),
    ("float", 1e300),
    ("float", float("nan")),
    ("double", float("inf")),
    ("double", 10**400),
    ("double", "1.0"),
    ("double", True),
    ("decimal(9,2)", 14.2),
    ("decimal(9,2)", 14),
    ("decimal(9,2)", "14.205"),
    ("decimal(9,2)", "12345678.00"),
    ("decimal(9,2)", "1E999999"),
    ("decimal(9,2)", "NaN"),
    ("decimal(9,2)", "Infinity"),
    ("decimal(9,2)", [0, [1], -1]),
    ("date", "20171116"),
    ("date", "2017-11-31"),
    ("date", "2017-W46-4"),
    ("date", 17486),
    ("time", "22:31:08+01:00"),
    ("time", "22:31:08.1234567"),
    ("time", "24:00:00"),
    ("timestamp", "2017-11-16T22:31:08+00:00"),
    ("timestamp", "2017-11-16 22:31:08"),
    ("timestamp", "2017-11-16"),
    ("timestamptz", "2017-11-16T22:31:08"),
    ("timestamptz", "9999-12-31T23:59:59-01:00"),
    ("timestamp_ns", "2262-04-11T23:47:16.854775808"),
    ("timestamp_ns", "2017-11-16T22:31:08.1234567890"),
    ("timestamp_ns", "2017-11-16T22:31:08.\u0661"),
    ("string", 5),
    ("uuid", "f79c3e09677c4bbda4793f349cb785e7"),
    ("uuid", 5),
    ("fixed[4]", "0001"),
    ("binary", "00 01"),
    ("binary", "0"),
    ("binary", b"".hex() + "zz"),
    ("variant", 1),
    ("unknown", 1),
    ("geometry", "0101"),
    ("geography(srid:4326, karney)", "0101"),
    (_LIST, "12"),
    (_LIST, {"1": 1}),
    (_LIST, [1, "2"]),
    (_MAP, {"keys": [1], "values": []}),
    (_MAP, {"keys": [None], "values": ["a"]}),
    (_MAP, {"keys": "1", "values": "1"}),
    (_MAP, {"keys": [1]}),
    (_MAP, [[1, "a"]]),
    (_POINT, []),
    (_POINT, ""),
    (_POINT, {"2": "0"}),
]


def _read(kind: Any, default: Any) -> Any:
    found = {"id": 1, "name": "a", "required": False, "type": kind, "initial-default": default}
    return read_schema(json.loads(json.dumps(schema_of(found)))).struct.fields[0]


@pytest.mark.parametrize(("kind", "default", "expected"), _GOOD)
def test_defaults(kind: Any, default: Any, expected: Any) -> None:
    field = _read(kind, default)
    assert field.default == expected
    assert type(field.default) is type(expected)
    assert field.metadata["initial-default"] == default
    made = pa.scalar(field.default, arrow_type(field.type))
    again = made.value if pa.types.is_timestamp(made.type) and made.type.unit == "ns" else made.as_py()
    assert again == expected


@pytest.mark.parametrize(("kind", "default", "expected"), _GOOD)
def test_values_are_written_as_json(kind: Any, default: Any, expected: Any) -> None:
    found = _read(kind, default).type
    written = json.loads(json.dumps(json_of_value(expected, found)))
    assert value_of_json(written, found) == expected
    # What is written is in the form of the specification, whatever was read.
    assert json_of_value(value_of_json(written, found), found) == written


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("decimal(9,2)", PyDecimal("14.2"), "14.20"),
        ("decimal(9,2)", PyDecimal("1E+3"), "1000.00"),
        ("time", dt.time(22, 31, 8), "22:31:08.000000"),
        ("timestamp", dt.datetime(2017, 11, 16, 22, 31, 8), "2017-11-16T22:31:08.000000"),
        ("timestamptz", dt.datetime(2017, 11, 16, 22, 31, 8, 5, _UTC), "2017-11-16T22:31:08.000005+00:00"),
        ("timestamp_ns", -1, "1969-12-31T23:59:59.999999999"),
        ("timestamptz_ns", 0, "1970-01-01T00:00:00.000000000+00:00"),
        ("timestamp_ns", -(1 << 63), "1677-09-21T00:12:43.145224192"),
        ("timestamp_ns", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), "1969-12-31T23:59:59.999999000"),
        ("timestamptz_ns", dt.datetime(2020, 1, 1, 2, tzinfo=_CET), "2020-01-01T01:00:00.000000000+00:00"),
        ("timestamp_ns", pd.Timestamp(-1), "1969-12-31T23:59:59.999999999"),
        ("timestamp", pd.Timestamp("2020-01-01"), "2020-01-01T00:00:00.000000"),
        ("float", 0.1, 0.10000000149011612),
        ("fixed[2]", b"\xab\x0f", "ab0f"),
        (_MAP, {1: "a", 2: None}, {"keys": [1, 2], "values": ["a", None]}),
        (_POINT, {"y": 2}, {"3": 2}),
    ],
)
def test_the_form_of_written_values(kind: Any, value: Any, text: Any) -> None:
    assert json_of_value(value, _read(kind, None).type) == text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("int", True),
        ("int", 1 << 31),
        ("long", "1"),
        ("float", 1e300),
        ("double", float("nan")),
        ("double", float("inf")),
        ("decimal(9,2)", PyDecimal("1.234")),
        ("decimal(9,2)", PyDecimal("12345678.90")),
        ("decimal(9,2)", PyDecimal("NaN")),
        ("decimal(9,2)", "1.23"),
        ("date", dt.datetime(2020, 1, 1)),
        ("date", "2020-01-01"),
        ("time", dt.time(1, 2, 3, tzinfo=_UTC)),
        ("timestamp", dt.datetime(2020, 1, 1, tzinfo=_UTC)),
        ("timestamptz", dt.datetime(2020, 1, 1)),
        ("timestamp_ns", 1 << 63),
        ("timestamp_ns", dt.datetime(2020, 1, 1, tzinfo=_UTC)),
        ("timestamptz_ns", dt.datetime(2020, 1, 1)),
        ("timestamp_ns", dt.datetime(1677, 1, 1)),
        ("timestamp_ns", True),
        ("timestamp_ns", pd.NaT),
        ("timestamp", pd.Timestamp(1)),
        ("string", b"a"),
        ("uuid", b"123"),
        ("fixed[2]", b"a"),
        ("binary", "00"),
        ("variant", 1),
        ("unknown", 1),
        (_LIST, 5),
        (_LIST, ["a"]),
        (_MAP, [(None, "a")]),
        (_POINT, {"z": 1}),
    ],
)
def test_values_that_cannot_be_written(kind: Any, value: Any) -> None:
    found = _read(kind, None).type
    with pytest.raises(InvalidArgumentError, match="cannot be written as a value of type"):
        json_of_value(value, found)
    assert json_of_value(None, found) is None


@pytest.mark.parametrize(("kind", "default"), _BAD)
def test_what_is_no_default(kind: Any, default: Any) -> None:
    with pytest.raises(CorruptMetadataError, match="default") as caught:
        _read(kind, default)
    assert caught.value.context["column"].startswith("a")


@pytest.mark.parametrize("kind", ["int", "variant", "unknown", "geometry", _LIST, _POINT])
def test_null_is_a_default_of_every_type(kind: Any) -> None:
    assert _read(kind, None).default is None


def test_defaults_for_writers_are_kept() -> None:
    found = {"id": 1, "name": "a", "required": False, "type": "int", "write-default": 7}
    (field,) = read_schema(schema_of(found)).struct.fields
    assert (field.default, field.metadata["write-default"]) == (None, 7)


_KINDS: list[DataType] = [_read(kind, None).type for kind, _, _ in _GOOD] + [Primitive("variant")]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("0123456789-:.TZ+E ab", max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["keys", "values", "2", "3"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@unhurried()
@given(st.sampled_from(_KINDS), _JSON)
def test_any_json(kind: DataType, document: Any) -> None:
    """A value that is accepted is one for Arrow, too, and can be written back."""
    try:
        value = value_of_json(document, kind)
    except CorruptMetadataError:
        return
    assert pa.scalar(value, arrow_type(kind)).is_valid == (document is not None)
    assert value_of_json(json_of_value(value, kind), kind) == value
