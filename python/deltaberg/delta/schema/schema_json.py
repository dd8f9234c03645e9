"""Delta schemas as JSON text: written from table types, and changed field by field.

Delta protocol, "Schema Serialization Format".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from deltaberg.errors import ColumnNotFoundError, CorruptLogError
from deltaberg.lossless_json import read_json, write_json
from deltaberg.schema.columns import join_name
from deltaberg.schema.types import DataType, Field, List, Map, Struct

__all__ = ["SchemaDocument", "deepest_field", "field_to_json", "recorded_column", "schema_to_json"]

#: Where a type keeps the type inside it, by the name of the step that leads there.
_INSIDE = {"array": {"element": "elementType"}, "map": {"key": "keyType", "value": "valueType"}}


class SchemaDocument:
    """The ``schemaString`` of a table, to be changed field by field.

    What no change touches is written as it was read, including members and metadata that this library does not
    understand. The fields that `field` and `fields` return are parts of the document: changing them changes it. Paths
    are names of columns from the root, with ``element``, ``key`` and ``value`` for what is inside lists and maps.

    Parameters
    ----------
    text
        The ``schemaString``.

    Raises
    ------
    CorruptLogError
        The text is not a schema.

    Examples
    --------
    >>> text = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{"weight":1.50}}]}'
    >>> document = SchemaDocument(text)
    >>> document.field("a")["name"] = "b"
    >>> document.to_json()
    '{"type":"struct","fields":[{"name":"b","type":"long","nullable":true,"metadata":{"weight":1.50}}]}'
    """

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._tree = read_json(text)
        except (ValueError, RecursionError) as error:
            raise CorruptLogError(f"the schemaString is not JSON: {error}") from None

    def fields(self, *path: str) -> list[dict[str, Any]]:
        """Return the fields of the schema, or of the struct at a path.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        CorruptLogError
            It is not a struct.
        """
        return _fields(self._type_at(path), path)

    def field(self, *path: str) -> dict[str, Any]:
        """Return the field at a path.

        Raises
        ------
        ColumnNotFoundError
            There is no such field.
        CorruptLogError
            What is around it is not a struct.
        """
        return _named(self.fields(*path[:-1]), path)

    def set_type(self, kind: Any, *path: str) -> None:
        """Set the type of a field of a struct, or of what is inside a list or a map, to one that is written as JSON.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        """
        holder, member = _place(self._type_at(path[:-1]), path)
        holder[member] = kind

    def _type_at(self, path: tuple[str, ...]) -> Any:
        tree = self._tree
        for depth in range(1, len(path) + 1):
            holder, member = _place(tree, path[:depth])
            tree = holder.get(member)
        return tree

    def to_json(self) -> str:
        """Return the schema as text: the very text that was read, unless something changed."""
        return self._text if self._tree == read_json(self._text) else write_json(self._tree)


def all_fields(within: Any) -> Iterator[dict[str, Any]]:
    """Return the fields of structs at every depth of a part of a schema."""
    if isinstance(within, list):
        for field in within:
            yield field
            yield from all_fields(field.get("type"))
    elif isinstance(within, dict):
        for member in ("fields", "elementType", "keyType", "valueType", "sqlType"):
            yield from all_fields(within.get(member))


def _place(tree: Any, path: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """Return the object, and its member, in which a type holds that of its column, element, key or value at a path."""
    holder = _storage_type(tree)
    kind = holder.get("type") if isinstance(holder, dict) else None
    if kind == "struct":
        return _named(_fields(holder, path[:-1]), path), "type"
    inside = _INSIDE.get(str(kind), {}).get(path[-1])
    if inside is None:
        raise _not_found(path)
    return holder, inside


def _fields(tree: Any, path: tuple[str, ...]) -> list[dict[str, Any]]:
    found = _storage_type(tree)
    fields = found.get("fields") if isinstance(found, dict) and found.get("type") == "struct" else None
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise CorruptLogError("the schema has no struct here", column=".".join(path) or None)
    return fields


def _named(fields: list[dict[str, Any]], path: tuple[str, ...]) -> dict[str, Any]:
    found = next((field for field in fields if field.get("name") == path[-1]), None)
    if found is None:
        raise _not_found(path)
    return found


def _not_found(path: tuple[str, ...]) -> ColumnNotFoundError:
    return ColumnNotFoundError(f"the schema has no column {'.'.join(path)}", column=".".join(path))


def _storage_type(tree: Any) -> Any:
    """Return the SQL type behind a user-defined type."""
    while isinstance(tree, dict) and tree.get("type") == "udt":
        tree = tree.get("sqlType")
    return tree


def deepest_field(path: Sequence[Field]) -> int:
    """Return the place of the last part of a path from the root that is a column, or a field of a struct."""
    return max(place for place in range(len(path)) if not place or isinstance(path[place - 1].type, Struct))


def recorded_column(document: SchemaDocument, path: Sequence[Field]) -> str:
    """Return a column as the history records it after a change, in the form that delta-spark gives to it.

    Parameters
    ----------
    path
        The fields from the root. Of a path into a list or a map, the field counts that holds it.

    Examples
    --------
    >>> text = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{"comment":"no"}}]}'
    >>> from deltaberg.schema.types import Primitive
    >>> recorded_column(SchemaDocument(text), [Field("a", Primitive("long"))])
    '{"name":"a","type":"long","nullable":true,"metadata":{"comment":"no"}}'
    """
    names = [field.name for field in path[: deepest_field(path) + 1]]
    column = document.field(*names)
    kind = column.get("type")
    shown = {
        "name": join_name(names),
        "type": kind.get("type") if isinstance(kind, dict) else kind,
        "nullable": column.get("nullable"),
        "metadata": column.get("metadata") or {},
    }
    return write_json(shown)


def schema_to_json(schema: Struct) -> str:
    """Return a new schema as a ``schemaString``.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive, Struct
    >>> schema_to_json(Struct((Field("a", Primitive("integer"), nullable=False),)))
    '{"type":"struct","fields":[{"name":"a","type":"integer","nullable":false,"metadata":{}}]}'
    """
    return write_json(type_to_json(schema))


def field_to_json(field: Field) -> dict[str, Any]:
    """Return a new field as the JSON object that a schema lists."""
    return {
        "name": field.name,
        "type": type_to_json(field.type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def type_to_json(kind: DataType) -> Any:
    if isinstance(kind, Struct):
        return {"type": "struct", "fields": [field_to_json(field) for field in kind]}
    if isinstance(kind, List):
        return {
            "type": "array",
            "elementType": type_to_json(kind.element.type),
            "containsNull": kind.element.nullable,
        }
    if isinstance(kind, Map):
        return {
            "type": "map",
            "keyType": type_to_json(kind.key.type),
            "valueType": type_to_json(kind.value.type),
            "valueContainsNull": kind.value.nullable,
        }
    return str(kind)
