"""Bitmaps: native and Python agree on every input, and read valid ones correctly."""

from __future__ import annotations

import contextlib
import random
import struct
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import CorruptDeletionVectorError, InvalidArgumentError, TooLargeError
from deltaberg.kernels import pure
from tests.kernels.roaring_bytes import MAGIC, NATIVE_MAGIC, Bitmap, bitmap_of, bitmaps, damaged, framed, legacy
from tests.kernels.twins import Raised, backends, twins
from tests.support.effort import examples
from tests.support.vectors import full_bitmap

_FRAMINGS = st.sampled_from(["delta-inline", "delta-file", "puffin"])
_BLOCK = 1 << 16
_HEAD = struct.pack("<I", MAGIC)


@examples(100)
@given(bitmaps(), _FRAMINGS)
def test_valid_bitmaps_unframe(bitmap: Bitmap, framing: str) -> None:
    data = framed(_HEAD + bitmap.data, framing)
    assert twins(lambda kernels: kernels.unframe_bitmap(data, framing)) == (bitmap.data, len(bitmap.positions))


@examples(60)
@given(bitmaps())
def test_positions(bitmap: Bitmap) -> None:
    found = twins(lambda kernels: kernels.bitmap_positions(bitmap.data, len(bitmap.positions)))
    assert found.equals(pa.array(bitmap.positions, pa.uint64()))


@examples(100)
@given(bitmaps(), st.data())
def test_masks(bitmap: Bitmap, data: st.DataObject) -> None:
    edges = [0, *bitmap.positions[:1], *bitmap.positions[-1:], *(row & ~0xFFFF for row in bitmap.positions[-1:])]
    start = max(0, data.draw(st.sampled_from(edges)) + data.draw(st.integers(-70_000, 70_000)))
    length = data.draw(st.integers(0, 200) | st.integers(0, 150_000))
    mask = twins(lambda kernels: kernels.keep_mask(bitmap.data, start, length))
    if isinstance(mask, Raised):
        assert mask.kind is InvalidArgumentError
        assert start + length > (1 << 63) - 1
        return
    gone = {row - start for row in bitmap.positions if start <= row < start + length}
    assert mask.to_pylist() == [row not in gone for row in range(length)]


@pytest.mark.parametrize("module", backends(), ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("kind", ["array", "bits", "runs"])
@pytest.mark.parametrize("origin", [0, _BLOCK - 100], ids=["first-block", "two-blocks"])
def test_masks_of_all_windows(module: ModuleType, kind: str, origin: int) -> None:
    """Every pair of edges up to 200: windows in one word, on two words with none between, and across two blocks."""
    rng = random.Random(origin)
    # Bits need more than an array may have, and the others only what the windows see.
    near = range(_BLOCK) if kind == "bits" else [*range(300), *range(_BLOCK - 300, _BLOCK)]
    block = [value for value in near if rng.random() < 0.6]
    bitmap = bitmap_of(kind, {0: block, 1: block})
    gone = set(bitmap.positions)
    rows = pa.array([row not in gone for row in range(origin, origin + 201)])
    # Only the compiled kernel goes by words, and it is quick enough for all edges.
    for first in range(0, 201, 17 if module is pure else 1):
        for past in range(first, 201):
            mask = module.keep_mask(bitmap.data, origin + first, past - first)
            assert mask.equals(rows.slice(first, past - first)), (first, past)


@examples(60)
@given(bitmaps(), _FRAMINGS)
def test_encoding_holds_the_positions(bitmap: Bitmap, framing: str) -> None:
    positions = pa.array(bitmap.positions, pa.uint64())
    data = twins(lambda kernels: kernels.encode_bitmap(positions, framing))
    body, cardinality = twins(lambda kernels: kernels.unframe_bitmap(data, framing))
    assert cardinality == len(positions)
    assert twins(lambda kernels: kernels.bitmap_positions(body, len(positions))).equals(positions)


@examples(60)
@given(
    st.lists(st.integers(0, 9) | st.integers(0, (1 << 64) - 1) | st.none(), max_size=6),
    st.text("delta-inpuf ", max_size=12),
)
def test_what_cannot_be_encoded(values: list[int | None], framing: str) -> None:
    positions = pa.array(values, pa.uint64())
    chosen = "puffin" if len(framing) % 2 else framing
    found = twins(lambda kernels: kernels.encode_bitmap(positions, chosen))
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values) or numbers != sorted(set(numbers)) or any(value >= 1 << 63 for value in numbers):
        assert found.kind is InvalidArgumentError


