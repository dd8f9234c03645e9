"""Columns that were dropped, which older schemas of a table still have (Iceberg spec, "Schema Evolution")."""

from __future__ import annotations

from collections.abc import Sequence

from deltaberg.errors import ColumnNotFoundError, SchemaError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.partition.structs import field_by_id
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.columns import find_column, join_name
from deltaberg.schema.types import Field, Struct, nested_fields

__all__ = ["Dropped", "dropped_column", "require_no_rows_without"]

_Fields = tuple[Field, ...]


class Dropped:
    """A column that was dropped.

    Parameters
    ----------
    column
        The column as it was.
    before
        The ids of the columns that it came behind, the nearest first.
    """

    def __init__(self, column: Field, before: Sequence[int | None]) -> None:
        self.column = column
        self._before = before

    def put_back(self, fields: _Fields) -> _Fields:
        """Return the fields of the struct that it was in, with the column in its old place as far as that is known.

        Raises
        ------
        SchemaError
            Another column has its name now.
        """
        name = self.column.name
        if any(field.name.lower() == name.lower() for field in fields):
            raise SchemaError(
                "another column has the name of the one that was dropped", hint="rename it first", column=name
            )
        known = [field.id for field in fields]
        place = next((known.index(number) + 1 for number in self._before if number in known), 0)
        return (*fields[:place], self.column, *fields[place:])


def dropped_column(metadata: TableMetadata, path: Sequence[str]) -> Dropped:
    """Return the column that had a name when it was dropped.

    Parameters
    ----------
    path
        The steps that lead to the column; those above it as they are named now.

    Raises
    ------
    ColumnNotFoundError
        No schema of the table has such a column, or the struct that contained it was also dropped.
    """
    *above, last = path
    now = metadata.current_schema.struct
    inside: Field | None = None
    for step in above:
        inside = find_column(Struct(now.fields if inside is None else nested_fields(inside.type)), (step,))[0]
    seen: set[int | None] = set()
    # The newest schema that has a column has its widest type.
    for number in sorted(metadata.schemas, reverse=True):
        then = metadata.schemas[number].struct
        parent = None if inside is None or inside.id is None else field_by_id([then], inside.id)
        fields = then.fields if inside is None else () if parent is None else nested_fields(parent.type)
        for place, child in enumerate(fields):
            if child.id in seen or child.id is None or field_by_id([now], child.id) is not None:
                continue
            seen.add(child.id)
            if child.name == last:
                return Dropped(child, [field.id for field in fields[:place]][::-1])
    name = join_name(tuple(path))
    raise ColumnNotFoundError(f"no column {name!r} was dropped", hint="add a new column", column=name)


def require_no_rows_without(transaction: Transaction, column: Field) -> None:
    """Let no rows be there that were written without a required column.

    Raises
    ------
    SchemaError
        A branch has a snapshot of a schema without the column, or the transaction itself has changed rows.
    """
    number = column.id or 0
    error = SchemaError(
        "the column is required, and rows may have been written since it was dropped",
        hint="add a new column, which is null or has a default value in them",
        column=column.name,
    )

    def check(metadata: TableMetadata) -> None:
        for snapshot_id in {ref.snapshot_id for ref in metadata.all_refs.values() if ref.type == "branch"}:
            snapshot = metadata.snapshots.get(snapshot_id)
            if snapshot is not None:
                known = metadata.schemas.get(-1 if snapshot.schema_id is None else snapshot.schema_id)
                if known is None or field_by_id([known.struct], number) is None:
                    raise error

    if not transaction.pending.is_empty:
        raise error
    check(transaction.metadata)
    transaction.require(check)
