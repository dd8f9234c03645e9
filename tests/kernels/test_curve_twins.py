"""Ranges and curves: native and Python agree with each other, and with what the curves are."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from tests.kernels.twins import Raised, twins
from tests.support.effort import examples

_CURVES = pytest.mark.parametrize("curve", ["z-order", "hilbert"])


def _ids(rows: list[tuple[int, ...]], columns: int) -> pa.RecordBatch:
    arrays = [pa.array([row[column] for row in rows], pa.uint32()) for column in range(columns)]
    return pa.record_batch(arrays, [str(column) for column in range(columns)])


def _keys(rows: list[tuple[int, ...]], columns: int, bits: int, curve: str, skip: int = 0) -> list[int]:
    ids = _ids(rows, columns).slice(skip)
    found = twins(lambda kernels: kernels.curve_keys(ids, bits, curve, 1))
    assert found.type == pa.binary(-(-columns * bits // 8))
    return [int.from_bytes(key, "big") for key in found.to_pylist()]


@st.composite
def _grids(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, ...]]]:
    columns, bits = draw(st.integers(1, 16)), draw(st.integers(1, 32))
    row = st.tuples(*[st.integers(0, (1 << bits) - 1)] * columns)
    return columns, bits, draw(st.lists(row, max_size=6))


@examples(150)
@given(_grids(), st.integers(0, 2))
@example((16, 32, [((1 << 32) - 1,) * 16, (0,) * 16]), 0)
@example((1, 32, [(1 << 31,), (5,)]), 1)
def test_z_order_against_text(grid: tuple[int, int, list[tuple[int, ...]]], skip: int) -> None:
    columns, bits, rows = grid
    texts = [[f"{value:0{bits}b}" for value in row] for row in rows[skip:]]
    expected = [int("".join("".join(turn) for turn in zip(*row, strict=True)), 2) for row in texts]
    assert _keys(rows, columns, bits, "z-order", skip) == expected


@examples(150)
@given(_grids(), st.integers(0, 2))
def test_hilbert_twins(grid: tuple[int, int, list[tuple[int, ...]]], skip: int) -> None:
    columns, bits, rows = grid
    keys = _keys(rows, columns, bits, "hilbert", skip)
    assert len(set(keys)) == len(set(rows[skip:]))
    if columns == 1:
        assert keys == [row[0] for row in rows[skip:]]


@pytest.mark.parametrize(
    ("columns", "bits"),
    [(1, 1), (1, 6), (2, 1), (2, 2), (2, 5), (3, 1), (3, 3), (4, 2), (5, 2), (6, 2), (8, 1), (10, 1)],
)
def test_the_cells_along_hilberts_curve_are_neighbours(columns: int, bits: int) -> None:
    """The curve reaches every cell once, and the next cell differs by 1 in one coordinate."""
    cells = list(product(range(1 << bits), repeat=columns))
    keys = _keys(cells, columns, bits, "hilbert")
    assert sorted(keys) == list(range(len(cells)))
    along = [cell for _, cell in sorted(zip(keys, cells, strict=True))]
    steps = [sum(abs(one - two) for one, two in zip(*pair, strict=True)) for pair in pairwise(along)]
    assert set(steps) == {1}
    assert along[0] == (0,) * columns


@pytest.mark.parametrize("columns", [2, 3])
def test_finer_cells_lie_in_coarser_ones(columns: int) -> None:
    """A key of few bits is the beginning of the key of more bits, as far as the axes of the curve are the same."""
    coarse, fine = 2, 2 + columns
    cells = list(product(range(1 << coarse), repeat=columns))
    inside = [tuple(value << (fine - coarse) for value in cell) for cell in cells]
    keys = _keys(inside, columns, fine, "hilbert")
    blocks = {key >> columns * (fine - coarse) for key in keys}
    assert blocks == set(range(len(cells)))


@_CURVES
def test_more_rows_than_a_thread_takes(curve: str) -> None:
    numbers = pa.array(range(150_000), pa.uint32())
    ids = pa.record_batch([numbers, numbers.take(pa.array(range(149_999, -1, -1)))], ["a", "b"])
    alone = twins(lambda kernels: kernels.curve_keys(ids, 18, curve, 1))
    assert twins(lambda kernels: kernels.curve_keys(ids, 18, curve, 3)).equals(alone)
    assert len(alone.unique()) == 150_000


@pytest.mark.parametrize(
    ("ids", "bits", "curve"),
    [
        ([], 3, "hilbert"),
        ([pa.array([1], pa.uint32())] * 17, 3, "hilbert"),
        ([pa.array([1], pa.int64())], 3, "z-order"),
        ([pa.array([1], pa.uint16())], 3, "z-order"),
        ([pa.array([1, None], pa.uint32())], 3, "z-order"),
        ([pa.array([1, 8], pa.uint32())], 3, "z-order"),
        ([pa.array([1], pa.uint32())], 0, "z-order"),
        ([pa.array([1], pa.uint32())], 33, "z-order"),
        ([pa.array([1], pa.uint32())], -1, "z-order"),
        ([pa.array([1], pa.uint32())], 3, "peano"),
    ],
)
def test_what_is_refused(ids: list[pa.Array], bits: int, curve: str) -> None:
    batch = pa.record_batch(ids, [str(number) for number in range(len(ids))])
    found = twins(lambda kernels: kernels.curve_keys(batch, bits, curve))
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


# Ranges

_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-9, 9),
    pa.decimal128(38, 3): st.decimals(-(10**34), 10**34, places=3) | st.integers(-9, 9).map(Decimal),
    pa.binary(): st.binary(max_size=4),
    pa.large_binary(): st.binary(max_size=4),
}


@st.composite
def _ranges(draw: st.DrawFn) -> tuple[pa.Array, pa.Array]:
    kind = draw(st.sampled_from(list(_VALUES)))
    boundaries = sorted(draw(st.sets(_VALUES[kind], max_size=8)))
    values = draw(st.lists(st.none() | _VALUES[kind] | st.sampled_from([*boundaries, None]), max_size=12))
    return pa.array(values, kind), pa.array(boundaries, kind)


@examples(300)
@given(_ranges(), st.integers(0, 3))
def test_ranges(ranges: tuple[pa.Array, pa.Array], skip: int) -> None:
    values, boundaries = ranges[0][skip:], ranges[1][skip:]
    found = twins(lambda kernels: kernels.range_ids(values, boundaries, 1))
    assert found.type == pa.uint32()
    limits = boundaries.to_pylist()
    expected = [0 if value is None else 1 + bisect_right(limits, value) for value in values.to_pylist()]
    assert found.to_pylist() == expected


def test_ranges_of_more_rows_than_a_thread_takes() -> None:
    values = pa.array([None, *range(150_000)], pa.int64())
    boundaries = pa.array(range(0, 150_000, 1000), pa.int64())
    found = twins(lambda kernels: kernels.range_ids(values, boundaries, 3))
    assert found.to_pylist() == [0, *(2 + value // 1000 for value in range(150_000))]


@pytest.mark.parametrize(
    ("values", "boundaries"),
    [
        (pa.array([1]), pa.array([1.0])),
        (pa.array([1.0]), pa.array([1.0])),
        (pa.array(["a"]), pa.array(["b"])),
        (pa.array([1]), pa.array([1, None])),
        (pa.array([1]), pa.array([2, 1])),
        (pa.array([1]), pa.array([2, 2])),
        (pa.array([b"a"]), pa.array([b"b", b"a"])),
        (pa.array([Decimal("1.0")]), pa.array([Decimal("1.00")])),
        ([1], pa.array([1])),
    ],
)
def test_ranges_that_are_refused(values: Any, boundaries: pa.Array) -> None:
    found = twins(lambda kernels: kernels.range_ids(values, boundaries))
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError
