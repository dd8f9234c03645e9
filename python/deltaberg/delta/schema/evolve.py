"""Changing the columns of a table with the rows that are written: adding columns, or replacing all of them.

Delta protocol, "Schema Serialization Format" and "Column Mapping".
"""

from __future__ import annotations

from collections.abc import Iterator

from deltaberg.delta.schema.new_columns import ColumnNumbers, check_columns
from deltaberg.delta.schema.schema_json import SchemaDocument, field_to_json, type_to_json
from deltaberg.delta.schema.type_changes import is_widening
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct, nullable_field
from deltaberg.schema.void_columns import VOID

__all__ = ["merged_schema", "wider_columns"]

_INTEGERS = ("byte", "short", "integer", "long")

_Path = tuple[str, ...]


def merged_schema(text: str, table: Struct, rows: Struct, numbers: ColumnNumbers | None) -> str:
    """Return the ``schemaString`` of a table with the columns that rows have in addition.

    New columns, and new fields of structs, come last and may be null. Columns that the table has stay as they are, but
    those of the type void take the type of the rows; the text is the very same if there is nothing new.

    Parameters
    ----------
    text
        The ``schemaString`` of the table.
    table
        The columns that the text describes.
    rows
        The columns of the rows.
    numbers
        What gives ids and physical names to new columns; None without column mapping.

    Raises
    ------
    SchemaError
        A new column is not valid.
    """
    document = SchemaDocument(text)
    _merge_struct(document, (), table, rows, numbers)
    return document.to_json()


def wider_columns(table: DataType, rows: DataType, path: _Path = ()) -> Iterator[tuple[_Path, DataType]]:
    """Return the columns of a table that rows have in a wider type, with that type, as far as they may follow the rows.

    Integers follow wider integers, floats doubles, decimals those with more digits, and dates timestamps without a zone
    (Delta protocol, "Type Widening"). Integers do not become doubles or decimals unless somebody asks for it.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> [(path, str(kind)) for path, kind in wider_columns(Primitive("short"), Primitive("long"), ("x",))]
    [(('x',), 'long')]
    """
    if isinstance(table, Struct) and isinstance(rows, Struct):
        folded = {field.name.lower(): field for field in table}
        for field in rows:
            old = table.get(field.name) or folded.get(field.name.lower())
            if old is not None:
                yield from wider_columns(old.type, field.type, (*path, old.name))
    elif isinstance(table, List) and isinstance(rows, List):
        yield from wider_columns(table.element.type, rows.element.type, (*path, "element"))
    elif isinstance(table, Map) and isinstance(rows, Map):
        yield from wider_columns(table.key.type, rows.key.type, (*path, "key"))
        yield from wider_columns(table.value.type, rows.value.type, (*path, "value"))
    elif table != rows and is_widening(str(table), str(rows)):
        of_integers = [isinstance(kind, Primitive) and kind.name in _INTEGERS for kind in (table, rows)]
        if of_integers[0] == of_integers[1]:
            yield path, rows


def _merge_struct(
    document: SchemaDocument, path: _Path, table: Struct, rows: Struct, numbers: ColumnNumbers | None
) -> None:
    folded = {field.name.lower(): field for field in table}
    added: list[Field] = []
    for field in rows:
        old = table.get(field.name) or folded.get(field.name.lower())
        if old is not None:
            _merge_type(document, (*path, old.name), old.type, field.type, numbers)
            continue
        added.append(nullable_field(field))
    if added:
        check_columns(Struct(tuple(added)), mapped=numbers is not None)
        document.fields(*path).extend(field_to_json(new if numbers is None else numbers.assign(new)) for new in added)


def _merge_type(
    document: SchemaDocument, path: _Path, table: DataType, rows: DataType, numbers: ColumnNumbers | None
) -> None:
    if table == VOID != rows:
        # No file has values of the column, so that it takes the type of the first rows that have one.
        new = nullable_field(Field(path[-1], rows))
        check_columns(Struct((new,)), mapped=numbers is not None)
        kind = new.type
        document.set_type(type_to_json(kind if numbers is None else numbers.inside(kind)), *path)
    elif isinstance(table, Struct) and isinstance(rows, Struct):
        _merge_struct(document, path, table, rows, numbers)
    elif isinstance(table, List) and isinstance(rows, List):
        _merge_type(document, (*path, "element"), table.element.type, rows.element.type, numbers)
    elif isinstance(table, Map) and isinstance(rows, Map):
        _merge_type(document, (*path, "key"), table.key.type, rows.key.type, numbers)
        _merge_type(document, (*path, "value"), table.value.type, rows.value.type, numbers)
