"""Schemas: read from JSON, and written back without loss (Iceberg spec, "Schemas and Data Types" and Appendix C)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import CorruptMetadataError, DeltabergError, SchemaError
from deltaberg.iceberg.schema.json_members import (
    edited,
    field_number,
    integer,
    integers,
    members,
    objects,
    optional,
    required,
    text,
)
from deltaberg.iceberg.schema.single_values import json_of_value, value_of_json
from deltaberg.iceberg.schema.type_names import TYPE, iceberg_type_name, is_shape_name, type_of_name
from deltaberg.schema.types import DataType, Field, List, Map, Struct

__all__ = ["Schema", "columns_text", "encode_schema", "read_schema"]

_DEEPEST = 100
_DEFAULT = "initial-default"
_FIELD_MEMBERS = frozenset({"id", "name", "required", "type"})
_NESTED_MEMBERS = {
    "struct": frozenset({"type", "fields"}),
    "list": frozenset({"type", "element-id", "element", "element-required"}),
    "map": frozenset({"type", "key-id", "key", "value-id", "value", "value-required"}),
}


@dataclass(frozen=True)
class Schema:
    """A schema of a table: its columns, its id, and the ids of the columns that identify a row.

    ``raw`` is the JSON object that it was read from, without the columns. The metadata of a column holds the members
    of its JSON object beside id, name, type and nullability, and what `TYPE` says.
    """

    struct: Struct
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def read_schema(source: Any) -> Schema:
    """Read a schema.

    Raises
    ------
    CorruptMetadataError
        If it is not a schema.
    UnsupportedFeatureError
        If a type is not known.
    """
    raw_schema = members(source, "a schema")
    if raw_schema.get("type") != "struct":
        raise CorruptMetadataError(f"a schema is of type {raw_schema.get('type')!r}, not struct")
    reader = _Reader()
    try:
        struct = reader.struct(raw_schema, 0, "")
    except RecursionError:
        raise CorruptMetadataError("the schema is nested too deeply") from None
    raw = _without(raw_schema, frozenset({"fields"}))
    return Schema(struct, *_numbers(raw), raw)


def _numbers(found: Mapping[str, Any]) -> tuple[int, tuple[int, ...]]:
    """Return the id of a schema, which version 1 may leave out, and the ids of identifier fields."""
    return optional(found, "schema-id", int, "a schema") or 0, integers(found, "identifier-field-ids", "a schema")


def _without(found: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


class _Reader:
    """Reads nested types and checks that no id occurs twice."""

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

    def _field(self, raw: Mapping[str, Any], depth: int, path: str) -> Field:
        name = text(raw, "name", "a field")
        number = self._id(raw, "id")
        column = path + name
        try:
            raw_type = required(raw, "type", (str, dict), f"the field {name!r}")
            kind = self.type(raw_type, depth + 1, column + ".")
            if isinstance(raw_type, str) and is_shape_name(raw_type) and raw.get(_DEFAULT) is not None:
                raise CorruptMetadataError(f"a {raw_type} has a default other than null")
            default = value_of_json(raw.get(_DEFAULT), kind)
        except DeltabergError as error:
            raise error.with_context(column=column) from None
        is_required = required(raw, "required", bool, f"the field {name!r}")
        kept = _without(raw, _FIELD_MEMBERS) | _beside(raw_type, kind)
        return Field(name, kind, not is_required, kept, number, default=default)

    def _id(self, found: Mapping[str, Any], key: str) -> int:
        number = field_number(integer(found, key, "a field"), key)
        if number in self._ids:
            raise CorruptMetadataError(f"the field id {number} occurs twice in a schema")
        self._ids.add(number)
        return number

    def type(self, raw: Any, depth: int, path: str) -> DataType:
        if depth > _DEEPEST:
            raise CorruptMetadataError("the schema is nested too deeply")
        if isinstance(raw, str):
            return type_of_name(raw)
        kind = raw.get("type")
        if kind == "struct":
            return self.struct(raw, depth, path)
        if kind == "list":
            return List(self._part(raw, "element", depth, path))
        if kind == "map":
            key = self._part(raw, "key", depth, path)
            return Map(key, self._part(raw, "value", depth, path))
        raise CorruptMetadataError(f"{kind!r} is not a nested type")

    def _part(self, raw: Mapping[str, Any], name: str, depth: int, path: str) -> Field:
        """Read the element of a list, or the key or value of a map."""
        what = f"a type with {name}s"
        number = self._id(raw, f"{name}-id")
        is_required = name == "key" or required(raw, f"{name}-required", bool, what)
        raw_type = required(raw, name, (str, dict), what)
        kind = self.type(raw_type, depth + 1, f"{path}{name}.")
        return Field(name, kind, not is_required, _beside(raw_type, kind), number)


def _beside(given: str | Mapping[str, Any], kind: DataType) -> dict[str, Any]:
    """Return what the metadata of a field keeps of its JSON type."""
    if isinstance(given, str):
        return {} if given == iceberg_type_name(kind) else {TYPE: given}
    more = _without(given, _NESTED_MEMBERS[given["type"]])
    return {TYPE: more} if more else {}


def columns_text(columns: Struct) -> str:
    """Return the JSON text of columns: by it the defaults 0.0 and -0.0 differ, which are equal as numbers."""
    return json.dumps(encode_schema(Schema(columns))["fields"], sort_keys=True)


def encode_schema(schema: Schema) -> dict[str, Any]:
    """Return the JSON object of a schema: exactly the one that it was read from, but for what has changed since.

    Raises
    ------
    SchemaError
        If a column has no id, or a type that Iceberg does not have.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> encode_schema(Schema(Struct((Field("id", Primitive("long"), nullable=False, id=1),))))["fields"]
    [{'id': 1, 'name': 'id', 'required': True, 'type': 'long'}]
    """
    new = {"type": "struct"}
    was = _of_numbers(*_numbers(schema.raw)) if schema.raw else {}
    now = _of_numbers(schema.schema_id, schema.identifier_field_ids)
    return {**edited(schema.raw or new, now, was), "fields": [_encoded_field(child) for child in schema.struct]}


def _of_numbers(schema_id: int, identifiers: tuple[int, ...]) -> dict[str, Any]:
    return {"schema-id": schema_id, "identifier-field-ids": list(identifiers) or None}


def _encoded_field(child: Field) -> dict[str, Any]:
    own = {"id": _id_of(child), "name": child.name, "required": not child.nullable, "type": _encoded_type(child)}
    more = _without(child.metadata, frozenset({TYPE}))
    if child.default is None:
        if more.get(_DEFAULT) is not None:
            del more[_DEFAULT]
    elif not _is_default(more.get(_DEFAULT), child):
        more[_DEFAULT] = json_of_value(child.default, child.type)
    return own | more


def _is_default(found: Any, child: Field) -> bool:
    """Return whether the JSON that is kept still means the field's default."""
    try:
        return bool(value_of_json(found, child.type) == child.default)
    except CorruptMetadataError:
        return False


def _id_of(child: Field) -> int:
    if child.id is None:
        raise SchemaError(f"the column {child.name!r} has no field id", column=child.name)
    return child.id


def _encoded_type(child: Field) -> Any:
    kind, kept = child.type, child.metadata.get(TYPE)
    more = kept if isinstance(kept, Mapping) else {}
    if isinstance(kind, Struct):
        return {"type": "struct", "fields": [_encoded_field(inner) for inner in kind], **more}
    if isinstance(kind, List):
        return {"type": "list", **_encoded_part("element", kind.element), **more}
    if isinstance(kind, Map):
        parts = _encoded_part("key", kind.key) | _encoded_part("value", kind.value)
        del parts["key-required"]
        return {"type": "map", **parts, **more}
    # The metadata of a column that was widened may still hold the name of its old type.
    return kept if isinstance(kept, str) and type_of_name(kept) == kind else iceberg_type_name(kind)


def _encoded_part(name: str, part: Field) -> dict[str, Any]:
    return {f"{name}-id": _id_of(part), name: _encoded_type(part), f"{name}-required": not part.nullable}
