"""Dates and timestamps of all of Spark's range: every function of them has Spark's result, and fails where Spark fails.

The rows are the ends of both types, the years 0, 1, 9999 and 10000, the days of the old calendar, and hours that a zone
skips and repeats; random ones come on top.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.schema.types import Field, Primitive, Struct
from tests.support.spark_values import compare_with_spark

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_FIRST, _LAST = -(1 << 63), (1 << 63) - 1
_HOUR, _DAY = 3_600_000_000, 86_400_000_000
_MICROS = [
    *(_FIRST, _FIRST + 1, _FIRST + 999_999, _FIRST + 5 * _HOUR, _FIRST + _DAY, _FIRST + 3 * _DAY + 12_345),
    *(_LAST, _LAST - 1, _LAST - 5 * _HOUR, _LAST - _DAY, _LAST - 2 * _DAY - 7, 4 * 10**18, -4 * 10**18, -9 * 10**17),
    *(-62_135_596_800_000_000, -62_135_596_800_000_001, -62_167_219_200_000_000, -62_167_219_200_000_001),
    *(253_402_300_799_999_999, 253_402_300_800_000_000, -12_219_292_800_000_000, -12_219_292_800_000_001),
    *(0, -1, 1_583_652_600_000_000, 1_604_210_400_000_000, -2_717_640_000_000_001, -70_000_000_000_000_000),
]
_DAYS = [
    *(-(1 << 31), -(1 << 31) + 1, -(1 << 31) + 700, (1 << 31) - 1, (1 << 31) - 2, (1 << 31) - 400),
    *(-106_751_991, -106_751_992, 106_751_991, 106_751_992, 11_000_001, -11_000_001, 365_000_000, -365_000_000),
    *(0, -1, -719_162, -719_163, -719_528, -719_529, 2_932_896, 2_932_897, -141_428, -141_427, 18_321, -735_000),
]
_TEXTS = [
    *("+10000-01-01", "-0044-03-15", "-10000-12-31", "10000-01-01", "99999-01-01", "0000-01-01", "-0000-01-01"),
    *("+294247-01-10 04:00:54.775807Z", "+294247-01-10 04:00:54.775808Z", "+294247-01-10", "+294247", "-290307"),
    *("-290308-12-21 19:59:05.224192Z", "-290308-12-21 19:59:05.224191Z", "-290308-12-22", "-290308-12-21"),
    *("+5881580-07-11", "+5881580-07-12", "-5877641-06-23", "-5877641-06-22", "+1234567-01-01", "12345678-01-01"),
    *("0001-01-01 00:00:00", "+9999-12-31T23:59:59.9999999Z", "+0001-1-1", "-0001-02-29", "-0004-02-29", "x"),
]
_COUNTS = [0, 1, -1, 12, -400, 4_800_000, -4_800_000, (1 << 31) - 1, -(1 << 31), 31, 100_000, None]
_KINDS = {"t": "timestamp", "u": "timestamp", "n": "timestamp_ntz", "d": "date", "e": "date"}
_KINDS |= {"i": "integer", "l": "long", "s": "string"}
_SCHEMA = Struct(tuple(Field(name, Primitive(kind)) for name, kind in _KINDS.items()))

_OF_ANY = [
    *("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear", "hour", "minute"),
    *("second", "last_day", "date", "timestamp", "string", "to_date", "to_timestamp", "try_to_timestamp"),
]
_PARTS = ["YEAROFWEEK", "WEEK", "DOW_ISO", "DOY", "HOUR", "SECOND"]
_UNITS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"]
_INTERVALS = [
    *("1 DAY", "1 MONTH", "100 YEAR", "1 HOUR", "1 MICROSECOND", "1000000 DAY"),
    *("'1 02:03:04.000005' DAY TO SECOND", "'1 02' DAY TO HOUR", "'1-2' YEAR TO MONTH"),
]


def _expressions() -> list[str]:
    texts = []
    for one in ("t", "n", "d"):
        texts += [f"{name}({one})" for name in _OF_ANY]
        texts += [f"EXTRACT({part} FROM {one})" for part in _PARTS]
        texts += [f"CAST({one} AS TIMESTAMP_NTZ)", f"date_format({one}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"]
        texts += [f"date_format({one}, 'yy/M/d h a EEEE MMM')", f"datediff({one}, e)", f"datediff({one}, u)"]
        texts += [f"trunc({one}, '{unit}')" for unit in _UNITS[:4]]
        texts += [f"date_trunc('{unit}', {one})" for unit in _UNITS]
        texts += [f"{name}({one}, i)" for name in ("date_add", "date_sub", "add_months")]
        texts += [f"{one} {sign} INTERVAL {interval}" for sign in "+-" for interval in _INTERVALS]
        texts += [f"{one} {sign} {other}" for sign in ("<", "=") for other in ("t", "n", "d")]
    texts += ["unix_seconds(t)", "unix_millis(t)", "unix_micros(t)", "CAST(t AS BIGINT)", "unix_date(d)", "d + i"]
    texts += ["timestamp_micros(l)", "CAST(timestamp_micros(l) AS string)", "extract(SECOND FROM timestamp_micros(l))"]
    texts += ["timestamp_seconds(i)", "timestamp_millis(l)", "date_from_unix_date(i)", "make_date(i, 2, 1)"]
    texts += [f"CAST(s AS {kind})" for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")]
    texts += [f"try_cast(s AS {kind})" for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")]
    texts += [
        "try_to_timestamp(s)",
        "to_date(s, 'yyyy-MM-dd')",
        "to_timestamp(s, 'yyyy-MM-dd')",
        "hour(s)",
        "last_day(s)",
    ]
    texts += ["string(date(s))", "string(timestamp(s))", "s = d", "s < t", "t > '+10000-01-01'", "d < '-0044-03-15'"]
    texts += ["t BETWEEN TIMESTAMP '-0044-03-15' AND TIMESTAMP '+10000-01-01'", "d IN (DATE '-0044-03-15', e)"]
    return texts


def _rows(rng: random.Random) -> pa.RecordBatch:
    micros = [*_MICROS, *(rng.randrange(_FIRST, _LAST) for _ in range(4)), None]
    days = [*_DAYS, *(rng.randrange(-(1 << 31), 1 << 31) for _ in range(8)), None]
    values = {"t": micros, "u": micros[::-1], "n": micros, "d": days, "e": days[::-1], "i": _COUNTS, "l": micros}
    count = max(map(len, values.values()))
    columns = {}
    for name, kind in _KINDS.items():
        some: list[Any] = list(values.get(name, _TEXTS))
        some = (some * count)[:count]
        if kind == "date":
            columns[name] = pa.array(some, pa.int32()).cast(pa.date32())
        elif kind.startswith("timestamp"):
            columns[name] = pa.array(some, pa.int64()).cast(pa.timestamp("us", "UTC" if kind == "timestamp" else None))
        else:
            columns[name] = pa.array(some, {"integer": pa.int32(), "long": pa.int64()}.get(kind, pa.string()))
    return pa.RecordBatch.from_pydict(columns)


def _compare(spark: Any, rng: random.Random, texts: list[str], zone: str) -> None:
    found = compare_with_spark(spark, _rows(rng), _SCHEMA, texts, zone)
    assert not found.differences, "\n".join(found.differences)
    assert found.equal == len(texts)
    assert not found.unsupported


def test_functions_reach_all_dates_and_timestamps_of_spark(spark: Any, rng: random.Random) -> None:
    _compare(spark, rng, _expressions()[::8], "America/New_York")


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "+14:00", "-18:00", "Pacific/Apia", "Asia/Kolkata"])
def test_all_functions_reach_all_dates_and_timestamps_of_spark(spark: Any, rng: random.Random, zone: str) -> None:
    _compare(spark, rng, _expressions(), zone)
