"""Keys that rows are looked up by: both kernels find the rows that a comparison of all pairs finds."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from tests.kernels.twins import Raised, twins
from tests.support.effort import examples

#: Arrow types, with few values each, so that rows meet keys.
_COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-2, 2),
    pa.int64(): st.sampled_from([-(1 << 63), 0, 7, (1 << 63) - 1]),
    pa.string(): st.sampled_from(["", "a", "ab", "\x00", "é", "a" * 300]),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\x00\x00", b"\xff"]),
    pa.binary(2): st.sampled_from([b"ab", b"\x00\x00"]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.integers(-5, 5),
    pa.decimal128(9, 2): st.sampled_from([Decimal("1.00"), Decimal("-1.00"), Decimal("0.01")]),
}


@st.composite
def _batches(draw: st.DrawFn) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    types = draw(st.lists(st.sampled_from(list(_COLUMNS)), min_size=1, max_size=3))
    batches = []
    for _ in range(2):
        count = draw(st.integers(0, 12))
        columns = [
            pa.array(draw(st.lists(st.none() | _COLUMNS[kind], min_size=count, max_size=count)), kind) for kind in types
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(types))]))
    return batches[0], batches[1]


@given(_batches())
@examples(200)
def test_rows_that_are_keys(found: tuple[pa.RecordBatch, pa.RecordBatch]) -> None:
    keys, rows = found
    mask = twins(lambda kernels: kernels.contains_keys(kernels.index_keys(keys), rows))
    known = [tuple(row.values()) for row in keys.to_pylist()]
    assert mask.to_pylist() == [tuple(row.values()) in known for row in rows.to_pylist()]


def test_many_rows_and_slices() -> None:
    """More rows than are encoded at a time, and batches that begin in the middle of their buffers."""
    rows = pa.record_batch({"n": pa.array(range(30_000)), "s": pa.array([str(n % 7) for n in range(30_000)])})
    keys = rows.slice(10_000, 5_000)
    mask = twins(lambda kernels: kernels.contains_keys(kernels.index_keys(keys), rows.slice(1)))
    assert mask.to_pylist() == [10_000 <= n < 15_000 for n in range(1, 30_000)]


def test_what_is_no_set() -> None:
    keys = pa.record_batch({"n": pa.array([1])})
    other = pa.record_batch({"n": pa.array(["1"])})
    empty = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    for call in (
        lambda kernels: kernels.contains_keys(kernels.index_keys(keys), other),
        lambda kernels: kernels.index_keys(empty),
    ):
        found = twins(call, messages=False)
        assert isinstance(found, Raised)
        assert found.kind is InvalidArgumentError


# Keys of joins, which are compared as in Spark SQL.

#: Two NaN whose bits differ.
_OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
_FLOATS = st.sampled_from([0.0, -0.0, 1.5, math.nan, _OTHER_NAN, math.inf])
_NESTED = pa.struct([("f", pa.float64()), ("s", pa.string())])
_JOINED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **_COLUMNS,
    pa.int8(): st.integers(-2, 2),
    pa.int16(): st.integers(-2, 2),
    pa.float32(): _FLOATS,
    pa.float64(): _FLOATS,
    pa.list_(pa.float64()): st.lists(st.none() | _FLOATS, max_size=2),
    pa.large_list(pa.date32()): st.lists(st.none() | st.integers(-(1 << 31), -(1 << 31) + 1), max_size=2),
    pa.list_(pa.int64(), 2): st.lists(st.integers(0, 1), min_size=2, max_size=2),
    _NESTED: st.fixed_dictionaries({"f": st.none() | _FLOATS, "s": st.sampled_from([None, "", "a"])}),
    pa.list_(_NESTED): st.lists(st.none() | st.just({"f": -0.0, "s": "a"}) | st.just({"f": 0.0, "s": "a"}), max_size=2),
}


@st.composite
def _joined(draw: st.DrawFn) -> tuple[pa.RecordBatch, pa.RecordBatch, list[bool]]:
    types = draw(st.lists(st.sampled_from(list(_JOINED)), min_size=1, max_size=3))
    batches = []
    for _ in range(2):
        count = draw(st.integers(0, 12))
        columns = [
            pa.array(draw(st.lists(st.none() | _JOINED[kind], min_size=count, max_size=count)), kind) for kind in types
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(types))]))
    return batches[0], batches[1], draw(st.lists(st.booleans(), min_size=len(types), max_size=len(types)))


def _equal(left: Any, right: Any) -> bool:
    """Return whether two values that are not null are equal in Spark SQL."""
    if isinstance(left, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(_same(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, dict):
        return _equal(list(left.values()), list(right.values()))
    return bool(left == right)


def _same(left: Any, right: Any) -> bool:
    return left is right if left is None or right is None else _equal(left, right)


def _values(batch: pa.RecordBatch) -> list[list[Any]]:
    """Return the rows of a batch; Python has no dates before the year 1."""
    columns = []
    for column in batch.columns:
        plain = pa.large_list(pa.int32()) if column.type == pa.large_list(pa.date32()) else column.type
        columns.append(column.cast(plain).to_pylist())
    return [list(row) for row in zip(*columns, strict=True)]


@given(_joined())
@examples(300)
def test_rows_join_as_in_sql(found: tuple[pa.RecordBatch, pa.RecordBatch, list[bool]]) -> None:
    keys, rows, null_safe = found
    places = twins(lambda kernels: kernels.find_keys(kernels.index_keys(keys, null_safe), rows))
    key_values = _values(keys)

    def joins(row: list[Any], key: list[Any]) -> bool:
        cells = zip(row, key, null_safe, strict=True)
        return all(_same(a, b) if safe else a is not None and b is not None and _equal(a, b) for a, b, safe in cells)

    expected = [next((place for place, key in enumerate(key_values) if joins(row, key)), None) for row in _values(rows)]
    assert places.to_pylist() == expected
    mask = twins(lambda kernels: kernels.contains_keys(kernels.index_keys(keys, null_safe), rows))
    assert mask.to_pylist() == [place is not None for place in expected]


def test_many_joined_rows() -> None:
    """More rows than are encoded at a time, on several threads; the first of equal keys is found."""
    keys = pa.record_batch({"n": pa.array([n % 20_000 for n in range(30_000)])}).slice(5)
    rows = pa.record_batch({"n": pa.array(range(-10, 40_000))}).slice(3)
    places = twins(lambda kernels: kernels.find_keys(kernels.index_keys(keys, [False]), rows, threads=3))
    first = {n % 20_000: n - 5 for n in reversed(range(5, 30_000))}
    assert places.to_pylist() == [first.get(n) for n in range(-7, 40_000)]


def test_keys_that_cannot_be_joined() -> None:
    keys = pa.record_batch({"n": pa.array([1])})
    maps = pa.record_batch({"m": pa.array([[[("a", 1)]]], pa.list_(pa.map_(pa.string(), pa.int64())))})
    for call, expected in (
        (lambda kernels: kernels.index_keys(keys, []), "null_safe needs one value for each column of the keys"),
        (lambda kernels: kernels.index_keys(maps, [True]), "a map cannot be part of a key"),
    ):
        found = twins(call)
        assert isinstance(found, Raised)
        assert found.message == expected
