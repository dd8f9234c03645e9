"""Delta schemas: from JSON to table types (Delta protocol, "Schema Serialization Format")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltaberg.delta.schema.column_mapping import check_mapping, read_mapping, with_inner_ids
from deltaberg.delta.schema.text_types import TEXT_TYPE, text_length, with_text_types
from deltaberg.delta.schema.type_changes import DECIMAL, check_type_changes
from deltaberg.errors import CorruptLogError, SchemaError, UnsupportedFeatureError
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct, TextLength

__all__ = ["PRIMITIVES", "parse_schema", "partition_type_name", "primitive_name"]

#: The names of the types of Delta, besides decimals and those that have types inside them.
PRIMITIVES = frozenset(
    {
        *("string", "binary", "boolean", "byte", "short", "integer", "long", "float", "double"),
        *("date", "timestamp", "timestamp_ntz", "void", "variant"),
    }
)
_ALIASES = {"null": "void", "int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
_MAX_DEPTH = 100
_MAX_PRECISION = 38


def parse_schema(text: str, mapping_mode: str = "none") -> Struct:
    """Read the ``schemaString`` of a table.

    Parameters
    ----------
    mapping_mode
        ``none``, ``name`` or ``id``. With ``none``, metadata of column mapping is ignored, and files use the names
        of the columns.

    Raises
    ------
    CorruptLogError
        If the text is not a schema, or if its column mapping is incomplete or repeats an id or a name.
    UnsupportedFeatureError
        If a type is unknown.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptLogError(f"the schemaString is not JSON: {error}") from None
    mapped = mapping_mode != "none"
    if not isinstance(tree, dict) or tree.get("type") != "struct":
        raise CorruptLogError("the schemaString is not a struct")
    schema = _struct(tree, mapped, (), 0)
    if mapped:
        check_mapping(schema)
    return schema


def _struct(tree: Mapping[str, Any], mapped: bool, path: tuple[str, ...], depth: int) -> Struct:
    fields = tree.get("fields")
    if not isinstance(fields, list):
        raise CorruptLogError("a struct of the schema has no list of fields", column=".".join(path) or None)
    return Struct(tuple(_field(field, mapped, path, depth) for field in fields))


def _field(tree: Any, mapped: bool, path: tuple[str, ...], depth: int) -> Field:
    if not isinstance(tree, dict) or not isinstance(tree.get("name"), str):
        raise CorruptLogError("a field of the schema has no name", column=".".join(path) or None)
    name = tree["name"]
    here = (*path, name)
    metadata = tree.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise CorruptLogError("the metadata of a field is not an object", column=".".join(here))
    field_type = _type(tree.get("type"), mapped, here, depth + 1)
    check_type_changes(metadata.get("delta.typeChanges"), ".".join(here))
    field_id, physical_name = read_mapping(metadata, here) if mapped else (None, name)
    if mapped:
        field_type = with_inner_ids(field_type, metadata, (physical_name, name))
    nullable = tree.get("nullable", True) is not False
    made = Field(name, field_type, nullable, metadata, field_id, physical_name, length=_length(tree.get("type")))
    recorded = metadata.get(TEXT_TYPE)
    return made if recorded is None else with_text_types(made, recorded)


def _type(tree: Any, mapped: bool, path: tuple[str, ...], depth: int) -> DataType:
    if depth > _MAX_DEPTH:
        raise CorruptLogError(f"the schema is nested deeper than {_MAX_DEPTH} levels", column=".".join(path[:3]))
    if isinstance(tree, str):
        return _primitive(tree, path)
    kind = tree.get("type") if isinstance(tree, dict) else None
    if kind == "struct":
        return _struct(tree, mapped, path, depth)
    if kind == "array":
        element = _type(tree.get("elementType"), mapped, (*path, "element"), depth + 1)
        length = _length(tree.get("elementType"))
        return List(Field("element", element, tree.get("containsNull", True) is not False, length=length))
    if kind == "map":
        key = _type(tree.get("keyType"), mapped, (*path, "key"), depth + 1)
        value = _type(tree.get("valueType"), mapped, (*path, "value"), depth + 1)
        nullable = tree.get("valueContainsNull", True) is not False
        lengths = _length(tree.get("keyType")), _length(tree.get("valueType"))
        return Map(
            Field("key", key, nullable=False, length=lengths[0]), Field("value", value, nullable, length=lengths[1])
        )
    if kind == "udt":
        # A user-defined type is stored as the SQL type behind it.
        return _type(tree.get("sqlType"), mapped, path, depth + 1)
    raise _unsupported(kind if isinstance(kind, str) else json.dumps(tree)[:80], path)


def _length(tree: Any) -> TextLength | None:
    return text_length(tree) if isinstance(tree, str) else None


def _primitive(name: str, path: tuple[str, ...]) -> DataType:
    name = _ALIASES.get(name, name)
    if name in PRIMITIVES:
        return Primitive(name)
    if name == "decimal":
        return Decimal(10, 0)
    found = DECIMAL.fullmatch(name)
    if found is not None:
        precision, scale = int(found[1]), int(found[2])
        if not (1 <= precision <= _MAX_PRECISION and scale <= precision):
            raise CorruptLogError(
                f"{name} is not a decimal type: the precision is at most {_MAX_PRECISION}", column=".".join(path)
            )
        return Decimal(precision, scale)
    if text_length(name) is not None:
        return Primitive("string")
    raise _unsupported(name, path)


def _unsupported(name: str, path: tuple[str, ...]) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the type {name:.100} is not supported", hint="upgrade deltaberg", feature=name[:100], column=".".join(path)
    )


def primitive_name(kind: DataType) -> str | None:
    """Return the name of a type whose partition values and statistics have a text form; None for other types."""
    if isinstance(kind, Decimal):
        return str(kind)
    if isinstance(kind, Primitive) and kind.name not in ("void", "variant"):
        return kind.name
    return None


def partition_type_name(field: Field) -> str:
    """Return the name of a partition column's type.

    Raises
    ------
    SchemaError
        If a table cannot be partitioned by such a column.
    """
    name = primitive_name(field.type)
    if name is None:
        raise SchemaError(f"a table cannot be partitioned by a column of type {field.type}", column=field.name)
    return name
