"""Comparing the columns that a file holds with those of its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.projection import Children
from deltaberg.schema.types import DataType, Field, List, Map, Struct

__all__ = ["stores_other_types", "stores_others"]


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
    return any(known is None for known, _ in _compared(columns, stored, by_id))


def stores_other_types(columns: Iterable[Field], stored: Iterable[pa.Field], by_id: bool) -> bool:
    """Return whether a file holds a number, a day or a time of another type than that of its column."""
    return any(known is not None and _is_other(known, found) for known, found in _compared(columns, stored, by_id))


def _is_other(known: DataType, found: pa.DataType) -> bool:
    wanted = arrow_type(known)
    if pt.is_timestamp(wanted) and pt.is_timestamp(found):
        return False
    return bool(pt.is_primitive(found) and pt.is_primitive(wanted) and found != wanted)


def _compared(
    columns: Iterable[Field], stored: Iterable[pa.Field], by_id: bool
) -> Iterator[tuple[DataType | None, pa.DataType]]:
    """Return the types of the columns of a file and of all that is inside them, with what the table has there."""
    children = Children(stored, by_id)
    known = {children.find(column): column for column in columns}
    for number, found in enumerate(children.fields):
        column = known.get(number)
        yield from ((None, found.type),) if column is None else _inside(column.type, found.type, by_id)


def _inside(recorded: DataType, stored: pa.DataType, by_id: bool) -> Iterator[tuple[DataType | None, pa.DataType]]:
    if isinstance(stored, pa.BaseExtensionType):
        yield from _inside(recorded, stored.storage_type, by_id)
    elif isinstance(recorded, Struct) and pt.is_struct(stored):
        yield from _compared(recorded, stored, by_id)
    elif isinstance(recorded, Map) and pt.is_map(stored):
        yield from _inside(recorded.key.type, stored.key_type, by_id)
        yield from _inside(recorded.value.type, stored.item_type, by_id)
    elif isinstance(recorded, List) and pt.is_nested(stored):
        yield from _inside(recorded.element.type, stored.value_type, by_id)
    else:
        yield recorded, stored
