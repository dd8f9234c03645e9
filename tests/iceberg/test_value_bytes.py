"""Single values as bytes: the examples of the specification, and the inverse of what reading does."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import kernels
from deltaberg.errors import SchemaError
from deltaberg.iceberg.schema.type_names import iceberg_type_name
from deltaberg.iceberg.schema.value_bytes import encode_values
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Primitive

_MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)
_CASES: list[tuple[DataType, Any, str]] = [
    (Primitive("boolean"), True, "01"),
    (Primitive("boolean"), False, "00"),
    (Primitive("integer"), 34, "22000000"),
    (Primitive("long"), 34, "2200000000000000"),
    (Primitive("integer"), -1, "ffffffff"),
    (Primitive("float"), 1.0, "0000803f"),
    (Primitive("double"), 1.0, "000000000000f03f"),
    (Primitive("double"), -0.0, "0000000000000080"),
    (Primitive("date"), dt.date(2017, 11, 16), "4e440000"),
    (Primitive("time"), dt.time(22, 31, 8), "008307e012000000"),
    (Primitive("timestamp_ntz"), _MOMENT, "00c3262d215e0500"),
    (Primitive("timestamp"), _MOMENT.replace(tzinfo=dt.timezone.utc), "00c3262d215e0500"),
    (Primitive("timestamp_ntz_ns"), 1, "0100000000000000"),
    (Primitive("string"), "iceberg", "69636562657267"),
    (Primitive("string"), "", ""),
    (Primitive("binary"), b"\x00\x01", "0001"),
    (Fixed(2), b"ab", "6162"),
    (
        Primitive("uuid"),
        uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes,
        "f79c3e09677c4bbda4793f349cb785e7",
    ),
    (Decimal(9, 2), PyDecimal("14.20"), "058c"),
    (Decimal(9, 0), PyDecimal(0), "00"),
    (Decimal(9, 0), PyDecimal(-1), "ff"),
    (Decimal(9, 0), PyDecimal(128), "0080"),
    (Decimal(9, 0), PyDecimal(-128), "80"),
    (Decimal(9, 0), PyDecimal(-129), "ff7f"),
    (Decimal(38, 0), PyDecimal(10**38 - 1), f"{10**38 - 1:032x}"),
]


@pytest.mark.req(*(f"ICE-BIN-0{number}" for number in range(1, 10)), half="writer")
@pytest.mark.parametrize(("kind", "value", "written"), _CASES, ids=lambda part: str(part)[:24])
def test_values_have_the_bytes_of_the_specification(kind: DataType, value: Any, written: str) -> None:
    array = pa.array([None, value, value], arrow_type(kind)).slice(1)
    found = encode_values(array, kind)
    assert [one.hex() for one in found.to_pylist()] == [written, written]
    maps = pa.array([[(1, found[0].as_py())]], pa.map_(pa.int32(), pa.binary()))
    read = kernels.parse_bounds(maps, [(1, iceberg_type_name(kind))]).column(0)
    assert read.cast(array.type).equals(array.slice(0, 1))


@pytest.mark.one_backend
@pytest.mark.req("ICE-BIN-10", half="writer")
@pytest.mark.parametrize("kind", [List(Field("element", Primitive("long"))), Primitive("variant"), Primitive("void")])
def test_other_types_have_no_bytes(kind: DataType) -> None:
    with pytest.raises(SchemaError, match="no single-value form"):
        encode_values(pa.nulls(1), kind)
