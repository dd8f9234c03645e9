"""Ranges of the values of every type, and rows along curves through them."""

from __future__ import annotations

import datetime as dt
import pickle
import random
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg.table.sort.curves import RANGES, Curve, RangeSample, has_ranges
from deltaberg.table.sort.order import OrderTerm

_NAN, _NEGATIVE_NAN = float("nan"), struct.unpack("<d", struct.pack("<Q", 0xFFF8 << 48))[0]
_UTC = dt.timezone.utc

#: Values in their order; those in one tuple are one value.
_ORDERED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "byte": (pa.int8(), [-128, -1, 0, 127]),
    "short": (pa.int16(), [-(1 << 15), 0, 5]),
    "integer": (pa.int32(), [-(1 << 31), 0, (1 << 31) - 1]),
    "long": (pa.int64(), [-(1 << 63), -1, 0, (1 << 63) - 1]),
    "float": (pa.float32(), [float("-inf"), -1.5, (-0.0, 0.0), 1e-40, 2.5, float("inf"), (_NAN, _NEGATIVE_NAN)]),
    "double": (pa.float64(), [float("-inf"), -1.5, (-0.0, 0.0), 5e-324, 2.5, float("inf"), (_NAN, _NEGATIVE_NAN)]),
    "decimal": (pa.decimal128(38, 2), [Decimal(f"-{'9' * 36}.99"), Decimal("-0.01"), Decimal(0), Decimal("0.01")]),
    "string": (pa.string(), ["", "a", "ab", "b", "ä", "\uffff", "\U0001f600"]),
    "large string": (pa.large_string(), ["", "a", "ab"]),
    "binary": (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
    "uuid": (pa.binary(16), [bytes(16), b"\x7f" * 16, b"\xff" * 16]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1, 1, 1, tzinfo=_UTC),
            dt.datetime(1970, 1, 1, tzinfo=_UTC),
            dt.datetime(2024, 2, 29, tzinfo=_UTC),
        ],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29)]),
    "timestamp_ns": (pa.timestamp("ns"), [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29)]),
    "time": (pa.time64("us"), [dt.time(0), dt.time(12), dt.time(23, 59)]),
    "boolean": (pa.bool_(), [False, True]),
}


def _places(curve: Curve, rows: pa.RecordBatch) -> list[int]:
    return [int.from_bytes(key, "big") for key in curve.keys(rows).to_pylist()]


@pytest.mark.parametrize("name", _ORDERED)
def test_values_of_every_type(name: str) -> None:
    kind, ordered = _ORDERED[name]
    assert has_ranges(kind)
    alike = [value if isinstance(value, tuple) else (value,) for value in [None, *ordered]]
    flat = [value for values in alike for value in values]
    shuffled = flat * 3
    random.Random(1).shuffle(shuffled)
    sample = RangeSample([OrderTerm(("x",))])
    for value in shuffled:
        sample.add(pa.record_batch({"x": pa.array([value], kind)}))
    curve = pickle.loads(pickle.dumps(sample.curve("z-order")))
    places = [_places(curve, pa.record_batch({"x": pa.array(values, kind)})) for values in alike]
    assert all(len(set(found)) == 1 for found in places)
    firsts = [found[0] for found in places]
    assert firsts == sorted(set(firsts))
    # Nulls come first, and the greatest value last: few values go over all ranges, too.
    assert (firsts[0], firsts[-1]) == (0, 1023)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null()], ids=str)
def test_types_without_ranges(kind: pa.DataType) -> None:
    assert not has_ranges(kind)


def test_a_column_of_a_struct() -> None:
    kind = pa.struct([("a", pa.int64())])
    rows = pa.record_batch({"s": pa.array([{"a": 1}, None, {"a": None}, {"a": 2}], kind)})
    sample = RangeSample([OrderTerm(("s", "a"))])
    sample.add(rows)
    curve = sample.curve("hilbert")
    assert curve is not None
    assert _places(curve, rows) == [511, 0, 0, 1023]


def test_no_rows_have_no_ranges() -> None:
    assert RangeSample([OrderTerm(("x",))]).curve("hilbert") is None
    sample = RangeSample([OrderTerm(("x",))])
    sample.add(pa.record_batch({"x": pa.array([None, None], pa.int64())}))
    curve = sample.curve("hilbert")
    assert curve is not None
    assert _places(curve, pa.record_batch({"x": pa.array([None, 5], pa.int64())})) == [0, 1023]


@pytest.mark.parametrize("period", [None, 2, 64, 1000, 1 << 14])
def test_ranges_have_about_equally_many_rows(period: int | None) -> None:
    """Rows that repeat after any number of others are sampled as well as random ones."""
    rng, count = random.Random(5), 400_000
    values = [rng.gauss(0, 1000) for _ in range(count)]
    if period is not None:
        values = [float(number % period) for number in range(count)]
    sample = RangeSample([OrderTerm(("x",))], most=20_000)
    rows = pa.table({"x": values})
    for batch in rows.to_batches(max_chunksize=30_000):
        sample.add(batch)
    assert 10_000 <= sum(batch.num_rows for batch in sample._kept) <= 20_000
    curve = sample.curve("hilbert", 100)
    assert curve is not None
    counts = pa.concat_arrays([curve.keys(batch) for batch in rows.to_batches()]).value_counts().field("counts")
    distinct = count if period is None else period
    expected = count / min(distinct, 100)
    assert len(counts) == min(distinct, 100)
    assert 0.7 * expected < pc.min(counts).as_py() <= pc.max(counts).as_py() < 1.4 * expected


def test_the_same_rows_have_the_same_ranges() -> None:
    rows = pa.table({"x": [str(number * 7919 % 100_003) for number in range(60_000)]})
    curves = []
    for size in (60_000, 977):
        sample = RangeSample([OrderTerm(("x",))], most=5000)
        for batch in rows.to_batches(max_chunksize=size):
            sample.add(batch)
        curves.append(sample.curve("hilbert"))
    one, other = curves
    assert one is not None
    assert other is not None
    assert len(one.boundaries[0]) == RANGES - 1
    assert one.boundaries[0].equals(other.boundaries[0])


def test_a_sample_keeps_the_beginnings_of_texts() -> None:
    texts = ["a" * 100_000 + str(number) for number in range(50)] + ["b" * 100_000]
    sample = RangeSample([OrderTerm(("x",)), OrderTerm(("y",))])
    for text in texts:
        sample.add(pa.record_batch({"x": [text], "y": [text.encode()]}))
    assert sum(batch.nbytes for batch in sample._kept) < 20_000
    curve = sample.curve("z-order")
    assert curve is not None
    places = _places(curve, pa.record_batch({"x": texts, "y": [text.encode() for text in texts]}))
    assert len(set(places[:50])) == 1
    assert places[0] < places[50]


def test_a_value_that_most_rows_have() -> None:
    values = [7] * 50_000 + list(range(10_000, 20_000))
    random.Random(2).shuffle(values)
    rows = pa.record_batch({"x": values})
    sample = RangeSample([OrderTerm(("x",))])
    sample.add(rows)
    curve = sample.curve("hilbert", 100)
    assert curve is not None
    counts = {item["values"]: item["counts"] for item in curve.keys(rows).value_counts().to_pylist()}
    first = min(counts)
    assert 50_000 <= counts[first] < 51_000
    assert max(count for place, count in counts.items() if place != first) < 1000
