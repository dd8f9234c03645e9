"""Conflicts between the columns of written rows and the columns of other commits and branches."""

from __future__ import annotations

from collections.abc import Iterator

from deltaberg.errors import InvalidArgumentError, MetadataChangedError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import MAIN
from deltaberg.iceberg.metadata.versions import full_names
from deltaberg.iceberg.transaction.conflict import conflict
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.name_mapping import MappedField, NameMapping
from deltaberg.schema.types import DataType, Struct, nested_fields

__all__ = ["check_replaced_columns", "require_columns", "require_names"]


def require_columns(transaction: Transaction, written: Struct) -> None:
    """Let the commit fail if another one removes a column of rows that are written, or adds one that they lack.

    Such rows would lose values, or nobody could read them. Columns that others add, rename, move or widen do no harm.

    Parameters
    ----------
    written
        The columns that the rows have in their files.
    """
    planned = transaction.planned_metadata.current_schema.struct

    def check(newest: TableMetadata) -> None:
        columns = newest.current_schema.struct
        if columns == planned:
            return
        lost = _ids(written) & _ids(planned) - _ids(columns)
        reason = next((f"removed the column {name}" for number, name in full_names(planned) if number in lost), None)
        if reason is None:
            lacking = next(_unfilled(columns, written), None)
            reason = lacking and f"made {lacking} a required column"
        if reason is not None:
            what = f"another commit {reason}, which the written rows do not fit"
            raise conflict(MetadataChangedError, what)

    transaction.require(check)


def require_names(transaction: Transaction, extended: NameMapping) -> None:
    """Let the commit fail if another one changes how columns are found in files without field ids."""
    planned = transaction.planned_metadata

    def check(newest: TableMetadata) -> None:
        is_same = newest.current_schema.struct == planned.current_schema.struct
        if not is_same or _fields(newest.name_mapping) not in (_fields(planned.name_mapping), extended.fields):
            raise MetadataChangedError(
                "another commit changed the columns, or the names by which they are found in files without field ids",
                hint="refresh the table, and add the files again",
            )

    transaction.require(check)


def _fields(mapping: NameMapping | None) -> tuple[MappedField, ...] | None:
    return None if mapping is None else mapping.fields


def check_replaced_columns(transaction: Transaction, columns: Struct) -> None:
    """Refuse to replace the columns of a table where rows stay that could not be read with the new ones.

    Raises
    ------
    InvalidArgumentError
        The rows go to another branch than main, or to none yet, or another branch lacks a required column.
    """
    if not transaction.is_on_main:
        raise InvalidArgumentError(
            "the columns of a table are those of all of its branches, so that a write to one of them, or one that is "
            "staged, cannot replace them",
            hint='overwrite main with ⟪schema_mode="overwrite"⟫, or write with ⟪schema_mode="merge"⟫',
        )
    metadata = transaction.metadata
    branches = [name for name, ref in metadata.all_refs.items() if ref.type == "branch" and name != MAIN]
    lacking = next(_unfilled(columns, transaction.planned_metadata.current_schema.struct), None)
    if branches and lacking is not None:
        raise InvalidArgumentError(
            f"the new column {lacking} is required, and the rows of the branch {branches[0]!r} lack it",
            hint="let the column be null, or remove the branch first",
            column=lacking,
        )


def _ids(within: DataType) -> set[int | None]:
    return {number for number, _ in full_names(within)}


def _unfilled(columns: DataType, older: DataType, prefix: str = "") -> Iterator[str]:
    """Yield the required columns that have no value in rows with older columns."""
    known = {child.id: child for child in nested_fields(older)}
    for child in nested_fields(columns):
        name, old = f"{prefix}{child.name}", known.get(child.id)
        if not child.nullable and child.default is None and (old is None or old.nullable):
            yield name
        elif old is not None:
            yield from _unfilled(child.type, old.type, f"{name}.")
