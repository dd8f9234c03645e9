"""Casts between booleans and numbers, as in Spark's ANSI mode: what does not fit fails."""

from __future__ import annotations

from decimal import Decimal as PyDecimal

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.values.arithmetic import fit_integer, integer_limits
from deltaberg.expressions.values.by_row import each_distinct
from deltaberg.expressions.values.decimals import fit_decimal, fit_exactly
from deltaberg.expressions.values.kinds import BOOLEAN, INTEGER_BITS, decimal_of, is_floating, is_integral
from deltaberg.expressions.values.nodes import Kernel, Outcome, failed_where
from deltaberg.kernels.decimals import parse_decimal
from deltaberg.schema import DataType, Decimal, arrow_type

__all__ = ["number_cast"]


def number_cast(given: DataType, to: DataType) -> Kernel | None:
    """Return the kernel of a cast between two types of numbers, or of booleans."""
    if to == BOOLEAN:
        return lambda values: pc.not_equal(values, pa.scalar(0).cast(values.type))
    if given == BOOLEAN:
        return _of_boolean(to)
    if is_integral(to):
        return _to_integer(given, to)
    if isinstance(to, Decimal):
        return _to_decimal(given, to)
    if is_floating(to):
        if isinstance(given, Decimal):
            # Text is the road that rounds once.
            return lambda values: values.cast(pa.string()).cast(arrow_type(to))
        return lambda values: values.cast(arrow_type(to), safe=False)
    return None


def _of_boolean(to: DataType) -> Kernel | None:
    if isinstance(to, Decimal):
        return lambda values: fit_decimal(values.cast(pa.int8()).cast(pa.decimal128(3, 0)), to)
    if is_integral(to) or is_floating(to):
        return lambda values: values.cast(pa.int8()).cast(arrow_type(to))
    return None


def _to_integer(given: DataType, to: DataType) -> Kernel:
    if isinstance(given, Decimal):
        return lambda values: fit_integer(pc.trunc(values).cast(pa.decimal256(38, 0)), to)
    if is_floating(given):
        return lambda values: _floating_to_integer(values, to)
    if INTEGER_BITS[given] <= INTEGER_BITS[to]:
        return lambda values: values.cast(arrow_type(to))

    def narrow(values: pa.Array) -> Outcome:
        try:
            return Outcome(values.cast(arrow_type(to)))
        except pa.ArrowInvalid:
            return fit_integer(values, to)

    return narrow


def _floating_to_integer(values: pa.Array, to: DataType) -> Outcome:
    """Cut the fraction off. NaN and what does not fit fail."""
    least, greatest = integer_limits(to)
    wide = pc.trunc(values.cast(pa.float64()))
    # The greatest long has no double: the next one is the first that does not fit.
    fits = pc.and_(pc.greater_equal(wide, float(least)), pc.less(wide, float(greatest + 1)))
    kept = pc.if_else(fits, wide, pa.scalar(None, pa.float64()))
    return failed_where(kept.cast(arrow_type(to)), pc.invert(fits), f"a number does not fit into {to}")


def _to_decimal(given: DataType, to: Decimal) -> Kernel:
    if not is_floating(given):
        kind = decimal_of(given) or to
        return lambda values: fit_decimal(values.cast(pa.decimal128(kind.precision, kind.scale)), to)

    def convert(number: float) -> PyDecimal:
        return fit_exactly(_shortest(number), to)

    return lambda values: each_distinct(convert, arrow_type(to), f"a number does not fit into {to}", values)


def _shortest(number: float) -> PyDecimal:
    """Return the shortest decimal that is read as the double, which is what Java converts."""
    decimal = parse_decimal(repr(number))
    if not decimal.is_finite():
        raise OverflowError(f"{number} is not a decimal")
    return decimal
