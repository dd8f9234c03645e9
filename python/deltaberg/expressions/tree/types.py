"""The types of values: what Spark converts on its own, in its ANSI mode, before it compares or computes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct

__all__ = [
    "BINARY",
    "BOOLEAN",
    "BYTE",
    "DATE",
    "DOUBLE",
    "FLOAT",
    "INTEGER",
    "INTEGER_BITS",
    "LONG",
    "MICROS_OF",
    "NTZ",
    "NTZ_NANOS",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_NANOS",
    "UUID",
    "VOID",
    "bounded_decimal",
    "common_type",
    "decimal_of",
    "is_bytes",
    "is_floating",
    "is_integral",
    "is_moment",
    "is_numeric",
    "is_same",
    "keeps_numbers",
    "nanos_of",
    "result_decimal",
]

BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, NTZ, VOID = map(
    Primitive,
    (
        *("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date"),
        *("timestamp", "timestamp_ntz", "void"),
    ),
)
#: Types that Iceberg has and Spark lacks.
UUID, TIME, NTZ_NANOS, TIMESTAMP_NANOS = map(Primitive, ("uuid", "time", "timestamp_ntz_ns", "timestamp_ns"))
#: The type of microseconds for each one of nanoseconds.
MICROS_OF: dict[DataType, DataType] = {NTZ_NANOS: NTZ, TIMESTAMP_NANOS: TIMESTAMP}
_NANOS_OF: dict[DataType, DataType] = {micros: nanos for nanos, micros in MICROS_OF.items()}
INTEGER_BITS: dict[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
_ORDER: list[DataType] = [BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE]
_DIGITS = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}
_TIMES: list[DataType] = [DATE, NTZ, TIMESTAMP]
_MOST_DIGITS = 38
#: Where digits must be dropped, this many stay after the point, if there are so many.
_LEAST_SCALE = 6


def is_integral(kind: DataType) -> bool:
    """Return whether a type is one of the four of whole numbers."""
    return kind in INTEGER_BITS


def is_floating(kind: DataType) -> bool:
    """Return whether a type is float or double."""
    return kind in (FLOAT, DOUBLE)


def is_numeric(kind: DataType) -> bool:
    """Return whether a type is one of numbers."""
    return is_integral(kind) or is_floating(kind) or isinstance(kind, Decimal)


def is_moment(kind: DataType) -> bool:
    """Return whether a type is one of dates and timestamps."""
    return kind in _TIMES or kind in MICROS_OF


def is_bytes(kind: DataType) -> bool:
    """Return whether the values of a type are bytes: of any length, of a fixed length, or those of a UUID."""
    return kind in (BINARY, UUID) or isinstance(kind, Fixed)


def is_same(left: DataType, right: DataType) -> bool:
    """Return whether values of two types are stored alike: only ids, nullability and other metadata may differ."""
    if isinstance(left, List) and isinstance(right, List):
        return is_same(left.element.type, right.element.type)
    if isinstance(left, Map) and isinstance(right, Map):
        return is_same(left.key.type, right.key.type) and is_same(left.value.type, right.value.type)
    if isinstance(left, Struct) and isinstance(right, Struct):
        return left.names == right.names and all(
            is_same(one.type, other.type) for one, other in zip(left, right, strict=True)
        )
    return left == right


def keeps_numbers(source: DataType, to: DataType) -> bool:
    """Return whether a type of whole numbers or decimals has all numbers of another one."""
    bits = INTEGER_BITS.get(source)
    if bits is not None and to in INTEGER_BITS:
        return bits <= INTEGER_BITS[to]
    narrow = decimal_of(source) if isinstance(to, Decimal) else None
    if narrow is None or not isinstance(to, Decimal):
        return False
    return narrow.scale <= to.scale and narrow.precision - narrow.scale <= to.precision - to.scale


def decimal_of(kind: DataType) -> Decimal | None:
    """Return the decimal that holds all values of an integral or decimal type."""
    if isinstance(kind, Decimal):
        return kind
    digits = _DIGITS.get(kind) if isinstance(kind, Primitive) else None
    return None if digits is None else Decimal(digits, 0)


def bounded_decimal(precision: int, scale: int) -> Decimal:
    """Return a decimal, limited to 38 digits by dropping digits on the right, but not beyond the sixth."""
    if precision <= _MOST_DIGITS:
        return Decimal(precision, scale)
    whole = precision - scale
    least = min(scale, _LEAST_SCALE)
    return Decimal(_MOST_DIGITS, max(_MOST_DIGITS - whole, least))


def result_decimal(operator: str, left: Decimal, right: Decimal) -> Decimal:
    """Return the type of an operation on decimals."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    scale = max(s1, s2)
    if operator in ("+", "-"):
        return bounded_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator == "*":
        return bounded_decimal(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        return bounded_decimal(p1 - s1 + s2 + scale, scale)
    # The remainders % and pmod.
    return bounded_decimal(min(p1 - s1, p2 - s2) + scale, scale)


def common_type(kinds: Iterable[DataType]) -> DataType | None:
    """Return the type to which Spark converts values that must have one type. None if there is none."""
    common: DataType | None = VOID
    for kind in kinds:
        if kind is common or common is None:
            continue
        common = kind if common is VOID else _wider(common, kind)
    return common


def _wider(left: DataType, right: DataType) -> DataType | None:
    if right in (left, VOID):
        return left
    if left == VOID:
        return right
    if isinstance(left, (List, Map, Struct)) or isinstance(right, (List, Map, Struct)):
        return _wider_nested(left, right)
    return _wider_leaf(left, right)


@lru_cache(maxsize=256)
def _wider_leaf(left: DataType, right: DataType) -> DataType | None:
    if STRING in (left, right):
        return _wider_than_text(right if left == STRING else left)
    if is_numeric(left) and is_numeric(right):
        return _wider_number(left, right)
    if is_moment(left) and is_moment(right):
        return _wider_moment(left, right)
    # Bytes of another length differ, which is no failure.
    return BINARY if is_bytes(left) and is_bytes(right) else None


def _wider_than_text(other: DataType) -> DataType | None:
    if is_integral(other):
        return LONG
    if is_floating(other) or isinstance(other, Decimal):
        return DOUBLE
    return other if other in (BOOLEAN, BINARY, UUID, TIME) or is_moment(other) else None


def _wider_moment(left: DataType, right: DataType) -> DataType:
    wider = max(MICROS_OF.get(left, left), MICROS_OF.get(right, right), key=_TIMES.index)
    return nanos_of(wider) or wider if left in MICROS_OF or right in MICROS_OF else wider


def nanos_of(kind: DataType) -> DataType | None:
    """Return the type of nanoseconds for one of microseconds; None for any other type."""
    return _NANOS_OF.get(kind)


def _wider_number(left: DataType, right: DataType) -> DataType:
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        first, second = decimal_of(left), decimal_of(right)
        if first is None or second is None:
            return DOUBLE
        scale = max(first.scale, second.scale)
        precision = max(first.precision - first.scale, second.precision - second.scale) + scale
        # The digits before the point are kept first.
        beyond = max(precision - _MOST_DIGITS, 0)
        return Decimal(precision - beyond, max(scale - beyond, 0))
    if FLOAT in (left, right) and (is_integral(left) or is_integral(right)):
        return DOUBLE
    return max(left, right, key=_ORDER.index)


def _wider_nested(left: DataType, right: DataType) -> DataType | None:
    if isinstance(left, List) and isinstance(right, List):
        element = _wider(left.element.type, right.element.type)
        nullable = left.element.nullable or right.element.nullable
        return None if element is None else List(Field("element", element, nullable))
    if isinstance(left, Map) and isinstance(right, Map):
        key, value = _wider(left.key.type, right.key.type), _wider(left.value.type, right.value.type)
        if key is None or value is None:
            return None
        return Map(Field("key", key, nullable=False), Field("value", value))
    if isinstance(left, Struct) and isinstance(right, Struct) and len(left) == len(right):
        fields = []
        for one, other in zip(left, right, strict=True):
            kind = _wider(one.type, other.type)
            if kind is None or one.name.lower() != other.name.lower():
                return None
            fields.append(Field(one.name, kind))
        return Struct(tuple(fields))
    return None
