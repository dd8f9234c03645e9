"""Values of types that only Iceberg has: UUIDs, bytes of a fixed length, times, and timestamps of nanoseconds."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deltaberg.errors import EvaluationError, ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.bind.bind import bind_condition, bind_value
from deltaberg.expressions.build.column import Column, col
from deltaberg.schema.arrow import arrow_schema, arrow_type
from deltaberg.schema.types import DataType, Field, Fixed, List, Map, Primitive, Struct

pytestmark = pytest.mark.one_backend

_ONE = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
_TEXT, _BYTES = str(_ONE), _ONE.bytes
_NANO = 1_700_000_000_123_456_789
_KINDS: dict[str, DataType] = {
    **{name: Primitive(name) for name in ("string", "binary", "uuid", "date", "time", "timestamp", "timestamp_ntz")},
    "f3": Fixed(3),
    "f4": Fixed(4),
    "f16": Fixed(16),
    "nanos": Primitive("timestamp_ns"),
    "ntz_nanos": Primitive("timestamp_ntz_ns"),
}


def _assigned(given: str, values: list[Any], to: str, timezone: str = "UTC") -> pa.Array:
    columns = Struct((Field("x", _KINDS[given]),))
    array = pa.array(values, pa.int64()).cast(arrow_type(_KINDS[given])) if given in _NUMBERS else values
    rows = pa.record_batch([array], schema=arrow_schema(columns))
    bound = bind_value("x", columns, target=_KINDS[to], timezone=timezone, column="y")
    found = bound.evaluate(rows)
    assert found.type == arrow_type(_KINDS[to])
    found.validate(full=True)
    return found.cast(pa.int64()) if to in _NUMBERS else found


#: Columns whose values are numbers in these tests, since Python's own lack digits.
_NUMBERS = frozenset({"timestamp", "timestamp_ntz", "nanos", "ntz_nanos"})
_DAY = 86_400_000_000_000


@pytest.mark.parametrize(
    ("given", "values", "to", "expected"),
    [
        ("string", [_TEXT, None, _TEXT.upper()], "uuid", [_BYTES, None, _BYTES]),
        ("uuid", [_BYTES, None], "string", [_TEXT, None]),
        ("binary", [_BYTES, None], "uuid", [_BYTES, None]),
        ("f16", [_BYTES], "uuid", [_BYTES]),
        ("uuid", [_BYTES, None], "binary", [_BYTES, None]),
        ("uuid", [_BYTES], "f16", [_BYTES]),
        ("binary", [b"abc", None, b"\0\0\0"], "f3", [b"abc", None, b"\0\0\0"]),
        ("f3", [b"abc", None], "binary", [b"abc", None]),
        ("string", ["23:59:01.5", "00:00", None], "time", [dt.time(23, 59, 1, 500_000), dt.time(), None]),
        ("timestamp_ntz", [_NANO // 1000, -1, None], "ntz_nanos", [_NANO // 1000 * 1000, -1000, None]),
        ("ntz_nanos", [-1000, 0, None], "timestamp_ntz", [-1, 0, None]),
        ("nanos", [_NANO], "ntz_nanos", [_NANO + 3_600_000_000_000]),
        ("ntz_nanos", [_NANO, -1], "nanos", [_NANO - 3_600_000_000_000, -1 - 3_600_000_000_000]),
        ("timestamp", [0], "ntz_nanos", [3_600_000_000_000]),
        ("nanos", [_DAY - 1, -_DAY - 1], "date", [dt.date(1970, 1, 2), dt.date(1969, 12, 31)]),
        ("date", [dt.date(1970, 1, 2), None], "nanos", [_DAY - 3_600_000_000_000, None]),
        ("string", ["1970-01-01 00:00:00.123456789", None], "ntz_nanos", [123_456_789, None]),
        ("string", ["1970-01-01 01:00:00.1", "1970-01-01T00:00:00.000000001Z"], "nanos", [100_000_000, 1]),
    ],
)
def test_values_become_those_of_another_type(given: str, values: list[Any], to: str, expected: list[Any]) -> None:
    assert _assigned(given, values, to, "Etc/GMT-1").to_pylist() == expected


@pytest.mark.parametrize(
    ("given", "value", "to", "message"),
    [
        ("string", _TEXT.replace("-", ""), "uuid", "a text is not a value of the type uuid"),
        ("string", f"{{{_TEXT}}}", "uuid", "a text is not a value"),
        ("string", f"{_TEXT}\n", "uuid", "a text is not a value"),
        ("string", "1-1-1-1-1", "uuid", "a text is not a value"),
        ("string", "", "uuid", "a text is not a value"),
        ("binary", _BYTES[1:], "uuid", "does not have the 16 bytes of the type uuid"),
        ("binary", b"abcd", "f3", r"does not have the 3 bytes of the type fixed\(3\)"),
        ("string", "24:00", "time", "a text is not a value of the type time"),
        ("string", "01:00:00.1234567", "time", "a text is not a value"),
        ("timestamp_ntz", 9_223_372_036_854_776, "ntz_nanos", "beyond those of nanoseconds, from 1677 to 2262"),
        ("timestamp", -9_223_372_036_854_776, "nanos", "beyond those of nanoseconds"),
        ("date", dt.date(9999, 12, 31), "nanos", "beyond those of nanoseconds"),
        ("string", "9999-12-31", "ntz_nanos", "a text is not a value of the type timestamp_ntz_ns"),
        ("nanos", 1001, "timestamp", "digits below the microsecond"),
        ("nanos", -1, "timestamp_ntz", "digits below the microsecond"),
    ],
)
def test_values_that_do_not_fit_fail_by_row(given: str, value: Any, to: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message) as caught:
        _assigned(given, [None, value], to)
    assert caught.value.context["row"] == 1


@pytest.mark.parametrize(
    ("given", "to"), [("f3", "f4"), ("f3", "uuid"), ("string", "f3"), ("time", "timestamp"), ("date", "time")]
)
def test_types_without_a_cast_are_refused_by_name(given: str, to: str) -> None:
    with pytest.raises(ExpressionError, match="cannot be cast to"):
        bind_value("x", Struct((Field("x", _KINDS[given]),)), target=_KINDS[to])


def test_parts_of_lists_and_maps_are_converted() -> None:
    text, identity = Primitive("string"), Primitive("uuid")
    keyed = [Map(Field("key", kind, nullable=False), Field("value", Primitive("long"))) for kind in (text, identity)]
    lists = [List(Field("element", kind)) for kind in (text, identity)]
    columns = Struct((Field("l", lists[0]), Field("m", keyed[0])))
    rows = pa.RecordBatch.from_pylist([{"l": [_TEXT, None], "m": [(_TEXT, 1)]}, {}], schema=arrow_schema(columns))
    assert bind_value("l", columns, target=lists[1]).evaluate(rows).to_pylist() == [[_BYTES, None], None]
    assert bind_value("m", columns, target=keyed[1]).evaluate(rows).to_pylist() == [[(_BYTES, 1)], None]
    twice = pa.RecordBatch.from_pylist([{"m": [(_TEXT, 1), (_TEXT.upper(), 2)]}], schema=arrow_schema(columns))
    with pytest.raises(EvaluationError, match="keys of a map become equal"):
        bind_value("m", columns, target=keyed[1]).evaluate(twice)


_COLUMNS = Struct(tuple(Field(name, kind) for name, kind in _KINDS.items()))
_ROW = pa.RecordBatch.from_arrays(
    [
        pa.array([value], pa.int64() if name in _NUMBERS else None).cast(arrow_type(_KINDS[name]))
        for name, value in {
            "string": _TEXT.upper(),
            "binary": _BYTES,
            "uuid": _BYTES,
            "date": dt.date(2023, 11, 14),
            "time": dt.time(1, 2, 3),
            "timestamp": _NANO // 1000,
            "timestamp_ntz": _NANO // 1000,
            "f3": b"abc",
            "f4": b"abc\0",
            "f16": _BYTES,
            "nanos": _NANO,
            "ntz_nanos": _NANO,
        }.items()
    ],
    schema=arrow_schema(_COLUMNS),
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("uuid = string AND uuid = binary AND uuid = f16 AND uuid <=> uuid", True),
        (f"uuid = '{_TEXT}' AND uuid IN ('{_TEXT}', NULL) AND CAST(uuid AS STRING) = '{_TEXT}'", True),
        ("uuid = X'00' OR uuid = f3 OR f3 = f4", False),
        ("f3 = X'616263' AND f3 < f4 AND coalesce(f3, X'00') = X'616263'", True),
        ("time = '01:02:03' AND time < '01:02:03.000001' AND time > '01:02'", True),
        ("nanos = timestamp OR ntz_nanos = timestamp_ntz", False),
        ("nanos > timestamp AND ntz_nanos > timestamp_ntz AND nanos = ntz_nanos AND date < nanos", True),
        ("nanos = '2023-11-14 22:13:20.123456789Z'", True),
        ("nanos IN ('2023-11-14 22:13:20.123456789Z', '2023-11-14')", True),
        (col("uuid") == _ONE, True),
        (col("time").is_in([dt.time(1, 2, 3), dt.time(4)]), True),
        (col("ntz_nanos") == pd.Timestamp(_NANO), True),
        (col("ntz_nanos") == pd.Timestamp(_NANO + 1), False),
        (col("nanos") == pd.Timestamp(_NANO, tz="UTC"), True),
    ],
    ids=str,
)
def test_conditions_compare_them(condition: Any, expected: bool) -> None:
    assert bind_condition(condition, _COLUMNS).evaluate(_ROW).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("value", "to", "expected"),
    [(_ONE, "uuid", _BYTES), (_BYTES, "uuid", _BYTES), (b"abc", "f3", b"abc"), (dt.time(1), "time", dt.time(1))],
)
def test_literals_of_python(value: object, to: str, expected: object) -> None:
    bound = bind_value(value, Struct(), target=_KINDS[to])
    assert bound.evaluate(_ROW).to_pylist() == [expected]
    assert bind_value(bound.sql, Struct(), target=_KINDS[to]).evaluate(_ROW).to_pylist() == [expected]


def test_a_literal_keeps_its_nanoseconds() -> None:
    found = bind_value(pd.Timestamp(_NANO), Struct(), target=_KINDS["ntz_nanos"]).evaluate(_ROW)
    assert found.cast(pa.int64()).to_pylist() == [_NANO]


@pytest.mark.parametrize("value", [_ONE, dt.time(1), dt.time(1, tzinfo=dt.timezone.utc)], ids=str)
def test_literals_of_types_that_nothing_has_are_refused(value: object) -> None:
    columns = Struct((Field("s", Primitive("string")), Field("b", Primitive("binary"))))
    for name in ("s", "b"):
        with pytest.raises(ExpressionError, match=r"is not a value"):
            bind_value(value, columns, target=_KINDS["string"])
        with pytest.raises(ExpressionError, match=r"is not a value"):
            bind_condition(Column((name,)) == value, columns)


@pytest.mark.parametrize("name", ["UUID", "TIME"])
def test_casts_name_the_type_that_cannot_be_evaluated(name: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match=f"the type {name} cannot be evaluated"):
        bind_value(f"CAST('x' AS {name})", _COLUMNS)
