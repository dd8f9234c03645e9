"""Values of discrete types as whole numbers: integers, decimals by their unscaled value, dates, times, timestamps.

The months of days are also computed here, however far from 1970 the days are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.kernels import plain_values as pv
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.schema.convert import floor_divide

__all__ = ["limits", "months_and_days", "of_ordinals", "ordinals_of"]

#: Days from 0000-03-01 to 1970-01-01: a year that begins in March ends with its leap day.
_DAYS_TO_1970 = 719_468
_DAYS_OF_ERA, _YEARS_OF_ERA = 146_097, 400
_MONTHS_TO_1970 = 1970 * 12


def ordinals_of(values: pa.Array) -> list[int]:
    """Return the numbers of values, none of which is null."""
    if pa.types.is_decimal128(values.type):
        raw = values.view(pa.binary(16)).to_pylist()
        return [int.from_bytes(value, sys.byteorder, signed=True) for value in raw]
    numbers: list[int] = values.view(_storage(values.type)).to_pylist()
    return numbers


def of_ordinals(numbers: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """Return the values that numbers stand for, the inverse of `ordinals_of`; null for None.

    Raises
    ------
    InvalidArgumentError
        If the type has no such value.
    """
    low, high = limits(kind)
    wrong = next((number for number in numbers if number is not None and not low <= number <= high), None)
    if wrong is not None:
        raise InvalidArgumentError(f"{wrong} is out of the range of type {kind}")
    if not pa.types.is_decimal128(kind):
        return pv.array(numbers, _storage(kind)).view(kind)
    decimals = (None if number is None else exact_decimal(number, kind.scale) for number in numbers)
    return pa.array(decimals, kind)


def limits(kind: pa.DataType) -> tuple[int, int]:
    """Return the numbers of the smallest and the largest value of a type."""
    if pa.types.is_decimal128(kind):
        most = 10**kind.precision - 1
        return -most, most
    half = 1 << kind.bit_width - 1
    return -half, half - 1


def _storage(kind: pa.DataType) -> pa.DataType:
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}.get(kind.bit_width, pa.int64())


def months_and_days(days: pa.Int64Array) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Return the months since 1970-01, and the days of the month counted from 1, of days since 1970-01-01."""
    since = pc.add(days, _DAYS_TO_1970)
    era = floor_divide(since, _DAYS_OF_ERA)
    day = pc.subtract(since, pc.multiply(era, _DAYS_OF_ERA))
    # Within 400 years: take off a leap day for each 4 years, add one back for each 100, take off the last one.
    plain = pc.subtract(pc.add(pc.subtract(day, pc.divide(day, 1460)), pc.divide(day, 36_524)), pc.divide(day, 146_096))
    year = pc.divide(plain, 365)
    leap_days = pc.subtract(pc.divide(year, 4), pc.divide(year, 100))
    day = pc.subtract(day, pc.add(pc.multiply(year, 365), leap_days))
    # From March on, any five months in a row have 153 days.
    month = pc.divide(pc.add(pc.multiply(day, 5), 2), 153)
    day = pc.add(pc.subtract(day, pc.divide(pc.add(pc.multiply(month, 153), 2), 5)), 1)
    years = pc.add(pc.multiply(era, _YEARS_OF_ERA), year)
    return pc.add(pc.add(pc.multiply(years, 12), month), 2 - _MONTHS_TO_1970), day
