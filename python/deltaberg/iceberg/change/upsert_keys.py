"""The fields that identify the rows of a table (Iceberg spec, "Identifier Field IDs")."""

from __future__ import annotations

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.schema.columns import ColumnName

__all__ = ["identifier_names"]


def identifier_names(metadata: TableMetadata) -> list[ColumnName]:
    """Return the columns that identify rows.

    Raises
    ------
    InvalidArgumentError
        The table has none.
    """
    schema = metadata.current_schema
    paths = [path_to_id(schema.struct, number) for number in schema.identifier_field_ids]
    if not paths:
        raise InvalidArgumentError(
            "an upsert needs keys, and the table has no identifier fields",
            hint="name the columns that identify a row, or set identifier fields by ⟪alter()⟫",
        )
    return [tuple(part.name for part in path) for path in paths]
