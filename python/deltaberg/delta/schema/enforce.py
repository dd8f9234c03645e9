"""The rules of a table for its rows, bound to its columns.

Delta protocol, "Column Invariants", "CHECK Constraints", "Generated Columns", "Default Columns", "Identity Columns".

Expressions name columns as the schema shows them, whatever their physical names are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.schema.generated_columns import check_new_columns, in_order
from deltaberg.delta.schema.schema_json import SchemaDocument
from deltaberg.delta.schema.writer_rules import (
    IDENTITY_MARK,
    IdentityColumn,
    check_constraints,
    column_defaults,
    column_invariants,
    generation_expressions,
    identity_columns,
)
from deltaberg.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    CorruptLogError,
    DeltabergError,
    UnsupportedFeatureError,
)
from deltaberg.expressions.bind.bind import BoundValue, Relation, bind_condition, bind_value
from deltaberg.expressions.build.parse import parse_value
from deltaberg.expressions.tree.tree import Value
from deltaberg.schema.arrow import count_up
from deltaberg.schema.rows.text_lengths import fit_texts
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.table.rows.row_rules import ColumnFill, RowCheck, RowRules
from deltaberg.table.rows.table_rules import TableRules

__all__ = [
    "IdentityValues",
    "columns_of",
    "constraint_check",
    "default_value",
    "table_rules",
    "with_marks",
]

_Rule = TypeVar("_Rule")

_LONG = Primitive("long")
_VARIANT = Primitive("variant")
#: Values without columns do not look at it.
_ONE_ROW = pa.record_batch({"": pa.nulls(1)})
_MOST, _LEAST = (1 << 63) - 1, -(1 << 63)


class IdentityValues:
    """Generates the values of an identity column, each beyond the ones before.

    Parameters
    ----------
    column
        The name of the column.
    rule
        Start, step and the last value that was generated.

    Examples
    --------
    >>> values = IdentityValues("id", IdentityColumn(10, 5, None, allow_explicit_insert=False))
    >>> values.take(3).to_pylist(), values.mark
    ([10, 15, 20], 20)
    """

    def __init__(self, column: str, rule: IdentityColumn) -> None:
        self.column = column
        self._rule = rule
        #: The last value that was generated; None before the first one.
        self.mark = rule.high_water_mark
        #: Whether values were generated here.
        self.is_used = False

    def take(self, rows: int) -> pa.Int64Array:
        """Return the next values.

        Raises
        ------
        ConstraintViolationError
            A value would not be an integer of 64 bits.
        """
        if not rows:
            return pa.array([], pa.int64())
        start, step = self._rule.start, self._rule.step
        first = start
        if self.mark is not None:
            # The mark of another engine may lie between two values.
            first = start + max((self.mark - start) // step + 1, 0) * step
        last = first + (rows - 1) * step
        if not (_LEAST <= first <= _MOST and _LEAST <= last <= _MOST):
            raise ConstraintViolationError(
                f"the next value of an identity column is {last if _LEAST <= first <= _MOST else first}, which is not "
                "an integer of 64 bits",
                column=self.column,
            )
        self.mark, self.is_used = last, True
        if step in (1, -1) or rows == 1:
            return pc.add(pc.multiply(count_up(0, rows).cast(pa.int64()), pa.scalar(step, pa.int64())), first)
        return pa.array(range(first, last + (1 if step > 0 else -1), step), pa.int64())

    def restart(self) -> None:
        """Begin again with the value that was generated first."""
        self.mark, self.is_used = self._rule.high_water_mark, False

    def fill(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the next values, one for each row of a batch."""
        return self.take(batch.num_rows)


def with_marks(schema_string: str, marks: Mapping[str, int]) -> str:
    """Return a ``schemaString`` in which identity columns have these high-water marks."""
    document = SchemaDocument(schema_string)
    for column, mark in marks.items():
        document.field(column)["metadata"][IDENTITY_MARK] = mark
    return document.to_json()


