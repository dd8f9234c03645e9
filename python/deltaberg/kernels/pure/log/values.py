"""Scalars as the Delta protocol spells them in text: partition values and JSON statistics."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.kernels.pure.quoted import quoted

__all__ = ["PrimitiveType", "parse_date", "parse_float", "parse_integer", "parse_timestamp"]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = r"([+-]?)([0-9]{4,7})-([0-9]{1,2})-([0-9]{1,2})"
_DATE_ONLY = re.compile(_DATE)
_TIMESTAMP = re.compile(
    _DATE + r"(?:[T ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
    r"(Z|([+-])([0-9]{2})(?::([0-9]{2})(?::([0-9]{2}))?)?)?)?"
)
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)")
_SPECIAL_FLOAT = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII)
_MICROS_PER_DAY = 86_400_000_000
_MAX_INT64 = (1 << 63) - 1
_MAX_DAYS = (1 << 31) - 1
_FAR_EXPONENT = 1_000_000_000
_LONGEST_INTEGER = 19
_MAX_DIGITS = 38


class PrimitiveType(NamedTuple):
    """A primitive type of Delta schemas: its name, its Arrow type, and how its text is read.

    ``parse`` returns None if the text is not a value of the type.
    """

    name: str
    arrow: pa.DataType
    parse: Callable[[str], Any]

    @classmethod
    def from_name(cls, name: str) -> PrimitiveType:
        """Return the type of this name."""
        known = _PRIMITIVES.get(name)
        if known is not None:
            return known
        found = _DECIMAL.fullmatch(name)
        if found is not None:
            precision, scale = int(found[1]), int(found[2])
            if 1 <= precision <= _MAX_DIGITS and scale <= precision:
                arrow = pa.decimal128(precision, scale)
                return cls(f"decimal({precision},{scale})", arrow, lambda text: _decimal(text, precision, scale))
        raise InvalidArgumentError(f"{quoted(name)} is not a primitive type")


def parse_integer(text: str, bits: int = 64) -> int | None:
    """Read an integer: an optional sign, then digits only."""
    if _INTEGER.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _LONGEST_INTEGER:
        return None
    value = -int(digits) if text.startswith("-") else int(digits)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_float(text: str) -> float | None:
    """Read a floating point number, ``NaN``, or ``Infinity`` or ``inf`` with an optional sign, in any case."""
    return float(text) if _NUMBER.fullmatch(text) or _SPECIAL_FLOAT.fullmatch(text) else None


def parse_date(text: str) -> int | None:
    """Read a date as days since 1970-01-01."""
    found = _DATE_ONLY.fullmatch(text)
    days = None if found is None else _days(found[1], found[2], found[3], found[4])
    return days if days is not None and -_MAX_DAYS - 1 <= days <= _MAX_DAYS else None


def parse_timestamp(text: str) -> tuple[int, str] | None:
    """Read a timestamp as microseconds since 1970, and return how its text names the zone.

    ``missing`` means that it names none, and the value is local time. ``exact`` means ``Z`` or an offset with seconds.
    ``minutes`` means an offset of whole minutes, which some writers cut from an offset with seconds.
    """
    match = _TIMESTAMP.fullmatch(text)
    days = None if match is None else _days(match[1], match[2], match[3], match[4])
    if match is None or days is None:
        return None
    micros = days * _MICROS_PER_DAY
    zone = "missing"
    if match[5] is not None:
        hour, minute, second = int(match[5]), int(match[6]), int(match[7] or 0)
        if hour > 23 or minute > 59 or second > 59:
            return None
        micros += ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((match[8] or "0").ljust(6, "0")[:6])
    if match[9] == "Z":
        zone = "exact"
    elif match[9]:
        hours, minutes, seconds = int(match[11]), int(match[12] or 0), int(match[13] or 0)
        if hours > 18 or minutes > 59 or seconds > 59:
            return None
        offset = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
        micros -= -offset if match[10] == "-" else offset
        zone = "minutes" if match[13] is None else "exact"
    return (micros, zone) if -_MAX_INT64 - 1 <= micros <= _MAX_INT64 else None


def _days(sign: str, year_digits: str, month_digits: str, day_digits: str) -> int | None:
    year, month, day = int(sign + year_digits), int(month_digits), int(day_digits)
    if not 1 <= month <= 12 or not 1 <= day <= _days_in_month(year, month):
        return None
    # The year begins in March, so that the leap day is its last.
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = ((month + 9) % 12 * 153 + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def _days_in_month(year: int, month: int) -> int:
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Read a decimal exactly. None if it has more digits than fit."""
    if _NUMBER.fullmatch(text) is None:
        return None
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    significant = (whole + fraction).lstrip("0")
    if not significant:
        return exact_decimal(0, scale)
    shift = scale - (len(fraction) - _exponent(exponent))
    if shift < 0:
        kept, rest = significant[:shift], significant[shift:]
        if not kept or rest.strip("0"):
            return None
        significant, shift = kept, 0
    if len(significant) + shift > precision:
        return None
    unscaled = int(significant + "0" * shift)
    return exact_decimal(-unscaled if mantissa.startswith("-") else unscaled, scale)


def _exponent(text: str) -> int:
    # Python refuses to convert very long numbers, even if they begin with zeros.
    digits = text.lstrip("+-").lstrip("0") or "0"
    exponent = _FAR_EXPONENT if len(digits) > 10 else min(_FAR_EXPONENT, int(digits))
    return -exponent if text.startswith("-") else exponent


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower()) if text.isascii() else None


def _micros(text: str) -> int | None:
    found = parse_timestamp(text)
    return None if found is None else found[0]


_PRIMITIVES = {
    name: PrimitiveType(name, arrow, parse)
    for name, arrow, parse in (
        ("string", pa.string(), str),
        ("long", pa.int64(), parse_integer),
        ("integer", pa.int32(), lambda text: parse_integer(text, 32)),
        ("short", pa.int16(), lambda text: parse_integer(text, 16)),
        ("byte", pa.int8(), lambda text: parse_integer(text, 8)),
        ("float", pa.float32(), parse_float),
        ("double", pa.float64(), parse_float),
        ("boolean", pa.bool_(), _boolean),
        ("binary", pa.binary(), lambda text: text.encode()),
        ("date", pa.date32(), parse_date),
        ("timestamp", pa.timestamp("us"), _micros),
        ("timestamp_ntz", pa.timestamp("us"), _micros),
    )
}
