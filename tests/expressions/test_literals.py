"""Placing literals of types that only Iceberg has, and timestamps with nanoseconds."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deltaberg import col
from deltaberg.errors import ExpressionError
from deltaberg.expressions.build.filters import as_filter
from deltaberg.expressions.compute.bound import BoundComputed, BoundPredicate
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Field, Fixed, Primitive, Struct

pytestmark = pytest.mark.one_backend

_ZONE = "America/New_York"
_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
_UTC = dt.timezone.utc


def _equal(literal: Any, kind: DataType) -> Any:
    """Return the value of a type that equals a literal; None if there is none."""
    found = bind(col("x") == literal, Struct((Field("x", kind),)), _ZONE)
    if not isinstance(found, BoundPredicate):
        return None
    (value,) = found.values  # noqa: PD011
    assert value.type == arrow_type(kind)
    if isinstance(value, (pa.TimestampScalar, pa.Time64Scalar)):
        return value.cast(pa.int64()).as_py()
    return value.as_py()


@pytest.mark.parametrize("literal", [_UUID, str(_UUID), _UUID.bytes, pa.scalar(_UUID.bytes)])
def test_uuids(literal: Any) -> None:
    assert _equal(literal, Primitive("uuid")) == _UUID.bytes


@pytest.mark.parametrize(
    ("literal", "micros"),
    [
        (dt.time(1, 2, 3, 4), 3_723_000_004),
        ("01:02:03.000004", 3_723_000_004),
        ("01:02", 3_720_000_000),
        ("01:02:03.5", 3_723_500_000),
        (pa.scalar(5, pa.time64("us")), 5),
    ],
)
def test_times(literal: Any, micros: int) -> None:
    assert _equal(literal, Primitive("time")) == micros


@pytest.mark.parametrize(
    ("literal", "kind", "value"),
    [
        ("1970-01-01 00:00:01.000000001", "timestamp_ntz_ns", 1_000_000_001),
        ("1970-01-01T00:00:01.000000001Z", "timestamp_ns", 1_000_000_001),
        ("1970-01-01 00:00:01.5+01:00", "timestamp_ns", 1_500_000_000 - 3600 * 10**9),
        ("1969-12-31 19:00:00.123456789", "timestamp_ns", 123_456_789),
        (dt.datetime(1970, 1, 1, 0, 0, 1, 2), "timestamp_ntz_ns", 1_000_002_000),
        (pd.Timestamp("1969-12-31 23:59:59.999999999"), "timestamp_ntz_ns", -1),
        (pd.Timestamp(7, unit="ns", tz="UTC"), "timestamp_ns", 7),
        (pa.scalar(-7, pa.timestamp("ns", "UTC")), "timestamp_ns", -7),
        (pa.scalar(-7, pa.timestamp("ns")), "timestamp_ntz", None),
        ("1970-01-01 00:00:00.000001", "timestamp_ntz", 1),
        # Spark cuts the digits off that a timestamp lacks.
        ("1970-01-01 00:00:00.0000019", "timestamp_ntz", 1),
        (dt.date(1970, 1, 2), "timestamp_ntz_ns", 86_400 * 10**9),
        (dt.datetime(9999, 1, 1), "timestamp_ntz_ns", None),
        (dt.datetime(1, 1, 1), "timestamp_ntz_ns", None),
    ],
)
def test_timestamps(literal: Any, kind: str, value: int | None) -> None:
    assert _equal(literal, Primitive(kind)) == value


def test_timestamps_past_the_last_nanosecond() -> None:
    columns = Struct((Field("x", Primitive("timestamp_ntz_ns")),))
    for literal, shown in ((dt.datetime(9999, 1, 1), "x IS NOT NULL"), (dt.datetime(1, 1, 1), "false")):
        assert str(bind(col("x") < literal, columns)) == shown


@pytest.mark.parametrize(
    ("literal", "kind"),
    [
        ("ab", Fixed(2)),
        ("no uuid", Primitive("uuid")),
        (5, Primitive("uuid")),
        ("25:00", Primitive("time")),
        ("12", Primitive("time")),
        ("12:00:00.1234567", Primitive("time")),
        (dt.time(1, tzinfo=_UTC), Primitive("time")),
        ("2020-01-01 25:00:00.1", Primitive("timestamp_ns")),
        (1, Primitive("timestamp_ns")),
    ],
)
def test_literals_that_do_not_fit(literal: Any, kind: DataType) -> None:
    with pytest.raises(ExpressionError, match=r"cannot be compared|is not a value"):
        _equal(literal, kind)


@pytest.mark.parametrize(("literal", "kind"), [(b"abc", Fixed(2)), (b"short", Primitive("uuid"))])
def test_bytes_of_another_length_differ(literal: Any, kind: DataType) -> None:
    columns = Struct((Field("x", kind),))
    assert _equal(literal, kind) is None
    assert str(bind(~(col("x") == literal), columns)) == "x IS NOT NULL"


@pytest.mark.parametrize(
    ("kind", "values", "kept"),
    [
        (Primitive("uuid"), [b"\0" * 16, _UUID.bytes, b"\xff" * 16], [False, True, True]),
        (Fixed(2), [b"\0\0", b"ab", b"\xffa"], [False, True, True]),
        (Primitive("time"), [dt.time(0), dt.time(1), dt.time(23)], [False, True, True]),
        (Primitive("timestamp_ns"), [pa.scalar(n, pa.int64()).as_py() for n in (-1, 0, 1)], [False, True, True]),
    ],
)
def test_rows_of_these_types(kind: DataType, values: list[Any], kept: list[bool]) -> None:
    rows = pa.array([*values, None], arrow_type(kind))
    bound = bind(col("x") >= rows[1], Struct((Field("x", kind),)))
    assert evaluate(bound, lambda _: rows, len(rows)).to_pylist() == [*kept, None]
    bound = bind(col("x").is_in([rows[0], rows[2]]), Struct((Field("x", kind),)))
    assert evaluate(bound, lambda _: rows, len(rows)).to_pylist() == [True, False, True, None]


def test_the_text_of_bound_literals() -> None:
    columns = Struct((Field("t", Primitive("time")), Field("n", Primitive("timestamp_ns"))))
    assert str(bind(col("t") < "01:02", columns)) == "t < '01:02:00'"
    assert (
        str(bind(col("n") < "1970-01-01 00:00:00.000000001Z", columns)) == "n < '1970-01-01 00:00:00.000000001+00:00'"
    )


def test_nanoseconds_in_sql() -> None:
    columns = Struct((Field("n", Primitive("timestamp_ntz_ns")),))
    bound = bind(as_filter("n = TIMESTAMP_NTZ '1970-01-01 00:00:00.000000001'"), columns)
    rows = pa.array([0, 1], pa.timestamp("ns"))
    assert evaluate(bound, lambda _: rows, 2).to_pylist() == [False, True]


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("timestamp_ntz", "x > TIMESTAMP '2020-01-01 10:00:00'", "x >= '2020-01-01 10:00:00.000001'"),
        ("timestamp_ntz", "x = TIMESTAMP '2020-01-01 10:00:00'", "x = '2020-01-01 10:00:00'"),
        ("timestamp", "x < TIMESTAMP_NTZ '2020-01-01 10:00:00'", "x < '2020-01-01 10:00:00+00:00'"),
        ("timestamp_ntz_ns", "CAST(x AS TIMESTAMP_NTZ) < '2020-01-01'", "CAST(x AS timestamp_ntz) < '2020-01-01'"),
        ("timestamp", "CAST(x AS DATE) = '2020-01-01'", "CAST(x AS date) = '2020-01-01'"),
    ],
)
def test_clocks_and_instants_in_a_zone_that_is_steady(kind: str, text: str, shown: str) -> None:
    """Metadata decides them there, and rows elsewhere, where clocks are set back."""
    columns = Struct((Field("x", Primitive(kind)),))
    assert str(bind(as_filter(text), columns)) == shown
    if kind == "timestamp_ntz":
        assert isinstance(bind(as_filter(text), columns, _ZONE), BoundComputed)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (99_999, "99999"),
        (2**31 - 1, "2147483647"),
        (2**31 + 1, "2147483649L"),
        (2**63 - 1, "9223372036854775807L"),
        (2**63 + 1, "9223372036854775809"),
        (10**38 - 1, "9" * 38),
        (10**38, "1e+38D"),
        (10**308, "1e+308D"),
        (10**400, "inf"),
        (Decimal("1.5"), "1.5BD"),
        (Decimal("9e37"), f"9{37 * '0'}BD"),
        (Decimal("1e38"), "1e+38D"),
        (Decimal("1e-38"), f"0.{37 * '0'}1BD"),
        (Decimal("1e-39"), "1e-39D"),
        (Decimal("1e400"), "inf"),
        (Decimal("1e-400"), "0.0D"),
    ],
)
def test_numbers_at_the_ends_of_decimals(number: Any, shown: str, sign: int) -> None:
    """What no decimal holds is the double next to it, for which Spark takes such a literal of its own, too."""
    text = f"{'-' if sign < 0 else ''}{shown}"
    if shown == "inf":
        text = f"CAST('{text}' AS DOUBLE)"
    assert str(col("x") == sign * number) == f"x = {text}"