def table_rules(
    schema: Struct,
    properties: Mapping[str, str],
    supported: Collection[str],
    *,
    empty_as_null: frozenset[str] = frozenset(),
    timezone: str = "UTC",
    now: dt.datetime | None = None,
    are_new: bool = False,
) -> TableRules:
    """Return the rules of a table. Those of features that its protocol does not support are no rules.

    Generated columns that are computed from other generated columns are computed after these.

    Parameters
    ----------
    schema, properties, supported
        The columns, the table properties, and the features that the protocol supports.
    empty_as_null
        The names of columns whose empty values become null.
    timezone
        The zone of timestamps without one in expressions.
    now
        The time of functions such as ``current_timestamp``; the present by default.
    are_new
        Whether the table is being created. Its generated columns must not be computed from one another, nor from the
        time, and an expression that is not valid is an error of the caller.

    Raises
    ------
    UnsupportedFeatureError
        An expression cannot be evaluated exactly, names a column that does not exist, or belongs to a field of a
        struct, which only invariants may; or generated columns are computed from each other in a circle. The message
        names the rule.
    SchemaError, ExpressionError
        A new expression is not valid, or cannot be evaluated exactly.
    CorruptLogError
        A rule is not written as the protocol says.
    """
    now = now or dt.datetime.now(dt.timezone.utc)
    binder = _Binder(schema, timezone, now, are_new=are_new)
    fills: list[ColumnFill] = []
    checks: list[RowCheck] = []

    def active(feature: str, rules: Mapping[str, _Rule]) -> Mapping[str, _Rule]:
        return rules if feature in supported else {}

    for path, text in active("allowColumnDefaults", column_defaults(schema)).items():
        value = binder.value(f"the default value of {path}", text, binder.column(path, "allowColumnDefaults"))
        fills.append(ColumnFill(path, value.evaluate))
    identities = active("identityColumns", identity_columns(schema))
    for path, rule in identities.items():
        _check_identity(binder.column(path, "identityColumns"), rule)
    counters = tuple(IdentityValues(path, rule) for path, rule in identities.items())
    fills += [ColumnFill(counter.column, counter.fill) for counter in counters]
    refused = frozenset(path for path, rule in identities.items() if not rule.allow_explicit_insert)
    generated = active("generatedColumns", generation_expressions(schema))
    values: dict[str, BoundValue] = {}
    for path, text in generated.items():
        values[path] = binder.value(f"the generated column {path}", text, binder.column(path, "generatedColumns"))
    if are_new:
        check_new_columns(schema, {path: binder.value(path, text, None) for path, text in generated.items()})
    for path in in_order(values):
        name, text = f"the generated column {path}", generated[path]
        fills.append(ColumnFill(path, values[path].evaluate))
        check = binder.check(name, f"{_quoted(path)} <=> ({text})")
        checks.append(replace(check, follows=path))
    for path, text in active("invariants", column_invariants(schema)).items():
        checks.append(binder.check(f"the invariant of {path}", text))
    for name, text in active("checkConstraints", check_constraints(properties)).items():
        checks.append(binder.check(f"the CHECK constraint {name}", text))
    made_from = (schema, dict(properties), frozenset(supported), empty_as_null, timezone, now)
    rows = _PortableRules(schema, tuple(fills), tuple(checks), empty_as_null, made_from)
    expressions = active("allowColumnDefaults", column_defaults(schema))
    defaults = {name: binder.tree(text) for name, text in expressions.items()}
    return TableRules(rows, counters, frozenset(generated), refused, defaults)


@dataclass(frozen=True)
class _PortableRules(RowRules):
    """Rules that go to other processes as what they are made from, since expressions that are bound do not pickle."""

    made_from: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Callable[..., RowRules], tuple[Any, ...]]:
        return _made_rules, self.made_from


def _made_rules(
    schema: Struct,
    properties: Mapping[str, str],
    supported: Collection[str],
    empty_as_null: frozenset[str],
    timezone: str,
    now: dt.datetime,
) -> RowRules:
    rules = table_rules(schema, properties, supported, empty_as_null=empty_as_null, timezone=timezone, now=now)
    return rules.rows


def constraint_check(schema: Struct, name: str, text: str, timezone: str = "UTC") -> RowCheck:
    """Return the check of a new CHECK constraint.

    Raises
    ------
    ColumnNotFoundError, ExpressionError
        The condition is not valid, or cannot be evaluated exactly.
    """
    binder = _Binder(schema, timezone, dt.datetime.now(dt.timezone.utc), are_new=True)
    return binder.check(f"the CHECK constraint {name}", text)


