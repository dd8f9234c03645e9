"""Iceberg schemas (Iceberg spec, "Schemas and Data Types" and Appendix C)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import CorruptMetadataError, DeltabergError, SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.json_members import field_number, integer, integers, members, objects, optional, required, text
from deltaberg.iceberg.single_value import value_of_json
from deltaberg.schema import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct

__all__ = ["SHAPE", "Schema", "iceberg_type_name", "read_schema"]

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
_GEO = re.compile(r"(geometry|geography)(\(.*\))?")
#: The metadata of a field that names the type of shapes, with their reference system.
SHAPE = "type"
_MOST_DIGITS = 38
_DEEPEST = 100


@dataclass(frozen=True)
class Schema:
    """A schema of a table: its columns, its id, and the ids of the columns that identify a row."""

    struct: Struct
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()


def iceberg_type_name(found: DataType) -> str:
    """Give the spec's name of a primitive type, as the kernels take it.

    Examples
    --------
    >>> iceberg_type_name(Primitive("timestamp"))
    'timestamptz'
    """
    if isinstance(found, Primitive):
        return _NAMES[found.name]
    return str(found)


def read_schema(source: Any) -> Schema:
    """Read a schema.

    Raises
    ------
    CorruptMetadataError
        Where it is not one.
    UnsupportedFeatureError
        Where a type is not known.
    """
    found = members(source, "a schema")
    if found.get("type") != "struct":
        raise CorruptMetadataError(f"a schema is of type {found.get('type')!r}, not struct")
    reader = _Reader()
    try:
        struct = reader.struct(found, 0, "")
    except RecursionError:
        raise CorruptMetadataError("the schema is nested too deeply") from None
    number = optional(found, "schema-id", int, "a schema")
    return Schema(struct, number or 0, integers(found, "identifier-field-ids", "a schema"))


class _Reader:
    """Reads nested types, and sees that no id stands twice."""

    def __init__(self) -> None:
        self._ids: set[int] = set()

    def struct(self, found: Mapping[str, Any], depth: int, path: str) -> Struct:
        required(found, "fields", list, "a struct")
        fields = tuple(self._field(child, depth, path) for child in objects(found, "fields", "a struct"))
        names = [child.name for child in fields]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise CorruptMetadataError(f"two fields of a struct are called {twice!r}", column=path + twice)
        return Struct(fields)

    def _field(self, found: Mapping[str, Any], depth: int, path: str) -> Field:
        name = text(found, "name", "a field")
        number = self._id(found, "id")
        column = path + name
        try:
            given = required(found, "type", (str, dict), f"the field {name!r}")
            kind = self.type(given, depth + 1, column + ".")
            is_shape = isinstance(given, str) and _GEO.fullmatch(given) is not None
            if is_shape and found.get("initial-default") is not None:
                raise CorruptMetadataError(f"a {given} has a default other than null")
            default = value_of_json(found.get("initial-default"), kind)
        except DeltabergError as error:
            raise error.with_context(column=column) from None
        kept = {key: found[key] for key in ("doc", "initial-default", "write-default") if found.get(key) is not None}
        if is_shape:
            kept[SHAPE] = given
        is_required = required(found, "required", bool, f"the field {name!r}")
        return Field(name, kind, not is_required, kept, number, default=default)

    def _id(self, found: Mapping[str, Any], key: str) -> int:
        number = field_number(integer(found, key, "a field"), key)
        if number in self._ids:
            raise CorruptMetadataError(f"the field id {number} stands twice in a schema")
        self._ids.add(number)
        return number

    def type(self, found: Any, depth: int, path: str) -> DataType:
        if depth > _DEEPEST:
            raise CorruptMetadataError("the schema is nested too deeply")
        if isinstance(found, str):
            return _primitive(found)
        kind = found.get("type")
        if kind == "struct":
            return self.struct(found, depth, path)
        if kind == "list":
            return List(self._part(found, "element", "element", depth, path))
        if kind == "map":
            key = self._part(found, "key", "key", depth, path)
            return Map(key, self._part(found, "value", "value", depth, path))
        raise CorruptMetadataError(f"{kind!r} is no nested type")

    def _part(self, found: Mapping[str, Any], name: str, what: str, depth: int, path: str) -> Field:
        number = self._id(found, f"{name}-id")
        is_required = name == "key" or required(found, f"{name}-required", bool, f"a type with {what}s")
        inner = self.type(required(found, name, (str, dict), f"a type with {what}s"), depth + 1, f"{path}{name}.")
        return Field(name, inner, not is_required, id=number)


def _primitive(name: str) -> DataType:
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
    if _GEO.fullmatch(name):
        # Values are well-known binary; the field keeps the reference system (`SHAPE`).
        return Primitive("binary")
    raise UnsupportedFeatureError(
        f"the type {name!r} is not supported", hint="a newer version of this library may know it", feature=name
    )
