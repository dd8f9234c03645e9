"""Hashes and buckets: the examples of the Iceberg specification, and the results of an independent library."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal
from types import ModuleType
from typing import Any

import mmh3
import pyarrow as pa
import pytest

from deltaberg.errors import InvalidArgumentError
from tests.kernels.twins import backends

pytestmark = pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__.rpartition(".")[2])

_MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)
_MICRO = dt.timedelta(microseconds=1)
_PACIFIC = dt.timezone(dt.timedelta(hours=-8))
_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes
_NANOS = pa.scalar(_MOMENT, pa.timestamp("us")).cast(pa.timestamp("ns")).value


def _hash(kernels: ModuleType, value: Any, kind: pa.DataType) -> int:
    (found,) = kernels.hash32(pa.array([value], kind)).to_pylist()
    return int(found)


@pytest.mark.req("ICE-HASH-01", "ICE-HASH-02", half="reader")
@pytest.mark.req("ICE-HASH-01", "ICE-HASH-02", half="writer")
def test_integers(kernels: ModuleType) -> None:
    assert _hash(kernels, 34, pa.int32()) == 2017239379
    assert kernels.hash32(pa.array([34, 0, -34], pa.int64())).to_pylist() == [2017239379, 1669671676, -2117612851]
    assert kernels.hash32(pa.array([0, -34], pa.int32())).to_pylist() == [1669671676, -2117612851]


@pytest.mark.req("ICE-HASH-03", half="reader")
@pytest.mark.req("ICE-HASH-03", half="writer")
@pytest.mark.parametrize("precision", [4, 9, 18, 38])
def test_decimals(kernels: ModuleType, precision: int) -> None:
    assert _hash(kernels, Decimal("14.20"), pa.decimal128(precision, 2)) == -500754589
    assert _hash(kernels, b"\x05\x8c", pa.binary()) == -500754589


def test_the_scale_of_a_decimal_does_not_matter(kernels: ModuleType) -> None:
    assert _hash(kernels, Decimal("1.420"), pa.decimal128(9, 3)) == -500754589
    assert _hash(kernels, Decimal(1420), pa.decimal128(9, 0)) == -500754589


@pytest.mark.req("ICE-HASH-04", half="reader")
@pytest.mark.req("ICE-HASH-04", half="writer")
def test_dates_are_hashed_as_longs(kernels: ModuleType) -> None:
    assert _hash(kernels, dt.date(2017, 11, 16), pa.date32()) == -653330422
    assert _hash(kernels, 17486, pa.int64()) == -653330422


@pytest.mark.req("ICE-HASH-05", half="reader")
@pytest.mark.req("ICE-HASH-05", half="writer")
def test_times(kernels: ModuleType) -> None:
    assert _hash(kernels, _MOMENT.time(), pa.time64("us")) == -662762989


@pytest.mark.req("ICE-HASH-06", half="reader")
@pytest.mark.req("ICE-HASH-06", half="writer")
def test_timestamps(kernels: ModuleType) -> None:
    assert _hash(kernels, _MOMENT, pa.timestamp("us")) == -2047944441
    assert _hash(kernels, _MOMENT + _MICRO, pa.timestamp("us")) == -1207196810


@pytest.mark.req("ICE-HASH-07", half="reader")
@pytest.mark.req("ICE-HASH-07", half="writer")
def test_timestamps_with_a_zone(kernels: ModuleType) -> None:
    moment = dt.datetime(2017, 11, 16, 14, 31, 8, tzinfo=_PACIFIC)
    for zone in ("UTC", "America/Los_Angeles"):
        assert _hash(kernels, moment, pa.timestamp("us", zone)) == -2047944441


def test_nanoseconds_are_hashed_as_microseconds(kernels: ModuleType) -> None:
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        assert _hash(kernels, _NANOS + 1001, kind) == -1207196810
        assert _hash(kernels, _NANOS + 999, kind) == -2047944441
        # Rounded down, not toward zero.
        assert _hash(kernels, -1, kind) == _hash(kernels, -1, pa.int64())
        assert _hash(kernels, -1001, kind) == _hash(kernels, -2, pa.int64())


@pytest.mark.req("ICE-HASH-08", half="reader")
@pytest.mark.req("ICE-HASH-08", half="writer")
def test_strings(kernels: ModuleType) -> None:
    for kind in (pa.string(), pa.large_string()):
        assert kernels.hash32(pa.array(["iceberg", "", "日本"], kind)).to_pylist() == [1210000089, 0, -992347838]


@pytest.mark.req("ICE-HASH-09", half="reader")
@pytest.mark.req("ICE-HASH-09", half="writer")
def test_uuids(kernels: ModuleType) -> None:
    assert _hash(kernels, _UUID, pa.binary(16)) == 1488055340


@pytest.mark.req("ICE-HASH-10", half="reader")
@pytest.mark.req("ICE-HASH-10", half="writer")
def test_bytes(kernels: ModuleType) -> None:
    for kind in (pa.binary(), pa.large_binary(), pa.binary(4)):
        assert _hash(kernels, b"\0\1\2\3", kind) == -188683207


@pytest.mark.req("ICE-HASH-11", half="reader")
@pytest.mark.req("ICE-HASH-11", half="writer")
def test_booleans_are_hashed_as_longs(kernels: ModuleType) -> None:
    found = kernels.hash32(pa.array([True, False, None, True]))
    assert found.type == pa.int32()
    assert found.to_pylist() == [1392991556, 1669671676, None, 1392991556]
    # Four bytes would give another one.
    assert mmh3.hash(b"\1\0\0\0", 0) == -68075478


@pytest.mark.req("ICE-HASH-12", half="reader")
@pytest.mark.req("ICE-HASH-12", half="writer")
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_floats_are_hashed_as_the_bits_of_doubles(kernels: ModuleType, kind: pa.DataType) -> None:
    found = kernels.hash32(pa.array([1.0, 0.0, -0.0, None], kind))
    assert found.to_pylist() == [-142385009, 1669671676, 1669671676, None]
    assert mmh3.hash(struct.pack("<d", -0.0), 0) == 1366273829
    # One tenth of 24 bits is not that of 53.
    (tenth,) = pa.array([0.1], kind).cast(pa.float64()).to_pylist()
    assert _hash(kernels, 0.1, kind) == mmh3.hash(struct.pack("<d", tenth), 0)
    quiet = _hash(kernels, math.nan, kind)
    assert quiet == mmh3.hash(bytes.fromhex("000000000000f87f"), 0)
    bits = pa.int32() if kind == pa.float32() else pa.int64()
    others = pa.array([-1, (0xFF << 23 | 1) if bits == pa.int32() else (0x7FF << 52 | 1)], bits).view(kind)
    assert kernels.hash32(others).to_pylist() == [quiet, quiet]


@pytest.mark.req("ICE-HASH-11", "ICE-HASH-12", half="reader")
@pytest.mark.req("ICE-HASH-11", "ICE-HASH-12", half="writer")
@pytest.mark.parametrize("kind", [pa.bool_(), pa.float32(), pa.float64()], ids=str)
def test_no_table_is_bucketed_by_them(kernels: ModuleType, kind: pa.DataType) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be hashed"):
        kernels.bucket(pa.array([1], pa.int64()).cast(kind), 16)


@pytest.mark.req("BEY-36", half="reader")
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_of_the_specification(kernels: ModuleType, zone: str | None) -> None:
    moment = pa.array([_NANOS + 1001], pa.timestamp("ns", zone))
    assert str(moment[0].cast(pa.timestamp("ns"))) == "2017-11-16 22:31:08.000001001"
    assert kernels.hash32(moment).to_pylist() == [-1207196810]


@pytest.mark.req("ICE-HASH-14", half="reader")
def test_tails_agree_with_an_independent_implementation(kernels: ModuleType) -> None:
    values = [b"abcdefghijklmnopqrstuvwxyz\xff\x80\0"[:length] for length in range(30)]
    values += [bytes([255 - place] * place) for place in (1, 2, 3, 5, 6, 7)]
    assert {5, 7} < {len(value) for value in values}
    assert kernels.hash32(pa.array(values)).to_pylist() == [mmh3.hash(value, 0) for value in values]
    # Spark's own hash of these five bytes takes the last one by itself, with its sign.
    assert _hash(kernels, "abcde", pa.string()) == mmh3.hash("abcde", 0)


@pytest.mark.req("ICE-TRF-03", half="reader")
@pytest.mark.req("ICE-TRF-03", half="writer")
def test_buckets(kernels: ModuleType) -> None:
    for value, kind, expected in (
        (34, pa.int32(), 3),
        (34, pa.int64(), 3),
        (Decimal("14.20"), pa.decimal128(9, 2), 3),
        (dt.date(2017, 11, 16), pa.date32(), 10),
        (_MOMENT.time(), pa.time64("us"), 3),
        (_MOMENT, pa.timestamp("us"), 7),
        (_MOMENT, pa.timestamp("us", "UTC"), 7),
        ("iceberg", pa.string(), 9),
        (_UUID, pa.binary(16), 12),
        (b"\0\1\2\3", pa.binary(4), 9),
        (b"\0\1\2\3", pa.binary(), 9),
    ):
        found = kernels.bucket(pa.array([value, None], kind), 16)
        assert found.type == pa.int32()
        assert found.to_pylist() == [expected, None], kind
    for kind in (pa.bool_(), pa.float32(), pa.float64()):
        with pytest.raises(InvalidArgumentError, match="cannot be hashed"):
            kernels.bucket(pa.array([None], kind), 16)


def test_a_character_beyond_the_first_plane(kernels: ModuleType) -> None:
    assert kernels.bucket(pa.array(["\U0001f4b0"]), 32).to_pylist() == [12]


@pytest.mark.req("ICE-TRF-04", half="reader")
@pytest.mark.req("ICE-TRF-04", half="writer")
def test_the_sign_goes_before_the_remainder(kernels: ModuleType) -> None:
    decimals = pa.array([Decimal("14.20")], pa.decimal128(9, 2))
    assert kernels.hash32(decimals).to_pylist() == [-500754589]
    assert kernels.bucket(decimals, 100).to_pylist() == [59]
