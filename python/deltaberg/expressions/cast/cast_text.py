"""Casts from text and to text, as in Spark's ANSI mode: text that is not a value of the type fails.

Text in its plain form is read by Arrow. All other forms that Spark accepts are read once for each distinct text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal as PyDecimal
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.arithmetic import integer_limits
from deltaberg.expressions.compute.by_row import each_distinct
from deltaberg.expressions.compute.decimals import fit_exactly
from deltaberg.expressions.time.instants import parse_time
from deltaberg.expressions.time.moments import format_date, parse_date, trimmed
from deltaberg.expressions.tree.nodes import Kernel, Outcome, failed_where
from deltaberg.expressions.tree.types import BINARY, BOOLEAN, DATE, TIME, UUID, is_floating, is_integral
from deltaberg.kernels.decimals import parse_decimal
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.rows.uuids import text_of_uuids, uuids_of_text
from deltaberg.schema.types import DataType, Decimal

__all__ = ["of_text", "to_text"]

_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_HEXADECIMAL = re.compile(r"([+-]?)(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)")
_SPECIAL = {"inf": "inf", "infinity": "inf", "nan": "nan"}
#: What Java takes off both ends of a number.
_JAVA_BLANK = "".join(map(chr, range(0x21)))


def of_text(to: DataType) -> Kernel | None:
    """Return the kernel of a cast from text to a type that needs no zone."""
    message = f"a text is not a value of the type {to}"
    if to == BINARY:
        return lambda values: values.cast(pa.binary())
    if to == UUID:
        return lambda values: _uuids(values, message)
    readers: dict[bool, tuple[str, Callable[[str], Any]]] = {
        is_integral(to): (r"^-?[0-9]{1,18}$", lambda text: _integer(text, to)),
        is_floating(to): (r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$", lambda text: _floating(text, to)),
        to == DATE: (r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", parse_date),
        to == TIME: ("", parse_time),
        to == BOOLEAN: (r"^(true|false)$", _boolean),
        isinstance(to, Decimal): ("", lambda text: fit_exactly(_decimal(text), cast(Decimal, to))),
    }
    if True not in readers:
        return None
    plain, read = readers[True]
    stored = pa.int32() if to == DATE else arrow_type(to)

    def parse(values: pa.Array) -> Outcome:
        # One text, as in a literal, is read sooner than a pattern is compiled.
        if plain and len(values) > 1 and pc.all(pc.match_substring_regex(values, plain)).as_py() is not False:
            try:
                return Outcome(values.cast(arrow_type(to)))
            except pa.ArrowInvalid:
                # A number beyond the type, or a day that the month lacks.
                pass
        found = each_distinct(read, stored, message, values)
        return Outcome(found.values.view(arrow_type(to)), found.failures)

    return parse


def _uuids(texts: pa.Array, message: str) -> Outcome:
    found = uuids_of_text(texts)
    return failed_where(found, pc.and_(found.is_null(), texts.is_valid()), message)


def _integer(text: str, to: DataType) -> int:
    found = trimmed(text)
    least, greatest = integer_limits(to)
    if _INTEGER.fullmatch(found) is None or not least <= int(found) <= greatest:
        raise ValueError(text)
    return int(found)


def _floating(text: str, to: DataType) -> Any:
    number = text.strip(_JAVA_BLANK)
    if number[-1:] in ("d", "D", "f", "F") and _NUMBER.fullmatch(number[:-1]):
        number = number[:-1]
    if _NUMBER.fullmatch(number):
        return pa.scalar(number).cast(arrow_type(to)).as_py()
    hexadecimal = _HEXADECIMAL.fullmatch(number.rstrip("dDfF"))
    if hexadecimal is not None:
        return float.fromhex(hexadecimal[0])
    special = _SPECIAL.get(trimmed(text).lower().lstrip("+-"))
    if special is None or re.match(r"[+-]{2}|[+-]nan", trimmed(text).lower()):
        raise ValueError(text)
    return float(special) * (-1 if trimmed(text).startswith("-") else 1)


def _boolean(text: str) -> bool:
    found = trimmed(text).lower()
    if found not in _TRUE | _FALSE:
        raise ValueError(text)
    return found in _TRUE


def _decimal(text: str) -> PyDecimal:
    found = trimmed(text)
    if _NUMBER.fullmatch(found) is None:
        raise ValueError(text)
    return parse_decimal(found)


def to_text(source: DataType) -> Kernel | None:
    """Return the kernel of a cast to text from a type that needs no zone."""
    if is_integral(source):
        return lambda values: values.cast(pa.string())
    if source == BOOLEAN:
        return lambda values: pc.if_else(values, "true", "false")
    if source == BINARY:
        return _binary_as_text
    if source == UUID:
        return text_of_uuids
    if source == DATE:
        return lambda values: _formatted(values, format_date, pa.int32())
    if isinstance(source, Decimal):
        if source.scale <= 6:
            return lambda values: values.cast(pa.string())
        # Arrow writes small decimals with an exponent.
        return lambda values: each_distinct(lambda number: f"{number:f}", pa.string(), "", values)
    return None


def _binary_as_text(values: pa.Array) -> Outcome:
    try:
        return Outcome(values.cast(pa.string()))
    except pa.ArrowInvalid:
        return each_distinct(bytes.decode, pa.string(), "bytes are not text in UTF-8", values)


def _formatted(values: pa.Array, write: Callable[[int], str], stored: pa.DataType) -> Outcome:
    return each_distinct(write, pa.string(), "", values.cast(stored))
