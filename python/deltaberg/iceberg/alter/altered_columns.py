"""The columns of a table while steps change them, before metadata is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from deltaberg.iceberg.alter.columns import set_columns
from deltaberg.iceberg.metadata.versions import check_fields, check_identifiers, check_new_names, highest_field_id
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.iceberg.schema.schema import Schema, encode_schema, read_schema
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.types import Field, Struct

__all__ = ["AlteredColumns"]


class AlteredColumns:
    """The columns of a table as the steps of an alteration leave them.

    Metadata writes all columns out and reads them again. A step has only what it changes checked in this way, and the
    metadata is made when somebody looks at it, so that the time of many steps grows with their number.

    Parameters
    ----------
    transaction
        The transaction that takes the changes.
    is_shared
        Whether others also look at the transaction, so that it must have each step at once.
    """

    def __init__(self, transaction: Transaction, *, is_shared: bool) -> None:
        self._transaction = transaction
        self._is_shared = is_shared
        self._waiting: Struct | None = None
        self._last_id = 0

    @property
    def struct(self) -> Struct:
        """The columns."""
        return self._transaction.metadata.current_schema.struct if self._waiting is None else self._waiting

    @property
    def last_id(self) -> int:
        """The highest field id that is in use."""
        return max(self._last_id, self._transaction.metadata.last_column_id or 0)

    def set(self, columns: Struct) -> None:
        """Replace the columns by others.

        Raises
        ------
        SchemaError
            As `set_columns` raises it.
        """
        if self._is_shared or not self._has_what_is_referred_to(columns):
            self.settle()
            self._hand_on(columns)
            return
        metadata = self._transaction.metadata
        current, version = metadata.current_schema, metadata.format_version
        # Columns that others made may break rules, too, but not those that have been checked once.
        new = columns if self._waiting is None else _changed_part(self._waiting, columns)
        check_fields(new, version)
        check_identifiers(replace(current, struct=columns))
        check_new_names(columns, metadata.specs.values(), lambda: current.struct)
        # What cannot be written, or not be read again, is refused by the step that asks for it.
        read_schema(encode_schema(Schema(new)))
        self._last_id = max(self._last_id, highest_field_id(new))
        self._waiting = columns

    def settle(self) -> None:
        """Let the transaction have the columns."""
        columns, self._waiting = self._waiting, None
        if columns is not None:
            self._hand_on(columns)

    def _hand_on(self, columns: Struct) -> None:
        # Even equal columns are a change where another commit changes them meanwhile.
        set_columns(self._transaction, columns, self._transaction.metadata.current_schema.identifier_field_ids)

    @contextmanager
    def restored_by_failure(self) -> Iterator[None]:
        """Put the columns back as they were before a step that fails."""
        before = self._waiting
        try:
            yield
        except BaseException:
            self._waiting = before
            raise

    def _has_what_is_referred_to(self, columns: Struct) -> bool:
        """Return whether the columns stay that partition fields, sort fields or the identity of rows need."""
        metadata, before = self._transaction.metadata, self.struct
        needed = {number for spec in metadata.specs.values() for part in spec.fields for number in part.source_ids}
        needed |= {n for order in metadata.sort_orders.values() for term in order.fields for n in term.source_ids}
        needed.update(metadata.current_schema.identifier_field_ids)
        return all(path_to_id(columns, number) or not path_to_id(before, number) for number in needed)


def _changed_part(before: Struct, after: Struct) -> Struct:
    """Return the columns, and the fields of their structs, that are not the very same as before."""
    same = set(map(id, before.fields))
    changed = [child for child in after.fields if id(child) not in same]
    return Struct(tuple(_changed_inside(before, child) for child in changed))


def _changed_inside(before: Struct, child: Field) -> Field:
    """Return a field that is a struct, without those of its fields that are the same as before."""
    # A default value has something to say about all fields.
    if not isinstance(child.type, Struct) or child.default is not None:
        return child
    old = next((field.type for field in before.fields if field.id == child.id), None)
    return replace(child, type=_changed_part(old, child.type)) if isinstance(old, Struct) else child
