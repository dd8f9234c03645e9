"""Changes of a table besides its rows, each of which is one step, of both formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, in_context
from deltaberg.hints import Hint
from deltaberg.schema.columns import ColumnName, find_sibling, join_name, split_name
from deltaberg.schema.types import Field, Struct
from deltaberg.signatures import public
from deltaberg.table.arguments import checked_flag, checked_note, checked_type
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.transaction.transaction import Transaction

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ColumnPlace", "TableAlteration", "one_step"]

_Own = TypeVar("_Own", bound="TableAlteration[Transaction]")
_Engine_co = TypeVar("_Engine_co", bound=Transaction, covariant=True)
_Given = ParamSpec("_Given")


def one_step(
    name: str, *, waits: bool = False
) -> Callable[[Callable[Concatenate[_Own, _Given], None]], Callable[Concatenate[_Own, _Given], _Own]]:
    """Make a method one step of an alteration, which it returns. A step that raises has changed nothing.

    Nothing is done if all that the transaction is for was committed before.

    Parameters
    ----------
    name
        The step as the history names it.
    waits
        Whether it changes columns, so that it may wait for other changes of columns.
    """

    def decorate(method: Callable[Concatenate[_Own, _Given], None]) -> Callable[Concatenate[_Own, _Given], _Own]:
        @wraps(method)
        def step(self: _Own, /, *args: _Given.args, **named: _Given.kwargs) -> _Own:
            if not self._transaction.is_done:
                with self._step(name, waits=waits):
                    method(self, *args, **named)
                self._steps.append(name)
            return self

        return step

    return decorate


@dataclass(frozen=True)
class ColumnPlace:
    """Where a column comes among the fields of its struct: behind or before another one, first, or last.

    Raises
    ------
    InvalidArgumentError
        Two places are named.
    """

    after: ColumnName | None = None
    before: ColumnName | None = None
    first: bool = False

    def __post_init__(self) -> None:
        if sum((self.after is not None, self.before is not None, checked_flag("first", self.first))) > 1:
            raise InvalidArgumentError(
                Hint("⟪after⟫, ⟪before⟫ and ⟪first⟫ exclude each other"), hint="pass one of them"
            )

    @classmethod
    def beside(cls, name: ColumnName, after: ColumnName | None, before: ColumnName | None, first: bool) -> ColumnPlace:
        """Return the place of a column; the other one may be named as a whole, or by its name in their struct."""
        above = [part.lower() for part in split_name(name)[:-1]]

        def in_struct(other: ColumnName | None) -> ColumnName | None:
            path = () if other is None else split_name(other)
            return (path[-1],) if above and [part.lower() for part in path[:-1]] == above else other

        return cls(in_struct(after), in_struct(before), first)

    def among(self, fields: Sequence[Field], new: Field) -> int:
        """Return the place of a column among the other fields, of which it may be one so far.

        Raises
        ------
        InvalidArgumentError
            The place is named by the column itself.
        ColumnNotFoundError
            There is no such field.
        """
        others = [field for field in fields if field is not new]
        other = self.before if self.after is None else self.after
        if other is None:
            return 0 if self.first else len(others)
        sibling = find_sibling(Struct(tuple(fields)), other)
        if sibling is new:
            raise InvalidArgumentError(
                "a column cannot be moved next to itself", hint="name another column", column=new.name
            )
        return next(number for number, field in enumerate(others) if field is sibling) + (self.after is not None)


@public
class TableAlteration(ABC, Generic[_Engine_co]):
    """Changes that tables of both formats have. Each method returns the object itself.

    Dots in the names of columns lead into structs, and ``element``, ``key`` and ``value`` into lists and maps.

    Parameters
    ----------
    transaction
        The transaction that takes the changes.
    is_part
        Whether the transaction consists of more than these changes, and commits them by itself.
    """

    def __init__(self, transaction: _Engine_co, *, is_part: bool = False) -> None:
        self._transaction = transaction
        self._table_at = str(transaction.root)
        self._is_part = is_part
        self._steps: list[str] = []

    def __repr__(self) -> str:
        return f"Alteration({self._steps})"

    @abstractmethod
    def _step(self, name: str, *, waits: bool = False) -> AbstractContextManager[None]:
        """Return the operation of the transaction that a step is."""

    @abstractmethod
    def _commit(self) -> CommitResult:
        """Commit the changes."""

    @abstractmethod
    def _move(self, name: ColumnName, place: ColumnPlace) -> object:
        """Move a column to a place that is named."""

    @abstractmethod
    def _comment(self, name: ColumnName, text: str | None) -> object:
        """Set the comment of a column."""

    @abstractmethod
    def _rename(self, name: ColumnName, to: str) -> object:
        """Rename a column."""

    @abstractmethod
    def _widen(self, name: ColumnName, type: pa.DataType) -> object:
        """Change the type of a column to a wider one."""

    @abstractmethod
    def _allow_nulls(self, name: ColumnName) -> object:
        """Let a column be null."""

    def commit(self) -> CommitResult:
        """Commit the changes; nothing is committed if the table is the same with them as without.

        Raises
        ------
        InvalidArgumentError
            The changes are part of a transaction, which commits them.
        MetadataChangedError, ProtocolChangedError
            Another commit has changed the table meanwhile.
        CommitConflictError
            Another commit moved one of the branches or tags meanwhile.
        """
        if self._is_part:
            raise InvalidArgumentError(
                "the changes are committed by the transaction that they are part of", hint="leave out ⟪commit()⟫"
            )
        with in_context(table=str(self._transaction.root)):
            return self._commit()

    def move(
        self,
        name: ColumnName,
        *,
        after: ColumnName | None = None,
        before: ColumnName | None = None,
        first: bool = False,
    ) -> Self:
        """Move a column, or a field of a struct, behind or before another one, or to the front.

        Parameters
        ----------
        name
            The column.
        after, before
            The column, or the field of the same struct, that it shall come behind, or before. A field may be named
            with its struct or without.
        first
            Put it before all others.

        Raises
        ------
        ColumnNotFoundError
            A column that is named does not exist.
        InvalidArgumentError
            Not exactly one of ``after``, ``before`` and ``first`` is given, or it is the column itself.
        """
        place = ColumnPlace.beside(name, after, before, first)
        if after is None and before is None and not first:
            raise InvalidArgumentError(
                "a column is moved behind or before another one, or to the front",
                hint="pass ⟪after⟫, ⟪before⟫ or ⟪first⟫",
            )
        self._move(name, place)
        return self

    def comment(self, name: ColumnName, text: str | None) -> Self:
        """Set the comment of a column, or of a field of a struct; None removes it.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        """
        self._comment(name, checked_note("comment", text, "pass None to remove it"))
        return self

    def rename(self, name: ColumnName, to: str) -> Self:
        """Rename a column, or a field of a struct. Files stay as they are, which needs column mapping on Delta tables.

        Raises
        ------
        UnsupportedFeatureError
            The Delta table has no column mapping; ``set({"delta.columnMapping.mode": "name"})`` enables it.
        ColumnNotFoundError
            There is no such column.
        SchemaError
            Another column has the new name, or a partition field with other values has or had it.
        """
        self._rename(name, to)
        return self

    def widen(self, name: ColumnName, type: pa.DataType) -> Self:
        """Change the type of a column to a wider one, which files with the old type are read as.

        Each format says which types are wider: the Delta protocol in "Type Widening", which the property
        ``delta.enableTypeWidening`` enables, and the Iceberg spec in "Schema Evolution".

        Parameters
        ----------
        name
            The column, or the field of a struct.
        type
            The Arrow type.

        Raises
        ------
        UnsupportedFeatureError
            Type widening is not enabled.
        SchemaError
            The type is not a wider one, or a constraint or another column names the column.
        ColumnNotFoundError
            There is no such column.
        """
        self._widen(name, checked_type(join_name(split_name(name)), type))
        return self

    def drop_not_null(self, name: ColumnName) -> Self:
        """Let a column, or a field of a struct, be null.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        """
        self._allow_nulls(name)
        return self
