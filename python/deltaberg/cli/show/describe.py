"""Columns and their types as text, for tables of every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaberg.schema.types import DataType

__all__ = ["shown_columns", "type_name"]

_SHOWN_COLUMNS = 12


def type_name(column_type: DataType) -> str:
    """Return the name of a type, without the fields of structs, which are listed on lines of their own."""
    from deltaberg.schema.types import List, Map, Struct

    if isinstance(column_type, Struct):
        return "struct"
    if isinstance(column_type, List):
        return f"array<{type_name(column_type.element.type)}>"
    if isinstance(column_type, Map):
        return f"map<{type_name(column_type.key.type)}, {type_name(column_type.value.type)}>"
    return str(column_type)


def shown_columns(columns: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of columns, and the first few of them, as text."""
    names = [f"{column['name']} {column['type']}" for column in columns[:_SHOWN_COLUMNS]]
    more = f", and {len(columns) - _SHOWN_COLUMNS} more" if len(columns) > _SHOWN_COLUMNS else ""
    return f"{len(columns)}: {', '.join(names)}{more}"
