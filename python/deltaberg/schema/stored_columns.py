"""Comparing the columns that a file holds with those of its table."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.schema.projection import Children
from deltaberg.schema.types import DataType, Field, List, Map, Struct

__all__ = ["stores_others"]


def stores_others(columns: Iterable[Field], stored: Iterable[pa.Field], by_id: bool) -> bool:
    """Return whether a file holds a column, or a field of one, that is none of some columns.

    Parameters
    ----------
    columns
        The columns that the file may hold.
    stored
        The columns of the file, with field ids in their metadata.
    by_id
        Whether columns are found by id or by physical name.
    """
    children = Children(stored, by_id)
    known = {children.find(column): column for column in columns}
    return any(
        number not in known or _holds_others(known[number].type, found.type, by_id)
        for number, found in enumerate(children.fields)
    )


def _holds_others(known: DataType, found: pa.DataType, by_id: bool) -> bool:
    """Return whether values of a type in a file have fields that the type of their column lacks."""
    if isinstance(found, pa.BaseExtensionType):
        return _holds_others(known, found.storage_type, by_id)
    if isinstance(known, Struct) and pt.is_struct(found):
        return stores_others(known, found, by_id)
    if isinstance(known, Map) and pt.is_map(found):
        both = ((known.key, found.key_type), (known.value, found.item_type))
        return any(_holds_others(field.type, inner, by_id) for field, inner in both)
    if isinstance(known, List) and pt.is_nested(found):
        return _holds_others(known.element.type, found.value_type, by_id)
    return False
