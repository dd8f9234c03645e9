"""Numbers that are compared with doubles: as Spark compares them, with the numbers made doubles."""

from __future__ import annotations

import math
import random
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import col
from deltaberg.expressions.build.filters import Filter, as_filter
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.derive.derive import bind
from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal, Field, Primitive, Struct

pytestmark = pytest.mark.one_backend

_LONGS = [
    0,
    5,
    -(2**63),
    2**63 - 1,
    *(2**53 + step for step in range(-3, 8)),
    *(2**62 + 100 * step for step in range(9)),
]
_TENTHS = [PyDecimal("0.1") + step * PyDecimal("1e-18") for step in range(-12, 12)]
_COLUMNS: list[tuple[DataType, list[Any], list[float]]] = [
    (Primitive("long"), _LONGS, [-0.0, *(float(number) for number in _LONGS)]),
    (Primitive("byte"), [-128, 0, 1, 127], [-0.0, 1.0, 0.5, 127.0, 1e9]),
    (
        Decimal(10, 2),
        [PyDecimal(cents) / 100 for cents in range(-300, 300)],
        [-0.0, 0.1, 1.5, 2.675, -0.01, 0.005, 1e300],
    ),
    (
        Decimal(38, 18),
        [PyDecimal(0), *_TENTHS, PyDecimal("99999999999999999999.1")],
        [-0.0, 0.1, math.nextafter(0.1, 1), 1e20],
    ),
]


def _rows(found: Value, columns: Struct, batch: pa.RecordBatch) -> list[bool]:
    kept = evaluate(bind(found, columns), lambda path: batch[path[0].name], batch.num_rows)
    rows: list[bool] = kept.fill_null(fill_value=False).to_pylist()
    return rows


@pytest.mark.parametrize(("kind", "values", "literals"), _COLUMNS, ids=[str(kind) for kind, _, _ in _COLUMNS])
def test_numbers_are_compared_as_doubles(
    kind: DataType, values: list[Any], literals: list[float], rng: random.Random
) -> None:
    """The same comparison of a sum is computed by the evaluator of values, which tests compare with Spark."""
    columns = Struct((Field("x", kind),))
    batch = pa.record_batch({"x": pa.array([*values, None], arrow_type(kind))})
    texts = [f"{literal:.17e}" for literal in literals]
    for operator in ("=", "!=", "<", "<=", ">", ">=", "<=>"):
        for text in texts:
            one, other = (f"{side} {operator} {text}" for side in ("x", "(CAST(x AS DOUBLE) + 0e0)"))
            assert _rows(as_filter(one), columns, batch) == _rows(as_filter(other), columns, batch), one
            one, other = (f"NOT ({one})", f"NOT ({other})")
            assert _rows(as_filter(one), columns, batch) == _rows(as_filter(other), columns, batch), one
    for operator in ("IN", "NOT IN"):
        some = ", ".join(rng.sample(texts, min(3, len(texts))))
        one, other = (f"{side} {operator} ({some})" for side in ("x", "(CAST(x AS DOUBLE) + 0e0)"))
        assert _rows(as_filter(one), columns, batch) == _rows(as_filter(other), columns, batch), one


def test_floats_of_python_find_decimals() -> None:
    columns = Struct((Field("x", Decimal(10, 2)),))
    batch = pa.record_batch({"x": pa.array([PyDecimal("0.10"), PyDecimal("0.11")])})
    conditions: tuple[Filter, ...] = (col("x") == 0.1, [("x", "=", 0.1)], "x = 1e-1")
    for condition in conditions:
        assert _rows(as_filter(condition), columns, batch) == [True, False]
    # Decimals are compared exactly.
    assert _rows(as_filter("x = 0.1000000000000000055"), columns, batch) == [False, False]


def test_doubles_are_made_floats_before_they_are_compared() -> None:
    """A cast of the caller that loses digits is no comparison of the column itself."""
    columns = Struct((Field("x", Primitive("double")),))
    batch = pa.record_batch({"x": [0.1, 0.5, None]})
    for text, kept in (("CAST(x AS FLOAT) = 0.1F", [True, False, False]), ("x = 0.1F", [False, False, False])):
        assert _rows(as_filter(text), columns, batch) == kept


def test_numbers_that_are_made_floats_first_are_compared_as_these() -> None:
    """Several numbers are one float, so that none of them stands for the others."""
    columns = Struct((Field("x", Primitive("integer")), Field("d", Decimal(15, 10))))
    batch = pa.record_batch(
        {
            "x": pa.array([16777215, 16777216, 16777217, None], pa.int32()),
            "d": pa.array([PyDecimal("0.1"), PyDecimal("0.1000000015"), PyDecimal("0.2"), None], pa.decimal128(15, 10)),
        }
    )
    assert _rows(as_filter("CAST(x AS FLOAT) = 16777216D"), columns, batch) == [False, True, True, False]
    same = "CAST(d AS FLOAT) = CAST(CAST(0.1 AS FLOAT) AS DOUBLE)"
    assert _rows(as_filter(same), columns, batch) == [True, True, False, False]
    assert _rows(as_filter("CAST(x AS STRING) IN ('16777217', 'x')"), columns, batch) == [False, False, True, False]
