"""Theta sketches: both kernels make the same bytes, in whatever pieces values arrive, and refuse the same ones."""

from __future__ import annotations

from functools import partial
from random import Random
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.maintain.statistics.sketches import estimate
from tests.kernels.twins import Raised, twins
from tests.support.effort import examples

_kinds = st.sampled_from([pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
#: Values around the blocks of sixteen bytes that are hashed at a time.
_texts = st.one_of(st.none(), st.sampled_from(["", "a", "\x00", "x" * 8, "x" * 15, "x" * 16, "x" * 17]), st.text())
#: What a sketch of no value looks like.
_EMPTY = bytes.fromhex("01030300001e0000")


def _numbers(first: int, stop: int) -> pa.Array:
    return pa.array(range(first, stop), pa.int64()).view(pa.binary(8))


def _fed(pieces: list[pa.Array], kernels: ModuleType) -> bytes:
    sketch = b""
    for piece in pieces:
        sketch = kernels.update_sketch(sketch, piece)
    return sketch


@examples(200)
@given(st.lists(st.lists(_texts, max_size=20), min_size=1, max_size=3), _kinds)
def test_few_values(pieces: list[list[str | None]], kind: pa.DataType) -> None:
    sketch = twins(partial(_fed, [pa.array(piece, pa.string()).cast(kind) for piece in pieces]))
    assert sketch == twins(partial(_fed, [pa.array([one for piece in pieces for one in piece], pa.string())]))
    distinct = {value for piece in pieces for value in piece if value}
    assert estimate(sketch) == len(distinct)
    assert sketch == twins(lambda kernels: kernels.unite_sketches([sketch, _EMPTY, b"", sketch]))


def test_no_value_and_one() -> None:
    assert twins(lambda kernels: kernels.update_sketch(b"", pa.array([None, ""]))) == _EMPTY
    assert twins(lambda kernels: kernels.unite_sketches([])) == _EMPTY
    one = twins(lambda kernels: kernels.update_sketch(_EMPTY, pa.array(["a"])))
    assert (len(one), one[5]) == (16, 0b11_1010)


@pytest.mark.parametrize("count", [4_095, 4_096, 4_097, 4_098, 9_000, 50_000])
def test_many_values(count: int) -> None:
    """Up to 4,096 a sketch is exact; beyond, it depends on the order of new values alone, and not on the pieces."""
    whole = twins(partial(_fed, [_numbers(0, count)]))
    pieces = [_numbers(0, count // 3), _numbers(0, count // 2), _numbers(count // 2, count), _numbers(0, count)]
    assert twins(partial(_fed, pieces)) == whole
    assert estimate(whole) == count if count <= 4_096 else abs(estimate(whole) / count - 1) < 0.04


@pytest.mark.parametrize("counts", [(3_000, 3_000), (5_000, 10), (20_000, 30_000), (4_096, 1)])
def test_sketches_are_united(counts: tuple[int, int]) -> None:
    first, second = counts
    sketches = [twins(partial(_fed, [_numbers(*span)])) for span in ((0, first), (first - 5, first + second - 5))]
    united = twins(lambda kernels: kernels.unite_sketches(sketches))
    assert united == twins(lambda kernels: kernels.unite_sketches(sketches[::-1]))
    total = max(first, first + second - 5)
    assert estimate(united) == total if total <= 4_096 else abs(estimate(united) / total - 1) < 0.05
    # What was united goes on.
    more = twins(lambda kernels: kernels.update_sketch(united, _numbers(0, 70_000)))
    assert abs(estimate(more) / 70_000 - 1) < 0.05


@pytest.mark.parametrize("wrong", [pa.array([1]), pa.array([["a"]]), [b"a"], None], ids=str)
def test_what_is_refused(wrong: Any) -> None:
    found = twins(lambda kernels: kernels.update_sketch(b"", wrong), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


def _damaged(rng: Random, sketch: bytes) -> bytes:
    at = rng.randrange(len(sketch))
    change = rng.choice(["cut", "flip", "add"])
    if change == "cut":
        return sketch[:at]
    if change == "add":
        return sketch + bytes(rng.randrange(1, 17))
    return sketch[:at] + bytes([sketch[at] ^ 1 << rng.randrange(8)]) + sketch[at + 1 :]


def _united(sketch: bytes, kernels: ModuleType) -> bytes:
    found: bytes = kernels.unite_sketches([sketch])
    return found


def test_damaged_sketches(rng: Random) -> None:
    """Both kernels refuse them, or take them for the same one."""
    sketches = [twins(partial(_fed, [_numbers(0, count)])) for count in (0, 1, 2, 30, 4_200)]
    found = [twins(partial(_united, _damaged(rng, rng.choice(sketches)))) for _ in range(300)]
    refused = [one for one in found if isinstance(one, Raised)]
    assert {one.kind for one in refused} == {InvalidArgumentError}
    assert len(refused) > 50
