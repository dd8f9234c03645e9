"""Sets of keys: both kernels find the rows that a comparison of all pairs finds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from tests.kernels.twins import Raised, examples, twins

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
    made = []
    for _ in range(2):
        count = draw(st.integers(0, 12))
        columns = [
            pa.array(draw(st.lists(st.none() | _COLUMNS[kind], min_size=count, max_size=count)), kind) for kind in types
        ]
        made.append(pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(types))]))
    return made[0], made[1]


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
