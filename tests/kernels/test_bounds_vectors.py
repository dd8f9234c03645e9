"""Bounds, in Iceberg's serialization of single values."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import TooLargeError
from tests.kernels.twins import backends

pytestmark = pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__.rpartition(".")[2])

_MAP = pa.map_(pa.int32(), pa.binary())
_MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)


def _read(kernels: ModuleType, kind: str, *texts: str) -> list[Any]:
    bounds = pa.array([[(3, bytes.fromhex(text))] for text in texts], _MAP)
    found = kernels.parse_bounds(bounds, [(3, kind)])
    assert found.schema.names == ["3"]
    values: list[Any] = found.column(0).to_pylist()
    return values


@pytest.mark.req("ICE-BIN-01", half="reader")
def test_booleans(kernels: ModuleType) -> None:
    assert _read(kernels, "boolean", "00", "01", "ff", "", "0000") == [False, True, True, None, None]


@pytest.mark.req("ICE-BIN-02", half="reader")
def test_integers(kernels: ModuleType) -> None:
    assert _read(kernels, "int", "22 00 00 00", "ff ff ff ff", "22 00 00", "00" * 8) == [34, -1, None, None]
    assert _read(kernels, "long", "22 00 00 00 00 00 00 00", "ff" * 8, "ff" * 7, "") == [34, -1, None, None]


@pytest.mark.req("ICE-BIN-03", half="reader")
def test_floating_point_numbers(kernels: ModuleType) -> None:
    assert _read(kernels, "float", "00 00 80 3f", "00 00 c0 7f", "00" * 8) == [1.0, None, None]
    assert _read(kernels, "double", "00 00 00 00 00 00 f0 3f", "00 00 00 00 00 00 f8 ff") == [1.0, None]
    assert str(_read(kernels, "double", "00 00 00 00 00 00 00 80")) == "[-0.0]"


@pytest.mark.req("ICE-BIN-04", half="reader")
def test_dates(kernels: ModuleType) -> None:
    assert _read(kernels, "date", "4e 44 00 00", "ff ff ff ff") == [dt.date(2017, 11, 16), dt.date(1969, 12, 31)]


@pytest.mark.req("ICE-BIN-05", half="reader")
def test_times(kernels: ModuleType) -> None:
    past_midnight = (86_400_000_000).to_bytes(8, "little").hex()
    assert _read(kernels, "time", "00 83 07 e0 12 00 00 00", past_midnight, "ff" * 8) == [_MOMENT.time(), None, None]


@pytest.mark.req("ICE-BIN-06", half="reader")
def test_timestamps(kernels: ModuleType) -> None:
    text = "00 c3 26 2d 21 5e 05 00"
    assert _read(kernels, "timestamp", text) == [_MOMENT]
    assert _read(kernels, "timestamptz", text) == [_MOMENT.replace(tzinfo=dt.timezone.utc)]
    nanos = (pa.scalar(_MOMENT, pa.timestamp("us")).value * 1000).to_bytes(8, "little").hex()
    bounds = pa.array([[(3, bytes.fromhex(nanos))]], _MAP)
    found = kernels.parse_bounds(bounds, [(3, "timestamp_ns"), (3, "timestamptz_ns")])
    assert found.schema.types == [pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
    assert [column[0].cast(pa.int64()).as_py() for column in found.columns] == [1510871468000000000] * 2


@pytest.mark.req("ICE-BIN-07", half="reader")
def test_strings_and_bytes(kernels: ModuleType) -> None:
    text = "69 63 65 62 65 72 67"
    assert _read(kernels, "string", text, "", "ff", "ed a0 80") == ["iceberg", "", None, None]
    assert _read(kernels, "binary", text, "ff", "") == [b"iceberg", b"\xff", b""]
    assert _read(kernels, "fixed[7]", text, text + "00", "") == [b"iceberg", None, None]


@pytest.mark.req("ICE-BIN-08", half="reader")
def test_uuids(kernels: ModuleType) -> None:
    text = "f7 9c 3e 09 67 7c 4b bd a4 79 3f 34 9c b7 85 e7"
    assert _read(kernels, "uuid", text, text[3:]) == [uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, None]


@pytest.mark.req("ICE-BIN-09", half="reader")
def test_decimals(kernels: ModuleType) -> None:
    assert _read(kernels, "decimal(9,2)", "05 8c", "00", "ff", "") == [
        Decimal("14.20"), Decimal("0.00"), Decimal("-0.01"), None,
    ]  # fmt: skip
    assert _read(kernels, "decimal(9, 0)", "00 80", "80", "ff 7f", "ff ff ff 7f") == [128, -128, -129, -129]
    most = (10**38 - 1).to_bytes(16, "big").hex()
    assert _read(kernels, "decimal(38,0)", most, (10**38).to_bytes(16, "big").hex()) == [10**38 - 1, None]
    assert _read(kernels, "decimal(2,0)", "63", "64", "9d", "9c", "00" * 17) == [99, None, -99, None, None]


@pytest.mark.req("ICE-BIN-11")
def test_bounds_from_before_a_promotion(kernels: ModuleType) -> None:
    assert _read(kernels, "long", "22 00 00 00", "ff ff ff ff") == [34, -1]
    assert _read(kernels, "double", "00 00 80 3f", "00 00 c0 7f") == [1.0, None]


@pytest.mark.req("BEY-44", half="reader")
def test_dates_that_became_timestamps(kernels: ModuleType) -> None:
    assert _read(kernels, "timestamp", "4e 44 00 00", "ff ff ff ff") == [
        dt.datetime(2017, 11, 16), dt.datetime(1969, 12, 31),
    ]  # fmt: skip
    found = kernels.parse_bounds(pa.array([[(3, bytes.fromhex("4e440000"))]], _MAP), [(3, "timestamp_ns")])
    assert found.column(0).cast(pa.int64()).to_pylist() == [17486 * 86_400_000_000_000]
    # A day so far away that its timestamp does not fit.
    assert _read(kernels, "timestamp", "ff ff ff 7f", "00 00 00 80") == [None, None]
    assert _read(kernels, "timestamptz", "4e 44 00 00") == [None]


def test_lengths_that_would_take_all_memory(kernels: ModuleType) -> None:
    # A column has at most 2**31 - 1 bytes.
    for count, size in ((4, 2_000_000_000), (2, 1 << 30)):
        with pytest.raises(TooLargeError, match=f"{count} values of {size} bytes"):
            kernels.parse_bounds(pa.nulls(count, _MAP), [(1, f"fixed[{size}]")])
