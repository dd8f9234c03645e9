"""The columns of rows that come in parts, whose types differ by what happens to be in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

__all__ = ["Part", "joint_columns"]


class Part(NamedTuple):
    """A part of some rows: its columns, and its rows if they are in memory."""

    schema: pa.Schema
    rows: pa.Table | None = None

    def type(self, name: str) -> pa.DataType:
        """Return the type of a column; null if all of its values are known to be null, or there is none."""
        index = self.schema.get_field_index(name)
        if index < 0:
            return pa.null()
        is_empty = self.rows is not None and self.rows.column(index).null_count == len(self.rows)
        return pa.null() if is_empty else self.schema.field(index).type

    def is_whole(self, name: str) -> bool:
        """Return whether floating point numbers are known to be integers that became such where others were null."""
        if self.rows is None:
            return False
        values = self.rows.column(name).cast(pa.float64())
        # No integer is -0.0, which equals 0.0, but divides one into minus infinity.
        is_negative_zero = pc.equal(pc.divide(1.0, values), -math.inf)
        whole = pc.and_(pc.equal(values, pc.floor(values)), pc.invert(is_negative_zero))
        whole = pc.and_(whole, pc.is_finite(values))
        return bool(pc.all(pc.or_(whole, pc.is_null(values)), min_count=0).as_py())


def joint_columns(parts: Sequence[Part]) -> pa.Schema:
    """Return the columns of the first part, in types that hold the values of all parts where there is such a type.

    A column that is all null in a part takes the type that it has in others. Numbers become as wide as the widest ones,
    but whole doubles stay integers, since pandas makes such of integers where one is null. Where types have nothing in
    common, the first one stays.

    Examples
    --------
    >>> first = Part(pa.schema([("x", pa.null()), ("n", pa.int32())]))
    >>> joint_columns([first, Part(pa.schema([("x", pa.string()), ("n", pa.int64())]))]).types
    [DataType(string), DataType(int64)]
    """
    columns = parts[0].schema
    if len(parts) == 1 or len(set(columns.names)) < len(columns):
        return columns
    return pa.schema([child.with_type(_joint_type(child, parts)) for child in columns], columns.metadata)


def _joint_type(child: pa.Field, parts: Sequence[Part]) -> pa.DataType:
    typed = [(kind, part) for part in parts if not pt.is_null(kind := part.type(child.name))]
    kinds = list(dict.fromkeys(kind for kind, _ in typed))
    integers = [kind for kind in kinds if pt.is_integer(kind)]
    if integers and all(part.is_whole(child.name) for kind, part in typed if pt.is_floating(kind)):
        kinds = [kind for kind in kinds if not pt.is_floating(kind)]
    return reduce(_wider, kinds) if kinds else child.type


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both; the first one if there is none."""
    are_numbers = all(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind) for kind in (one, other))
    if not are_numbers and not (pt.is_nested(one) and pt.is_nested(other)):
        return one
    try:
        schemas = [pa.schema([("x", kind)]) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return one
