"""Bitmaps from elsewhere: the protocol document, the CRoaring library, and other engines."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from deltaberg.errors import CorruptDeletionVectorError, InvalidArgumentError, InvalidZ85Error
from tests.kernels.roaring_bytes import MAGIC, framed
from tests.kernels.twins import backends
from tests.support.vectors import bitmap_bytes, dv_file

pytestmark = pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__.rpartition(".")[2])

_SIX = [3, 4, 7, 11, 18, 29]
_SIX_TEXT = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
_TWO_BYTES = bytes.fromhex(
    "d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0000 0900".replace(" ", "")
)


def _encoded(kernels: ModuleType, rows: list[int], framing: str = "delta-inline") -> bytes:
    data: bytes = kernels.encode_bitmap(pa.array(rows, pa.uint64()), framing)
    return data


def _decoded(kernels: ModuleType, data: bytes, framing: str = "delta-inline") -> list[int]:
    bitmap, cardinality = kernels.unframe_bitmap(data, framing)
    rows: list[int] = kernels.bitmap_positions(bitmap, 1 << 20).to_pylist()
    assert len(rows) == cardinality
    return rows


@pytest.mark.req("DL-DV-09", "DL-DV-13", half="reader")
@pytest.mark.req("DL-DV-09", "DL-DV-13", half="writer")
def test_inline_text(kernels: ModuleType) -> None:
    data = kernels.z85_decode(_SIX_TEXT)
    assert (len(data), len(_SIX_TEXT)) == (44, 55)
    assert _decoded(kernels, data) == _SIX
    assert kernels.unframe_bitmap(data, "delta-inline")[1] == 6
    assert kernels.z85_encode(_encoded(kernels, _SIX)) == _SIX_TEXT
    assert len(_encoded(kernels, [0, 9])) == 36


@pytest.mark.req("DL-DV-10", half="reader")
def test_the_documents_own_inline_text(kernels: ModuleType) -> None:
    data = kernels.z85_decode("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")
    assert len(data) == 40
    assert _decoded(kernels, data) == _SIX
    assert _encoded(kernels, _SIX)[:4] != data[:4]


@pytest.mark.req("DL-DV-16", half="reader")
@pytest.mark.req("DL-DV-16", half="writer")
def test_magic_number(kernels: ModuleType) -> None:
    data = _encoded(kernels, [0, 9])
    assert data[:4] == bytes.fromhex("d1d33964")
    with pytest.raises(CorruptDeletionVectorError, match="unknown format"):
        kernels.unframe_bitmap(struct.pack("<I", 1681511378) + data[4:], "delta-inline")


@pytest.mark.req("DL-DV-17", half="reader")
@pytest.mark.req("DL-DV-17", half="writer")
def test_layout(kernels: ModuleType) -> None:
    assert _encoded(kernels, [0, 9]) == _TWO_BYTES
    assert _decoded(kernels, _TWO_BYTES) == [0, 9]


@pytest.mark.req("DL-DV-18", half="reader")
@pytest.mark.req("DL-DV-18", half="writer")
def test_positions_above_32_bits(kernels: ModuleType) -> None:
    data = _encoded(kernels, [5, 4294967301], "delta-file")
    assert len(data) - 8 == 56
    assert data[-4:].hex() == "d2ee08b9"
    assert struct.unpack_from("<QI", data, 8) == (2, 0)
    assert struct.unpack_from("<I", data, 4 + 12 + 4 + 18)[0] == 1
    assert _decoded(kernels, data, "delta-file") == [5, 4294967301]


@pytest.mark.req("DL-DV-19", half="reader")
@pytest.mark.req("DL-DV-19", half="writer")
def test_bucket_keys_have_31_bits(kernels: ModuleType) -> None:
    data = bytearray(_encoded(kernels, [5]))
    data[12:16] = struct.pack("<I", 0x7FFFFFFF)
    assert _decoded(kernels, bytes(data)) == [0x7FFFFFFF << 32 | 5]
    data[12:16] = struct.pack("<I", 0x80000000)
    with pytest.raises(CorruptDeletionVectorError, match="most significant bit"):
        kernels.unframe_bitmap(bytes(data), "delta-inline")
    with pytest.raises(InvalidArgumentError, match=r"is greater than 2\^63 - 1"):
        _encoded(kernels, [1 << 63])
    assert _decoded(kernels, _encoded(kernels, [(1 << 63) - 1])) == [(1 << 63) - 1]


@pytest.mark.req("DL-DV-20", half="reader")
def test_all_kinds_of_containers(kernels: ModuleType) -> None:
    scattered = sorted(random.Random(7).sample(range(65_536), 5_000))
    for rows, cookie in ((_SIX, 12346), (scattered, 12346), (list(range(100_000)), 12347)):
        bitmap = BitMap64(rows)
        if cookie == 12347:
            bitmap.run_optimize()
        data = struct.pack("<I", MAGIC) + bytes(bitmap.serialize())
        assert struct.unpack_from("<H", data, 16)[0] == cookie
        assert _decoded(kernels, data) == rows
    assert len(bitmap_bytes(scattered)) > 8192


@pytest.mark.req("DL-DV-22", "DL-DV-24", half="reader")
@pytest.mark.req("DL-DV-22", half="writer")
def test_file_framing(kernels: ModuleType) -> None:
    two, six = _encoded(kernels, [0, 9], "delta-file"), _encoded(kernels, _SIX, "delta-file")
    assert b"\x01" + two == bytes.fromhex("0100000024") + _TWO_BYTES + bytes.fromhex("2a671846")
    assert len(b"\x01" + two) == 45
    assert six[-4:].hex() == "acd74a79"
    assert len(six) - 8 == 44
    for bit in range(8 * len(six)):
        broken = bytearray(six)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptDeletionVectorError, match=r"checksum mismatch: stored|the deletion vector declares"):
            kernels.unframe_bitmap(bytes(broken), "delta-file")
    data, offsets = dv_file([_encoded(kernels, _SIX), _encoded(kernels, [0, 9])])
    assert data == b"\x01" + six + two
    assert (offsets, len(data)) == ([1, 53], 97)
    assert _decoded(kernels, data[1:53], "delta-file") == _SIX
    assert _decoded(kernels, data[53:], "delta-file") == [0, 9]


def test_puffin_takes_the_portable_format_alone(kernels: ModuleType) -> None:
    assert _decoded(kernels, framed(_TWO_BYTES, "puffin"), "puffin") == [0, 9]
    older = framed(kernels.z85_decode("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"), "puffin")
    assert _decoded(kernels, older, "delta-file") == _SIX
    with pytest.raises(CorruptDeletionVectorError, match="unknown format"):
        kernels.unframe_bitmap(older, "puffin")


def test_croaring_agrees(kernels: ModuleType, rng: random.Random) -> None:
    """What CRoaring writes reads back, and what we write is what CRoaring reads."""
    for _ in range(40):
        rows: set[int] = set()
        for _ in range(rng.randrange(1, 5)):
            first = rng.choice([0, 65_000, 1 << 20, (1 << 32) - 500, rng.randrange(1 << 33), rng.randrange(1 << 62)])
            rows.update(range(first, first + rng.choice([1, 10, 5_000, 90_000]), rng.choice([1, 1, 2, 9])))
        ordered = sorted(rows)
        theirs = BitMap64(ordered)
        assert _decoded(kernels, struct.pack("<I", MAGIC) + bytes(theirs.serialize())) == ordered
        assert _decoded(kernels, bitmap_bytes(ordered)) == ordered
        ours = _encoded(kernels, ordered)
        assert BitMap64.deserialize(ours[4:]) == theirs
        theirs.run_optimize()
        assert len(ours) - 4 <= len(theirs.serialize())
        start = max(0, rng.choice(ordered) - rng.randrange(70_000))
        length = rng.randrange(200_000)
        mask = kernels.keep_mask(ours[4:], start, length)
        gone = theirs & BitMap64(range(start, start + length)) if length else BitMap64()
        assert mask.false_count == len(gone)
        assert all(not mask[row - start].as_py() for row in list(gone)[:200])


def _descriptors(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    vectors = []
    for log in sorted(folder.glob("*/_delta_log/*.json")):
        for line in log.read_text(encoding="utf-8").splitlines():
            if '"deletionVector"' not in line:
                continue
            for body in json.loads(line).values():
                vector = body.get("deletionVector")
                if vector is not None:
                    vectors.append((log.parent.parent, vector))
    return vectors


def test_vectors_of_other_engines(kernels: ModuleType, conformance: Path) -> None:
    """Every deletion vector that a commit of the conformance tables names: size, checksum and cardinality fit."""
    read = 0
    for table, vector in _descriptors(conformance / "delta"):
        if vector["storageType"] == "i":
            data = kernels.z85_decode(vector["pathOrInlineDv"])
            framing = "delta-inline"
        else:
            text = vector["pathOrInlineDv"]
            try:
                identity = kernels.z85_decode(text[-20:]).hex()
            except InvalidZ85Error:
                continue
            named = f"{identity[:8]}-{identity[8:12]}-{identity[12:16]}-{identity[16:20]}-{identity[20:]}"
            file = table / text[:-20] / f"deletion_vector_{named}.bin"
            if not file.exists():
                continue
            start = vector.get("offset") or 0
            data, framing = file.read_bytes()[start : start + vector["sizeInBytes"] + 8], "delta-file"
        bitmap, cardinality = kernels.unframe_bitmap(data, framing)
        assert cardinality == vector["cardinality"]
        assert list(BitMap64.deserialize(bitmap)) == kernels.bitmap_positions(bitmap, 1 << 20).to_pylist()
        read += 1
    assert read >= 15
