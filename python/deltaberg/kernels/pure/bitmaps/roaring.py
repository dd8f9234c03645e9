"""The portable 64-bit Roaring format: the upper 32 bits of a position choose a bucket, which is a 32-bit bitmap."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

from deltaberg.errors import CorruptDeletionVectorError

__all__ = [
    "Bucket",
    "Container",
    "check_bitmap",
    "container_bits",
    "container_values",
    "iterate_buckets",
    "serialize_bitmap",
]

_COOKIE_NO_RUNS = 12346
_COOKIE_RUNS = 12347
_NO_OFFSET_THRESHOLD = 4
_ARRAY_LIMIT = 4096
_BITMAP_BYTES = 8192
_MAX_CONTAINERS = 1 << 16
_MAX_KEY = (1 << 31) - 1


class Container(NamedTuple):
    """Up to 65,536 positions that share their upper bits: ``kind`` is array, bits or runs."""

    kind: str
    data: memoryview


class Bucket(NamedTuple):
    """A 32-bit bitmap at the start of ``data``, whose headers have been read."""

    data: memoryview
    keys: tuple[int, ...]
    cardinalities: tuple[int, ...]
    run_flags: memoryview
    offsets: tuple[int, ...] | None
    body: int

    @classmethod
    def parse(cls, data: memoryview) -> Bucket:
        """Read the headers."""
        cookie = _number(data, 0, "the cookie of a 32-bit bitmap")
        at, has_runs = 4, False
        if cookie & 0xFFFF == _COOKIE_RUNS:
            count, has_runs = (cookie >> 16) + 1, True
        elif cookie == _COOKIE_NO_RUNS:
            count, at = _number(data, 4, "the number of containers"), 8
        else:
            raise CorruptDeletionVectorError(f"{cookie} is not a cookie of a 32-bit Roaring bitmap")
        if count > _MAX_CONTAINERS:
            raise CorruptDeletionVectorError(
                f"a 32-bit bitmap declares {count} containers, more than the format allows"
            )
        flag_bytes = (count + 7) // 8 if has_runs else 0
        run_flags, at = _take(data, at, flag_bytes)
        headers, at = _take(data, at, count * 4)
        pairs = struct.unpack(f"<{count * 2}H", headers)
        offsets = None
        if not has_runs or count >= _NO_OFFSET_THRESHOLD:
            raw, at = _take(data, at, count * 4)
            offsets = struct.unpack(f"<{count}I", raw)
        cardinalities = tuple(less_one + 1 for less_one in pairs[1::2])
        return cls(data, pairs[::2], cardinalities, run_flags, offsets, at)

    def container(self, index: int) -> Container:
        """Return container ``index``."""
        return self._container_at(index, self._start(index))[0]

    def byte_len(self) -> int:
        """Return how many bytes the bitmap takes."""
        if not self.keys:
            return self.body
        last = len(self.keys) - 1
        return self._container_at(last, self._start(last))[1]

    def _start(self, index: int) -> int:
        if self.offsets is not None:
            return self.offsets[index]
        at = self.body
        for earlier in range(index):
            at = self._container_at(earlier, at)[1]
        return at

    def _container_at(self, index: int, at: int) -> tuple[Container, int]:
        if self.run_flags and self.run_flags[index // 8] >> (index % 8) & 1:
            raw, at = _take(self.data, at, 2)
            data, at = _take(self.data, at, int.from_bytes(raw, "little") * 4)
            return Container("runs", data), at
        if self.cardinalities[index] <= _ARRAY_LIMIT:
            data, at = _take(self.data, at, self.cardinalities[index] * 2)
            return Container("array", data), at
        data, at = _take(self.data, at, _BITMAP_BYTES)
        return Container("bits", data), at

    def check(self) -> tuple[int, int]:
        """Check every container; return the number of positions and of bytes."""
        at, total, previous = self.body, 0, -1
        for index, key in enumerate(self.keys):
            if key <= previous:
                raise CorruptDeletionVectorError("the containers of a 32-bit bitmap are not in ascending order")
            previous = key
            if self.offsets is not None and self.offsets[index] != at:
                raise CorruptDeletionVectorError(
                    f"the offset of container {index} does not match the containers before it"
                )
            container, at = self._container_at(index, at)
            found = _check_container(container)
            if found != self.cardinalities[index]:
                said = self.cardinalities[index]
                raise CorruptDeletionVectorError(f"container {index} declares {said} positions but holds {found}")
            total += found
        return total, at


def iterate_buckets(data: bytes) -> Iterator[tuple[int, Bucket]]:
    """Iterate over the buckets of a portable bitmap, each with its key."""
    count, at, view = _bucket_count(data), 8, memoryview(data)
    for _ in range(count):
        key = _number(view, at, "the key of a bucket")
        bucket = Bucket.parse(view[at + 4 :])
        at += 4 + bucket.byte_len()
        yield key, bucket


def check_bitmap(data: bytes) -> int:
    """Check a whole portable bitmap and count its positions."""
    count, at, total, previous, view = _bucket_count(data), 8, 0, -1, memoryview(data)
    for _ in range(count):
        key = _number(view, at, "the key of a bucket")
        bucket = Bucket.parse(view[at + 4 :])
        if key > _MAX_KEY:
            raise CorruptDeletionVectorError(f"bucket key {key} has its most significant bit set")
        if key <= previous:
            raise CorruptDeletionVectorError("the buckets are not in ascending order")
        previous = key
        positions, size = bucket.check()
        total += positions
        at += 4 + size
    if at != len(data):
        raise CorruptDeletionVectorError(f"{len(data) - at} bytes follow the last bucket")
    return total


def container_values(container: Container) -> Iterator[int]:
    """Iterate over the positions of a container, counted from the start of its block."""
    if container.kind == "array":
        yield from _shorts(container.data)
    elif container.kind == "runs":
        for first, last in _runs(container.data):
            yield from range(first, last + 1)
    else:
        for byte_index, byte in enumerate(container.data):
            yield from (byte_index << 3 | bit for bit in range(8) if byte >> bit & 1)


def container_bits(container: Container) -> int:
    """Return a container as one integer with a bit per position."""
    if container.kind == "bits":
        return int.from_bytes(container.data, "little")
    if container.kind == "runs":
        bits = 0
        for first, last in _runs(container.data):
            bits |= ((1 << (last - first + 1)) - 1) << first
        return bits
    block = bytearray(_BITMAP_BYTES)
    for value in _shorts(container.data):
        block[value >> 3] |= 1 << (value & 7)
    return int.from_bytes(block, "little")


def serialize_bitmap(values: list[int]) -> bytes:
    """Serialize ascending positions in the portable format."""
    buckets = [(key, list(group)) for key, group in groupby(values, lambda value: value >> 32)]
    parts = [struct.pack("<Q", len(buckets))]
    for key, bucket in buckets:
        parts += [struct.pack("<I", key), _serialize_bucket([value & 0xFFFFFFFF for value in bucket])]
    return b"".join(parts)


def _serialize_bucket(values: list[int]) -> bytes:
    keys, cardinalities, bodies, flags = [], [], [], []
    for key, group in groupby(values, lambda value: value >> 16):
        positions = [value & 0xFFFF for value in group]
        runs = _find_runs(positions)
        plain = min(len(positions) * 2, _BITMAP_BYTES) if len(positions) <= _ARRAY_LIMIT else _BITMAP_BYTES
        use_runs = 2 + 4 * len(runs) < plain
        keys.append(key)
        cardinalities.append(len(positions))
        flags.append(use_runs)
        if use_runs:
            flat = [number for first, last in runs for number in (first, last - first)]
            bodies.append(struct.pack(f"<H{len(flat)}H", len(runs), *flat))
        elif len(positions) <= _ARRAY_LIMIT:
            bodies.append(struct.pack(f"<{len(positions)}H", *positions))
        else:
            block = bytearray(_BITMAP_BYTES)
            for position in positions:
                block[position >> 3] |= 1 << (position & 7)
            bodies.append(bytes(block))
    return _header(keys, cardinalities, flags, bodies) + b"".join(bodies)


def _header(keys: list[int], cardinalities: list[int], flags: list[bool], bodies: list[bytes]) -> bytes:
    count = len(keys)
    if any(flags):
        marks = sum(1 << index for index, flag in enumerate(flags) if flag)
        header = struct.pack("<I", _COOKIE_RUNS | (count - 1) << 16) + marks.to_bytes((count + 7) // 8, "little")
    else:
        header = struct.pack("<II", _COOKIE_NO_RUNS, count)
    for key, cardinality in zip(keys, cardinalities, strict=True):
        header += struct.pack("<HH", key, cardinality - 1)
    if any(flags) and count < _NO_OFFSET_THRESHOLD:
        return header
    at = len(header) + 4 * count
    for body in bodies:
        header += struct.pack("<I", at)
        at += len(body)
    return header


def _find_runs(positions: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    first = last = positions[0]
    for position in positions[1:]:
        if position != last + 1:
            runs.append((first, last))
            first = position
        last = position
    runs.append((first, last))
    return runs


def _check_container(container: Container) -> int:
    if container.kind == "bits":
        return int.from_bytes(container.data, "little").bit_count()
    if container.kind == "array":
        values = _shorts(container.data)
        if any(left >= right for left, right in pairwise(values)):
            raise CorruptDeletionVectorError("an array container is not in ascending order")
        return len(values)
    total, following = 0, 0
    for first, last in _runs(container.data):
        if first < following or last > 0xFFFF:
            raise CorruptDeletionVectorError("a run container overlaps itself or leaves its block")
        total += last - first + 1
        following = last + 1
    return total


def _shorts(data: memoryview) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 2}H", data)


def _runs(data: memoryview) -> list[tuple[int, int]]:
    numbers = _shorts(data)
    return [(first, first + less_one) for first, less_one in zip(numbers[::2], numbers[1::2], strict=True)]


def _bucket_count(data: bytes) -> int:
    if len(data) < 8:
        raise CorruptDeletionVectorError("the bitmap ends before the number of buckets")
    return int.from_bytes(data[:8], "little")


def _number(data: memoryview, at: int, what: str) -> int:
    raw = data[at : at + 4]
    if len(raw) < 4:
        raise CorruptDeletionVectorError(f"the bitmap ends before {what}")
    return int.from_bytes(raw, "little")


def _take(data: memoryview, at: int, size: int) -> tuple[memoryview, int]:
    part = data[at : at + size]
    if len(part) < size:
        raise CorruptDeletionVectorError(f"the bitmap ends after {len(data)} bytes; at least {at + size} were expected")
    return part, at + size
