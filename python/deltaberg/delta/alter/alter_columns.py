"""Changes of single columns in the schema of a table, as far as files stay as they are.

Delta protocol, "Schema Serialization Format", "Column Mapping" and "Type Widening".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltaberg.delta.properties.protocols import features_of_schema
from deltaberg.delta.schema.column_mapping import COLUMN_ID, PHYSICAL_NAME
from deltaberg.delta.schema.new_columns import ColumnNumbers
from deltaberg.delta.schema.schema_json import SchemaDocument, deepest_field
from deltaberg.delta.schema.type_changes import is_widening, record_type_change
from deltaberg.errors import ColumnNotFoundError, SchemaError
from deltaberg.hints import verbatim
from deltaberg.schema.columns import ColumnName, dotted_path, find_column, join_name, split_name
from deltaberg.schema.types import DataType, Field, List, Map, Struct

__all__ = [
    "WIDENING",
    "allow_nulls",
    "fields_of",
    "map_fields",
    "nested_column",
    "set_comment",
    "widen_field",
]

#: The features by which columns become wider.
WIDENING = frozenset({"typeWidening", "typeWidening-preview"})

_COMMENT = "comment"


def set_comment(document: SchemaDocument, schema: Struct, name: ColumnName, text: str | None) -> None:
    """Set the comment of a column, or of a field of a struct; None removes it."""
    path = nested_column(schema, name)
    fields_of(schema, path[:-1])
    field = document.field(*(part.name for part in path))
    metadata = dict(field.get("metadata") or {})
    if text is None:
        metadata.pop(_COMMENT, None)
    else:
        metadata[_COMMENT] = text
    field["metadata"] = metadata


def allow_nulls(document: SchemaDocument, schema: Struct, name: ColumnName) -> None:
    """Let a column, or a field of a struct, be null."""
    path = nested_column(schema, name)
    fields_of(schema, path[:-1])
    document.field(*(part.name for part in path))["nullable"] = True


def widen_field(document: SchemaDocument, schema: Struct, name: ColumnName, wider: DataType) -> set[str]:
    """Change the type of a column to a wider one, and return the table features that it needs.

    Parameters
    ----------
    name
        The column; ``element``, ``key`` and ``value`` lead into lists and maps.

    Raises
    ------
    SchemaError
        The type is not one that files with the old type can be read as.
    ColumnNotFoundError
        There is no such column.
    """
    path = nested_column(schema, name)
    old, new = str(path[-1].type), str(wider)
    names = [field.name for field in path]
    if old == new or not is_widening(old, new):
        raise SchemaError(
            f"a column of the type {old} cannot become {new} without writing its files anew",
            hint="integers become wider integers, double or decimals; float becomes double; decimals gain digits; "
            "date becomes timestamp_ntz",
            column=join_name(names),
        )
    holder = deepest_field(path)
    field = document.field(*names[: holder + 1])
    document.set_type(new, *names)
    record_type_change(field, old, new, tuple(names[holder + 1 :]))
    return features_of_schema(Struct((Field("new", wider),)))


def nested_column(schema: Struct, name: ColumnName) -> tuple[Field, ...]:
    """Return the fields from the root to a column, which may be inside lists and maps.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> schema = Struct((Field("a", List(Field("element", Struct((Field("x", Primitive("long")),))))),))
    >>> [field.name for field in nested_column(schema, "a.element.X")]
    ['a', 'element', 'x']
    """
    if isinstance(name, str) and schema.get(name) is not None:
        return find_column(schema, name)
    parts = dotted_path(schema, split_name(name))
    path: list[Field] = []
    inside: DataType = schema
    for depth, part in enumerate(parts, start=1):
        if isinstance(inside, Struct):
            child = find_column(inside, (part,))[-1]
        else:
            parents = {"element": inside.element} if isinstance(inside, List) else {}
            if isinstance(inside, Map):
                parents = {"key": inside.key, "value": inside.value}
            if part not in parents:
                shown, names = join_name(parts[:depth]), sorted(parents)
                hint = f"{' and '.join(names)} lead into {verbatim(join_name(parts[: depth - 1]))}" if names else None
                raise ColumnNotFoundError(f"there is no column {shown!r}", hint=hint, column=shown)
            child = parents[part]
        path.append(child)
        inside = child.type
    return tuple(path)


def fields_of(schema: Struct, path: Sequence[Field]) -> Struct:
    """Return the struct at a path: the schema itself if the path is empty.

    Raises
    ------
    ColumnNotFoundError
        There is no struct, but a list, a map, or a value without parts.
    """
    parent = path[-1].type if path else schema
    if not isinstance(parent, Struct):
        raise ColumnNotFoundError(
            "only columns and fields of structs have names", column=join_name([field.name for field in path])
        )
    return parent


def map_fields(fields: list[dict[str, Any]], numbers: ColumnNumbers) -> None:
    """Assign ids to the fields of a struct at every depth, and their names as physical names."""
    for field in fields:
        numbers.highest += 1
        metadata = dict(field.get("metadata") or {})
        field["metadata"] = {**metadata, COLUMN_ID: numbers.highest, PHYSICAL_NAME: field["name"]}
        _map_type(field.get("type"), numbers)


def _map_type(kind: Any, numbers: ColumnNumbers) -> None:
    if not isinstance(kind, dict):
        return
    if isinstance(kind.get("fields"), list):
        map_fields(kind["fields"], numbers)
    for inside in ("elementType", "keyType", "valueType", "sqlType"):
        _map_type(kind.get(inside), numbers)
