"""What callers give as conditions and values: SQL text, `col`, tuples like those of pyarrow, and Python's values."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal as PyDecimal
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from deltaberg.errors import ExpressionError
from deltaberg.expressions.tree.scalars import arrow_scalar, python_value
from deltaberg.expressions.tree.tree import FALSE, TRUE, Call, Cast, ColumnPath, ColumnValue, Literal, Value
from deltaberg.expressions.tree.types import DATE, INTEGER, NTZ, NTZ_NANOS, STRING, TIMESTAMP, TIMESTAMP_NANOS
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.schema.columns import ColumnName, split_name
from deltaberg.schema.types import DataType, Decimal, Primitive
from deltaberg.signatures import public
from deltaberg.whole_numbers import bits_of_endless

if TYPE_CHECKING:
    from deltaberg.expressions.given.pyiceberg import PyIcebergExpression

__all__ = [
    "Column",
    "Filter",
    "all_of",
    "any_of",
    "as_filter",
    "as_value",
    "col",
    "comparison",
    "decimal_literal",
    "from_tuples",
    "integer_type",
    "literal_of",
    "no_value",
]

_OPERATORS = ("=", "==", "!=", "<", "<=", ">", ">=", "in", "not in")
#: The numbers of the type integer are less.
_FEW = 1 << 31
#: No column has greater numbers.
_GREATEST = 10**38


@public
@dataclass(frozen=True, eq=False)
class Column(ColumnPath):
    """A column in a condition, to be compared with literals or with another column.

    Examples
    --------
    >>> print((col("x") > 5) & col("s.name").is_in(["a", "b"]))
    (x > 5 AND s.name IN ('a', 'b'))
    """

    def __str__(self) -> str:
        return str(ColumnValue(self.path))

    def __hash__(self) -> int:
        return hash(self.path)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]  # a comparison is a condition here
        return comparison("=", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]  # as above
        return ~comparison("=", self, other)

    def __lt__(self, other: Any) -> Value:
        return comparison("<", self, other)

    def __le__(self, other: Any) -> Value:
        return comparison("<=", self, other)

    def __gt__(self, other: Any) -> Value:
        return comparison(">", self, other)

    def __ge__(self, other: Any) -> Value:
        return comparison(">=", self, other)

    def __and__(self, other: object) -> Value:
        return ColumnValue(self.path) & other

    def __or__(self, other: object) -> Value:
        return ColumnValue(self.path) | other

    def __invert__(self) -> Value:
        return ~ColumnValue(self.path)

    def __bool__(self) -> bool:
        raise ExpressionError(
            "a column has no truth value", hint="combine conditions with &, | and ~, or use is_true()"
        )

    def is_true(self) -> Value:
        """Keep the rows in which a boolean column is true."""
        return ColumnValue(self.path)

    def is_null(self) -> Value:
        """Keep the rows in which the column is null."""
        return comparison("isnull", self)

    def is_not_null(self) -> Value:
        """Keep the rows in which the column is not null."""
        return ~comparison("isnull", self)

    def is_nan(self) -> Value:
        """Keep the rows in which the column is NaN."""
        return comparison("isnan", self)

    def is_in(self, *values: Any) -> Value:
        """Keep the rows in which the column equals one of the values.

        Parameters
        ----------
        *values
            The values, or one list or other iterable of them. A text is one value.

        Examples
        --------
        >>> print(col("x").is_in([1, 2]) | col("y").is_in("ab", "c"))
        (x IN (1, 2) OR y IN ('ab', 'c'))
        """
        return comparison("in", self, *(values[0] if len(values) == 1 and _is_list(values[0]) else values))

    def isin(self, *values: Any) -> Value:
        """Keep the rows in which the column equals one of the values, as in PySpark. See `is_in`."""
        return self.is_in(*values)

    def between(self, low: Any, high: Any) -> Value:
        """Keep the rows in which the column is at least ``low``, and at most ``high``."""
        return all_of([comparison(">=", self, low), comparison("<=", self, high)])

    def equals_or_both_null(self, value: Any) -> Value:
        """Compare like SQL's ``<=>``, for which null equals null and nothing is unknown."""
        return comparison("<=>", self, value)

    def starts_with(self, prefix: str) -> Value:
        """Keep the rows in which a string column begins with the prefix."""
        return comparison("startswith", self, _text("prefix", prefix, self))

    def like(self, pattern: str) -> Value:
        """Keep the rows in which a string column matches a SQL pattern of ``%`` and ``_``, escaped by a backslash."""
        return comparison("like", self, _text("pattern", pattern, self))


def _text(name: str, given: object, column: Column) -> str | None:
    text = python_value(given)
    if text is not None and not isinstance(text, str):
        raise ExpressionError(f"a {name} is a text, not {given!r:.200}", column=str(column))
    return text