@examples(250)
@given(bitmaps(), _FRAMINGS, st.data())
def test_damaged_bitmaps(bitmap: Bitmap, framing: str, data: st.DataObject) -> None:
    """Damage under a right length and checksum: it is the bitmap's own checks that must find it."""
    bytes_ = framed(data.draw(damaged(_HEAD + bitmap.data)), framing)
    _check_unframed(bytes_, framing)


@examples(80)
@given(bitmaps(), _FRAMINGS, st.data())
def test_damaged_frames(bitmap: Bitmap, framing: str, data: st.DataObject) -> None:
    _check_unframed(data.draw(damaged(framed(_HEAD + bitmap.data, framing))), framing)


@examples(100)
@given(st.lists(bitmaps(), max_size=3), _FRAMINGS, st.sampled_from("<>"), st.data())
def test_older_formats(several: list[Bitmap], framing: str, order: str, data: st.DataObject) -> None:
    buckets = [bitmap.data[12:] for bitmap in several]
    body = legacy(buckets, order)
    if data.draw(st.booleans()):
        body = data.draw(damaged(body))
    _check_unframed(framed(body, framing), framing)


@examples(100)
@given(
    st.binary(max_size=64), st.sampled_from([_HEAD, struct.pack("<I", NATIVE_MAGIC), struct.pack(">I", NATIVE_MAGIC)])
)
def test_arbitrary_bytes(data: bytes, head: bytes) -> None:
    for framing in ("delta-inline", "delta-file", "puffin"):
        _check_unframed(data, framing)
        _check_unframed(framed(head + data, framing), framing)


@examples(60)
@given(bitmaps(), st.data())
def test_bytes_that_nobody_checked(bitmap: Bitmap, data: st.DataObject) -> None:
    """Masks and positions take what `unframe_bitmap` gave; of other bytes they must only not go wild."""
    bytes_ = data.draw(damaged(bitmap.data))
    for module in backends():
        with contextlib.suppress(CorruptDeletionVectorError):
            assert len(module.keep_mask(bytes_, 5, 1000)) == 1000
    found = twins(lambda kernels: kernels.bitmap_positions(bytes_, 100))
    assert found.kind in (CorruptDeletionVectorError, TooLargeError) if isinstance(found, Raised) else len(found) <= 100


@examples(60)
@given(bitmaps(), st.integers(-2, 2))
def test_more_positions_than_are_taken(bitmap: Bitmap, more: int) -> None:
    count = len(bitmap.positions)
    outcome = twins(lambda kernels: kernels.bitmap_positions(bitmap.data, max(count + more, 0)))
    if count > max(count + more, 0):
        assert outcome.kind is TooLargeError
        assert f"a bitmap has {count} positions" in outcome.message
    else:
        assert len(outcome) == count


def test_billions_of_positions_in_a_few_bytes() -> None:
    found = twins(lambda kernels: kernels.bitmap_positions(full_bitmap(), 1 << 20))
    assert found.kind is TooLargeError
    assert "4294967296 positions" in found.message


def _check_unframed(data: bytes, framing: str) -> None:
    found = twins(lambda kernels: kernels.unframe_bitmap(data, framing))
    if isinstance(found, Raised):
        assert found.kind is CorruptDeletionVectorError
        return
    bitmap, cardinality = found
    positions = twins(lambda kernels: kernels.bitmap_positions(bitmap, cardinality)).to_pylist()
    assert len(positions) == cardinality
    assert positions == sorted(set(positions))
    assert all(position < 1 << 63 for position in positions)
