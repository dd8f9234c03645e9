"""Binding values to the columns of one relation or of two, and evaluating them on batches."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import (
    ColumnNotFoundError,
    DeltabergError,
    EvaluationError,
    ExpressionError,
    TooLargeError,
    UnsupportedExpressionError,
    first_line,
)
from deltaberg.expressions.bind.constants import refuse_failing
from deltaberg.expressions.build.filters import as_value
from deltaberg.expressions.build.literals import no_value
from deltaberg.expressions.functions.function import Context
from deltaberg.expressions.functions.function_lookup import function_named
from deltaberg.expressions.tree.double_quotes import ColumnNames
from deltaberg.expressions.tree.nodes import (
    CallNode,
    ColumnNode,
    Frame,
    ListNode,
    LiteralNode,
    Node,
    Outcome,
    columns_of,
    folded,
    spread,
    too_large,
)
from deltaberg.expressions.tree.tree import (
    TRUE,
    Call,
    Cast,
    ColumnValue,
    DayLiteral,
    GetField,
    IntervalType,
    Literal,
    MomentLiteral,
    Value,
    chain_of,
    type_text,
)
from deltaberg.expressions.tree.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    MICROS_OF,
    NTZ,
    STRING,
    TIME,
    TIMESTAMP,
    UUID,
    VOID,
    is_moment,
    nanos_of,
)
from deltaberg.hints import shown_value
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.columns import find_path, split_name
from deltaberg.schema.types import DataType, Decimal, Field, Struct, inner_types

__all__ = ["BoundValue", "Relation", "bind_condition", "bind_value"]

#: What a call of these functions returns differs from call to call.
_NON_DETERMINISTIC = frozenset(
    {"rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"}
    | {"spark_partition_id", "input_file_name", "current_user", "session_user", "user", "now_ns"}
)
#: What these functions return differs from statement to statement.
_OF_THE_PRESENT = frozenset({"current_date", "curdate", "current_timestamp", "now", "localtimestamp"})
#: Functions whose first argument may be a unit in Spark, and what says the same here.
_WITH_UNITS = {
    **dict.fromkeys(("dateadd", "date_add"), "add an interval, as in day + INTERVAL 1 MONTH"),
    **dict.fromkeys(("datediff", "date_diff"), "datediff(end, start) is the number of days"),
}

_JOINED = frozenset({"and", "or"})
#: Comparisons, and the types of literals that are converted by their values alone. Programs join many of them.
_COMPARED = frozenset({"=", "<", "<=", ">", ">=", "<=>"})
_ALIKE = frozenset({INTEGER, LONG, DOUBLE})
_NANOSECONDS = re.compile(r"\.[0-9]{7,9}(?![0-9])")
#: The types whose literals are bound together.
_LISTED = frozenset({BOOLEAN, INTEGER, LONG, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, NTZ})
#: Functions that can be called without parentheses, unless a column has their name.
_WITHOUT_PARENTHESES = frozenset({"current_date", "current_timestamp", "localtimestamp"})


class Relation(NamedTuple):
    """One side of a scope: rows with columns, under an alias."""

    alias: str | None
    columns: Struct


@dataclass(frozen=True)
class BoundValue:
    """A value bound to the columns of its relations.

    Parameters
    ----------
    type
        The type of the results.
    tree
        The value before it was bound.
    is_deterministic
        Whether the same row always yields the same result. Only functions of the present time, such as
        ``current_date()``, do not; others are refused when they are bound.
    """

    type: DataType
    tree: Value
    node: Node = field(repr=False, compare=False)
    column: str | None = None
    is_deterministic: bool = True

    @cached_property
    def paths(self) -> tuple[tuple[int, tuple[Field, ...]], ...]:
        """The columns from which it is computed, each with the number of its relation, without repetitions."""
        return tuple(dict.fromkeys((leaf.relation, leaf.path) for leaf in columns_of(self.node)))

    @property
    def sql(self) -> str:
        """The value as SQL text in Spark's dialect."""
        return str(self.tree)

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the results for the rows of a batch, which has the columns of all relations in order.

        Raises
        ------
        EvaluationError
            If the value of a row cannot be computed, as where a number is divided by zero.
        """
        outcome = self.outcome(batch)
        for failure in outcome.failures:
            row = pc.index(failure.rows, True).as_py()
            if row >= 0:
                raise EvaluationError(failure.message, expression=self.sql, column=self.column, row=row)
        return spread(outcome.values, batch.num_rows)

    def outcome(self, batch: pa.RecordBatch) -> Outcome:
        """Return the results, and apart from them the rows that failed, without raising for them."""
        try:
            return self.node.evaluate(Frame(batch))
        except RecursionError:
            raise ExpressionError("the expression is nested too deeply") from None
        except (pa.ArrowCapacityError, MemoryError):
            raise too_large().with_context(expression=self.sql, column=self.column) from None
        except pa.ArrowException as error:
            # Left to the caller, it would be taken for the fault of the file that the rows are from.
            message = f"the expression cannot be evaluated: {first_line(error)}"
            raise EvaluationError(message, expression=self.sql, column=self.column) from None
        except TooLargeError as error:
            raise error.with_context(expression=self.sql, column=self.column) from None


def bind_value(
    value: object,
    relations: Sequence[Relation] | Struct,
    *,
    target: DataType | None = None,
    by_name: bool = False,
    completes: bool = False,
    timezone: str = "UTC",
    now: dt.datetime | None = None,
    column: str | None = None,
    beside: Sequence[Relation] = (),
    is_stored: bool = False,
) -> BoundValue:
    """Bind a value to the columns of relations.

    Parameters
    ----------
    value
        SQL text, a `Value`, a condition of `col`, or a Python literal; see `as_value`.
    relations
        The relations whose columns the value may use, or the columns of the only one.
    target
        Convert the results to this type, as Spark's ANSI store assignment does: what does not fit fails.
    by_name
        Whether this conversion matches the fields of structs by name, exactly or else without regard to case, as for
        rows that are appended, but no field may be missing. Otherwise they are taken in order, as by CAST.
    completes
        Whether fields may be missing after all, and become null.
    timezone
        The zone in which dates and the parts of timestamps are computed.
    now
        The time that ``current_timestamp()`` returns. By default it is that of the call.
    column
        The column to which the results are assigned, for messages.
    beside
        Other relations for whose columns a text in double quotes may be mistaken.
    is_stored
        Whether a table has the value already, so that what cannot be computed matters only to the rows that need it.

    Raises
    ------
    ColumnNotFoundError
        If a column does not exist.
    ExpressionError
        If the types do not fit each other, or a column is compared with a literal that is no value of its type.
    EvaluationError
        If another part that is the same for every row cannot be computed, unless CASE or COALESCE may pass it over.
    SchemaError
        If fields are matched by name, and the value has one that the target lacks, or lacks one that it has.
    UnsupportedExpressionError
        If a function, or a use of it, cannot be evaluated exactly as Spark evaluates it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from deltaberg.schema.types import Field, Primitive, Struct
    >>> bound = bind_value("x div 2 + 1", Struct((Field("x", Primitive("integer")),)))
    >>> str(bound.type)
    'long'
    >>> bound.evaluate(pa.record_batch({"x": pa.array([5, None], pa.int32())})).to_pylist()
    [3, None]
    """
    scope = (Relation(None, relations),) if isinstance(relations, Struct) else tuple(relations)
    tree = as_value(value)
    context = Context.at(timezone, now)
    try:
        names = ColumnNames((*scope, *beside))
        binder = _Binder(scope, context, target, names)
        node = binder.bind(tree)
        if target is not None:
            path = () if column is None else split_name(column)
            node = context.assign(node, target, path, completes) if by_name else context.cast(node, target)
        if not is_stored:
            refuse_failing(node)
        if isinstance(node.type, IntervalType):
            raise UnsupportedExpressionError("an interval cannot be the value of a column")
        return BoundValue(node.type, tree, node, column, not binder.is_of_the_present)
    except RecursionError:
        raise ExpressionError("the expression is nested too deeply") from None
    except (pa.ArrowCapacityError, MemoryError):
        raise too_large().with_context(expression=str(tree), column=column) from None
    except DeltabergError as error:
        raise error.with_context(expression=str(tree), column=column) from None


def bind_condition(
    value: object,
    relations: Sequence[Relation] | Struct,
    *,
    timezone: str = "UTC",
    now: dt.datetime | None = None,
    beside: Sequence[Relation] = (),
    is_stored: bool = False,
) -> BoundValue:
    """Bind a condition: a value of type boolean. A row for which it is null does not match.

    Raises
    ------
    ExpressionError
        If the value is not a boolean, and otherwise as `bind_value`.
    """
    bound = bind_value(value, relations, timezone=timezone, now=now, beside=beside, is_stored=is_stored)
    if bound.type == VOID:
        return bind_value(
            value, relations, target=BOOLEAN, timezone=timezone, now=now, beside=beside, is_stored=is_stored
        )
    if bound.type != BOOLEAN:
        found = type_text(bound.type)
        raise ExpressionError(f"a condition is a boolean, not of the type {found}", expression=bound.sql)
    return bound


#: The types of columns whose values are compared with the midnight of a day.
_POINTS_IN_TIME = frozenset({TIMESTAMP, NTZ, *MICROS_OF})


class _Binder:
    def __init__(
        self, relations: Sequence[Relation], context: Context, target: DataType | None, names: ColumnNames
    ) -> None:
        self._names = names
        self._relations = relations
        self._target = target
        self._context = context
        self._firsts = [sum(len(before.columns) for before in relations[:number]) for number in range(len(relations))]
        self._found: dict[tuple[str, ...], ColumnNode] = {}
        self._compared: dict[tuple[str, tuple[str, ...], DataType], CallNode] = {}
        #: Whether anything is computed from the present time.
        self.is_of_the_present = False

    def bind(self, value: Value) -> Node:
        if isinstance(value, ColumnValue):
            return self._column(value)
        if isinstance(value, Literal):
            return self._literal(value)
        if isinstance(value, Call):
            return folded(self._comparison(value) if value.name in _COMPARED else self._call(value))
        if isinstance(value, Cast):
            cast = self._context.cast(self.bind(value.value), self._cast_type(value), forgiving=value.forgiving)
            return folded(cast)
        if isinstance(value, GetField):
            return self.bind(Call("get_field", (value.value, Literal(value.name, STRING))))
        raise ExpressionError(f"{shown_value(value)} is not a value")

    def _literal(self, value: Literal) -> Node:
        kind, content = value.type, value.value
        self._names.check(content)
        if isinstance(kind, IntervalType):
            return LiteralNode(kind, pv.scalar(None), content)
        if kind in (TIME, UUID) and not self._has_type(kind):
            raise no_value(content)
        if kind in _ALIKE:
            return LiteralNode(kind, content, is_written=True)
        stored = content.bytes if kind == UUID else content
        scalar = stored.cast(arrow_type(kind)) if isinstance(stored, pa.Scalar) else pv.scalar(stored, arrow_type(kind))
        return LiteralNode(kind, scalar, is_written=True)

    def _cast_type(self, cast: Cast) -> DataType:
        """Return the type of a cast: that of nanoseconds for a literal that has some, where a column has them, too."""
        finer, text = nanos_of(cast.type), getattr(cast.value, "value", None)
        is_finer = finer is not None and isinstance(text, str) and bool(_NANOSECONDS.search(text))
        return finer if finer is not None and is_finer and self._has_type(finer) else cast.type

    def _has_type(self, kind: DataType) -> bool:
        """Return whether the value is assigned to a type, or a column has it. Not all tables have all types."""
        known = [] if self._target is None else [self._target]
        return any(kind in inner_types(within) for within in (*known, *(one.columns for one in self._relations)))

    def _comparison(self, call: Call) -> Node:
        """Bind a comparison of a column with a literal, as one before it whose literal differed in its value alone."""
        column, literal = call.arguments
        if not isinstance(column, ColumnValue) or type(literal) is not Literal or literal.type not in _ALIKE:
            return self._call(call)
        key = (call.name, column.path, literal.type)
        bound = self._compared.get(key)
        if bound is None or literal.value is None or not isinstance(bound.arguments[1], LiteralNode):
            call_node = self._call(call)
            # Not every long number is a double.
            if isinstance(call_node, CallNode) and (literal.type, call_node.arguments[1].type) != (LONG, DOUBLE):
                self._compared[key] = call_node
            return call_node
        subject, other = bound.arguments
        value = LiteralNode(other.type, literal.value, is_written=True)
        return CallNode(BOOLEAN, bound.name, (subject, value), bound.kernel, eager=bound.eager)

    def _call(self, call: Call) -> Node:
        function = function_named(call.name)
        self.is_of_the_present |= call.name in _OF_THE_PRESENT and not call.arguments
        if function is None:
            if call.name in _NON_DETERMINISTIC:
                raise UnsupportedExpressionError(f"{call.name}() is not deterministic and cannot be evaluated")
            raise UnsupportedExpressionError(
                f"the function {call.name}() cannot be evaluated", hint="docs/expressions.md lists the functions"
            )
        if call.name in _WITH_UNITS and len(call.arguments) == 3:
            raise UnsupportedExpressionError(
                f"{call.name}() with a unit cannot be evaluated", hint=_WITH_UNITS[call.name]
            )
        arguments: Sequence[Value] = call.arguments
        if call.name in _JOINED:
            arguments = list(_with_sets(chain_of(call), call.name))
            if len(arguments) == 1:
                return self.bind(arguments[0])
        if any(isinstance(one, DayLiteral) for one in arguments) and self.bind(arguments[0]).type in _POINTS_IN_TIME:
            arguments = [one.midnight if isinstance(one, DayLiteral) else one for one in arguments]
        nodes = [self.bind(argument) for argument in arguments[:1]] if call.name == "in" else []
        nodes += self._items(arguments[1:]) if nodes else [self.bind(argument) for argument in arguments]
        if MomentLiteral in map(type, arguments) and not is_moment(nodes[0].type):
            raise ExpressionError(
                f"a timestamp cannot be compared with a value of the type {nodes[0].type}", column=str(arguments[0])
            )
        return function.bind(self._context, nodes)

    def _items(self, items: Sequence[Value]) -> list[Node]:
        """Bind the items of IN. Literals of a type that follow each other are one node."""
        nodes: list[Node] = []
        for kind, run in groupby(items, _type_in_list):
            if kind is None:
                nodes += map(self.bind, run)
                continue
            values = [item.value for item in run if isinstance(item, Literal)]
            for value in values if kind == STRING else ():
                self._names.check(value)
            nodes.append(ListNode(kind, values))
        return nodes

    def _is_column(self, name: str) -> bool:
        return any(_has(relation.columns, name) for relation in self._relations)

    def _column(self, value: ColumnValue) -> Node:
        node = self._found.get(value.path)
        if node is None:
            name = value.path[0].lower()
            if len(value.path) == 1 and name in _WITHOUT_PARENTHESES and not self._is_column(name):
                return self.bind(Call(name))
            node = self._found[value.path] = self._find(value)
        return node

    def _find(self, value: ColumnValue) -> ColumnNode:
        found = self._qualified(value.path) or self._unqualified(value)
        relation, path = found
        places = [self._firsts[relation]]
        inside: DataType = self._relations[relation].columns
        for depth, part in enumerate(path):
            fields = inside.fields if isinstance(inside, Struct) else ()
            place = next(number for number, child in enumerate(fields) if child is part)
            places = [places[0] + place] if depth == 0 else [*places, place]
            inside = part.type
        return ColumnNode(path[-1].type, relation, path, tuple(places))

    def _qualified(self, path: tuple[str, ...]) -> tuple[int, tuple[Field, ...]] | None:
        """Return the column of the relation whose alias comes first, if there is one."""
        for number, relation in enumerate(self._relations if len(path) > 1 else ()):
            if relation.alias is not None and relation.alias.lower() == path[0].lower():
                try:
                    return number, find_path(relation.columns, path[1:])
                except ColumnNotFoundError:
                    if any(_has(other.columns, path[0]) for other in self._relations):
                        return None
                    raise
        return None

    def _unqualified(self, value: ColumnValue) -> tuple[int, tuple[Field, ...]]:
        if len(self._relations) == 1:
            return 0, find_path(self._relations[0].columns, value.path)
        holders = [number for number, relation in enumerate(self._relations) if _has(relation.columns, *value.path)]
        if len(holders) > 1:
            aliases = ", ".join(self._relations[number].alias or "?" for number in holders)
            raise ExpressionError(
                f"the column {value} is on several sides: {aliases}",
                hint=" or ".join(f"write {self._relations[number].alias or '?'}.{value}" for number in holders),
            )
        number = holders[0] if holders else 0
        return number, find_path(self._relations[number].columns, value.path)


def _type_in_list(item: Value) -> DataType | None:
    """Return the type of a literal that is bound together with others; None for other items."""
    if not isinstance(item, Literal) or item.value is None:
        return None
    kind = item.type
    return kind if kind is INTEGER or kind in _LISTED or isinstance(kind, Decimal) else None


def _with_sets(parts: Sequence[Value], operator: str) -> Iterator[Value]:
    """Return parts, in which equalities of one value that follow each other are one IN, or one NOT IN for AND.

    The order stays, since a part decides whether the parts behind it are evaluated.
    """
    pairs = [(part, _equality(part, operator)) for part in parts]
    if all(equal is None for _, equal in pairs):
        yield from parts
        return
    for key, found in groupby(pairs, lambda pair: pair[1] and (pair[1][0], pair[1][1].type)):
        run = list(found)
        if key is None or len(run) == 1:
            yield from (part for part, _ in run)
            continue
        member = Call("in", (key[0], *(equal[1] for _, equal in run if equal is not None)))
        yield member if operator == "or" else Call("not", (member,))


def _equality(part: Value, operator: str) -> tuple[Value, Literal] | None:
    """Return what a part says is equal to which literal; for AND, is not equal. None for other parts."""
    if operator == "and":
        part = part.arguments[0] if isinstance(part, Call) and part.name == "not" else TRUE
    if not isinstance(part, Call) or part.name != "=":
        return None
    subject, literal = part.arguments
    return (subject, literal) if isinstance(literal, Literal) and literal.value is not None else None


def _has(columns: Struct, name: str, *inside: str) -> bool:
    """Return whether a column has a name, or one with dots that a path begins with."""
    folded = ".".join((name, *inside)).lower() + "."
    return any(
        child.name.lower() == name.lower() or ("." in child.name and folded.startswith(child.name.lower() + "."))
        for child in columns
    )