def comparison(name: str, column: Column, *others: Any) -> Value:
    """Return a comparison of a column with other columns or with values of Python, by the name of its function.

    Raises
    ------
    ExpressionError
        One of them is no value.
    """
    bits = bits_of_endless(others)
    if bits is not None:
        raise ExpressionError(f"a number of {bits} bits is greater than any value of a column", column=str(column))
    try:
        return Call(name, (ColumnValue(column.path), *map(_operand, others)))
    except ExpressionError as error:
        raise error.with_context(column=str(column)) from None


def _operand(given: Any) -> Value:
    if type(given) is int and -_FEW <= given < _FEW:
        # Lists of a hundred thousand numbers are looked up.
        return Literal(given, INTEGER)
    if isinstance(given, (Column, Value)):
        return ColumnValue(given.path) if isinstance(given, Column) else given
    if isinstance(given, (int, PyDecimal)) and _is_beyond(given):
        # Spark's SQL has no such literals. To every column, it is the same as the double next to it.
        try:
            given = float(given)
        except OverflowError:
            given = float("-inf" if given < 0 else "inf")
        return Literal(given, Primitive("double"))
    return literal_of(given)


def _is_beyond(number: int | PyDecimal) -> bool:
    """Return whether a finite number is too great for a decimal, or too near to zero."""
    if isinstance(number, int):
        return not -_GREATEST < number < _GREATEST
    return number.is_finite() and bool(number) and not -38 <= number.adjusted() < 38


def _is_list(value: object) -> bool:
    """Return whether a value stands for several: text, bytes and scalars are one."""
    if isinstance(value, (str, bytes, bytearray, memoryview)) or getattr(value, "shape", None) == ():
        return False
    return isinstance(value, Iterable)


@public
def col(name: ColumnName) -> Column:
    """Name a column, to build a condition on it.

    Parameters
    ----------
    name
        Dots lead into structs. A name with a literal dot is put in backticks, or passed as a tuple.

    Examples
    --------
    >>> print(~(col("x") > 1))
    (NOT x > 1)
    """
    return Column(split_name(name))


def all_of(conditions: Iterable[Value]) -> Value:
    """Join conditions with AND. If there are none, every row is kept."""
    parts = list(conditions)
    return reduce(and_, parts) if parts else TRUE


def any_of(conditions: Iterable[Value]) -> Value:
    """Join conditions with OR. If there are none, no row is kept."""
    parts = list(conditions)
    return reduce(or_, parts) if parts else FALSE


def from_tuples(filters: Sequence[Any]) -> Value:
    """Convert a list of tuples, all of which must hold, or a list of such lists, one of which must hold.

    Examples
    --------
    >>> print(from_tuples([("x", ">", 5), ("y", "in", ["a", "b"])]))
    (x > 5 AND y IN ('a', 'b'))
    >>> print(from_tuples([[("x", "=", 1)], [("x", "=", None)]]))
    (x = 1 OR x IS NULL)
    """
    are_lists = all(isinstance(part, list) for part in filters)
    if not filters or (are_lists and not all(filters)):
        raise ExpressionError("an empty list is not a filter", hint="pass None to keep every row")
    if are_lists:
        return any_of(all_of(map(_of_tuple, part)) for part in filters)
    return all_of(map(_of_tuple, filters))


def _of_tuple(item: Any) -> Value:
    if not isinstance(item, tuple) or len(item) != 3:
        raise ExpressionError(f"{item!r} is not a filter", hint="pass (column, operator, value)")
    name, given, value = item
    operator = str(given).lower()
    if operator not in _OPERATORS:
        raise ExpressionError(f"{given!r} is not an operator", hint=f"use one of {', '.join(_OPERATORS)}")
    column, plain = col(name), {"==": "=", "!=": "=", "not in": "in"}.get(operator, operator)
    if plain == "in":
        if not _is_list(value):
            raise ExpressionError(f"{operator} takes a list of values, not {value!r}")
        found = column.is_in(value)
    else:
        found = column.is_null() if value is None and plain == "=" else comparison(plain, column, value)
    return ~found if operator in ("!=", "not in") else found


#: How callers write a condition: as SQL text, as an expression of `col`, as tuples like those of pyarrow, or as an
#: expression of pyiceberg.
Filter: TypeAlias = "str | Value | Column | Sequence[Any] | PyIcebergExpression"


def as_filter(condition: Filter | None) -> Value:
    """Return the tree of a condition. None keeps every row.

    Raises
    ------
    ExpressionError
        If it is none.

    Examples
    --------
    >>> print(as_filter("upper(name) = 'A'"))
    upper(name) = 'A'
    """
    if condition is None:
        return TRUE
    if isinstance(condition, str):
        return _parsed(condition, "filter")
    if isinstance(condition, (Value, Column)):
        return as_value(condition)
    if isinstance(condition, Sequence):
        return from_tuples(condition)
    from deltaberg.expressions.given.pyiceberg import from_pyiceberg, is_of_pyiceberg

    if is_of_pyiceberg(condition):
        return from_pyiceberg(condition)
    raise ExpressionError(f"{condition!r} is not a filter", hint="pass SQL text, an expression of col(), or tuples")


