"""Decimals keep all their digits in every decimal context."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import col, open_table
from deltaberg.choices import Operator
from deltaberg.errors import ExpressionError
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.schema.variants.values import encode_decimal, variant_to_json
from tests.kernels.twins import backends
from tests.support.delta_builder import DeltaBuilder

_LONG = Decimal("12345678901234567890123456789.123456789")
_OPERATORS: dict[Operator, Callable[[Any, Any], Any]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@pytest.fixture(params=[28, 5], autouse=True)
def digits(request: pytest.FixtureRequest) -> Iterator[int]:
    """The precision of the thread's context, in which nothing traps."""
    with decimal.localcontext(decimal.Context(prec=request.param, traps=[])):
        yield request.param


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


@pytest.mark.parametrize("stats", ["none", "full"])
def test_filters_compare_every_digit(builder: DeltaBuilder, rng: random.Random, stats: str) -> None:
    """By statistics of files and of row groups, by a partition value, and row by row."""
    near = [_unscaled(_LONG) + step for step in (-1, 0, 1)]
    numbers = [*near, *(-number for number in near), *(rng.randrange(-(10**38) + 1, 10**38) for _ in range(6)), 0]
    values = [exact_decimal(number, 9) for number in numbers]
    rows = pa.table({"i": range(len(values)), "d": pa.array(values, pa.decimal128(38, 9))})
    writer = {"row_group_size": 1, "store_decimal_as_integer": False}
    parts = [rows.slice(first, 5) for first in range(0, len(rows), 5)]
    builder.create(rows.schema, *(builder.add(part, stats=stats, writer=writer) for part in parts))
    table = open_table(builder.root)
    for value, wanted in zip(values[:8], numbers, strict=False):
        for operator, holds in _OPERATORS.items():
            rest = [index for index, number in enumerate(numbers) if holds(number, wanted)]
            scan = table.scan(f"d {operator} {value:f}", ["i"])
            assert scan.to_arrow()["i"].to_pylist() == rest, (operator, value)
            assert table.scan([("d", operator, value)]).count() == len(rest)


def test_row_groups_are_pruned_by_every_digit(builder: DeltaBuilder) -> None:
    values = [exact_decimal(_unscaled(_LONG) + step, 9) for step in range(4)]
    rows = pa.table({"d": pa.array(values, pa.decimal128(38, 9))})
    builder.create(rows.schema, builder.add(rows, writer={"row_group_size": 1}))
    scan = open_table(builder.root, "delta").scan(col("d") == values[2])
    assert scan.to_arrow()["d"].to_pylist() == [values[2]]
    assert scan.metrics is not None
    assert scan.metrics.row_groups_skipped == 3


def test_partition_values_keep_every_digit(builder: DeltaBuilder) -> None:
    schema = pa.schema([("i", pa.int64()), ("d", pa.decimal128(38, 9))])
    texts = [f"{_LONG}", f"-{_LONG}"]
    adds = [builder.add(pa.table({"i": [number]}), partition={"d": text}) for number, text in enumerate(texts)]
    builder.create(schema, *adds, partition_by=["d"])
    table = open_table(builder.root)
    assert [f"{value:f}" for value in table.scan().to_arrow()["d"].to_pylist()] == texts
    assert table.scan(f"d = -{_LONG}").to_arrow()["i"].to_pylist() == [1]


@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_kernels_keep_every_digit(kernels: ModuleType) -> None:
    maps = pa.array([[("p", f"-{_LONG}")], [("p", "0")]], pa.map_(pa.string(), pa.string()))
    found = kernels.parse_partition_values(maps, [("p", "decimal(38,9)")])
    assert [f"{value:f}" for value in found.column("p").to_pylist()] == [f"-{_LONG}", "0.000000000"]


def test_variants_keep_every_digit() -> None:
    data = encode_decimal(_LONG, 38)
    assert variant_to_json(bytes([1, 0, 0]), data) == f"{_LONG:f}"


def test_text_that_is_no_number_is_refused(builder: DeltaBuilder) -> None:
    builder.create(pa.schema([("d", pa.decimal128(9, 2))]))
    with pytest.raises(ExpressionError, match="'many' cannot be compared with a column of type"):
        open_table(builder.root).scan([("d", "=", "many")])
    with pytest.raises(ExpressionError, match="'many' cannot be compared with a column of type"):
        open_table(builder.root).scan("d = CAST('many' AS DECIMAL(9, 2))")
