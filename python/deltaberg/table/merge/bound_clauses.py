"""Clauses of a merge, bound to the columns of the table and of the source."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError
from deltaberg.expressions.bind.bind import BoundValue, Relation, bind_condition
from deltaberg.expressions.tree.tree import Call, ColumnValue, Literal, Value
from deltaberg.schema.arrow import count_up
from deltaberg.schema.columns import ColumnName, ColumnValues, field_finder, find_column, paired_fields
from deltaberg.schema.types import DataType, Primitive, Struct
from deltaberg.table.change.assignments import Assignments, bind_assignments
from deltaberg.table.change.conditions import refuse_constant
from deltaberg.table.merge.clauses import MATCHED, NOT_MATCHED, MergeClause
from deltaberg.table.rows.row_rules import RowRules

__all__ = ["BoundClause", "MergeScope", "bind_clause", "choose_clauses", "clause_values", "completed_value"]

_STRING = Primitive("string")
_NULL = Literal(None, Primitive("void"))


@dataclass(frozen=True)
class MergeScope:
    """The names that the conditions and values of a merge may use.

    Parameters
    ----------
    target, source
        The table and the source. Both have an alias.
    timezone
        The zone of timestamps without one.
    now
        What ``current_timestamp()`` is.
    """

    target: Relation
    source: Relation
    timezone: str
    now: dt.datetime

    def condition(self, value: Any, relations: Sequence[Relation] | None = None) -> BoundValue:
        """Bind a condition on rows of some relations, by default of both."""
        both = (self.target, self.source)
        return bind_condition(value, relations or both, timezone=self.timezone, now=self.now, beside=both)


@dataclass(frozen=True)
class BoundClause:
    """A clause whose condition and values can be computed.

    Parameters
    ----------
    clause
        The clause as it was given.
    condition
        The condition; None if there is none.
    assignments
        The new values; None for a clause that deletes.
    rules
        What the table asks of the new rows; None if nothing.
    given
        The columns that these rules need not fill.
    """

    clause: MergeClause
    condition: BoundValue | None
    assignments: Assignments | None = None
    rules: RowRules | None = None
    given: frozenset[str] = frozenset()

    @property
    def parts(self) -> Iterator[BoundValue]:
        """The condition and the values."""
        if self.condition is not None:
            yield self.condition
        if self.assignments is not None:
            yield from self.assignments.values.values()

    def rows(self, old: pa.RecordBatch, scope: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the table with the new values, as the rules of the table want them.

        Parameters
        ----------
        old
            The rows as they are; rows of nulls for new ones.
        scope
            The rows of the relations to which the values are bound.

        Raises
        ------
        EvaluationError
            The value of a row cannot be computed, or does not fit its column.
        ConstraintViolationError
            A row violates a rule.
        """
        if self.assignments is None:
            raise AssertionError("a clause that deletes has no rows")
        made = self.assignments.apply(old, scope)
        return made if self.rules is None else self.rules.apply(made, self.given)


def clause_values(
    clause: MergeClause, scope: MergeScope, *, lenient: bool, optional: AbstractSet[str] = frozenset()
) -> dict[ColumnName, Any]:
    """Return the new values of a clause that does not delete, by columns of the table.

    Parameters
    ----------
    lenient
        Whether the source may lack columns of the table, and fields of structs, where all columns are taken from it.
    optional
        The columns that it may lack in any case.

    Raises
    ------
    InvalidArgumentError
        A column is assigned twice.
    ColumnNotFoundError
        The source lacks a column.
    """
    if clause.values is None:
        optional = frozenset(scope.target.columns.names) if lenient else optional
        return _all_values(clause, scope, optional, completes=lenient)
    return _by_column(clause.values, scope.target)


def bind_clause(
    clause: MergeClause, scope: MergeScope, values: Mapping[ColumnName, Any] | None, *, completes: bool = False
) -> BoundClause:
    """Bind a clause.

    Parameters
    ----------
    values
        The new values, by columns of the table; None for a clause that deletes.
    completes
        Whether structs inside lists and maps may lack fields, which become null.

    Raises
    ------
    InvalidArgumentError
        A column is assigned twice.
    ColumnNotFoundError
        A column does not exist.
    ExpressionError
        A condition or a value is not valid, or a condition names no column.
    """
    relations: tuple[Relation, ...] = (scope.target,)
    if clause.when == MATCHED:
        relations = (scope.target, scope.source)
    elif clause.when == NOT_MATCHED:
        relations = (scope.source,)
    condition = None if clause.condition is None else scope.condition(clause.condition, relations)
    if condition is not None:
        refuse_constant(clause.condition, condition)
    if values is None:
        return BoundClause(clause, condition)
    assignments = bind_assignments(
        scope.target.columns,
        values,
        relations,
        completes=completes,
        timezone=scope.timezone,
        now=scope.now,
        beside=(scope.target, scope.source),
    )
    return BoundClause(clause, condition, assignments)


