"""The next partition spec of a table (Iceberg spec, "Partition Evolution")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deltaberg.errors import SchemaError
from deltaberg.iceberg.create.create import partition_field
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.specs import FIRST_PARTITION_ID, PartitionField, PartitionSpec
from deltaberg.iceberg.metadata.versions import check_spec, column_named
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Struct

__all__ = ["new_partitioning"]


def new_partitioning(metadata: TableMetadata, names: Sequence[ColumnName]) -> PartitionSpec:
    """Return the spec that partitions the new files of a table by columns, or by transforms of columns.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    SchemaError
        Two fields have one name, or a field has the name of another field that the table has or had.
    """
    parts = _fields(metadata, names)
    if metadata.format_version == 1:
        # Fields that are named twice are refused before one takes the place of the other.
        check_spec(PartitionSpec(0, tuple(parts)), metadata.current_schema, 2)
        parts = _of_version_1(metadata.specs[metadata.default_spec_id], parts, metadata.current_schema.struct)
    return PartitionSpec(max(metadata.specs) + 1, tuple(parts))


def _fields(metadata: TableMetadata, names: Sequence[ColumnName]) -> list[PartitionField]:
    """Return the fields of a new spec. No name is that of a field with other values that the table has or had.

    Engines show the partition values of all specs as one struct, in which each name must be unique.
    """
    columns = metadata.current_schema.struct
    before = [part for spec in metadata.specs.values() for part in spec.fields if part.transform != "void"]
    old_parts = {(part.source_ids, part.transform): part for part in before}
    taken = {part.name for part in before}
    last = metadata.last_partition_id or FIRST_PARTITION_ID - 1
    parts: list[PartitionField] = []
    for name in names:
        part, is_named = partition_field(columns, name, last + 1, evolves=bool(before))
        old = old_parts.get((part.source_ids, part.transform))
        if old is not None and metadata.format_version > 1:
            part = replace(part, field_id=old.field_id)
        if old is not None and not is_named:
            part = replace(part, name=old.name)
        elif part.name in taken and (old is None or old.name != part.name):
            if is_named:
                raise SchemaError(f"the name {part.name!r} is that of another partition field of the table")
            part = replace(part, name=f"{part.name}_{part.field_id}")
        last = max(last, part.field_id)
        parts.append(part)
    return parts


def _of_version_1(before: PartitionSpec, parts: Sequence[PartitionField], columns: Struct) -> list[PartitionField]:
    """Return the fields of a spec in version 1, whose ids count up from 1000: fields stay, and become void."""
    added = {(part.source_ids, part.transform): part for part in parts}
    names = {part.name for part in parts}
    kept = []
    for old in before.fields:
        if added.pop((old.source_ids, old.transform), None) is not None:
            kept.append(old)
        else:
            column = column_named(columns, old.name)
            is_taken = old.name in names or (column is not None and column.id != old.source_id)
            name = f"{old.name}_{old.field_id}" if is_taken else old.name
            kept.append(PartitionField(old.source_ids, old.field_id, name, "void"))
    first = FIRST_PARTITION_ID + len(kept)
    return [*kept, *(replace(part, field_id=first + number) for number, part in enumerate(added.values()))]
