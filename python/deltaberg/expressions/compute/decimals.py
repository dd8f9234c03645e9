"""Arithmetic of decimals: the exact result, rounded half away from zero to the type that Spark gives it."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_UP, Context
from decimal import Decimal as PyDecimal
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.by_row import each_row
from deltaberg.expressions.tree.nodes import Datum, Kernel, Outcome, failed_where
from deltaberg.kernels import plain_values as pv
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import Decimal

__all__ = ["NEGATED_DIGITS", "decimal_kernel", "fit_decimal", "fit_exactly", "negated"]

_MOST = 76
#: The most digits that Spark keeps when it negates.
NEGATED_DIGITS = 34
#: Room for every exact product and for the digits of every quotient.
_EXACT = Context(prec=200)


def fit_decimal(values: pa.Array, to: Decimal) -> Outcome:
    """Round decimals half away from zero to a type. Rows that do not fit fail."""
    wide = values.cast(pa.decimal256(_MOST, values.type.scale))
    if values.type.scale > to.scale:
        wide = pc.round(wide, to.scale, "half_towards_infinity")
    wide = wide.cast(pa.decimal256(_MOST, to.scale))
    limit = pv.scalar(exact_decimal(10**to.precision, to.scale), wide.type)
    beyond = pc.greater_equal(pc.abs(wide), limit).fill_null(pv.FALSE)
    if pc.any(beyond).as_py():
        wide = pc.if_else(beyond, pv.scalar(None, wide.type), wide)
    return failed_where(wide.cast(arrow_type(to)), beyond, f"a result does not fit into {to}")


def fit_exactly(number: PyDecimal, to: Decimal) -> PyDecimal:
    """Round one decimal to a type.

    Raises
    ------
    ArithmeticError
        If it does not fit.
    """
    rounded = number.quantize(PyDecimal((0, (1,), -to.scale)), ROUND_HALF_UP, _EXACT)
    if len(rounded.as_tuple().digits) > to.precision and rounded:
        raise OverflowError(f"{number} does not fit into {to}")
    return rounded


def decimal_kernel(operator: str, left: Decimal, right: Decimal, to: Decimal) -> Kernel:
    """Return the kernel of ``+``, ``-``, ``*``, ``/``, ``%``, ``div`` or ``pmod`` of two decimal types.

    Where exact results have more digits than Arrow's decimals, they are computed row by row.
    """
    message = f"a result does not fit into {to}"
    by_row = _BY_ROW.get(operator, _EXACT.divide)

    def exact(one: Datum, other: Datum) -> Outcome:
        return each_row(lambda x, y: fit_exactly(by_row(x, y), to), arrow_type(to), message, one, other)

    def added(one: Datum, other: Datum) -> Outcome:
        compute = pc.add if operator == "+" else pc.subtract
        return fit_decimal(compute(_widened(one, left), _widened(other, right)), to)

    def multiplied(one: Datum, other: Datum) -> Outcome:
        return fit_decimal(pc.multiply(_widened(one, left), _widened(other, right)), to)

    def divided(one: Datum, other: Datum) -> Outcome:
        return fit_decimal(pc.divide(one.cast(numerator), _widened(other, right)), to)

    if operator == "div":
        return lambda one, other: each_row(partial(_quotient, to), pa.int64(), message, one, other)
    scale = max(left.scale, right.scale)
    if operator in ("+", "-"):
        narrow = max(left.precision - left.scale, right.precision - right.scale) + scale + 1 <= _MOST
        return added if narrow else exact
    if operator == "*":
        return multiplied if left.precision + right.precision + 1 <= _MOST else exact
    if operator == "/":
        # Arrow cuts the quotient off; one more digit than the result has lets it round.
        more = max(0, to.scale - left.scale - right.precision + right.scale)
        digits = left.precision + more + right.precision + 1
        if digits <= _MOST:
            numerator = pa.decimal256(left.precision + more, left.scale + more)
            return divided
    return exact


def negated(number: PyDecimal) -> PyDecimal:
    """Return a decimal with the other sign.

    Raises
    ------
    ArithmeticError
        If it has more than 34 digits, of which Spark would drop some.
    """
    if len(number.as_tuple().digits) > NEGATED_DIGITS:
        raise OverflowError(f"{number} cannot be negated")
    return number.copy_negate()


def _widened(values: Datum, kind: Decimal) -> Datum:
    return values.cast(pa.decimal256(kind.precision, kind.scale))


def _remainder(one: PyDecimal, other: PyDecimal) -> PyDecimal:
    return _EXACT.subtract(one, _EXACT.multiply(_whole(one, other), other))


def _whole(one: PyDecimal, other: PyDecimal) -> PyDecimal:
    return _EXACT.divide(one, other).to_integral_value(ROUND_DOWN)


def _quotient(to: Decimal, one: PyDecimal, other: PyDecimal) -> int:
    """Return the lowest 64 bits of the quotient, as Spark does."""
    half = 1 << 63
    return (int(fit_exactly(_whole(one, other), to)) + half) % (2 * half) - half


def _positive_remainder(one: PyDecimal, other: PyDecimal) -> PyDecimal:
    """Return the remainder as Spark's pmod computes it: that of a negative divisor may be negative."""
    rest = _remainder(one, other)
    return _remainder(_EXACT.add(rest, other), other) if rest < 0 else rest


_BY_ROW = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
    "%": _remainder,
    "pmod": _positive_remainder,
}
