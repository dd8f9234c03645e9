"""Conditions built in Python: `col`, its comparisons, and chains of AND and OR."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal as PyDecimal
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NoReturn

from deltaberg.errors import ExpressionError
from deltaberg.expressions.build.literals import literal_of
from deltaberg.expressions.tree.scalars import python_value
from deltaberg.expressions.tree.tree import FALSE, TRUE, Call, ColumnPath, ColumnValue, Literal, Value
from deltaberg.expressions.tree.types import INTEGER
from deltaberg.hints import shown_value
from deltaberg.lists import is_list
from deltaberg.schema.columns import ColumnName, split_name
from deltaberg.schema.types import Primitive
from deltaberg.signatures import public
from deltaberg.whole_numbers import bits_of_endless

__all__ = ["Column", "all_of", "any_of", "col", "comparison"]

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

    if not TYPE_CHECKING:

        def __add__(self, other: object = None) -> NoReturn:
            raise ExpressionError(
                "there is no arithmetic with col()",
                hint=f'write the whole condition as SQL text, such as "{self} + 1 > 5"',
                column=str(self),
            )

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __add__
        __neg__ = __add__

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
        return comparison("in", self, *(values[0] if len(values) == 1 and is_list(values[0]) else values))

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
        raise ExpressionError(f"a {name} is a text, not {shown_value(given)}", column=str(column))
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


def _operand(operand: Any) -> Value:
    if type(operand) is int and -_FEW <= operand < _FEW:
        # Lists of a hundred thousand numbers are looked up.
        return Literal(operand, INTEGER)
    if isinstance(operand, (Column, Value)):
        return ColumnValue(operand.path) if isinstance(operand, Column) else operand
    if isinstance(operand, (int, PyDecimal)) and _is_beyond(operand):
        # Spark's SQL has no such literals. To every column, it is the same as the double next to it.
        try:
            operand = float(operand)
        except OverflowError:
            operand = float("-inf" if operand < 0 else "inf")
        return Literal(operand, Primitive("double"))
    return literal_of(operand)


def _is_beyond(number: int | PyDecimal) -> bool:
    """Return whether a finite number is too great for a decimal, or too near to zero."""
    if isinstance(number, int):
        return not -_GREATEST < number < _GREATEST
    return number.is_finite() and bool(number) and not -38 <= number.adjusted() < 38


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
