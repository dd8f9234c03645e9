"""Columns of a new table, or new columns of one, in types that Iceberg has."""

from __future__ import annotations

from dataclasses import replace

from deltaberg.iceberg.metadata.type_names import TYPE
from deltaberg.schema import DataType, Field, List, Map, Primitive, Struct

__all__ = ["iceberg_columns"]

#: Integers that Iceberg does not have, and the one that holds their values.
_NARROW = {"byte": "integer", "short": "integer"}


def iceberg_columns(found: Struct) -> Struct:
    """Return columns in types that Iceberg has: integers of fewer than 32 bits become integers of 32 bits.

    Of what the schema says about a field, only a comment is kept, as its ``doc``.

    Examples
    --------
    >>> str(iceberg_columns(Struct((Field("n", Primitive("byte")),))))
    'struct<n: integer>'
    """
    return Struct(tuple(_field(child) for child in found))


def _field(child: Field) -> Field:
    doc = child.metadata.get("doc", child.metadata.get("comment"))
    kept = {"doc": doc} if isinstance(doc, str) else {}
    if isinstance(child.metadata.get(TYPE), str):
        kept[TYPE] = child.metadata[TYPE]
    return replace(child, type=_type(child.type), physical_name=child.name, metadata=kept)


def _type(found: DataType) -> DataType:
    if isinstance(found, Primitive):
        return Primitive(_NARROW.get(found.name, found.name))
    if isinstance(found, Struct):
        return iceberg_columns(found)
    if isinstance(found, List):
        return List(replace(found.element, type=_type(found.element.type)))
    if isinstance(found, Map):
        return Map(replace(found.key, type=_type(found.key.type)), replace(found.value, type=_type(found.value.type)))
    return found