def as_value(given: Any) -> Value:
    """Return what callers give as a value: SQL text, a value or column of `col`, or a Python literal.

    Text is always SQL; the value of a string is quoted: ``"'abc'"``.

    Raises
    ------
    ExpressionError
        If it is none of these.
    """
    if isinstance(given, Value):
        return given
    if isinstance(given, Column):
        return ColumnValue(given.path)
    return _parsed(given, "expression") if isinstance(given, str) else literal_of(given)


def _parsed(text: str, kind: str) -> Value:
    # The parser is loaded where there is text alone.
    from deltaberg.expressions.given.parse import parse_value

    return parse_value(text, kind)


def literal_of(given: Any) -> Value:
    """Return a Python object as a literal with the type that Spark gives it."""
    if isinstance(given, (list, tuple)):
        return Call("array", tuple(literal_of(part) for part in given))
    given = _plain(given)
    if isinstance(given, pa.TimestampScalar) and given.type.unit == "ns":
        # Python's own type has too few digits.
        return Literal(given, NTZ_NANOS if given.type.tz is None else TIMESTAMP_NANOS)
    if isinstance(given, pa.Scalar):
        return _far_moment(given)
    if isinstance(given, bool) or given is None:
        return Literal(given, Primitive("boolean" if given is not None else "void"))
    if isinstance(given, int):
        return Literal(given, integer_type(given))
    if isinstance(given, PyDecimal) and given.is_finite():
        return decimal_literal(given)
    if isinstance(given, dt.datetime):
        return Literal(given, Primitive("timestamp" if given.tzinfo is not None else "timestamp_ntz"))
    known = {
        float: "double",
        str: "string",
        bytes: "binary",
        dt.date: "date",
        uuid.UUID: "uuid",
        dt.time: "time",
    }
    for kind, name in known.items():
        if isinstance(given, kind) and getattr(given, "tzinfo", None) is None:
            return Literal(given, Primitive(name))
    raise no_value(given)


def _plain(given: Any) -> Any:
    """Return scalars of other libraries as values of Python, but for dates and timestamps that Python does not have."""
    if int(getattr(given, "nanosecond", 0)):
        given = pa.scalar(given, pa.timestamp("ns", None if given.tzinfo is None else "UTC"))
    given = arrow_scalar(given)
    if isinstance(given, pa.TimestampScalar) and given.type.unit == "ns":
        if given.is_valid and given.value % 1000:
            return given
        given = given.cast(pa.timestamp("us", given.type.tz))
    if isinstance(given, str) and has_lone_surrogate(given):
        raise ExpressionError(f"{given!r:.80} is not valid Unicode")
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    if not isinstance(given, pa.Scalar):
        return given
    try:
        return given.as_py()
    except (OverflowError, ValueError) as error:
        if isinstance(given, (pa.Date32Scalar, pa.Date64Scalar, pa.TimestampScalar)):
            return given
        raise ExpressionError(f"a scalar of the type {given.type} has a value that Python does not have") from error


def _far_moment(given: pa.Scalar) -> Value:
    """Return a date before the year 1 or after the year 9999, or a timestamp, as SQL writes it: a cast of its text."""
    from deltaberg.expressions.time.moments import format_date

    if not isinstance(given, pa.TimestampScalar):
        return Cast(Literal(format_date(given.cast(pa.date32()).value), STRING), DATE)
    has_zone = given.type.tz is not None
    try:
        micros: int = given.cast(pa.timestamp("us", given.type.tz)).value
    except pa.ArrowInvalid as error:
        raise ExpressionError(f"{given.value} {given.type.unit} is beyond the timestamps") from error
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    text = f"{format_date(days)} {clock}{'Z' if has_zone else ''}"
    return Cast(Literal(text, STRING), TIMESTAMP if has_zone else NTZ)


def no_value(given: object) -> ExpressionError:
    """Return the error of a Python object that is no literal."""
    return ExpressionError(
        f"{given!r} ({type(given).__name__}) is not a value", hint="pass SQL text, a condition, or a Python literal"
    )


def integer_type(number: int) -> DataType:
    """Return the type that Spark gives to a whole number: the first of integer, long and a decimal that holds it."""
    for name, bits in (("integer", 31), ("long", 63)):
        if -(1 << bits) <= number < 1 << bits:
            return Primitive(name)
    return _decimal_type(PyDecimal(number))


def decimal_literal(number: PyDecimal) -> Literal:
    """Return a decimal as a literal with as many digits as it is written with."""
    kind = _decimal_type(number)
    sign, digits, exponent = number.as_tuple()
    if int(exponent) > 0:
        number = PyDecimal((sign, digits + (0,) * int(exponent), 0))
    return Literal(number, kind)


def _decimal_type(number: PyDecimal) -> Decimal:
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ExpressionError(f"{number} is not a decimal")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise ExpressionError(f"{number!s:.40} has more than 38 digits")
    return Decimal(precision, scale)
