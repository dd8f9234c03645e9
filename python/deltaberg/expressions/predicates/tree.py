"""Filters as a tree, not yet bound to a schema.

A filter keeps the rows for which it is true. As in SQL, a comparison with null is unknown, which is not true. Floating
point numbers compare as in Spark SQL: ``NaN`` equals itself and is greater than every other number, and ``-0.0`` equals
``0.0``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from deltaberg.errors import ExpressionError
from deltaberg.expressions.double_quotes import DoubleQuoted
from deltaberg.schema import ColumnName, Struct, split_name
from deltaberg.signatures import public
from deltaberg.whole_numbers import bits_of_endless

if TYPE_CHECKING:
    from deltaberg.expressions.predicates.bound import Bound

__all__ = [
    "FALSE",
    "TRUE",
    "And",
    "Column",
    "Computed",
    "Constant",
    "Expression",
    "Not",
    "Or",
    "Predicate",
    "all_of",
    "any_of",
    "col",
    "is_list",
    "leaves",
    "quoted",
]


#: The operators of predicates, each with its negation.
NEGATIONS = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "<=>": "is distinct from",
    "is distinct from": "<=>",
    "in": "not in",
    "not in": "in",
    "is null": "is not null",
    "is not null": "is null",
    "is nan": "is not nan",
    "is not nan": "is nan",
    "starts with": "not starts with",
    "not starts with": "starts with",
    "like": "not like",
    "not like": "like",
}


class Expression:
    """A condition on a row. Conditions are combined with ``&``, ``|`` and ``~``."""

    def __and__(self, other: Expression) -> Expression:
        return And(self, _condition(other))

    def __or__(self, other: Expression) -> Expression:
        return Or(self, _condition(other))

    def __invert__(self) -> Expression:
        return Not(self)

    def __bool__(self) -> bool:
        raise ExpressionError(
            "a condition has no truth value", hint="combine conditions with &, | and ~ instead of and, or and not"
        )


def _condition(other: object) -> Expression:
    if isinstance(other, Column):
        return other.is_true()
    if not isinstance(other, Expression):
        raise ExpressionError(f"a condition was expected, not {other!r}")
    return other


@dataclass(frozen=True)
class Constant(Expression):
    """A condition with the same value for every row. False stands for unknown too."""

    value: bool

    def __str__(self) -> str:
        return str(self.value).lower()


TRUE = Constant(True)
FALSE = Constant(False)


class Computed(Expression):
    """A condition that takes more than comparing columns, such as calling functions. How is up to its subclass."""

    def bound(self, schema: Struct, timezone: str, negated: bool) -> Bound:
        """Bind the condition, or its negation, to a schema; see `bind`."""
        raise NotImplementedError


class _Joined(Expression):
    """A condition on other conditions. People join thousands of them, so nothing here calls itself for each part."""

    #: What stands before, between and behind the parts in SQL.
    _words: ClassVar[tuple[str, ...]]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The conditions."""
        raise NotImplementedError

    def __str__(self) -> str:
        return _text(self, str, lambda joined: joined._words)  # noqa: SLF001 - these are all of this class

    def __repr__(self) -> str:
        return _text(self, repr, _constructor)

    def __eq__(self, other: object) -> bool:
        return _postfix(self) == _postfix(other) if isinstance(other, _Joined) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(_postfix(self)))

    def __reduce__(self) -> tuple[Callable[..., Expression], tuple[Any, ...]]:
        return _rebuilt, (_postfix(self),)


def _text(condition: Expression, leaf: Callable[[Expression], str], words: Callable[[_Joined], Sequence[str]]) -> str:
    """Return the texts of all parts in order, each between the words of the condition that they are parts of."""
    written: list[str] = []
    waiting: list[str | Expression] = [condition]
    while waiting:
        found = waiting.pop()
        if isinstance(found, _Joined):
            first, *others = words(found)
            pairs = zip(found.parts, others, strict=True)
            waiting += [*reversed([one for pair in pairs for one in pair]), first]
        else:
            written.append(found if isinstance(found, str) else leaf(found))
    return "".join(written)


def _constructor(joined: _Joined) -> Sequence[str]:
    first, *others = (child.name for child in fields(joined))  # type: ignore[arg-type]  # all are dataclasses
    return [f"{type(joined).__name__}({first}=", *(f", {name}=" for name in others), ")"]


def _postfix(condition: Expression) -> list[Expression | type[_Joined]]:
    """Return the parts of a condition without joined ones, and behind the parts of each of these its class."""
    found: list[Expression | type[_Joined]] = []
    waiting: list[Expression | type[_Joined]] = [condition]
    while waiting:
        one = waiting.pop()
        if isinstance(one, _Joined):
            waiting += [type(one), *one.parts]
        else:
            found.append(one)
    return found


def _rebuilt(postfix: Sequence[Expression | type[_Joined]]) -> Expression:
    """Return the condition of which `_postfix` made a list."""
    done: list[Expression] = []
    for one in postfix:
        if isinstance(one, Expression):
            done.append(one)
        else:
            done.append(one(*(done.pop() for _ in fields(one))))  # type: ignore[arg-type]  # all are dataclasses
    return done.pop()


def leaves(condition: Expression) -> list[Expression]:
    """Return the conditions that a condition joins by AND, OR and NOT."""
    return [one for one in _postfix(condition) if isinstance(one, Expression)]


