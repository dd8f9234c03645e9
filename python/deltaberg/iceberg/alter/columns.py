"""Changing the columns of a table (Iceberg spec, "Schema Evolution")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.versions import highest_field_id, layout_sources
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.iceberg.rows.columns_meanwhile import check_replaced_columns, require_names
from deltaberg.iceberg.schema.evolution import is_promotion, is_same_type
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING, encode_name_mapping
from deltaberg.iceberg.schema.schema import Schema, columns_text
from deltaberg.iceberg.schema.type_names import shown_type
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.column_properties import changed_column_properties
from deltaberg.iceberg.updates.new_columns import given_columns
from deltaberg.iceberg.updates.new_table import with_fresh_ids
from deltaberg.iceberg.updates.updates import AddSchema, SetCurrentSchema, SetProperties, Update
from deltaberg.schema.columns import field_finder
from deltaberg.schema.name_mapping import NameMapping, extended_mapping, mapping_of
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct, nullable_field
from deltaberg.schema.void_columns import VOID, warn_of_void

__all__ = [
    "check_promotion",
    "extend_name_mapping",
    "merge_columns",
    "replace_columns",
    "set_columns",
]

_SAME_OF_DATES = ("year", "month", "day", "void")


def set_columns(transaction: Transaction, columns: Struct, identifiers: Sequence[int] | None = None) -> None:
    """Replace the columns of the table of a transaction by columns that have ids.

    Parameters
    ----------
    identifiers
        The ids of the columns that identify rows. With them, the schema must stay until the commit even where it is
        the same one already; by default, these columns stay, too, and equal columns are no change.

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
    kept_ids = tuple(number for number in kept if path_to_id(columns, number))
    if len(kept_ids) < len(kept):
        raise SchemaError("a column that identifies rows cannot be removed", hint="set other identifier fields first")

    def changes(metadata: TableMetadata) -> list[Update]:
        current = metadata.current_schema
        is_same = (columns, kept_ids) == (current.struct, current.identifier_field_ids)
        if is_same and columns_text(columns) == columns_text(current.struct):
            return [SetCurrentSchema(current.schema_id)]
        updates: list[Update] = [AddSchema(Schema(columns, current.schema_id + 1, kept_ids)), SetCurrentSchema()]
        updates += changed_column_properties(metadata.properties, current.struct, columns)
        if metadata.name_mapping is not None:
            updates += _mapping_changes(metadata.name_mapping, extended_mapping(metadata.name_mapping, columns))
        return updates

    transaction.change_columns(changes)


def extend_name_mapping(transaction: Transaction) -> NameMapping:
    """Return how columns are found in files without field ids; the table gets a mapping that has all of its names.

    Names that columns had stay, since files are read by them that are there already.
    """
    metadata = transaction.metadata
    known, columns = metadata.name_mapping, metadata.current_schema.struct
    wanted = mapping_of(columns) if known is None else extended_mapping(known, columns)
    transaction.change_metadata(*_mapping_changes(known, wanted))
    require_names(transaction, wanted)
    return wanted


def _mapping_changes(known: NameMapping | None, wanted: NameMapping) -> list[Update]:
    if known is not None and wanted.fields == known.fields:
        return []
    return [SetProperties({NAME_MAPPING: encode_name_mapping(wanted)})]


def _check_sources(metadata: TableMetadata, columns: Struct) -> None:
    spec = metadata.specs[metadata.default_spec_id]
    order = metadata.sort_orders.get(metadata.default_sort_order_id)
    for what, number in layout_sources(spec, order):
        if not path_to_id(columns, number):
            path = path_to_id(metadata.current_schema.struct, number)
            name = ".".join(part.name for part in path)
            raise SchemaError(
                f"the column {name} cannot be removed: {what} is made from it",
                hint="change the partitioning or the sort order first",
                column=name,
            )


