"""Values as a tree, not yet bound to columns: columns, literals, casts, and calls of functions and operators.

The text of a value is SQL in Spark's dialect, which `parse_value` reads.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa

from deltaberg.errors import ExpressionError
from deltaberg.expressions.tree.double_quotes import quoted
from deltaberg.expressions.tree.scalars import python_value
from deltaberg.hints import shown_value
from deltaberg.schema.types import DataType, List, Map, Primitive, Struct

__all__ = [
    "FALSE",
    "TRUE",
    "Call",
    "Cast",
    "ColumnPath",
    "ColumnValue",
    "DayLiteral",
    "GetField",
    "Interval",
    "IntervalType",
    "Literal",
    "MomentLiteral",
    "Value",
    "chain_of",
    "type_text",
]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "div", "||", "&", "|", "^"})
#: Comparisons, each with the words between its sides, and with those of its negation.
_COMPARISONS = {
    "=": ("=", "!="),
    "<=>": ("<=>", "IS DISTINCT FROM"),
    "like": ("LIKE", "NOT LIKE"),
    "ilike": ("ILIKE", "NOT ILIKE"),
    "rlike": ("RLIKE", "NOT RLIKE"),
    "in": ("IN", "NOT IN"),
    "isnull": ("IS NULL", "IS NOT NULL"),
    **{name: (name, "") for name in ("<", "<=", ">", ">=")},
}
_JOINED = frozenset({"and", "or"})
_NANOS: dict[DataType, str] = {Primitive("timestamp_ns"): "TIMESTAMP", Primitive("timestamp_ntz_ns"): "TIMESTAMP_NTZ"}
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


@dataclass(frozen=True)
class IntervalType(DataType):
    """The type of intervals. No column has it; an interval is added to dates and timestamps.

    ``unit`` is ``month``, ``day`` (whole days, which can be added to a date) or ``second``.
    """

    unit: str

    def __str__(self) -> str:
        return f"interval {self.unit}"


@dataclass(frozen=True)
class Interval:
    """A length of time: months, or microseconds, of which a day has 86,400 million."""

    months: int = 0
    micros: int = 0


class Value:
    """A value of a row, computed from its columns. Those that are conditions are combined with ``&``, ``|`` and ``~``.

    A condition keeps the rows for which it is true. As in SQL, a comparison with null is unknown, which is not true.
    """

    def __and__(self, other: object) -> Value:
        return Call("and", (self, _condition(other)))

    def __or__(self, other: object) -> Value:
        return Call("or", (self, _condition(other)))

    def __invert__(self) -> Value:
        return Call("not", (self,))

    def __bool__(self) -> bool:
        raise ExpressionError(
            "a condition has no truth value", hint="combine conditions with &, | and ~ instead of and, or and not"
        )


def _condition(other: object) -> Value:
    if isinstance(other, Value):
        return other
    if isinstance(other, ColumnPath):
        return ColumnValue(other.path)
    raise ExpressionError(f"a condition was expected, not {shown_value(other)}")


@dataclass(frozen=True, eq=False)
class ColumnPath:
    """A column as callers name it; `col` gives it the operators of comparisons."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class ColumnValue(Value):
    """A column, or a field inside it. The first name may be the alias of a relation."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(part if _WORD.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in self.path)


@dataclass(frozen=True)
class Literal(Value):
    """A constant of a type. ``value`` is what pyarrow converts to the type, or an `Interval`."""

    value: Any
    type: DataType

    def __str__(self) -> str:
        return _literal_text(self.value, self.type)


@dataclass(frozen=True)
class MomentLiteral(Literal):
    """The text of a point in time that is an instant, or the time of a clock on the wall, as the column demands."""


@dataclass(frozen=True)
class DayLiteral(Literal):
    """A day, which is its midnight where a column has points in time, in UTC or on the wall as the column demands."""

    @property
    def midnight(self) -> MomentLiteral:
        """The point in time that it is then."""
        return MomentLiteral(f"{self.value}T00:00:00Z", Primitive("string"))


TRUE = Literal(True, Primitive("boolean"))
FALSE = Literal(False, Primitive("boolean"))


@dataclass(frozen=True, eq=False)
class Call(Value):
    """A function or an operator, by its name in lower case, with its arguments.

    The arguments of ``case`` are conditions and values in turns; the value of ELSE is the last one, without a
    condition. People join thousands of conditions, so nothing here calls itself for each of them.
    """

    name: str
    arguments: tuple[Value, ...] = ()

    def __invert__(self) -> Value:
        return self.arguments[0] if self.name == "not" else Call("not", (self,))

    def __eq__(self, other: object) -> bool:
        return _postfix(self) == _postfix(other) if isinstance(other, Call) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(_postfix(self)))

    def __reduce__(self) -> tuple[Callable[..., Value], tuple[Any, ...]]:
        return _rebuilt, (_postfix(self),)

    def __repr__(self) -> str:
        return f"Call({self})"

    def __str__(self) -> str:
        written: list[str] = []
        waiting: list[Value | str] = [self]
        while waiting:
            found = waiting.pop()
            if isinstance(found, Call):
                waiting += reversed(found.pieces())
            else:
                written.append(str(found))
        return "".join(written)

    def pieces(self) -> list[Value | str]:
        """Return the text, but with the arguments in their places."""
        name, arguments = self.name, self.arguments
        if name in _JOINED:
            return _listed("(", chain_of(self), f" {name.upper()} ", ")")
        if _is_comparison(self):
            negated = name == "not"
            compared = arguments[0] if negated else self
            return _comparison(compared, negated) if isinstance(compared, Call) else []
        if name in _ARITHMETIC and len(arguments) == 2:
            return ["(", *_operand(arguments[0]), f" {name.upper()} ", *_operand(arguments[1]), ")"]
        if name == "[]":
            # The parser takes an array with brackets behind it for a type.
            named = isinstance(arguments[0], Call) and arguments[0].name == "array"
            taken = ["(", arguments[0], ")"] if named else _operand(arguments[0])
            return [*taken, "[", arguments[1], "]"]
        if name == "not":
            return ["(NOT ", *arguments, ")"]
        if name in ("negative", "positive") and len(arguments) == 1:
            return ["(- " if name == "negative" else "(+ ", *_operand(arguments[0]), ")"]
        if name == "case":
            return _case(arguments)
        return _listed(f"{name}(", arguments, ", ", ")")


def _postfix(value: Value) -> list[Value | tuple[str, int]]:
    """Return what is no call in a value, and behind the arguments of each call its name and their number."""
    postfix: list[Value | tuple[str, int]] = []
    waiting: list[Value | tuple[str, int]] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Call):
            waiting += [(one.name, len(one.arguments)), *one.arguments]
        else:
            postfix.append(one)
    return postfix


def _rebuilt(postfix: Sequence[Value | tuple[str, int]]) -> Value:
    """Return the value of which `_postfix` made a list."""
    done: list[Value] = []
    for one in postfix:
        if isinstance(one, Value):
            done.append(one)
        else:
            name, count = one
            done.append(Call(name, tuple(done.pop() for _ in range(count))))
    return done.pop()


def chain_of(call: Call) -> list[Value]:
    """Return the parts of a chain of calls of one operator, however it is nested."""
    parts: list[Value] = []
    waiting: list[Value] = [call]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Call) and found.name == call.name:
            waiting += reversed(found.arguments)
        else:
            parts.append(found)
    return parts


@dataclass(frozen=True)
class Cast(Value):
    """A value converted to a type; null if it does not fit, where that is ``forgiving``."""

    value: Value
    type: DataType
    forgiving: bool = False

    def __str__(self) -> str:
        return f"{'TRY_CAST' if self.forgiving else 'CAST'}({self.value} AS {type_text(self.type)})"


@dataclass(frozen=True)
class GetField(Value):
    """A field of a struct that is computed."""

    value: Value
    name: str

    def __str__(self) -> str:
        shown = f"({self.value})" if _is_comparison(self.value) else str(self.value)
        return f"{shown}.{ColumnValue((self.name,))}"


def _is_comparison(value: Value) -> bool:
    """Return whether the text of a value is a comparison that no parentheses are around."""
    if not isinstance(value, Call):
        return False
    if value.name == "not":
        inner = value.arguments[0]
        return isinstance(inner, Call) and bool(inner.arguments and _COMPARISONS.get(inner.name, ("", ""))[1])
    # A call without arguments is an error, which shows the text of the call.
    return value.name in _COMPARISONS and bool(value.arguments)


def _operand(value: Value) -> list[Value | str]:
    return ["(", value, ")"] if _is_comparison(value) else [value]


def _comparison(call: Call, negated: bool) -> list[Value | str]:
    words = _COMPARISONS[call.name][negated]
    first, others = _operand(call.arguments[0]), call.arguments[1:]
    if call.name == "in":
        return [*first, *_listed(f" {words} (", others, ", ", ")")]
    if not others:
        return [*first, f" {words}"]
    escape = [" ESCAPE ", *_operand(others[1])] if len(others) > 1 else []
    return [*first, f" {words} ", *_operand(others[0]), *escape]


def _listed(first: str, parts: Sequence[Value], between: str, last: str) -> list[Value | str]:
    pieces: list[Value | str] = [first]
    for number, part in enumerate(parts):
        pieces += (between, part) if number else (part,)
    return [*pieces, last]


def _case(arguments: Sequence[Value]) -> list[Value | str]:
    pieces: list[Value | str] = ["CASE"]
    for condition, value in zip(arguments[0::2], arguments[1::2], strict=False):
        pieces += [" WHEN ", condition, " THEN ", value]
    if len(arguments) % 2:
        pieces += [" ELSE ", arguments[-1]]
    return [*pieces, " END"]


def type_text(kind: DataType) -> str:
    """Return the name of a type in Spark's SQL.

    Examples
    --------
    >>> type_text(Primitive("long"))
    'bigint'
    """
    if isinstance(kind, List):
        return f"array<{type_text(kind.element.type)}>"
    if isinstance(kind, Map):
        return f"map<{type_text(kind.key.type)}, {type_text(kind.value.type)}>"
    if isinstance(kind, Struct):
        return f"struct<{', '.join(f'{ColumnValue((child.name,))}: {type_text(child.type)}' for child in kind)}>"
    return _SQL_NAMES.get(str(kind), str(kind))


def _literal_text(value: Any, kind: DataType) -> str:
    if value is None:
        return "NULL" if kind == Primitive("void") else f"CAST(NULL AS {type_text(kind)})"
    if isinstance(kind, IntervalType):
        return _interval_text(value, kind)
    if kind in _NANOS:
        return f"{_NANOS[kind]} '{python_value(value)}'"
    if isinstance(value, pa.Scalar):
        return f"CAST('{python_value(value)}' AS {type_text(kind)})"
    if isinstance(value, (bool, int)):
        suffix = {"long": "L", "short": "S", "byte": "Y"}.get(str(kind), "")
        return f"{value}{suffix}" if not isinstance(value, bool) else str(value).lower()
    return _text_of(value, kind)


def _text_of(value: Any, kind: DataType) -> str:
    """Return the text of a literal that is neither null nor a whole number."""
    if isinstance(value, (dt.datetime, dt.date)):
        return _time_text(value)
    if isinstance(value, float):
        text = repr(value)
        name = "FLOAT" if kind == Primitive("float") else "DOUBLE"
        return f"CAST('{text}' AS {name})" if "n" in text or name == "FLOAT" else f"{text}D"
    if isinstance(value, PyDecimal):
        return f"{value:f}BD"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    return quoted(value if isinstance(value, str) else str(value))


def _time_text(value: dt.date) -> str:
    if isinstance(value, dt.datetime):
        name = "TIMESTAMP" if value.tzinfo is not None else "TIMESTAMP_NTZ"
        return f"{name} '{value.isoformat(sep=' ')}'"
    return f"DATE '{value.isoformat()}'"


def _interval_text(value: Interval, kind: IntervalType) -> str:
    if kind.unit == "month":
        return f"INTERVAL '{value.months}' MONTH"
    if kind.unit == "day":
        return f"INTERVAL '{value.micros // 86_400_000_000}' DAY"
    sign = "-" if value.micros < 0 else ""
    seconds, micros = divmod(abs(value.micros), 1_000_000)
    return f"INTERVAL '{sign}{seconds}.{micros:06}' SECOND"
