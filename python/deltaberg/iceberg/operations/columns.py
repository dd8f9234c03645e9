"""Changing the columns of a table (Iceberg spec, "Schema Evolution")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.new_table import with_fresh_ids
from deltaberg.iceberg.metadata.schema import Schema
from deltaberg.iceberg.metadata.type_names import TYPE
from deltaberg.iceberg.metadata.updates import AddSchema, SetCurrentSchema
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema import DataType, Field, List, Map, Primitive, Struct

__all__ = ["iceberg_columns", "merge_columns", "replace_columns", "set_columns"]

#: Integers that Iceberg does not have, and the one that holds their values.
_NARROW = {"byte": "integer", "short": "integer"}


def iceberg_columns(found: Struct) -> Struct:
    """Return columns in types that Iceberg has: integers of fewer than 32 bits become integers of 32 bits."""
    return Struct(tuple(_iceberg_field(child) for child in found))


def _iceberg_field(child: Field) -> Field:
    doc = child.metadata.get("doc", child.metadata.get("comment"))
    kept = {"doc": doc} if isinstance(doc, str) else {}
    if isinstance(child.metadata.get(TYPE), str):
        kept[TYPE] = child.metadata[TYPE]
    return replace(child, type=_iceberg_type(child.type), physical_name=child.name, metadata=kept)


def _iceberg_type(found: DataType) -> DataType:
    if isinstance(found, Primitive):
        return Primitive(_NARROW.get(found.name, found.name))
    if isinstance(found, Struct):
        return iceberg_columns(found)
    if isinstance(found, List):
        return List(replace(found.element, type=_iceberg_type(found.element.type)))
    if isinstance(found, Map):
        key, value = found.key, found.value
        return Map(replace(key, type=_iceberg_type(key.type)), replace(value, type=_iceberg_type(value.type)))
    return found


def set_columns(transaction: Transaction, columns: Struct, identifiers: Sequence[int] | None = None) -> None:
    """Give the table of a transaction other columns, which have ids.

    Raises
    ------
    SchemaError
        If the columns are not valid for the format version of the table, or a partition field or sort field needs a
        column that is gone.
    """
    metadata = transaction.metadata
    before = metadata.current_schema
    if columns == before.struct and identifiers is None:
        return
    _check_sources(metadata, columns)
    kept = before.identifier_field_ids if identifiers is None else identifiers
    known = tuple(number for number in kept if path_to_id(columns, number))
    if len(known) < len(kept):
        raise SchemaError("a column that identifies rows cannot be removed", hint="set other identifier fields first")
    transaction.update(AddSchema(Schema(columns, before.schema_id + 1, known)), SetCurrentSchema())


def _check_sources(metadata: TableMetadata, columns: Struct) -> None:
    spec = metadata.specs[metadata.default_spec_id]
    order = metadata.sort_orders.get(metadata.default_sort_order_id)
    needed = [
        (f"the partition field {part.name!r}", part.source_ids) for part in spec.fields if part.transform != "void"
    ]
    needed += [("the sort order", part.source_ids) for part in (order.fields if order else ())]
    for what, sources in needed:
        for number in sources:
            if not path_to_id(columns, number):
                path = path_to_id(metadata.current_schema.struct, number)
                name = ".".join(part.name for part in path)
                raise SchemaError(
                    f"the column {name} cannot be removed: {what} is made from it",
                    hint="change the partitioning or the sort order first",
                    column=name,
                )


def merge_columns(transaction: Transaction, found: Struct) -> None:
    """Add the columns of rows, and fields of their structs, that the table of a transaction lacks.

    New columns come last and may be null. Columns that the table has stay as they are.
    """
    metadata = transaction.metadata
    last = metadata.last_column_id or 0
    merged, _ = _merged(metadata.current_schema.struct, iceberg_columns(found), last)
    set_columns(transaction, merged)


def _merged(known: Struct, found: Struct, last: int) -> tuple[Struct, int]:
    """Return columns with those that are new, and the highest id that is in use."""
    children = {child.name: child for child in known}
    folded = {child.name.lower(): child.name for child in known}
    added = []
    for field in found:
        name = field.name if field.name in children else folded.get(field.name.lower())
        if name is None:
            added.append(_nullable(field))
        else:
            kind, last = _merged_type(children[name].type, field.type, last)
            children[name] = replace(children[name], type=kind)
    fresh, _ = with_fresh_ids(Struct(tuple(added)), last)
    highest = max([last, *_ids(fresh)])
    return Struct((*children.values(), *fresh)), highest


def _ids(within: DataType) -> list[int]:
    if isinstance(within, Struct):
        inside: Sequence[Field] = within.fields
    elif isinstance(within, List):
        inside = (within.element,)
    elif isinstance(within, Map):
        inside = (within.key, within.value)
    else:
        inside = ()
    return [number for child in inside for number in (child.id or 0, *_ids(child.type))]


def _merged_type(known: DataType, found: DataType, last: int) -> tuple[DataType, int]:
    if isinstance(known, Struct) and isinstance(found, Struct):
        return _merged(known, found, last)
    if isinstance(known, List) and isinstance(found, List):
        kind, last = _merged_type(known.element.type, found.element.type, last)
        return List(replace(known.element, type=kind)), last
    if isinstance(known, Map) and isinstance(found, Map):
        key, last = _merged_type(known.key.type, found.key.type, last)
        value, last = _merged_type(known.value.type, found.value.type, last)
        return Map(replace(known.key, type=key), replace(known.value, type=value)), last
    return known, last


def _nullable(field: Field) -> Field:
    """Return a field that may be null at every depth, since rows that are there already lack it."""
    return replace(field, nullable=True, type=_nullable_type(field.type))


def _nullable_type(found: DataType) -> DataType:
    if isinstance(found, Struct):
        return Struct(tuple(_nullable(child) for child in found))
    if isinstance(found, List):
        return List(_nullable(found.element))
    if isinstance(found, Map):
        return Map(replace(found.key, type=_nullable_type(found.key.type)), _nullable(found.value))
    return found


def replace_columns(transaction: Transaction, found: Struct) -> None:
    """Replace the columns of the table by those of rows. Columns with the same name and type keep their ids."""
    metadata = transaction.metadata
    if not len(found):
        raise InvalidArgumentError("the rows have no columns")
    known = {child.name: child for child in metadata.current_schema.struct}
    fresh, _ = with_fresh_ids(iceberg_columns(found), metadata.last_column_id or 0)
    columns = []
    for child in fresh:
        old = known.get(child.name)
        same = old is not None and _shape(old.type) == _shape(child.type)
        columns.append(replace(old, nullable=child.nullable) if old is not None and same else child)
    identifiers = [number for number in metadata.current_schema.identifier_field_ids if _is_kept(columns, number)]
    set_columns(transaction, Struct(tuple(columns)), identifiers)


def _is_kept(columns: Sequence[Field], number: int) -> bool:
    path = path_to_id(Struct(tuple(columns)), number)
    return bool(path) and not any(part.nullable for part in path)


def _shape(found: DataType) -> str:
    """Return what types have in common that differ in ids at most."""
    return str(found)
