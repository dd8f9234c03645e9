"""Single values in JSON: defaults (Iceberg spec, Appendix D, "JSON single-value serialization")."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal as PyDecimal
from decimal import InvalidOperation
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.schema import DataType, Decimal, Fixed, List, Map, Primitive, Struct

__all__ = ["value_of_json"]

_EPOCH = dt.datetime(1970, 1, 1)
_NANOS = 9


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
    except (ValueError, TypeError, KeyError, ArithmeticError, InvalidOperation, AttributeError) as error:
        raise CorruptMetadataError(f"the default {found!r} is no {kind}") from error


def _value(found: Any, kind: DataType) -> Any:
    if isinstance(kind, Primitive):
        return _PRIMITIVES[kind.name](found)
    if isinstance(kind, Decimal):
        value = PyDecimal(found)
        if -int(value.as_tuple().exponent) > kind.scale:
            raise ValueError(found)
        return value
    if isinstance(kind, Fixed):
        raw = bytes.fromhex(found)
        if len(raw) != kind.length:
            raise ValueError(found)
        return raw
    if isinstance(kind, Struct):
        # A field that is not named has the default of its own.
        return {
            child.name: child.default if str(child.id) not in found else value_of_json(found[str(child.id)], child.type)
            for child in kind
        }
    if isinstance(kind, List):
        return [value_of_json(element, kind.element.type) for element in found]
    if isinstance(kind, Map):
        keys = [value_of_json(key, kind.key.type) for key in found["keys"]]
        return list(zip(keys, [value_of_json(value, kind.value.type) for value in found["values"]], strict=True))
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


def _number(found: Any) -> float:
    return float(_of((int, float))(found))


def _naive(found: str) -> dt.datetime:
    value = dt.datetime.fromisoformat(found)
    if value.tzinfo is not None:
        raise ValueError(found)
    return value


def _zoned(found: str) -> dt.datetime:
    value = dt.datetime.fromisoformat(found.removesuffix("Z") + ("+00:00" if found.endswith("Z") else ""))
    if value.tzinfo is None:
        raise ValueError(found)
    return value


def _nanos(found: str, read: Callable[[str], dt.datetime]) -> int:
    """Give nanoseconds since 1970: Python's timestamps end at microseconds."""
    head, point, tail = found.partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    zone = tail[len(digits) :] if point else ""
    if len(digits) > _NANOS:
        raise ValueError(found)
    value = read(head + zone)
    plain = value if value.tzinfo is None else value.astimezone(dt.timezone.utc).replace(tzinfo=None)
    seconds = (plain - _EPOCH) // dt.timedelta(seconds=1)
    return seconds * 10**_NANOS + int(digits.ljust(_NANOS, "0"))


def _refused(found: Any) -> Any:
    raise ValueError(found)


_PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "boolean": _of(bool),
    "integer": _whole(32),
    "long": _whole(64),
    "float": _number,
    "double": _number,
    "string": _of(str),
    "binary": bytes.fromhex,
    "uuid": lambda found: uuid.UUID(found).bytes,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timestamp": _zoned,
    "timestamp_ntz": _naive,
    "timestamp_ns": lambda found: _nanos(found, _zoned),
    "timestamp_ntz_ns": lambda found: _nanos(found, _naive),
    "variant": _refused,
    "void": _refused,
}
