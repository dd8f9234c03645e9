"""The specification's names of types (Iceberg spec, "Primitive Types" and Appendix C, "Schemas")."""

from __future__ import annotations

import re

from deltaberg.errors import SchemaError, UnsupportedFeatureError
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, Primitive

__all__ = ["TYPE", "iceberg_type_name", "is_shape", "is_shape_name", "shown_type", "type_of_name"]

#: The spec's names of primitive types, and ours.
_PRIMITIVES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "timestamp_ns": "timestamp_ntz_ns",
    "timestamptz_ns": "timestamp_ns",
    "string": "string",
    "uuid": "uuid",
    "binary": "binary",
    "variant": "variant",
    "unknown": "void",
}
_NAMES = {ours: theirs for theirs, ours in _PRIMITIVES.items()}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,4})\s*,\s*([0-9]{1,4})\s*\)")
_FIXED = re.compile(r"fixed\[\s*([0-9]{1,9})\s*\]")
_SHAPE = re.compile(r"(geometry|geography)(\(.*\))?")
_MOST_DIGITS = 38
#: The key in a field's metadata for what our types do not hold of the JSON type: the name as it was spelled, if
#: `iceberg_type_name` spells it differently (geometry with its reference system is ``binary`` to us), or the members of
#: a nested type that are not known.
TYPE = "type"


def iceberg_type_name(kind: DataType) -> str:
    """Return the specification's name of a type that is not nested.

    Examples
    --------
    >>> iceberg_type_name(Primitive("timestamp"))
    'timestamptz'
    >>> iceberg_type_name(Fixed(16)), iceberg_type_name(Decimal(9, 2))
    ('fixed[16]', 'decimal(9, 2)')
    """
    if isinstance(kind, Decimal):
        return f"decimal({kind.precision}, {kind.scale})"
    if isinstance(kind, Fixed):
        return f"fixed[{kind.length}]"
    name = _NAMES.get(kind.name) if isinstance(kind, Primitive) else None
    if name is None:
        raise SchemaError(f"Iceberg has no type {kind}", hint="integers of fewer than 32 bits are stored as integer")
    return name


def shown_type(kind: DataType) -> str:
    """Return what messages call a type: times of Spark have other names here, one of which means another type there.

    Examples
    --------
    >>> shown_type(Primitive("timestamp_ntz")), shown_type(Primitive("date"))
    ('timestamp_ntz (timestamp to Iceberg)', 'date')
    """
    name = _NAMES.get(kind.name, "") if isinstance(kind, Primitive) else ""
    return f"{kind} ({name} to Iceberg)" if name.startswith("timestamp") else str(kind)


def type_of_name(name: str) -> DataType:
    """Return the type that the specification gives this name; shapes are ``binary``, as their values are bytes.

    Raises
    ------
    SchemaError
        If it is a decimal of more than 38 digits, or one with a scale above its precision.
    UnsupportedFeatureError
        If no type with this name is known.

    Examples
    --------
    >>> print(type_of_name("decimal(9,2)"))
    decimal(9,2)
    """
    known = _PRIMITIVES.get(name)
    if known is not None:
        return Primitive(known)
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        if not 1 <= precision <= _MOST_DIGITS or scale > precision:
            raise SchemaError(f"{name} has more than {_MOST_DIGITS} digits, or fewer than its scale")
        return Decimal(precision, scale)
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        return Fixed(int(fixed[1]))
    if is_shape_name(name):
        return Primitive("binary")
    raise UnsupportedFeatureError(
        f"the type {name!r} is not supported", hint="a newer version of this library may support it", feature=name
    )


def is_shape_name(name: str) -> bool:
    """Return whether a name is ``geometry`` or ``geography``, with or without parameters."""
    return _SHAPE.fullmatch(name) is not None


def is_shape(child: Field) -> bool:
    """Return whether a field holds shapes: its bounds are points, not values of the column's type."""
    spelled = child.metadata.get(TYPE)
    return child.type == Primitive("binary") and isinstance(spelled, str) and is_shape_name(spelled)
