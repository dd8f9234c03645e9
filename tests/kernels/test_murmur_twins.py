"""Hashes and buckets: native and Python agree on values of every type."""

from __future__ import annotations

from typing import Any

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from tests.kernels.twins import Raised, native_kernels, twins
from tests.support.effort import examples

_LONGS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3000, 3000)
_INTS = st.integers(-(1 << 31), (1 << 31) - 1)
_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): _INTS,
    pa.int64(): _LONGS,
    pa.date32(): _INTS,
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.timestamp("us"): _LONGS,
    pa.timestamp("us", "Europe/Berlin"): _LONGS,
    pa.timestamp("ns"): _LONGS,
    pa.timestamp("ns", "UTC"): _LONGS,
    pa.decimal128(38, 3): st.decimals(-(10**34), 10**34, places=3),
    pa.decimal128(5, 0): st.decimals(-99999, 99999, places=0),
    pa.string(): st.text(max_size=20),
    pa.large_string(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
    pa.binary(7): st.binary(min_size=7, max_size=7),
}
_ARRAYS = st.sampled_from(list(_VALUES)).flatmap(
    lambda kind: st.lists(st.none() | _VALUES[kind], max_size=8).map(lambda values: pa.array(values, kind))
)


@examples(300)
@given(_ARRAYS, st.integers(0, 3), st.integers(1, 40) | st.integers(1, (1 << 31) - 1))
def test_every_type(values: pa.Array, skip: int, buckets: int) -> None:
    values = values[skip:]
    hashes = twins(lambda kernels: kernels.hash32(values))
    assert hashes.type == pa.int32()
    numbers = twins(lambda kernels: kernels.bucket(values, buckets, 2))
    expected = [None if hashed is None else (hashed & 0x7FFFFFFF) % buckets for hashed in hashes.to_pylist()]
    assert numbers.to_pylist() == expected


_UNBUCKETED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
}


@examples(200)
@given(
    st.sampled_from(list(_UNBUCKETED)).flatmap(
        lambda kind: st.lists(st.none() | _UNBUCKETED[kind], max_size=12).map(lambda values: pa.array(values, kind))
    ),
    st.integers(0, 3),
)
def test_types_without_buckets(values: pa.Array, skip: int) -> None:
    values = values[skip:]
    assert twins(lambda kernels: kernels.hash32(values)).null_count == values.null_count
    refused = twins(lambda kernels: kernels.bucket(values, 4), messages=False)
    assert isinstance(refused, Raised)
    assert refused.kind is InvalidArgumentError


@examples(100)
@given(st.binary(max_size=300))
def test_bytes_against_another_library(value: bytes) -> None:
    assert twins(lambda kernels: kernels.hash32(pa.array([value]))).to_pylist() == [mmh3.hash(value, 0)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.decimal128(38, 0), pa.binary()], ids=str)
def test_more_than_one_thread(kind: pa.DataType) -> None:
    longs = pa.array(range(-50_000, 50_000), pa.int64())
    values = longs.cast(pa.string()).cast(kind) if kind == pa.binary() else longs.cast(kind)
    alone = twins(lambda kernels: kernels.bucket(values, 1000, 1))
    assert twins(lambda kernels: kernels.bucket(values, 1000, 5)).equals(alone)


@pytest.mark.parametrize(
    "kind",
    [
        pa.float16(), pa.int8(), pa.int16(), pa.uint32(), pa.uint64(),
        pa.timestamp("s"), pa.timestamp("ms"), pa.time32("ms"), pa.time64("ns"), pa.date64(), pa.duration("us"),
        pa.decimal256(50, 2), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.int32(), pa.int32()),
        pa.dictionary(pa.int32(), pa.string()), pa.string_view(), pa.null(),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_are_not_hashed(kind: pa.DataType) -> None:
    values = pa.array([None], kind)
    for outcome in (
        twins(lambda kernels: kernels.hash32(values), messages=False),
        twins(lambda kernels: kernels.bucket(values, 4), messages=False),
    ):
        assert isinstance(outcome, Raised)
        assert outcome.kind is InvalidArgumentError


@pytest.mark.parametrize("buckets", [0, -1, 1 << 31, -(1 << 31), (1 << 63) - 1])
def test_numbers_of_buckets_that_are_none(buckets: int) -> None:
    found = twins(lambda kernels: kernels.bucket(pa.array([1], pa.int64()), buckets))
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError
    assert found.context == {"buckets": str(buckets)}


@pytest.mark.parametrize("values", [[1, 2], None, "text"])
def test_what_is_no_array(values: Any) -> None:
    found = twins(lambda kernels: kernels.hash32(values))
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


def test_offsets_that_lie() -> None:
    """Texts are not checked before they are hashed, but no byte outside of them is read."""
    offsets = pa.array([0, 5, 2, 1 << 30, 6], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 4, [None, offsets, pa.py_buffer(b"\xff\xfe\xfd\xfc\xfb\xfa")])
    found = native_kernels().hash32(texts).to_pylist()
    assert found[0] == mmh3.hash(b"\xff\xfe\xfd\xfc\xfb", 0)
    assert found[1:] == [0, 0, 0]
