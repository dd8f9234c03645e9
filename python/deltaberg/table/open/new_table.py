"""A table that is to be created, of either format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint, shown_value, verbatim
from deltaberg.schema.columns import ColumnName, column_names
from deltaberg.table.arguments import checked_note, checked_properties

__all__ = ["Description", "NewTable", "other_partitioning"]


@dataclass(frozen=True)
class NewTable:
    """The columns, the partitioning and the metadata of a new table.

    Parameters
    ----------
    schema
        The columns, as `as_table_schema` takes them. Their ids and physical names are assigned anew.
    partition_by
        The columns by whose values rows are kept apart; for an Iceberg table also transforms of columns such as
        ``day(at)`` and ``bucket(16, id)``, where ``as`` gives a partition field another name than its own:
        ``bucket(16, id) as shard``. None if nobody has said it.
    sort_by
        For an Iceberg table: columns or transforms, with ``desc`` and ``nulls last`` where it is not the default.
    cluster_by
        For a Delta table: the columns by which engines cluster the rows.
    properties
        The table properties, with ``delta.feature.NAME`` for features, or ``format-version``.
    name, description
        What the metadata says about the table.
    of_rows
        Whether the schema is that of rows, of whose Arrow metadata only comments are kept.

    Raises
    ------
    InvalidArgumentError
        One is not of its type.
    """

    schema: Any = None
    partition_by: Sequence[ColumnName] | None = None
    sort_by: Sequence[ColumnName] | None = None
    cluster_by: Sequence[ColumnName] | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    of_rows: bool = False

    def __post_init__(self) -> None:
        checked_properties(self.properties)
        for what in ("name", "description"):
            checked_note(what, getattr(self, what), "leave it out if there is none")

    @classmethod
    def of(cls, schema: Any, arguments: Mapping[str, Any]) -> NewTable:
        """Return a table with some columns that the arguments of a public function describe."""
        found: dict[str, Any] = {name: arguments.get(name) for name in ("name", "description")}
        for name in ("partition_by", "sort_by", "cluster_by"):
            if arguments.get(name) is not None:
                found[name] = column_names(arguments[name])
        return cls(schema, properties=checked_properties(arguments.get("properties")), **found)

    def without_nothing(self) -> NewTable:
        """Return the table without properties that are None, as deltalake takes them."""
        return replace(self, properties={name: value for name, value in self.properties.items() if value is not None})


@dataclass(frozen=True)
class Description:
    """What a caller says of a table, and what the table says of itself.

    Parameters
    ----------
    argument
        The argument of the caller.
    what
        What is described.
    asked, own
        What the caller says, and what the table has; None for nothing.
    change
        The call that would have the table say what the caller says.
    """

    argument: str
    what: str
    asked: object
    own: object
    change: str

    def check(self, table: str) -> None:
        """Refuse what the table does not say: a write changes only its rows.

        Raises
        ------
        InvalidArgumentError
            The two differ.
        """
        if self.asked != self.own:
            own_words = f"the table has no {self.what}"
            if self.own is not None:
                own_words = f"the {self.what} of the table is {shown_value(self.own)}"
            call = f"alter().{self.change}.commit()"
            asked_words = "nothing" if self.asked is None else f"{shown_value(self.asked)}"
            raise InvalidArgumentError(
                f"{own_words}, but {asked_words} is asked for, and writing rows does not change it",
                hint=Hint(f"change it by ⟪{verbatim(call)}⟫ of the table, or leave it out of ⟪{self.argument}⟫"),
                table=table,
            )

    @classmethod
    def of_properties(cls, asked: Mapping[str, str], own: Mapping[str, str]) -> Iterator[Description]:
        """Yield a description for each property."""
        for name, value in asked.items():
            change = f"set({json.dumps({name: value}, ensure_ascii=False)})"
            yield cls("properties", f"property {name}", value, own.get(name), change)


def other_partitioning(own: Sequence[str], wanted: Sequence[str], hint: str) -> InvalidArgumentError:
    """Return the error for a partitioning that is not that of a table, by the names of what both partition by."""
    known = f"is partitioned by {', '.join(own)}" if own else "is not partitioned"
    return InvalidArgumentError(f"the table {known}, but {', '.join(wanted) or 'no column'} is asked for", hint=hint)