def default_value(schema: Struct, column: Field, text: str) -> BoundValue:
    """Return the new default value of a column of a table, which names no columns.

    Raises
    ------
    ColumnNotFoundError, ExpressionError
        The expression names a column, is not valid, or cannot be evaluated exactly.
    UnsupportedFeatureError
        The column is a variant, and the value is not null.
    EvaluationError
        Its value does not fit the type of the column.
    ConstraintViolationError
        It is a text that is too long for the column.
    """
    rule = f"the default value of {column.name}"
    if column.type == _VARIANT and text.strip().lower() != "null":
        raise UnsupportedFeatureError("the default value of a variant is null", column=column.name, expression=text)
    try:
        binder = _Binder(Struct(), "UTC", dt.datetime.now(dt.timezone.utc), are_new=True)
        value = binder.value(rule, text, column, beside=schema)
    except ColumnNotFoundError as error:
        raise ColumnNotFoundError(
            f"{rule} names a column: {text}",
            hint="it must be a value; quote a text twice, as in \"'north'\"",
            column=column.name,
            expression=text,
        ) from error
    texts = value.evaluate(_ONE_ROW)
    if (fit := fit_texts(column)) is not None:
        fit(texts)
    return value


def columns_of(schema: Struct, rules: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return, for each rule, its name and the paths of the columns that its expression names."""
    binder = _Binder(schema, "UTC", dt.datetime.now(dt.timezone.utc))
    for name, text in rules.items():
        for _, path in binder.value(name, text, None).paths:
            yield name, tuple(part.name for part in path)


class _Binder:
    """Binds the expressions of a table's rules, and names the rule where that fails."""

    def __init__(self, schema: Struct, timezone: str, now: dt.datetime, *, are_new: bool = False) -> None:
        self._schema = schema
        self._timezone = timezone
        self._now = now
        #: Whether the caller wrote the expressions, whose errors are then those of the caller.
        self._are_new = are_new

    def column(self, path: str, feature: str) -> Field:
        """Return the top-level column that a rule belongs to."""
        field = self._schema.get(path)
        if field is None:
            raise UnsupportedFeatureError(
                "only columns of the table, and no fields inside them, can have such a rule",
                hint="write to the table with an engine that enforces it",
                feature=feature,
                column=path,
            )
        return field

    def tree(self, text: str) -> str | Value:
        """Return an expression as it is bound. That of a table may be of an engine with other rules for quotes."""
        return text if self._are_new else parse_value(text, is_stored=True)

    def value(self, rule: str, text: str, column: Field | None, beside: Struct | None = None) -> BoundValue:
        """Bind an expression; its results have the type of the column, if there is one.

        Parameters
        ----------
        beside
            The columns that the expression must not name.
        """
        target = None if column is None else column.type
        others = () if beside is None else (Relation(None, beside),)
        try:
            return bind_value(
                self.tree(text),
                self._schema,
                target=target,
                timezone=self._timezone,
                now=self._now,
                beside=others,
                is_stored=not self._are_new,
            )
        except DeltabergError as error:
            raise self._refused(rule, text, error) from error

    def check(self, rule: str, text: str) -> RowCheck:
        """Bind a condition."""
        try:
            bound = bind_condition(
                self.tree(text), self._schema, timezone=self._timezone, now=self._now, is_stored=not self._are_new
            )
        except DeltabergError as error:
            raise self._refused(rule, text, error) from error
        names = dict.fromkeys(path[0].name for _, path in bound.paths)
        return RowCheck(rule, text, bound.evaluate, tuple(names))

    def _refused(self, rule: str, text: str, error: DeltabergError) -> DeltabergError:
        message = f"{rule} cannot be evaluated: {error.message}"
        if self._are_new:
            return type(error)(message, hint=error.hint, expression=text)
        return UnsupportedFeatureError(
            message,
            hint="write to the table with an engine that evaluates it, or change the rule",
            expression=text,
        )


def _check_identity(column: Field, rule: IdentityColumn) -> None:
    if column.type != _LONG:
        raise CorruptLogError(f"an identity column has the type {column.type}, not long", column=column.name)
    if not rule.step:
        raise CorruptLogError("the step of an identity column is 0", column=column.name)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
