"""Single values in JSON: defaults (Iceberg spec, Appendix D, "JSON single-value serialization")."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Inexact, InvalidOperation
from decimal import Decimal as PyDecimal
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.schema import DataType, Decimal, Fixed, List, Map, Primitive, Struct

__all__ = ["value_of_json"]

_EPOCH = dt.datetime(1970, 1, 1)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = re.compile(r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})?")


def value_of_json(found: Any, kind: DataType) -> Any:
    """Give a value as pyarrow takes it for the type; None for null.

    Raises
    ------
    CorruptMetadataError
        Where the JSON is no value of the type.
    """
    if found is None:
        return None
    try:
        return _value(found, kind)
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, struct.error) as error:
        raise CorruptMetadataError(f"the default {found!r:.80} is no {kind}") from error


def _value(found: Any, kind: DataType) -> Any:
    if isinstance(kind, Primitive):
        return _PRIMITIVES[kind.name](found)
    if isinstance(kind, Decimal):
        value = PyDecimal(_of(str)(found))
        if not value.is_finite():
            raise ValueError(found)
        context = Context(prec=kind.precision, traps=[InvalidOperation, Inexact])
        return value.quantize(PyDecimal(1).scaleb(-kind.scale), context=context)
    if isinstance(kind, Fixed):
        raw = _binary(found)
        if len(raw) != kind.length:
            raise ValueError(found)
        return raw
    if isinstance(kind, Struct):
        given = _of(dict)(found)
        # A field that is not named has the default of its own.
        return {
            child.name: child.default if str(child.id) not in given else value_of_json(given[str(child.id)], child.type)
            for child in kind
        }
    if isinstance(kind, List):
        return [value_of_json(element, kind.element.type) for element in _of(list)(found)]
    if isinstance(kind, Map):
        keys = [value_of_json(key, kind.key.type) for key in _of(list)(found["keys"])]
        if None in keys:
            raise ValueError(found)
        values = [value_of_json(value, kind.value.type) for value in _of(list)(found["values"])]
        return list(zip(keys, values, strict=True))
    raise TypeError(kind)


def _of(expected: type | tuple[type, ...]) -> Callable[[Any], Any]:
    def read(found: Any) -> Any:
        if not isinstance(found, expected) or (isinstance(found, bool) and expected is not bool):
            raise TypeError(found)
        return found

    return read


def _whole(bits: int) -> Callable[[Any], int]:
    def read(found: Any) -> int:
        if not isinstance(found, int) or isinstance(found, bool) or not -(1 << bits - 1) <= found < 1 << bits - 1:
            raise ValueError(found)
        return found

    return read


def _double(found: Any) -> float:
    value = float(_of((int, float))(found))
    if not math.isfinite(value):
        raise ValueError(found)
    return value


def _float(found: Any) -> float:
    # Packing refuses what 32 bits cannot hold.
    return float(struct.unpack("<f", struct.pack("<f", _double(found)))[0])


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


def _date(found: str) -> dt.date:
    if not _DATE.fullmatch(found):
        raise ValueError(found)
    return dt.date.fromisoformat(found)


def _clock(found: str) -> tuple[dt.timedelta, int, str]:
    """Give the time of day in whole seconds, the nanoseconds beyond them, and the zone as it is written."""
    match = _CLOCK.fullmatch(found)
    if match is None:
        raise ValueError(found)
    time = dt.time.fromisoformat(match[1])
    seconds = dt.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second)
    return seconds, int((match[2] or "").ljust(9, "0")), match[3] or ""


def _moment(found: str, zoned: bool) -> tuple[dt.datetime, int]:
    """Give a timestamp in whole seconds, of UTC where it has a zone, and the nanoseconds beyond them."""
    date, _, clock = found.partition("T")
    seconds, nanos, zone = _clock(clock)
    if bool(zone) != zoned:
        raise ValueError(found)
    moment = dt.datetime.combine(_date(date), dt.time()) + seconds
    if len(zone) > 1:
        offset = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
        moment += offset if zone[0] == "-" else -offset
    return moment, nanos


def _micros(nanos: int) -> dt.timedelta:
    micros, lost = divmod(nanos, 1000)
    if lost:
        raise ValueError(nanos)
    return dt.timedelta(microseconds=micros)


def _time(found: str) -> dt.time:
    seconds, nanos, zone = _clock(found)
    if zone:
        raise ValueError(found)
    return (_EPOCH + seconds + _micros(nanos)).time()


def _timestamp(found: str, zoned: bool) -> dt.datetime:
    moment, nanos = _moment(found, zoned)
    return (moment + _micros(nanos)).replace(tzinfo=dt.timezone.utc if zoned else None)


def _nanos(found: str, zoned: bool) -> int:
    """Give nanoseconds since 1970: Python's timestamps end at microseconds."""
    moment, nanos = _moment(found, zoned)
    return _whole(64)((moment - _EPOCH) // dt.timedelta(seconds=1) * 1_000_000_000 + nanos)


def _refused(found: Any) -> Any:
    raise ValueError(found)


_PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "boolean": _of(bool),
    "integer": _whole(32),
    "long": _whole(64),
    "float": _float,
    "double": _double,
    "string": _of(str),
    "binary": _binary,
    "uuid": _uuid,
    "date": _date,
    "time": _time,
    "timestamp": lambda found: _timestamp(found, zoned=True),
    "timestamp_ntz": lambda found: _timestamp(found, zoned=False),
    "timestamp_ns": lambda found: _nanos(found, zoned=True),
    "timestamp_ntz_ns": lambda found: _nanos(found, zoned=False),
    "variant": _refused,
    "void": _refused,
}
