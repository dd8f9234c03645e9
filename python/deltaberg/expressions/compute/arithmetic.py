"""Kernels of arithmetic on whole and floating point numbers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import partial
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.by_row import each_distinct, each_row
from deltaberg.expressions.compute.decimals import NEGATED_DIGITS, negated
from deltaberg.expressions.tree.nodes import Datum, Kernel, Outcome, failed_where
from deltaberg.expressions.tree.types import FLOAT, INTEGER_BITS, is_floating
from deltaberg.kernels import plain_values as pv
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal

__all__ = ["absolute", "constant", "fit_integer", "integer_limits", "negate", "number_kernel", "without_zero"]

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_ROUNDED = "a decimal of more than 34 digits, which Spark would round, cannot be negated"
_WIDE = pa.decimal256(20, 0)


def integer_limits(kind: DataType) -> tuple[int, int]:
    """Return the least and the greatest value of an integral type."""
    half = 1 << INTEGER_BITS[kind] - 1
    return -half, half - 1


def number_kernel(operator: str, kind: DataType) -> Kernel:
    """Return the kernel of ``+``, ``-``, ``*``, ``/``, ``%``, ``div`` or ``pmod`` of two values of a type."""
    if is_floating(kind):
        return _floating(operator, kind)
    if operator in _CHECKED:
        return lambda left, right: _checked(operator, kind, left, right)
    if operator == "div":
        return lambda left, right: _quotient(kind, left, right)
    return lambda left, right: _integer_remainder(operator, kind, left, right)


def without_zero(kernel: Kernel, message: str = "division by zero") -> Kernel:
    """Return a kernel that fails for rows in which the second argument is zero."""

    def divide(left: Datum, right: Datum) -> Outcome:
        zero = pc.equal(right, constant(0, right.type))
        if isinstance(right, pa.Scalar):
            if not zero.as_py():
                return _outcome(kernel(left, right))
            rows = len(left)
            right, zero = pa.repeat(right, rows), pa.repeat(zero, rows)
        elif not pc.any(zero).as_py():
            return _outcome(kernel(left, right))
        found = _outcome(kernel(left, pc.if_else(zero, constant(1, right.type), right)))
        failed = failed_where(found.values, pc.and_(zero, pc.is_valid(left)), message)
        return Outcome(found.values, (*failed.failures, *found.failures))

    return divide


def constant(number: int, kind: pa.DataType) -> pa.Scalar:
    """Return 0 or 1 as a scalar of a type of numbers."""
    if pa.types.is_decimal(kind):
        # A decimal without digits before its point has no one; the least number that is not zero serves as well.
        return pv.scalar(exact_decimal(number, kind.scale), kind)
    return pv.scalar(number).cast(kind)


def _outcome(found: Datum | Outcome) -> Outcome:
    return found if isinstance(found, Outcome) else Outcome(found)


def fit_integer(values: pa.Array, kind: DataType, message: str | None = None) -> Outcome:
    """Return whole numbers, of any Arrow type, as those of a type. Rows that do not fit fail."""
    least, greatest = (pv.scalar(limit, pa.int64()).cast(_WIDE) for limit in integer_limits(kind))
    wide = values.cast(pa.decimal256(76, 0))
    beyond = pc.or_(pc.less(wide, least), pc.greater(wide, greatest))
    kept = pc.if_else(beyond, pv.scalar(None, wide.type), wide)
    return failed_where(kept.cast(arrow_type(kind)), beyond, message or f"a number does not fit into {kind}")


def _checked(operator: str, kind: DataType, left: Datum, right: Datum) -> Datum | Outcome:
    try:
        return _CHECKED[operator](left, right)
    except pa.ArrowInvalid:
        wide = _PLAIN[operator](left.cast(_WIDE), right.cast(_WIDE))
        return fit_integer(wide, kind, f"{kind} overflow")


def _quotient(kind: DataType, left: Datum, right: Datum) -> Outcome:
    """Divide and cut off. The quotient of the least number and -1 does not fit."""
    least = pv.scalar(integer_limits(kind)[0], arrow_type(kind))
    minus = pv.scalar(-1, arrow_type(kind))
    beyond = pc.and_(pc.equal(left, least), pc.equal(right, minus)).fill_null(pv.FALSE)
    return failed_where(pc.divide(left, right), _all_rows(beyond, left, right), f"{kind} overflow")


def _all_rows(mask: Datum, *values: Datum) -> pa.Array:
    rows = next(len(value) for value in values if isinstance(value, pa.Array))
    return pa.repeat(mask, rows) if isinstance(mask, pa.Scalar) else mask


def _integer_remainder(operator: str, kind: DataType, left: Datum, right: Datum) -> Datum:
    # All remainders of 1 and of -1 are 0, and the quotient of -1 could overflow.
    one = pv.scalar(1, arrow_type(kind))
    right = pc.if_else(pc.equal(right, pv.scalar(-1, arrow_type(kind))), one, right)
    rest = _rest(left, right)
    if operator == "%":
        return rest
    negative = pc.less(rest, pv.scalar(0, arrow_type(kind)))
    # Java adds bytes and shorts as integers; the sums of integers and of longs wrap.
    narrow = INTEGER_BITS[kind] < 32
    wide_rest, wide_right = (values.cast(pa.int32()) if narrow else values for values in (rest, right))
    return pc.if_else(negative, _rest(pc.add(wide_rest, wide_right), wide_right).cast(rest.type), rest)


def _rest(left: Datum, right: Datum) -> Datum:
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _floating(operator: str, kind: DataType) -> Kernel:
    if operator in _PLAIN or operator == "/":
        return cast(Kernel, _PLAIN.get(operator, pc.divide))
    function: Callable[[float, float], float] = _remainder
    if operator == "pmod":
        function = partial(_positive_remainder, (lambda x: ctypes.c_float(x).value) if kind == FLOAT else float)
    # Arrow has no remainder of floating point numbers, so it is computed row by row.
    return lambda left, right: each_row(function, arrow_type(kind), "", left, right)


def _remainder(left: float, right: float) -> float:
    if math.isinf(left) or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


def _positive_remainder(rounded: Callable[[float], float], left: float, right: float) -> float:
    rest = _remainder(left, right)
    return _remainder(rounded(rest + right), right) if rest < 0 else rest


def negate(kind: DataType) -> Kernel:
    """Return the kernel of the unary minus."""
    if isinstance(kind, Decimal) and kind.precision > NEGATED_DIGITS:
        return lambda values: each_distinct(negated, arrow_type(kind), _ROUNDED, values)
    if kind not in INTEGER_BITS:
        return cast(Kernel, pc.negate)
    return lambda values: _unless_least(kind, pc.negate, values)


def absolute(kind: DataType) -> Kernel:
    """Return the kernel of the absolute value."""
    if isinstance(kind, Decimal) and kind.precision > NEGATED_DIGITS:
        return lambda values: each_distinct(
            lambda number: negated(number) if number < 0 else number, arrow_type(kind), _ROUNDED, values
        )
    if kind not in INTEGER_BITS:
        return cast(Kernel, pc.abs)
    return lambda values: _unless_least(kind, pc.abs, values)


def _unless_least(kind: DataType, compute: Callable[[Datum], Datum], values: pa.Array) -> Outcome:
    beyond = pc.equal(values, pv.scalar(integer_limits(kind)[0], arrow_type(kind)))
    return failed_where(compute(values), beyond, f"{kind} overflow")