@dataclass(frozen=True, eq=False, repr=False)
class And(_Joined):
    """Both conditions hold."""

    left: Expression
    right: Expression
    _words = ("(", " AND ", ")")

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Both conditions."""
        return self.left, self.right


@dataclass(frozen=True, eq=False, repr=False)
class Or(_Joined):
    """At least one condition holds."""

    left: Expression
    right: Expression
    _words = ("(", " OR ", ")")

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Both conditions."""
        return self.left, self.right


@dataclass(frozen=True, eq=False, repr=False)
class Not(_Joined):
    """The condition is false. If it is unknown, so is its negation."""

    inner: Expression
    _words = ("(NOT ", ")")

    def __invert__(self) -> Expression:
        return self.inner

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The condition that is negated."""
        return (self.inner,)


@dataclass(frozen=True, eq=False)
class Predicate(Expression):
    """A column compared with literals, or with another column.

    ``operator`` is a key of `NEGATIONS`. ``values`` holds no literals (``is null``), one, or several (``in``).
    """

    operator: str
    column: Column
    values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        bits = bits_of_endless(self.values)
        if bits is not None:
            raise ExpressionError(
                f"a number of {bits} bits is greater than any value of a column", column=str(self.column)
            )

    def _key(self) -> tuple[Any, ...]:
        """Return what is compared. Columns themselves would make conditions of it."""
        values = tuple((Column, one.path) if isinstance(one, Column) else one for one in self.values)
        return self.operator, self.column.path, values

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Predicate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        operator = self.operator.upper()
        if not self.values:
            return f"{self.column} {operator}"
        if self.operator in ("in", "not in"):
            return f"{self.column} {operator} ({', '.join(map(_shown, self.values))})"
        return f"{self.column} {operator} {_shown(self.values[0])}"


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return quoted(value)
    return str(value)


#: Names that need no backticks in SQL.
_is_plain = re.compile(r"\w+").fullmatch


def quoted(text: str) -> str:
    """Quote text as a SQL literal that `parse_sql` reads, in the quotes of its writer."""
    mark = '"' if isinstance(text, DoubleQuoted) else "'"
    return mark + text.replace("\\", "\\\\").replace(mark, mark * 2) + mark


@public
@dataclass(frozen=True, eq=False)
class Column:
    """A column in a condition, to be compared with literals or with another column.

    Examples
    --------
    >>> print((col("x") > 5) & col("s.name").is_in(["a", "b"]))
    (x > 5 AND s.name IN ('a', 'b'))
    """

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(
            part if _is_plain(part) and not part.isdigit() else f"`{part.replace('`', '``')}`" for part in self.path
        )

    def __hash__(self) -> int:
        return hash(self.path)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Predicate("=", self, (other,))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Predicate("!=", self, (other,))

    def __lt__(self, other: Any) -> Expression:
        return Predicate("<", self, (other,))

    def __le__(self, other: Any) -> Expression:
        return Predicate("<=", self, (other,))

    def __gt__(self, other: Any) -> Expression:
        return Predicate(">", self, (other,))

    def __ge__(self, other: Any) -> Expression:
        return Predicate(">=", self, (other,))

    def __and__(self, other: Any) -> Expression:
        return And(self.is_true(), _condition(other))

    def __or__(self, other: Any) -> Expression:
        return Or(self.is_true(), _condition(other))

    def __invert__(self) -> Expression:
        return Predicate("=", self, (False,))

    def __bool__(self) -> bool:
        raise ExpressionError(
            "a column has no truth value", hint="combine conditions with &, | and ~, or use is_true()"
        )

    def is_true(self) -> Expression:
        """Keep the rows in which a boolean column is true."""
        return Predicate("=", self, (True,))

    def is_null(self) -> Expression:
        """Keep the rows in which the column is null."""
        return Predicate("is null", self)

    def is_not_null(self) -> Expression:
        """Keep the rows in which the column is not null."""
        return Predicate("is not null", self)

    def is_nan(self) -> Expression:
        """Keep the rows in which the column is NaN."""
        return Predicate("is nan", self)

    def is_in(self, *values: Any) -> Expression:
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
        return Predicate("in", self, tuple(values[0] if len(values) == 1 and is_list(values[0]) else values))

    def isin(self, *values: Any) -> Expression:
        """Keep the rows in which the column equals one of the values, as in PySpark. See `is_in`."""
        return self.is_in(*values)

    def between(self, low: Any, high: Any) -> Expression:
        """Keep the rows in which the column is at least ``low``, and at most ``high``."""
        return And(self >= low, self <= high)

    def equals_or_both_null(self, value: Any) -> Expression:
        """Compare like SQL's ``<=>``, for which null equals null and nothing is unknown."""
        return Predicate("<=>", self, (value,))

    def starts_with(self, prefix: str) -> Expression:
        """Keep the rows in which a string column begins with the prefix."""
        return Predicate("starts with", self, (prefix,))

    def like(self, pattern: str) -> Expression:
        """Keep the rows in which a string column matches a SQL pattern of ``%`` and ``_``, escaped by a backslash."""
        return Predicate("like", self, (pattern,))


def is_list(value: object) -> bool:
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
    >>> print(~(col("x") == 1))
    (NOT x = 1)
    """
    return Column(split_name(name))


def all_of(conditions: Iterable[Expression]) -> Expression:
    """Join conditions with AND. If there are none, every row is kept."""
    joined: Expression | None = None
    for condition in conditions:
        joined = condition if joined is None else And(joined, condition)
    return TRUE if joined is None else joined


def any_of(conditions: Iterable[Expression]) -> Expression:
    """Join conditions with OR. If there are none, no row is kept."""
    joined: Expression | None = None
    for condition in conditions:
        joined = condition if joined is None else Or(joined, condition)
    return FALSE if joined is None else joined
