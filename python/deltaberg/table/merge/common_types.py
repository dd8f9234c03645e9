"""The types in which the columns of a source meet those of a table."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from deltaberg.schema.types import DataType, Field, Fixed, List, Map, Primitive, Struct, inner_types

__all__ = ["common_types"]

#: The types of all formats for types that one format has, of which expressions can compute more.
_COMMON: dict[DataType, DataType] = {
    Primitive("uuid"): Primitive("binary"),
    Primitive("timestamp_ns"): Primitive("timestamp"),
    Primitive("timestamp_ntz_ns"): Primitive("timestamp_ntz"),
}


def common_types(source_columns: Struct, columns: Struct) -> Struct:
    """Return columns of a source, which have types of one format only where columns of the table have such types.

    A column of the table decides about the column of its name, and all of them together about columns of other names.
    Arrow's timestamps have nanoseconds more often than anybody means them, and a UUID is bytes to functions.

    Examples
    --------
    >>> nanos, micros = (Struct((Field("at", Primitive(name)),)) for name in ("timestamp_ns", "timestamp"))
    >>> common_types(nanos, nanos) == nanos, common_types(nanos, micros) == micros
    (True, True)
    """
    return Struct(_common_fields(source_columns, columns, frozenset(inner_types(columns))))


def _common_fields(
    source_columns: Struct, columns: DataType | None, table_types: AbstractSet[DataType]
) -> tuple[Field, ...]:
    fields = columns.fields if isinstance(columns, Struct) else ()
    folded = {child.name.lower(): child.type for child in fields}
    exact = {child.name: child.type for child in fields}
    return tuple(
        replace(
            child, type=_common_type(child.type, exact.get(child.name, folded.get(child.name.lower())), table_types)
        )
        for child in source_columns
    )


def _common_type(source_type: DataType, column: DataType | None, table_types: AbstractSet[DataType]) -> DataType:
    if isinstance(source_type, Struct):
        return Struct(_common_fields(source_type, column, table_types))
    if isinstance(source_type, List):
        inside = column.element.type if isinstance(column, List) else None
        return List(replace(source_type.element, type=_common_type(source_type.element.type, inside, table_types)))
    if isinstance(source_type, Map):
        key, value = (column.key.type, column.value.type) if isinstance(column, Map) else (None, None)
        return Map(
            replace(source_type.key, type=_common_type(source_type.key.type, key, table_types)),
            replace(source_type.value, type=_common_type(source_type.value.type, value, table_types)),
        )
    common = _wider_type(source_type)
    if common is None:
        return source_type
    is_own = source_type in table_types if column is None else _wider_type(column) is not None
    return source_type if is_own else common


def _wider_type(kind: DataType) -> DataType | None:
    return Primitive("binary") if isinstance(kind, Fixed) else _COMMON.get(kind)