def _all_values(
    clause: MergeClause, scope: MergeScope, optional: AbstractSet[str], *, completes: bool
) -> dict[ColumnName, Any]:
    in_source = field_finder(scope.source.columns)
    # Some clauses can leave out a column that no clause adds to the table.
    named = [name for name in clause.excluded if field_finder(scope.target.columns)(name) or not in_source(name)]
    excluded = {find_column(scope.target.columns, name)[0].name for name in named}
    pairs = paired_fields(scope.target.columns, scope.source.columns)
    alias = () if scope.source.alias is None else (scope.source.alias,)
    own = (scope.target.alias,) if clause.when == MATCHED and scope.target.alias is not None else None
    values: dict[ColumnName, Any] = {}
    for child in scope.target.columns:
        if child.name in excluded:
            continue
        paired = pairs.get(child.name)
        if paired is not None:
            kept = None if own is None else (*own, child.name)
            source = (*alias, paired.name)
            values[(child.name,)] = (
                completed_value(paired.type, child.type, source, kept) if completes else ColumnValue(source)
            )
        elif child.name not in optional:
            raise ColumnNotFoundError(
                f"the source lacks the column {child.name}",
                hint='name the columns to set, or use ⟦⟪except_cols⟫ or ⟧⟪schema_mode="merge"⟫',
                column=child.name,
            )
    return values


def _lacks_fields(source_type: DataType, column_type: DataType) -> bool:
    """Return whether a struct lacks fields of a column, all of which may be null."""
    if not isinstance(source_type, Struct) or not isinstance(column_type, Struct):
        return False
    known = paired_fields(column_type, source_type)
    lacking = [child for child in column_type if child.name not in known]
    inside = [_lacks_fields(known[child.name].type, child.type) for child in column_type if child.name in known]
    return (bool(lacking) or any(inside)) and all(child.nullable for child in lacking)


def completed_value(
    source_type: DataType, column_type: DataType, source: tuple[str, ...], kept: tuple[str, ...] | None
) -> Value:
    """Return a column of the source; if it is a struct, with the fields that it lacks.

    Parameters
    ----------
    source
        The path of the column.
    kept
        The path of the column in the row of the table, whose fields stay; None for a new row, in which they are null.
    """
    if (
        not isinstance(source_type, Struct)
        or not isinstance(column_type, Struct)
        or not _lacks_fields(source_type, column_type)
    ):
        return ColumnValue(source)
    known = paired_fields(column_type, source_type)
    parts: list[Value] = []
    for child in column_type:
        own, old = known.get(child.name), None if kept is None else (*kept, child.name)
        if own is None:
            value: Value = _NULL if old is None else ColumnValue(old)
        else:
            value = completed_value(own.type, child.type, (*source, own.name), old)
        parts += [Literal(child.name, _STRING), value]
    is_null: Value = Call("isnull", (ColumnValue(source),))
    if kept is not None:
        is_null = Call("and", (is_null, Call("isnull", (ColumnValue(kept),))))
    return Call("if", (is_null, _NULL, Call("named_struct", tuple(parts))))


def _by_column(values: ColumnValues, target: Relation) -> dict[ColumnName, Any]:
    """Return values by names without the alias of the table."""
    prefix = f"{target.alias}.".lower()
    by_column: dict[ColumnName, Any] = {}
    for given, value in values.items():
        is_qualified = isinstance(given, str) and given.lower().startswith(prefix)
        name = given[len(prefix) :] if is_qualified and not _has(target.columns, prefix[:-1]) else given
        if name in by_column:
            raise InvalidArgumentError(f"the column {name} is set twice", column=str(name))
        by_column[name] = value
    return by_column


def _has(columns: Struct, name: str) -> bool:
    return any(child.name.lower() == name for child in columns)


def choose_clauses(clauses: Sequence[BoundClause], batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Array]]:
    """Return, for each clause that counts for rows of a batch, its number and the numbers of the rows, ascending.

    A condition is not evaluated for rows that an earlier clause has taken.
    """
    left = count_up(0, batch.num_rows)
    for number, clause in enumerate(clauses):
        if not len(left):
            return
        if clause.condition is None:
            yield number, left
            return
        rows = batch if len(left) == batch.num_rows else batch.take(left)
        mask = clause.condition.evaluate(rows).fill_null(fill_value=False)
        chosen = left.filter(mask)
        if len(chosen):
            yield number, chosen
            left = left.filter(pc.invert(mask))
