"""Casts between booleans and numbers, as in Spark's ANSI mode: what does not fit fails."""

from __future__ import annotations

import math
from decimal import Decimal as PyDecimal
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.arithmetic import constant, fit_integer, integer_limits
from deltaberg.expressions.compute.by_row import each_distinct
from deltaberg.expressions.compute.decimals import fit_decimal, fit_exactly
from deltaberg.expressions.tree.nodes import Kernel, Outcome, failed_where
from deltaberg.expressions.tree.types import BOOLEAN, INTEGER_BITS, LONG, decimal_of, is_floating, is_integral
from deltaberg.kernels.decimals import parse_decimal
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal

__all__ = ["number_cast"]

#: Decimals of so few digits are told from the next whole number by their doubles.
_SAFE_DIGITS = 15
#: Spark can keep decimals of so many digits as a long.
_COMPACT_DIGITS = 18


def number_cast(source: DataType, to: DataType) -> Kernel | None:
    """Return the kernel of a cast between two types of numbers, or of booleans."""
    if to == BOOLEAN:
        return lambda values: pc.not_equal(values, constant(0, values.type))
    if source == BOOLEAN:
        return _of_boolean(to)
    if is_integral(to):
        return _to_integer(source, to)
    if isinstance(to, Decimal):
        return _to_decimal(source, to)
    if is_floating(to):
        if isinstance(source, Decimal):
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


def _to_integer(source: DataType, to: DataType) -> Kernel:
    if isinstance(source, Decimal):
        return partial(_decimal_to_integer, source, to)
    if is_floating(source):
        return lambda values: _floating_to_integer(values, to)
    if INTEGER_BITS[source] <= INTEGER_BITS[to]:
        return lambda values: values.cast(arrow_type(to))

    def narrow(values: pa.Array) -> Outcome:
        try:
            return Outcome(values.cast(arrow_type(to)))
        except pa.ArrowInvalid:
            return fit_integer(values, to)

    return narrow


def _decimal_to_integer(source: Decimal, to: DataType, values: pa.Array) -> Outcome:
    """Cut the fraction off. Spark does so exactly for a long, and by the nearest double for the smaller types."""
    exact = fit_integer(pc.trunc(values.cast(pa.decimal256(76, source.scale))), to)
    if to == LONG or source.precision <= _SAFE_DIGITS or not source.scale:
        return exact
    nearest = _floating_to_integer(values.cast(pa.string()).cast(pa.float64()), to)
    if source.precision > _COMPACT_DIGITS:
        return nearest
    differ = pc.not_equal(pc.coalesce(exact.values, nearest.values), pc.coalesce(nearest.values, exact.values))
    unclear = failed_where(exact.values, differ, "whether Spark rounds a decimal up depends on where it comes from")
    return Outcome(exact.values, (*exact.failures, *unclear.failures))


def _floating_to_integer(values: pa.Array, to: DataType) -> Outcome:
    """Cut the fraction off. NaN and what does not fit fail."""
    least, greatest = integer_limits(to)
    wide = pc.trunc(values.cast(pa.float64()))
    # The greatest long has no double. For Spark, the one that follows still fits.
    fits = pc.and_(pc.greater_equal(wide, float(least)), pc.less(wide, float(greatest + 1)))
    kept = pc.if_else(fits, wide, pa.scalar(None, pa.float64())).cast(arrow_type(to))
    if to == LONG:
        limit = pc.equal(wide, float(greatest + 1))
        kept, fits = pc.if_else(limit, pa.scalar(greatest, pa.int64()), kept), pc.or_(fits, limit)
    return failed_where(kept, pc.invert(fits), f"a number does not fit into {to}")


def _to_decimal(given: DataType, to: Decimal) -> Kernel:
    if not is_floating(given):
        kind = decimal_of(given) or to
        return lambda values: fit_decimal(values.cast(pa.decimal128(kind.precision, kind.scale)), to)

    def convert(number: float) -> PyDecimal | None:
        # The shortest decimal that is read as the double is what Java converts; NaN and infinity become null.
        return fit_exactly(parse_decimal(repr(number)), to) if math.isfinite(number) else None

    return lambda values: each_distinct(convert, arrow_type(to), f"a number does not fit into {to}", values)
