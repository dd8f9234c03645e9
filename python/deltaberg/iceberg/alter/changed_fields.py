"""Columns with a field changed, added or moved at any depth (Iceberg spec, "Schema Evolution").

A path has the names of columns and of fields of structs; ``element`` and ``value`` lead into lists and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from deltaberg.errors import ColumnNotFoundError, SchemaError
from deltaberg.schema.columns import find_column, join_name
from deltaberg.schema.types import DataType, Field, List, Map, Struct

__all__ = ["with_field", "with_fields"]

_Fields = tuple[Field, ...]


def with_field(columns: Struct, path: Sequence[str], changed: Callable[[Field], Field]) -> Struct:
    """Return columns in which the field that a path leads to is another one.

    Raises
    ------
    ColumnNotFoundError
        The path leads nowhere.
    SchemaError
        It leads to the keys of a map, which never change.
    """
    *above, last = path

    def change(kind: DataType) -> DataType:
        if isinstance(kind, Struct):
            old = find_column(kind, (last,))[0]
            return Struct(tuple(changed(field) if field is old else field for field in kind))
        if isinstance(kind, List) and last == "element":
            return List(changed(kind.element))
        if isinstance(kind, Map) and last == "value":
            return Map(kind.key, changed(kind.value))
        if isinstance(kind, Map) and last == "key":
            raise SchemaError("the keys of a map cannot be changed", column=join_name(tuple(path)))
        raise _not_found(path)

    # A struct stays one.
    return cast("Struct", _with_type(columns, tuple(above), (), change))


def with_fields(columns: Struct, path: Sequence[str], change: Callable[[_Fields], _Fields]) -> Struct:
    """Return columns in which the struct that a path leads to has other fields; without a path, other columns.

    Raises
    ------
    ColumnNotFoundError
        The path leads nowhere, or not to a struct.
    SchemaError
        The last field is gone.
    """

    def changed(kind: DataType) -> DataType:
        name = join_name(tuple(path)) if path else None
        if not isinstance(kind, Struct):
            raise ColumnNotFoundError("only columns and fields of structs have names", column=name)
        fields = change(kind.fields)
        if not fields:
            what, hint = ("a struct", "its last field") if path else ("a table", "its last column")
            raise SchemaError(
                f"{what} cannot lose {hint}",
                hint="drop the struct itself" if path else "add another column first",
                column=name,
            )
        return Struct(fields)

    return cast("Struct", _with_type(columns, tuple(path), (), changed))


def _with_type(
    kind: DataType, path: tuple[str, ...], above: tuple[str, ...], change: Callable[[DataType], DataType]
) -> DataType:
    """Return a type with the type changed that a path leads to."""
    if not path:
        return change(kind)
    step, rest = path[0], path[1:]
    here = (*above, step)

    def inside(child: Field) -> Field:
        return replace(child, type=_with_type(child.type, rest, here, change))

    if isinstance(kind, Struct):
        found = find_column(kind, (step,))[0]
        return Struct(tuple(inside(field) if field is found else field for field in kind))
    if isinstance(kind, List) and step == "element":
        return List(inside(kind.element))
    if isinstance(kind, Map) and step == "value":
        return Map(kind.key, inside(kind.value))
    raise _not_found(here)


def _not_found(path: Sequence[str]) -> ColumnNotFoundError:
    name = join_name(tuple(path))
    return ColumnNotFoundError(f"there is no column {name!r}", column=name)
