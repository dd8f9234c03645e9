"""Single values as JSON, such as defaults of columns (Iceberg spec, Appendix D, "JSON single-value serialization")."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import Context, Inexact, InvalidOperation
from decimal import Decimal as PyDecimal
from typing import Any

from deltaberg.errors import CorruptMetadataError, InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.iceberg.schema.iso_times import (
    date_of_text,
    nanos_of,
    nanos_of_text,
    text_of_nanos,
    text_of_timestamp,
    time_of_text,
    timestamp_of_text,
)
from deltaberg.lossless_json import Number, has_lone_surrogate
from deltaberg.schema.rows.uuids import uuid_of
from deltaberg.schema.types import DataType, Decimal, Fixed, List, Map, Primitive, Struct

__all__ = ["json_of_value", "value_of_json"]

# Whatever a value of the wrong type can raise on its way to or from JSON.
_WRONG = (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, struct.error)


def value_of_json(json_value: Any, kind: DataType) -> Any:
    """Return the value of a type that JSON stands for, as pyarrow takes it; None for null.

    Raises
    ------
    CorruptMetadataError
        If the JSON does not stand for a value of the type.

    Examples
    --------
    >>> value_of_json("14.20", Decimal(9, 2))
    Decimal('14.20')
    """
    if json_value is None:
        return None
    try:
        return _value(json_value, kind)
    except _WRONG as error:
        shown = json_value.text if isinstance(json_value, Number) else repr(json_value)
        raise CorruptMetadataError(f"the default {shown:.80} is not a value of type {kind}") from error


def json_of_value(value: Any, kind: DataType) -> Any:
    """Return the JSON that stands for a value of a type, the inverse of `value_of_json`; None for null.

    Raises
    ------
    InvalidArgumentError
        If it is not a value of the type, or one that JSON cannot hold, such as NaN.

    Examples
    --------
    >>> json_of_value(PyDecimal("14.2"), Decimal(9, 2))
    '14.20'
    >>> json_of_value(b"ice", Primitive("binary"))
    '696365'
    """
    if value is None:
        return None
    try:
        written = _json(value, kind)
        _value(written, kind)
    except (*_WRONG, CorruptMetadataError) as error:
        raise InvalidArgumentError(
            f"{shown_value(value)} cannot be written as a value of type {kind}", hint=_HINTS.get(str(kind))
        ) from error
    return written


def _value(json_value: Any, kind: DataType) -> Any:
    if isinstance(kind, Primitive):
        return _PRIMITIVES[kind.name](json_value)
    if isinstance(kind, Decimal):
        value = PyDecimal(_of(str)(json_value))
        if not value.is_finite():
            raise ValueError(json_value)
        context = Context(prec=kind.precision, traps=[InvalidOperation, Inexact])
        return value.quantize(PyDecimal(1).scaleb(-kind.scale), context=context)
    if isinstance(kind, Fixed):
        raw = _binary(json_value)
        if len(raw) != kind.length:
            raise ValueError(json_value)
        return raw
    if isinstance(kind, Struct):
        given = _of(dict)(json_value)
        # A field that is not mentioned has its own default.
        return {
            child.name: child.default if str(child.id) not in given else value_of_json(given[str(child.id)], child.type)
            for child in kind
        }
    if isinstance(kind, List):
        return [value_of_json(element, kind.element.type) for element in _of(list)(json_value)]
    if isinstance(kind, Map):
        keys = [value_of_json(key, kind.key.type) for key in _of(list)(json_value["keys"])]
        if None in keys:
            raise ValueError(json_value)
        values = [value_of_json(value, kind.value.type) for value in _of(list)(json_value["values"])]
        return list(zip(keys, values, strict=True))
    raise TypeError(kind)


def _json(value: Any, kind: DataType) -> Any:
    if isinstance(kind, Primitive):
        return _WRITTEN[kind.name](value)
    if isinstance(kind, Decimal):
        exact = Context(prec=kind.precision, traps=[InvalidOperation, Inexact])
        number = PyDecimal(_of((int, PyDecimal))(value))
        return f"{number.quantize(PyDecimal(1).scaleb(-kind.scale), context=exact):f}"
    if isinstance(kind, Fixed):
        return _of(bytes)(value).hex()
    if isinstance(kind, Struct):
        fields = _of(dict)(value)
        if not fields.keys() <= set(kind.names):
            raise KeyError(*fields)
        # A field that has its own default is not mentioned, so that a struct of such fields is empty.
        own = [child for child in kind if child.name in fields and fields[child.name] != child.default]
        return {str(child.id): json_of_value(fields[child.name], child.type) for child in own}
    if isinstance(kind, List):
        return [json_of_value(element, kind.element.type) for element in value]
    if isinstance(kind, Map):
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        keys = [json_of_value(key, kind.key.type) for key, _ in pairs]
        return {"keys": keys, "values": [json_of_value(item, kind.value.type) for _, item in pairs]}
    raise TypeError(kind)


def _of(expected: type | tuple[type, ...]) -> Callable[[Any], Any]:
    def read(found: Any) -> Any:
        if not isinstance(found, expected) or (isinstance(found, bool) and expected is not bool):
            raise TypeError(found)
        return found

    return read


def _whole(bits: int) -> Callable[[Any], int]:
    def read(number: Any) -> int:
        if isinstance(number, Number):
            number = number.integer
        if not isinstance(number, int) or isinstance(number, bool) or not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(number)
        return number

    return read


def _double(found: Any) -> float:
    value = found.real if isinstance(found, Number) else float(_of((int, float))(found))
    if not math.isfinite(value):
        raise ValueError(found)
    return value


def _float(found: Any) -> float:
    # Packing refuses what 32 bits cannot hold.
    return float(struct.unpack("<f", struct.pack("<f", _double(found)))[0])


def _text(found: Any) -> str:
    text: str = _of(str)(found)
    if has_lone_surrogate(text):
        raise ValueError(found)
    return text


def _binary(found: str) -> bytes:
    raw = bytes.fromhex(found)
    if len(raw) * 2 != len(found):
        raise ValueError(found)
    return raw


def _uuid(found: str) -> bytes:
    value = uuid.UUID(found)
    if str(value) != found.lower():
        raise ValueError(found)
    return value.bytes


def _nanos(found: str, zoned: bool) -> int:
    return _whole(64)(nanos_of_text(found, zoned))


def _refused(found: Any) -> Any:
    raise ValueError(found)


def _text_of_date(value: Any) -> str:
    if isinstance(value, dt.datetime):
        raise TypeError(value)
    return _of(dt.date)(value).isoformat()  # type: ignore[no-any-return]


def _text_of_nanos(value: Any, zoned: bool) -> str:
    return text_of_nanos(nanos_of(_of((int, dt.datetime))(value), zoned), zoned)


_PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "boolean": _of(bool),
    "integer": _whole(32),
    "long": _whole(64),
    "float": _float,
    "double": _double,
    "string": _text,
    "binary": _binary,
    "uuid": _uuid,
    "date": date_of_text,
    "time": time_of_text,
    "timestamp": lambda found: timestamp_of_text(found, zoned=True),
    "timestamp_ntz": lambda found: timestamp_of_text(found, zoned=False),
    "timestamp_ns": lambda found: _nanos(found, zoned=True),
    "timestamp_ntz_ns": lambda found: _nanos(found, zoned=False),
    "variant": _refused,
    "void": _refused,
}
#: What is taken for types whose values have several forms in Python.
_HINTS = {
    "timestamp": "pass a datetime with a time zone",
    "timestamp_ntz": "pass a datetime without a time zone",
    "timestamp_ns": "pass a datetime with a time zone, or nanoseconds since 1970",
    "timestamp_ntz_ns": "pass a datetime without a time zone, or nanoseconds since 1970",
    "date": "pass a date",
    "time": "pass a time of day",
    "uuid": "pass a UUID, its text or its bytes",
}
_WRITTEN: dict[str, Callable[[Any], Any]] = {
    "boolean": _of(bool),
    "integer": _whole(32),
    "long": _whole(64),
    "float": _float,
    "double": _double,
    "string": _text,
    "binary": lambda value: _of(bytes)(value).hex(),
    "uuid": lambda value: str(uuid_of(value)),
    "date": _text_of_date,
    "time": lambda value: _of(dt.time)(value).isoformat("microseconds"),
    "timestamp": lambda value: text_of_timestamp(_of(dt.datetime)(value), zoned=True),
    "timestamp_ntz": lambda value: text_of_timestamp(_of(dt.datetime)(value), zoned=False),
    "timestamp_ns": lambda value: _text_of_nanos(value, zoned=True),
    "timestamp_ntz_ns": lambda value: _text_of_nanos(value, zoned=False),
    "variant": _refused,
    "void": _refused,
}
