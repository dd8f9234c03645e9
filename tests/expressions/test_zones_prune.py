"""Readings of a clock compared with instants, in zones whose clocks are set back: what pruning takes of them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from deltaberg import col
from deltaberg.expressions.bind.bind import bind_condition
from deltaberg.expressions.build.filters import as_filter
from deltaberg.expressions.compute.bound import BoundComputed
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind, value_filter
from deltaberg.schema.types import Decimal, Field, Primitive, Struct

pytestmark = pytest.mark.one_backend

_COLUMNS = Struct((Field("w", Primitive("timestamp_ntz")), Field("e", Decimal(38, 2))))
#: Places and days on which clocks were set forward or back, in Samoa and on Kwajalein by a day.
_CHANGES = [
    ("Europe/Berlin", dt.datetime(2024, 3, 31)),
    ("Europe/Berlin", dt.datetime(2024, 10, 27)),
    ("Pacific/Apia", dt.datetime(2011, 12, 30)),
    ("Pacific/Kwajalein", dt.datetime(1969, 10, 1)),
    ("America/New_York", dt.datetime(2024, 7, 1)),
]


@pytest.mark.parametrize(("zone", "day"), _CHANGES)
def test_no_matching_reading_is_pruned(zone: str, day: dt.datetime) -> None:
    readings = [day + dt.timedelta(minutes=20 * step) for step in range(-150, 220)]
    batch = pa.record_batch({"w": pa.array(readings, pa.timestamp("us"))})
    for operator in ("=", "<", "<=", ">", ">=", "<=>", "!=", "IN"):
        for reading in readings[120:200:7]:
            literal = f"TIMESTAMP '{reading}'"
            text = f"w IN ({literal}, {literal})" if operator == "IN" else f"w {operator} {literal}"
            for condition in (text, f"NOT ({text})"):
                found = bind(as_filter(condition), _COLUMNS, zone)
                assert isinstance(found, BoundComputed)
                matches = evaluate(found, lambda path: batch[path[0].name], len(batch)).fill_null(fill_value=False)
                kept = evaluate(found.implied, lambda path: batch[path[0].name], len(batch))
                assert kept.filter(matches).to_pylist() == [True] * matches.true_count, condition


def test_readings_are_pruned_as_closely_as_the_clock_allows() -> None:
    summer = bind(as_filter("TIMESTAMP '2024-07-01 12:00:00' >= w"), _COLUMNS, "Europe/Berlin")
    assert isinstance(summer, BoundComputed)
    assert str(summer.implied) == "w <= '2024-07-01 12:00:00'"
    change = bind(as_filter("w = TIMESTAMP '2024-03-31 00:30:00Z'"), _COLUMNS, "Europe/Berlin")
    assert isinstance(change, BoundComputed)
    assert str(change.implied) == "(w >= '2024-03-31 01:30:00' AND w <= '2024-03-31 02:30:00')"
    # A condition that has to be computed is no part of a filter for one side of a join.
    condition = bind_condition("TIMESTAMP '2024-07-01 12:00:00' >= w", _COLUMNS, timezone="Europe/Berlin")
    assert str(value_filter(condition)) == "true"


def test_long_lists_are_pruned_by_their_range() -> None:
    many = bind(col("e").is_in([number / 4 for number in range(-100, 100)]), _COLUMNS)
    assert isinstance(many, BoundComputed)
    assert str(many.implied) == "(e >= -25.00 AND e < 24.76)"
