"""Values as a tree, not yet bound to columns: columns, literals, casts, and calls of functions and operators.

The text of a value is SQL in Spark's dialect, which `parse_value` reads.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from dataclasses import dataclass
from decimal import Decimal as PyDecimal
from typing import Any

from deltaberg.expressions.predicates.tree import quoted
from deltaberg.schema import DataType, List, Map, Primitive, Struct

__all__ = ["Call", "Cast", "ColumnValue", "GetField", "Interval", "IntervalType", "Literal", "Value", "type_text"]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INFIX = frozenset({"+", "-", "*", "/", "%", "div", "||", "=", "<", "<=", ">", ">=", "<=>", "and", "or", "&", "|", "^"})
_WORDS_BETWEEN = frozenset({"like", "ilike", "rlike"})
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
    """A value of a row, computed from its columns."""


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
class Call(Value):
    """A function or an operator, by its name in lower case, with its arguments.

    The arguments of ``case`` are conditions and values in turns; the value of ELSE is the last one, without a
    condition.
    """

    name: str
    arguments: tuple[Value, ...] = ()

    def __str__(self) -> str:
        shown = [str(argument) for argument in self.arguments]
        if self.name in _INFIX and len(shown) == 2:
            return f"({shown[0]} {self.name.upper()} {shown[1]})"
        if self.name in _WORDS_BETWEEN:
            escape = f" ESCAPE {shown[2]}" if len(shown) > 2 else ""
            return f"({shown[0]} {self.name.upper()} {shown[1]}{escape})"
        if self.name == "[]":
            return f"{shown[0]}[{shown[1]}]"
        if self.name == "not":
            return f"(NOT {shown[0]})"
        if self.name in ("negative", "positive") and len(shown) == 1:
            return f"({'-' if self.name == 'negative' else '+'} {shown[0]})"
        if self.name == "in":
            return f"({shown[0]} IN ({', '.join(shown[1:])}))"
        if self.name == "case":
            return _case_text(shown)
        return f"{self.name}({', '.join(shown)})"


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
        return f"{self.value}.{ColumnValue((self.name,))}"


def _case_text(shown: list[str]) -> str:
    pairs = zip(shown[0::2], shown[1::2], strict=False)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    otherwise = f" ELSE {shown[-1]}" if len(shown) % 2 else ""
    return f"CASE {branches}{otherwise} END"


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
    if isinstance(value, (uuid.UUID, dt.time)):
        return quoted(str(value))
    if isinstance(value, (dt.datetime, dt.date)):
        return _time_text(value)
    if isinstance(value, float):
        text = repr(value)
        name = "FLOAT" if kind == Primitive("float") else "DOUBLE"
        return f"CAST('{text}' AS {name})" if "n" in text or name == "FLOAT" else f"{text}D"
    if isinstance(value, PyDecimal):
        return f"{value:f}BD"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    suffix = {"long": "L", "short": "S", "byte": "Y"}.get(str(kind), "")
    return f"{value}{suffix}".upper()


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
