"""Conditions as pruning and the evaluation of rows take them: comparisons of columns, which metadata can decide.

Such a tree is derived from a bound value (see `derive`). It consists of `BoundAnd`, `BoundOr`, `BoundPredicate`,
`BoundComputed` and literals that are true or false. It has no NOT, and no comparison that has to be rewritten.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.tree.double_quotes import quoted
from deltaberg.expressions.tree.scalars import python_value
from deltaberg.expressions.tree.tree import FALSE, TRUE, Literal
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.types import DataType, Field, Primitive

__all__ = [
    "Bound",
    "BoundAnd",
    "BoundComputed",
    "BoundOr",
    "BoundPredicate",
    "RowTest",
    "bound_paths",
    "is_computed",
    "join_bound",
    "member",
    "next_numbers",
]

#: What a comparison with values limits. A text is not less than what it begins with.
_SIDES = {"=": "=", "in": "=", ">": ">=", ">=": ">=", "<": "<=", "<=": "<=", "starts with": ">="}
#: Operators of which several amount to one, with what that is: a set, the values of both, or the end that decides.
_JOINED_BY_OR = {"=": "in", "in": "in", "<": "<", "<=": "<", ">": ">", ">=": ">"}
_JOINED_BY_AND = {
    "=": "both",
    "in": "both",
    "!=": "not in",
    "not in": "not in",
    ">": ">",
    ">=": ">",
    "<": "<",
    "<=": "<",
}
#: So many parts of OR are looked at together.
_MANY = 256


@dataclass(frozen=True)
class BoundPredicate:
    """A column compared with scalars of its type (of double for float), or with another column."""

    operator: str
    path: tuple[Field, ...]
    values: tuple[pa.Scalar, ...] = ()
    other: tuple[Field, ...] | None = None

    @property
    def type(self) -> DataType:
        """The type of the column."""
        return self.path[-1].type

    @property
    def is_floating(self) -> bool:
        """Whether the column can hold NaN."""
        return isinstance(self.type, Primitive) and self.type.name in ("float", "double")

    # A filter is evaluated for every file, and may have many values.

    @cached_property
    def literals(self) -> pa.Array:
        """The scalars, of which there must be at least one, as an array."""
        return pv.array(self.values, self.values[0].type)

    @cached_property
    def sorted_literals(self) -> pa.Array:
        """The scalars, of which there must be at least one, in ascending order."""
        return self.literals.take(pc.array_sort_indices(self.literals))

    @cached_property
    def has_nan(self) -> bool:
        """Whether one of the scalars is NaN."""
        return self.is_floating and bool(self.values) and bool(pc.any(pc.is_nan(self.literals)).as_py())

    def __getstate__(self) -> dict[str, Any]:
        # Every task takes the filter along, and an array is a fraction of its scalars.
        state = {child.name: getattr(self, child.name) for child in fields(self)}
        return {**state, "values": self.literals} if len(self.values) > 1 else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "values": tuple(state["values"])})

    def __str__(self) -> str:
        name = ".".join(part.name for part in self.path)
        operator = self.operator.upper()
        if self.other is not None:
            return f"{name} {operator} {'.'.join(part.name for part in self.other)}"
        shown = [_shown(value) for value in self.values]
        if self.operator in ("in", "not in"):
            return f"{name} {operator} ({', '.join(shown)})"
        return " ".join([name, operator, *shown])


def _shown(value: pa.Scalar) -> str:
    if isinstance(value, pa.TimestampScalar) and value.type.unit == "ns":
        # Python's datetime has no nanoseconds.
        return f"'{value.cast(pa.timestamp('ns')).cast(pa.string())}{'+00:00' if value.type.tz else ''}'"
    python = python_value(value)
    if isinstance(python, str):
        return quoted(python)
    return f"'{python}'" if isinstance(python, (dt.date, dt.time)) else str(python)


@dataclass(frozen=True)
class BoundAnd:
    """All parts hold."""

    parts: tuple[Bound, ...]

    def __str__(self) -> str:
        return "(" + " AND ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True)
class BoundOr:
    """At least one part holds."""

    parts: tuple[Bound, ...]

    def __str__(self) -> str:
        return "(" + " OR ".join(map(str, self.parts)) + ")"

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": self.parts}

    @property
    def is_long(self) -> bool:
        """Whether there are so many parts that each of them costs too much by itself."""
        return len(self.parts) > _MANY

    @cached_property
    def outline(self) -> Bound:
        """The conditions that each part implies: the values, or the ends, that columns have in all parts."""
        known = [_compared(part) for part in self.parts]
        common: list[Bound] = []
        for key, first in known[0].items():
            found = [columns[key] for columns in known if key in columns]
            if len(found) < len(known):
                continue
            values = _literals_of(found)
            if key[0] == "=":
                common.append(BoundPredicate("in", first.path, tuple(pc.unique(values))))
            elif not first.is_floating:
                order = pc.array_sort_indices(values)
                end = values[order[0 if key[0] == ">=" else -1].as_py()]
                common.append(BoundPredicate(key[0], first.path, (end,)))
        return join_bound(common, is_and=True)

    @cached_property
    def rows(self) -> tuple[tuple[tuple[Field, ...], ...], tuple[pa.Array, ...], pa.Array] | None:
        """Columns, the different values of each, and the numbers of the rows of values that fulfil a part.

        None if the parts are not all equalities of the same columns with one value each. The number of a row counts
        through all combinations of values.
        """
        compared = [_compared(part) for part in self.parts]
        for part, columns in zip(self.parts, compared, strict=True):
            size = len(part.parts) if isinstance(part, BoundAnd) else 1
            if columns.keys() != compared[0].keys() or size != len(columns):
                return None
            if any(one.operator != "=" or one.is_floating for one in columns.values()):
                return None
        numbers: pa.Array = pa.repeat(pv.scalar(0, pa.int64()), len(compared))
        sets: list[pa.Array] = []
        for key in compared[0]:
            values = _literals_of([columns[key] for columns in compared])
            sets.append(pc.unique(values))
            if math.prod(map(len, sets)) >= 1 << 62:
                return None
            numbers = next_numbers(numbers, values, sets[-1])
        return tuple(first.path for first in compared[0].values()), tuple(sets), numbers


def next_numbers(numbers: pa.Array, values: pa.Array, known: pa.Array) -> pa.Array:
    """Return the numbers of rows of values with one more column; null where a value is not known."""
    places = pc.index_in(values, value_set=known.cast(values.type)).cast(pa.int64())
    return pc.add(pc.multiply(numbers, pv.scalar(len(known), pa.int64())), places)


def _compared(part: Bound) -> dict[tuple[str, tuple[int, ...]], BoundPredicate]:
    """Return the comparisons of columns with values in a part, by what they limit and by the fields of the column."""
    inside = part.parts if isinstance(part, BoundAnd) else (part,)
    return {
        (_SIDES[one.operator], tuple(map(id, one.path))): one
        for one in inside
        if isinstance(one, BoundPredicate) and one.other is None and one.operator in _SIDES
    }


def _literals_of(found: Sequence[BoundPredicate]) -> pa.Array:
    return pv.array([value for one in found for value in one.values], found[0].values[0].type)


class RowTest(Protocol):
    """The evaluation of a condition. It pickles."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return a boolean for each row of a batch, or null if the condition is unknown.

        Raises
        ------
        EvaluationError
            If the condition cannot be computed for a row.
        """


@dataclass(frozen=True)
class BoundComputed:
    """A condition that is computed from columns.

    Parameters
    ----------
    test
        What computes it, from batches of these columns in this order. Its text is the condition.
    columns
        The columns.
    implied
        A filter that every row fulfils for which the condition is true; files are pruned by it.
    """

    test: RowTest
    columns: tuple[Field, ...]
    implied: Bound = TRUE

    def __str__(self) -> str:
        return str(self.test)


Bound = BoundPredicate | BoundAnd | BoundOr | BoundComputed | Literal


def bound_paths(bound: Bound) -> Iterator[tuple[Field, ...]]:
    """Iterate over the columns of a bound filter, possibly with repetitions."""
    if isinstance(bound, BoundPredicate):
        yield bound.path
        if bound.other is not None:
            yield bound.other
    elif isinstance(bound, BoundComputed):
        yield from ((column,) for column in bound.columns)
        yield from bound_paths(bound.implied)
    elif isinstance(bound, (BoundAnd, BoundOr)):
        for part in bound.parts:
            yield from bound_paths(part)


def is_computed(bound: Bound) -> bool:
    """Return whether any part of a bound filter is computed, so that it may fail for a row."""
    if isinstance(bound, (BoundAnd, BoundOr)):
        return any(map(is_computed, bound.parts))
    return isinstance(bound, BoundComputed)


def join_bound(parts: Iterable[Bound], is_and: bool) -> Bound:
    """Join parts into a flat tree without constants, in which comparisons of a column that amount to one are one.

    No parts at all are true for AND, and false for OR.
    """
    kind = BoundAnd if is_and else BoundOr
    neutral, absorbing = (TRUE, FALSE) if is_and else (FALSE, TRUE)
    flat: list[Bound] = []
    for part in parts:
        if isinstance(part, Literal):
            if part == absorbing:
                return absorbing
        elif isinstance(part, kind):
            flat.extend(part.parts)
        else:
            flat.append(part)
    merged = _merged(flat, is_and) if len(flat) > 1 else flat
    if absorbing in merged:
        return absorbing
    if not merged:
        return neutral
    return merged[0] if len(merged) == 1 else kind(tuple(merged))


def _merged(parts: list[Bound], is_and: bool) -> list[Bound]:
    """Return parts, of which comparisons of one column on one side are the single one that all of them amount to."""
    sides = _JOINED_BY_AND if is_and else _JOINED_BY_OR
    groups: dict[Any, list[BoundPredicate]] = {}
    places: dict[Any, Bound | None] = {}
    for number, part in enumerate(parts):
        side = sides.get(part.operator) if isinstance(part, BoundPredicate) and part.other is None else None
        if not isinstance(part, BoundPredicate) or side is None or (part.is_floating and side != "in"):
            places[number] = part
            continue
        key = (side, tuple(map(id, part.path)))
        places.setdefault(key, None)
        groups.setdefault(key, []).append(part)
    for key, group in groups.items():
        places[key] = group[0] if len(group) == 1 else _one_of(key[0], group, is_and)
    return [part for part in places.values() if part is not None]


def _one_of(side: str, group: Sequence[BoundPredicate], is_and: bool) -> Bound:
    first = group[0]
    if side == "both":
        common = first.literals
        for part in group[1:]:
            common = common.filter(pc.is_in(common, value_set=part.literals))
            if not len(common):
                return FALSE
        return member("in", first.path, common)
    values = _literals_of(group)
    if side in ("in", "not in"):
        return member(side, first.path, values)
    order = pc.array_sort_indices(values)
    # All of them hold beyond the last end, and one of them beyond the first.
    end = values[order[-1 if (side == ">") is is_and else 0].as_py()]
    # Of equal ends, the one that leaves the end itself out demands more, and the other one allows more.
    decides = side if is_and else f"{side}="
    is_there = any(part.operator == decides and part.values[0] == end for part in group)
    operator = side if is_there is is_and else f"{side}="
    return BoundPredicate(operator, first.path, (end,))


def member(operator: str, path: tuple[Field, ...], values: pa.Array) -> Bound:
    """Return that a column is, or is not, one of some values."""
    different = tuple(pc.unique(values))
    if not different:
        return BoundPredicate("is not null", path) if operator == "not in" else FALSE
    if len(different) == 1:
        operator = "=" if operator == "in" else "!="
    return BoundPredicate(operator, path, different)
