"""The rules of a table for its rows, and the columns that it fills with values of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from deltaberg.errors import ConstraintViolationError
from deltaberg.schema.columns import ColumnName, find_column
from deltaberg.schema.types import Struct
from deltaberg.table.rows.row_rules import RowRules

__all__ = ["CountedValues", "TableRules"]

_DEFAULT = "default"


class CountedValues(Protocol):
    """A source of the values of an identity column, each beyond the ones before."""

    column: str
    #: The last value that was generated; None before the first one.
    mark: int | None
    #: Whether values were generated here.
    is_used: bool

    def restart(self) -> None:
        """Begin again with the value that was generated first."""


@dataclass(frozen=True)
class TableRules:
    """The rules of a table for its rows, and the identity columns whose marks move as rows are written.

    Parameters
    ----------
    rows
        What is applied to the rows.
    identities
        What generates the values of identity columns.
    generated
        The names of the generated columns.
    refused
        The names of columns whose values nobody may give.
    defaults
        The value that the keyword ``DEFAULT`` stands for, as `bind_value` takes it, by the names of columns; it is null
        for others.
    """

    rows: RowRules
    identities: tuple[CountedValues, ...] = ()
    generated: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def computed(self) -> frozenset[str]:
        """The columns whose values nobody need give: generated columns and identity columns."""
        return self.generated | {values.column for values in self.identities}

    def given_to_update(self, assigned: Collection[str]) -> frozenset[str]:
        """Return the columns that updated rows have, if these are assigned: all but generated ones, which follow."""
        return frozenset(self.rows.schema.names) - self.generated.difference(assigned)

    def restart(self) -> None:
        """Begin again with the first values that were generated, for the same rows once more."""
        for values in self.identities:
            values.restart()

    def defaulted(self, values: Mapping[ColumnName, Any], others: Struct | None = None) -> frozenset[str]:
        """Return the names of the columns whose new value is the keyword ``DEFAULT``.

        Parameters
        ----------
        others
            Further columns that values may name. If a column is called ``default``, the word means the column.

        Examples
        --------
        >>> from deltaberg.schema.types import Field, Primitive
        >>> rules = TableRules(RowRules(Struct((Field("price", Primitive("long")), Field("x", Primitive("long"))))))
        >>> rules.defaulted({"PRICE": "default", "x": "'DEFAULT'"})
        frozenset({'price'})
        """
        schema = self.rows.schema
        if any(column.name.lower() == _DEFAULT for column in (*schema, *(others or ()))):
            return frozenset()
        paths = [find_column(schema, name) for name, value in values.items() if _is_default(value)]
        return frozenset(path[0].name for path in paths if len(path) == 1)

    def with_defaults(self, values: Mapping[ColumnName, Any], others: Struct | None = None) -> dict[ColumnName, Any]:
        """Return new values of columns in which the keyword ``DEFAULT`` is what it stands for.

        It stands for null if the column has no default value. Callers have generated columns and identity columns
        filled afterwards, as if they had no value; see `defaulted`.

        Parameters
        ----------
        others
            As for `defaulted`.

        Examples
        --------
        >>> from deltaberg.schema.types import Field, Primitive
        >>> schema = Struct((Field("price", Primitive("long")), Field("x", Primitive("long"))))
        >>> rules = TableRules(RowRules(schema), defaults={"price": "42"})
        >>> rules.with_defaults({"PRICE": "default", "x": "DEFAULT"})
        {'PRICE': '42', 'x': 'NULL'}
        """
        schema = self.rows.schema
        if any(column.name.lower() == _DEFAULT for column in (*schema, *(others or ()))):
            return dict(values)
        return {name: self._default(name) if _is_default(value) else value for name, value in values.items()}

    def _default(self, name: ColumnName) -> Any:
        path = find_column(self.rows.schema, name)
        # Fields inside a column have no default value of their own.
        return self.defaults.get(path[0].name, "NULL") if len(path) == 1 else "NULL"

    def check_given(self, columns: Collection[str]) -> None:
        """Refuse rows that give values to an identity column that takes none.

        Raises
        ------
        ConstraintViolationError
            They do.
        """
        names = {name.lower() for name in columns}
        wrong = sorted(name for name in self.refused if name.lower() in names)
        if wrong:
            raise ConstraintViolationError(
                "the values of the identity column are generated, and cannot be given",
                hint="leave the column out",
                column=wrong[0],
            )

    def counted(self, given: Collection[str]) -> list[str]:
        """Return the identity columns whose values are generated for rows that have these columns."""
        names = {name.lower() for name in given}
        return [one.column for one in self.identities if one.column.lower() not in names]

    def marks(self) -> dict[str, int]:
        """Return the last generated value of each identity column for which values were generated."""
        return {one.column: one.mark for one in self.identities if one.is_used and one.mark is not None}


def _is_default(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() == _DEFAULT
