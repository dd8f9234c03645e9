"""Delta schemas: JSON to table types, and how column mapping names the columns in files.

Delta protocol, "Schema Serialization Format" and "Column Mapping".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from deltaberg.delta.type_changes import check_type_changes
from deltaberg.errors import CorruptLogError, SchemaError, UnsupportedFeatureError
from deltaberg.schema import DataType, Decimal, Field, List, Map, Primitive, Struct

__all__ = ["COLUMN_ID", "PHYSICAL_NAME", "parse_schema", "partition_type_name", "primitive_name", "schema_to_json"]

COLUMN_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"

_PRIMITIVES = frozenset(
    {
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "void",
        "variant",
    }
)
_ALIASES = {"null": "void", "int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_TEXT = re.compile(r"(?:var)?char\(\s*\d+\s*\)")
_MAX_DEPTH = 100
_MAX_PRECISION = 38


def parse_schema(text: str, mapping_mode: str = "none") -> Struct:
    """Read the ``schemaString`` of a table.

    Parameters
    ----------
    mapping_mode
        ``none``, ``name`` or ``id``. With ``none``, annotations of column mapping mean nothing and files use the
        names of the columns.

    Raises
    ------
    CorruptLogError
        Where the text is no schema, or its column mapping is incomplete or repeats an id or a name.
    UnsupportedFeatureError
        Where a type is not known.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptLogError(f"the schemaString is no JSON: {error}") from None
    mapped = mapping_mode != "none"
    if not isinstance(tree, dict) or tree.get("type") != "struct":
        raise CorruptLogError("the schemaString is no struct")
    schema = _struct(tree, mapped, (), 0)
    if mapped:
        _check_mapping(schema)
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
        raise CorruptLogError("the metadata of a field is no object", column=".".join(here))
    field_type = _type(tree.get("type"), mapped, here, depth + 1)
    check_type_changes(metadata.get("delta.typeChanges"), ".".join(here))
    field_id, physical_name = _mapping(metadata, here) if mapped else (None, name)
    return Field(name, field_type, tree.get("nullable", True) is not False, metadata, field_id, physical_name)


def _mapping(metadata: Mapping[str, Any], path: tuple[str, ...]) -> tuple[int, str]:
    field_id, physical_name = metadata.get(COLUMN_ID), metadata.get(PHYSICAL_NAME)
    if not isinstance(field_id, int) or isinstance(field_id, bool) or not isinstance(physical_name, str):
        raise CorruptLogError(
            f"column mapping is on and a column lacks {COLUMN_ID} or {PHYSICAL_NAME}", column=".".join(path)
        )
    if not -(1 << 31) <= field_id < 1 << 31:
        raise CorruptLogError(f"{COLUMN_ID} {field_id} is no integer of 32 bits", column=".".join(path))
    return field_id, physical_name


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
        return List(Field("element", element, tree.get("containsNull", True) is not False))
    if kind == "map":
        key = _type(tree.get("keyType"), mapped, (*path, "key"), depth + 1)
        value = _type(tree.get("valueType"), mapped, (*path, "value"), depth + 1)
        nullable = tree.get("valueContainsNull", True) is not False
        return Map(Field("key", key, nullable=False), Field("value", value, nullable))
    if kind == "udt":
        # A user-defined type is stored as the SQL type behind it.
        return _type(tree.get("sqlType"), mapped, path, depth + 1)
    raise _unsupported(kind if isinstance(kind, str) else json.dumps(tree)[:80], path)


def _primitive(name: str, path: tuple[str, ...]) -> DataType:
    name = _ALIASES.get(name, name)
    if name in _PRIMITIVES:
        return Primitive(name)
    if name == "decimal":
        return Decimal(10, 0)
    found = _DECIMAL.fullmatch(name)
    if found is not None:
        precision, scale = int(found[1]), int(found[2])
        if not (1 <= precision <= _MAX_PRECISION and scale <= precision):
            raise CorruptLogError(
                f"{name} is no decimal type: precision goes to {_MAX_PRECISION}", column=".".join(path)
            )
        return Decimal(precision, scale)
    if _TEXT.fullmatch(name):
        return Primitive("string")
    raise _unsupported(name, path)


def _unsupported(name: str, path: tuple[str, ...]) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the type {name} is not supported", hint="upgrade deltaberg", feature=name, column=".".join(path)
    )


def _check_mapping(schema: Struct) -> None:
    """Refuse ids that are given twice, and physical names that are given twice among the fields of one struct."""
    ids: dict[int | None, str] = {}
    for path, siblings in _structs(schema, ()):
        names: dict[str, str] = {}
        for field in siblings:
            shown = ".".join((*path, field.name))
            for kind, seen, value in (("id", ids, field.id), ("physical name", names, field.physical_name)):
                earlier = seen.setdefault(value, shown)  # type: ignore[arg-type]
                if earlier != shown:
                    raise CorruptLogError(f"columns {earlier} and {shown} have one column mapping {kind}, {value}")


def _structs(found: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Struct]]:
    if isinstance(found, Struct):
        yield path, found
        for field in found:
            yield from _structs(field.type, (*path, field.name))
    elif isinstance(found, List):
        yield from _structs(found.element.type, (*path, "element"))
    elif isinstance(found, Map):
        yield from _structs(found.key.type, (*path, "key"))
        yield from _structs(found.value.type, (*path, "value"))


def schema_to_json(schema: Struct) -> str:
    """Write a schema as a ``schemaString``.

    Examples
    --------
    >>> from deltaberg.schema import Field, Primitive, Struct
    >>> schema_to_json(Struct((Field("a", Primitive("integer"), nullable=False),)))
    '{"type":"struct","fields":[{"name":"a","type":"integer","nullable":false,"metadata":{}}]}'
    """
    return json.dumps(_to_tree(schema), ensure_ascii=False, separators=(",", ":"))


def _to_tree(found: DataType) -> Any:
    if isinstance(found, Struct):
        fields = [
            {
                "name": field.name,
                "type": _to_tree(field.type),
                "nullable": field.nullable,
                "metadata": dict(field.metadata),
            }
            for field in found
        ]
        return {"type": "struct", "fields": fields}
    if isinstance(found, List):
        return {
            "type": "array",
            "elementType": _to_tree(found.element.type),
            "containsNull": found.element.nullable,
        }
    if isinstance(found, Map):
        return {
            "type": "map",
            "keyType": _to_tree(found.key.type),
            "valueType": _to_tree(found.value.type),
            "valueContainsNull": found.value.nullable,
        }
    return str(found)


def primitive_name(found: DataType) -> str | None:
    """Give the name of a type of which partition values and statistics exist as text; None for others."""
    if isinstance(found, Decimal):
        return str(found)
    if isinstance(found, Primitive) and found.name not in ("void", "variant"):
        return found.name
    return None


def partition_type_name(field: Field) -> str:
    """Give the name of a partition column's type.

    Raises
    ------
    SchemaError
        Where a table cannot be partitioned by such a column.
    """
    name = primitive_name(field.type)
    if name is None:
        raise SchemaError(f"a table cannot be partitioned by a column of type {field.type}", column=field.name)
    return name
