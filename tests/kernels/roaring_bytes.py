"""Portable 64-bit Roaring bitmaps, built container by container, so that tests can choose every kind and key."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import strategies as st

__all__ = ["MAGIC", "NATIVE_MAGIC", "Bitmap", "bitmap_of", "bitmaps", "damaged", "framed", "legacy"]

MAGIC = 1681511377
NATIVE_MAGIC = 1681511376

_BLOCK = 1 << 16
_ARRAY_LIMIT = 4096


class Bitmap(NamedTuple):
    """The portable bytes, and the positions in them."""

    data: bytes
    positions: list[int]


class _Container(NamedTuple):
    key: int
    values: list[int]
    run: bool


@st.composite
def _containers(draw: st.DrawFn) -> _Container:
    key = draw(st.sampled_from([0, 1, 2, 3, 7, 300, 0x7FFF, 0xFFFF]))
    kind = draw(st.sampled_from(["array", "bits", "runs", "short"]))
    if kind == "short":
        return _Container(key, sorted(draw(st.sets(st.integers(0, _BLOCK - 1), min_size=1, max_size=8))), False)
    step = draw(st.sampled_from([1, 2, 3, 7, 15]))
    if kind == "array":
        count = draw(st.integers(1, min(_ARRAY_LIMIT, _BLOCK // step)))
    elif kind == "bits":
        step = min(step, 15)
        count = draw(st.integers(_ARRAY_LIMIT + 1, _BLOCK // step))
    else:
        count = draw(st.integers(1, _BLOCK // step))
    first = draw(st.integers(0, _BLOCK - 1 - (count - 1) * step))
    return _Container(key, list(range(first, first + count * step, step)), kind == "runs")


@st.composite
def bitmaps(draw: st.DrawFn) -> Bitmap:
    """Draw valid bitmaps with all three kinds of containers and keys of up to 31 bits."""
    buckets = draw(
        st.dictionaries(
            st.sampled_from([0, 1, 2, 0x7FFF_FFFE, 0x7FFF_FFFF]) | st.integers(0, 0x7FFF_FFFF),
            st.lists(_containers(), max_size=6, unique_by=lambda container: container.key),
            max_size=3,
        )
    )
    data = struct.pack("<Q", len(buckets))
    positions: list[int] = []
    for key, unordered in sorted(buckets.items()):
        containers = sorted(unordered)
        data += struct.pack("<I", key) + _bucket(containers)
        for container in containers:
            base = key << 32 | container.key << 16
            positions += [base | value for value in container.values]
    return Bitmap(data, positions)


def bitmap_of(kind: str, blocks: dict[int, list[int]]) -> Bitmap:
    """Return a bitmap of some blocks, by their keys, all of them runs, or bits or arrays as their numbers demand."""
    containers = [_Container(key, values, kind == "runs") for key, values in sorted(blocks.items())]
    data = struct.pack("<QI", 1, 0) + _bucket(containers)
    return Bitmap(data, [key << 16 | value for key, values in sorted(blocks.items()) for value in values])


def _bucket(containers: list[_Container]) -> bytes:
    count, has_runs = len(containers), any(container.run for container in containers)
    if has_runs:
        flags = sum(1 << index for index, container in enumerate(containers) if container.run)
        header = struct.pack("<HH", 12347, count - 1) + flags.to_bytes((count + 7) // 8, "little")
    else:
        header = struct.pack("<II", 12346, count)
    for container in containers:
        header += struct.pack("<HH", container.key, len(container.values) - 1)
    bodies = [_body(container) for container in containers]
    if not has_runs or count >= 4:
        at = len(header) + 4 * count
        for body in bodies:
            header += struct.pack("<I", at)
            at += len(body)
    return header + b"".join(bodies)


def _body(container: _Container) -> bytes:
    values = container.values
    if container.run:
        runs: list[list[int]] = []
        for value in values:
            if runs and value == runs[-1][1] + 1:
                runs[-1][1] = value
            else:
                runs.append([value, value])
        return struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", low, high - low) for low, high in runs)
    if len(values) <= _ARRAY_LIMIT:
        return struct.pack(f"<{len(values)}H", *values)
    return sum(1 << value for value in values).to_bytes(_BLOCK // 8, "little")


def framed(body: bytes, framing: str) -> bytes:
    """Put magic number and bitmap into a framing."""
    if framing == "delta-inline":
        return body
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def legacy(buckets: Iterable[bytes], order: str) -> bytes:
    """Return the older formats, with their magic number: 32-bit bitmaps one after the other; order is < or >."""
    parts = list(buckets)
    body = b"".join(struct.pack(f"{order}i", len(part)) + part for part in parts)
    return struct.pack(f"{order}Ii", NATIVE_MAGIC, len(parts)) + body


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw what may become of some bytes: flipped, cut, padded, or with a number in them that lies."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(changed) - 1, 0)))
        what = draw(st.sampled_from(["flip", "cut", "insert", "number", "short"]))
        if what == "flip" and changed:
            changed[place] ^= 1 << draw(st.integers(0, 7))
        elif what == "cut":
            del changed[place:]
        elif what == "insert":
            changed[place:place] = draw(st.binary(min_size=1, max_size=9))
        elif what == "number":
            changed[place : place + 4] = struct.pack(
                "<I", draw(st.sampled_from([0, 1, 0x7FFFFFFF, 1 << 31, 0xFFFFFFFF]))
            )
        elif what == "short":
            changed[place : place + 2] = struct.pack("<H", draw(st.sampled_from([0, 1, 4095, 4096, 0x7FFF, 0xFFFF])))
    return bytes(changed)
