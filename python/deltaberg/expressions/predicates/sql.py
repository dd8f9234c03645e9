"""Filters as SQL text in Spark's dialect. This module converts the tree that sqlglot parses."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltaberg.errors import ExpressionError, UnsupportedExpressionError
from deltaberg.expressions.instants import parse_timestamp
from deltaberg.expressions.predicates.chains import combined
from deltaberg.expressions.predicates.tree import FALSE, TRUE, And, Column, Expression, Not, Or, Predicate
from deltaberg.expressions.sql_text import decimal_digits, is_nan_word, literal_text, name_parts, parse_text
from deltaberg.kernels.decimals import parse_decimal
from deltaberg.whole_numbers import whole_number

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["parse_sql"]

_SUPPORTED = (
    "comparisons of a column with a literal or a column, IN, BETWEEN, LIKE, IS [NOT] NULL, isnan, startswith, "
    "AND, OR, NOT"
)
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse_sql(text: str) -> Expression:
    """Parse a condition from SQL text.

    Raises
    ------
    ExpressionError
        If the text is not a condition.
    UnsupportedExpressionError
        If it is one that is not decided by comparisons.
    MissingDependencyError
        If sqlglot is not installed.

    Examples
    --------
    >>> print(parse_sql("x > 5 AND name LIKE 'a%'"))
    (x > 5 AND name LIKE 'a%')
    """
    try:
        return _condition(parse_text(text, "filter"))
    except RecursionError:
        raise ExpressionError("the filter is nested too deeply") from None
    except ExpressionError as error:
        raise error.with_context(filter=text) from None


def _condition(node: exp.Expr) -> Expression:
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return _condition(node.this)
    if isinstance(node, (exp.And, exp.Or)):
        return _joined(node)
    if isinstance(node, exp.Not):
        return Not(_condition(node.this))
    if isinstance(node, exp.Boolean):
        return TRUE if node.this else FALSE
    if isinstance(node, (exp.Column, exp.Dot)):
        return _column(node).is_true()
    known = _handlers().get(type(node))
    if known is None:
        raise _unsupported(node)
    names, handler = known
    # An unknown argument could change the meaning of a node. Newer versions of sqlglot, for instance, express NOT LIKE
    # by the argument negate.
    given = {name for name, value in node.args.items() if value not in (None, False, [])}
    if not given <= {*names, "negate"}:
        raise _unsupported(node)
    return Not(handler(node)) if "negate" in given else handler(node)


def _joined(node: exp.And | exp.Or) -> Expression:
    """Join a chain of ANDs or ORs without recursion."""
    return combined([_condition(part) for part in node.flatten()], And if type(node).__name__ == "And" else Or)


@cache
def _handlers() -> dict[type, tuple[tuple[str, ...], Callable[[Any], Expression]]]:
    """Return, for each kind of node, the arguments that its handler knows, and the handler."""
    from sqlglot import exp

    two = ("this", "expression")

    def compare(operator: str) -> tuple[tuple[str, ...], Callable[[Any], Expression]]:
        return two, lambda node: _comparison(operator, node)

    return {
        exp.EQ: compare("="),
        exp.NEQ: compare("!="),
        exp.GT: compare(">"),
        exp.GTE: compare(">="),
        exp.LT: compare("<"),
        exp.LTE: compare("<="),
        exp.NullSafeEQ: compare("<=>"),
        exp.NullSafeNEQ: compare("is distinct from"),
        exp.Is: (two, _is),
        exp.In: (("this", "expressions"), _in),
        exp.Between: (("this", "low", "high"), _between),
        exp.Like: (two, _like),
        exp.Anonymous: (("this", "expressions"), _function),
    }


def _comparison(operator: str, node: exp.Binary) -> Expression:
    left, right = node.this, node.expression
    if _is_column(left):
        return Predicate(operator, _column(left), (_column(right) if _is_column(right) else _literal(right),))
    if _is_column(right):
        return Predicate(_FLIPPED.get(operator, operator), _column(right), (_literal(left),))
    raise _unsupported(node)


def _is(node: exp.Is) -> Expression:
    from sqlglot import exp

    value = node.expression
    if isinstance(value, exp.Null):
        return Predicate("is null", _column(node.this))
    if isinstance(value, exp.Boolean):
        return Predicate("<=>", _column(node.this), (bool(value.this),))
    if is_nan_word(value):
        return Predicate("=", _column(node.this), (math.nan,))
    raise _unsupported(node)


def _in(node: exp.In) -> Expression:
    return Predicate("in", _column(node.this), tuple(_literal(value) for value in node.expressions))


def _between(node: exp.Between) -> Expression:
    column = _column(node.this)
    low, high = _literal(node.args["low"]), _literal(node.args["high"])
    return And(Predicate(">=", column, (low,)), Predicate("<=", column, (high,)))


def _like(node: exp.Like) -> Expression:
    return Predicate("like", _column(node.this), (_literal(node.expression),))


def _function(node: exp.Anonymous) -> Expression:
    name, arguments = str(node.this).lower().replace("_", ""), node.expressions
    if name == "startswith" and len(arguments) == 2:
        return Predicate("starts with", _column(arguments[0]), (_literal(arguments[1]),))
    if name == "isnan" and len(arguments) == 1:
        return Predicate("is nan", _column(arguments[0]))
    raise _unsupported(node)


def _is_column(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node, (exp.Column, exp.Dot))


def _column(node: exp.Expr) -> Column:
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return _column(node.this)
    path = name_parts(node) if isinstance(node, (exp.Column, exp.Dot)) else None
    if path is not None:
        return Column(path)
    raise _unsupported(node)


def _literal(node: exp.Expr) -> Any:
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return _literal(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        if isinstance(value, Decimal):
            # The minus operator would round to the precision of the thread's decimal context.
            return value.copy_negate()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value
    if isinstance(node, exp.HexString):
        return bytes.fromhex(node.name if len(node.name) % 2 == 0 else "0" + node.name)
    if isinstance(node, exp.Literal):
        return literal_text(node) if node.is_string else _number(node.name)
    if isinstance(node, exp.Cast):
        return _cast(node)
    raise _unsupported(node)


def _number(text: str) -> int | float | Decimal:
    number = whole_number(text)
    if number is not None:
        return number
    return float(text) if "e" in text.lower() else parse_decimal(text)


def _cast(node: exp.Cast) -> Any:
    """Read a typed literal: ``DATE '2020-01-01'``, ``TIMESTAMP '...'``, ``CAST(... AS DOUBLE)``.

    What has no value of the type is left to the rules of values: TRY_CAST, and integers that are too large.
    """
    value = _literal(node.this)
    kind = node.to.this.name
    if value is None or node.args.get("safe"):
        raise _unsupported(node)
    try:
        if kind == "DATE":
            moment, _ = parse_timestamp(str(value))
            return moment.date()
        if kind.startswith("TIMESTAMP") or kind == "DATETIME":
            moment, beyond = parse_timestamp(str(value))
            # Python's datetime would lose digits; timestamps can be compared with text too.
            return str(value) if beyond else moment
        found = _typed_number(value, kind, node)
    except (TypeError, ValueError, ArithmeticError):
        raise ExpressionError(f"{node.sql(dialect='spark')} is not a literal") from None
    if found is None and kind in ("TEXT", "VARCHAR") and isinstance(value, str):
        return value
    if found is None:
        raise _unsupported(node)
    return found


def _typed_number(value: Any, kind: str, node: exp.Cast) -> int | float | Decimal | None:
    """Return a number of a type; None if the type has another number in its place, or none."""
    if kind == "DOUBLE":
        return float(value)
    if kind == "FLOAT":
        rounded: float = pa.scalar(float(value), pa.float64()).cast(pa.float32()).as_py()
        return rounded
    if kind in _INTEGER_BITS:
        number, half = (
            whole_number(value.strip()) if isinstance(value, str) else int(value),
            1 << _INTEGER_BITS[kind] - 1,
        )
        if number is None:
            raise ValueError(value)
        return number if -half <= number < half else None
    return _decimal(parse_decimal(str(value)), node) if kind == "DECIMAL" else None


def _decimal(number: Decimal, node: exp.Cast) -> Decimal | None:
    """Return a decimal if it is one of the type of a cast."""
    precision, scale = decimal_digits(node.to)
    # The result is NaN, which equals nothing, where the type lacks digits.
    context = Context(prec=precision, traps=[])
    fits = number.quantize(Decimal((0, (1,), -scale)), context=context) == number
    return number if fits else None


def _unsupported(node: exp.Expr) -> UnsupportedExpressionError:
    return UnsupportedExpressionError(
        f"{node.sql(dialect='spark')!r} cannot be used in a filter", hint=f"filters can contain {_SUPPORTED}"
    )