def check_promotion(metadata: TableMetadata, old: Field, new: DataType) -> None:
    """Refuse a new type of a column that old files cannot be read with.

    Raises
    ------
    SchemaError
        If the specification does not allow it ("Schema Evolution"), or partition values were made from the old type.
    """
    if not is_promotion(old.type, new, metadata.format_version):
        raise SchemaError(
            f"a column of the type {shown_type(old.type)} cannot become {shown_type(new)}",
            hint="integers become longs, floats become doubles, and decimals gain digits",
            column=old.name,
        )
    change = f"{shown_type(old.type)} became {shown_type(new)}"
    parts = (part for spec in metadata.specs.values() for part in spec.fields if old.id in part.source_ids)
    if old.type == Primitive("date"):
        for part in parts:
            if part.transform not in _SAME_OF_DATES:
                raise SchemaError(
                    f"the partition field {part.name!r} would have other values if the type {change}",
                    hint="only the transforms year, month and day make the same values of dates and timestamps",
                    column=old.name,
                )


def merge_columns(transaction: Transaction, rows: Any) -> None:
    """Add the columns of rows, and fields of their structs, that the table of a transaction lacks.

    New columns come last and may be null. A column whose type is narrower than that of the rows is widened, where the
    specification allows it. Other columns stay as they are.
    """
    metadata = transaction.metadata
    merge = _Merge(metadata.last_column_id or 0, metadata.format_version)
    columns = given_columns(rows, metadata.format_version)
    before = metadata.current_schema.struct
    set_columns(transaction, merge.struct(before, columns))
    warn_of_void(transaction.metadata.current_schema.struct, before)


class _Merge:
    """Puts columns together by their names. ``last`` is the highest id that is in use."""

    def __init__(self, last: int, version: int) -> None:
        self._last = last
        self._version = version

    def struct(self, table: Struct, rows: Struct) -> Struct:
        """Return columns with those that are new."""
        children = {child.name: child for child in table}
        find = field_finder(table)
        added = []
        for field in rows:
            own = find(field.name)
            if own is None:
                added.append(nullable_field(field))
            else:
                child = children[own.name]
                children[own.name] = replace(child, type=self._type(child.type, field.type))
        fresh, _ = with_fresh_ids(Struct(tuple(added)), self._last)
        self._last = max(self._last, highest_field_id(fresh))
        return Struct((*children.values(), *fresh))

    def _type(self, table: DataType, rows: DataType) -> DataType:
        if isinstance(table, Struct) and isinstance(rows, Struct):
            return self.struct(table, rows)
        if isinstance(table, List) and isinstance(rows, List):
            return List(replace(table.element, type=self._type(table.element.type, rows.element.type)))
        if isinstance(table, Map) and isinstance(rows, Map):
            # The keys of a map do not change.
            return Map(table.key, replace(table.value, type=self._type(table.value.type, rows.value.type)))
        # A date that becomes a timestamp looks different to whoever reads it.
        if table == VOID and is_promotion(table, rows, self._version):
            fresh, _ = with_fresh_ids(Struct((nullable_field(Field("new", rows)),)), self._last)
            self._last = max(self._last, highest_field_id(fresh))
            return fresh.fields[0].type
        is_wider = table != Primitive("date") and is_promotion(table, rows, self._version)
        return rows if is_wider else table


def replace_columns(transaction: Transaction, rows: Any) -> None:
    """Replace the columns of the table by those of rows.

    Columns keep their ids if they have the same names, and types that the values that are there can be read as.

    Raises
    ------
    InvalidArgumentError
        Rows of other branches stay, and could not be read with the new columns.
    """
    metadata = transaction.metadata
    new = given_columns(rows, metadata.format_version)
    if not len(new):
        raise InvalidArgumentError("the rows have no columns")
    before = metadata.current_schema.struct
    old_by_name = {child.name: child for child in before}
    fresh, _ = with_fresh_ids(new, metadata.last_column_id or 0, before, metadata.format_version)
    columns = []
    for child in fresh:
        old = old_by_name.get(child.name)
        same = old is not None and is_same_type(old.type, child.type)
        columns.append(replace(old, nullable=child.nullable) if old is not None and same else child)
    identifiers = [number for number in metadata.current_schema.identifier_field_ids if _is_kept(columns, number)]
    check_replaced_columns(transaction, Struct(tuple(columns)))
    set_columns(transaction, Struct(tuple(columns)), identifiers)
    warn_of_void(Struct(tuple(columns)), before)


def _is_kept(columns: Sequence[Field], number: int) -> bool:
    path = path_to_id(Struct(tuple(columns)), number)
    return bool(path) and not any(part.nullable for part in path)
