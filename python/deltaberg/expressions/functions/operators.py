"""Operators of arithmetic, and the conditional functions."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal as PyDecimal
from typing import cast

import pyarrow as pa

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.compute.arithmetic import negate, number_kernel, without_zero
from deltaberg.expressions.compute.decimals import decimal_kernel
from deltaberg.expressions.compute.logic import decide_case, decide_coalesce
from deltaberg.expressions.functions.conditions import CONDITIONS, condition, is_not_null
from deltaberg.expressions.functions.date_arithmetic import days_later, refuse_moments, shifted
from deltaberg.expressions.functions.function import Context, Function, same_type, wrong_types
from deltaberg.expressions.tree.nodes import CallNode, LazyNode, LiteralNode, Node, null_where_failed
from deltaberg.expressions.tree.tree import IntervalType
from deltaberg.expressions.tree.types import (
    BYTE,
    DOUBLE,
    LONG,
    STRING,
    VOID,
    common_type,
    decimal_of,
    is_floating,
    is_integral,
    is_numeric,
    result_decimal,
)
from deltaberg.schema.types import DataType, Decimal

__all__ = ["OPERATORS", "arithmetic"]


def arithmetic(operator: str, context: Context, left: Node, right: Node) -> Node:
    """Return a bound call of an operator on two numbers."""
    if isinstance(left.type, IntervalType) or isinstance(right.type, IntervalType):
        return shifted(operator, left, right, context)
    moved = days_later(operator, left, right, context)
    if moved is not None:
        return moved
    left, right = _numbers(operator, context, left, right)
    last_first = operator in ("/", "%", "div", "pmod")
    if isinstance(left.type, Decimal) and isinstance(right.type, Decimal):
        result = result_decimal(operator, left.type, right.type)
        if operator == "div":
            whole = left.type.precision - left.type.scale + right.type.scale
            quotient = Decimal(min(max(whole, 1), 38), 0)
            kernel = decimal_kernel(operator, left.type, right.type, quotient)
            return CallNode(LONG, operator, (left, right), without_zero(kernel), last_first)
        kernel, kind = decimal_kernel(operator, left.type, right.type, result), cast(DataType, result)
    else:
        kind = left.type
        kernel = number_kernel(operator, kind)
    return CallNode(kind, operator, (left, right), without_zero(kernel) if last_first else kernel, last_first)


def _numbers(operator: str, context: Context, left: Node, right: Node) -> tuple[Node, Node]:
    """Return both operands as the types on which the operator works."""
    wrong = wrong_types(operator, (left, right))
    kinds = {left.type, right.type}
    if not all(is_numeric(kind) or kind in (STRING, VOID) for kind in kinds):
        refuse_moments(operator, left, right)
        raise wrong
    if kinds <= {STRING, VOID}:
        if STRING in kinds and operator != "/":
            raise wrong
        left, right = (context.cast(node, LONG if operator == "div" else DOUBLE) for node in (left, right))
    left, right = _literal_as_decimal(left, right), _literal_as_decimal(right, left)
    kind = common_type((left.type, right.type))
    if kind is None or (operator == "div" and is_floating(kind)):
        raise wrong
    if isinstance(kind, Decimal):
        first, second = (context.cast(node, decimal_of(node.type) or kind) for node in (left, right))
        return first, second
    if operator == "div":
        kind = LONG
    elif operator == "/":
        kind = DOUBLE
    return context.cast(left, kind), context.cast(right, kind)


def _literal_as_decimal(node: Node, other: Node) -> Node:
    """Return a whole number beside a decimal as the narrowest decimal that holds it."""
    if (
        isinstance(node, LiteralNode)
        and node.is_written
        and is_integral(node.type)
        # Spark overlooks literals of this type.
        and node.type != BYTE
        and isinstance(other.type, Decimal)
        and node.scalar.is_valid
    ):
        number = PyDecimal(node.scalar.as_py())
        kind = Decimal(max(len(number.as_tuple().digits), 1), 0)
        return LiteralNode(kind, pa.scalar(number, pa.decimal128(kind.precision, 0)))
    return node


def _arithmetic(name: str, summary: str) -> Function:
    return Function(name, "x, y", summary, (2, 2), lambda context, nodes: arithmetic(name, context, nodes[0], nodes[1]))


def _forgiving(operator: str, name: str, summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        if not all(is_numeric(node.type) for node in nodes):
            raise UnsupportedExpressionError(
                f"{name} of {nodes[0].type} and {nodes[1].type} cannot be evaluated", hint=f"use {operator}"
            )
        found = arithmetic(operator, context, nodes[0], nodes[1])
        return null_where_failed(found, name) if isinstance(found, CallNode) else found

    return Function(name, "x, y", summary, (2, 2), bind)


def _minus_or_plus(context: Context, nodes: Sequence[Node]) -> Node:
    (node,) = nodes
    if node.type in (STRING, VOID):
        node = context.cast(node, DOUBLE)
    if not is_numeric(node.type):
        raise wrong_types("-", nodes)
    return CallNode(node.type, "negative", (node,), negate(node.type))


def _positive(context: Context, nodes: Sequence[Node]) -> Node:
    (node,) = nodes
    return context.cast(node, DOUBLE) if node.type in (STRING, VOID) else node


def _case(context: Context, nodes: Sequence[Node]) -> Node:
    arguments = list(nodes)
    if len(arguments) % 2 == 0:
        arguments.append(LiteralNode(VOID, pa.scalar(None)))
    conditions = [condition(context, node, "case") for node in arguments[0:-1:2]]
    values = same_type(context, [*arguments[1::2], arguments[-1]], "case")
    ordered = [node for pair in zip(conditions, values[:-1], strict=True) for node in pair]
    return LazyNode(values[0].type, "case", (*ordered, values[-1]), decide_case)


def _coalesce(context: Context, nodes: Sequence[Node]) -> Node:
    values = same_type(context, nodes, "coalesce")
    return LazyNode(values[0].type, "coalesce", values, decide_coalesce) if len(values) > 1 else values[0]


def _nvl2(context: Context, nodes: Sequence[Node]) -> Node:
    return _case(context, (is_not_null(context, nodes[:1]), *nodes[1:]))


def _nullif(context: Context, nodes: Sequence[Node]) -> Node:
    equal = CONDITIONS["="].bind(context, nodes)
    return _case(context, (equal, LiteralNode(VOID, pa.scalar(None)), nodes[0]))


_LIST = [
    _arithmetic("+", "sum; of a date and days or an interval, or a timestamp and an interval, too"),
    _arithmetic("-", "difference; of a date and days or an interval, or a timestamp and an interval, too"),
    _arithmetic("*", "product"),
    _arithmetic("/", "quotient, a double or a decimal; division by zero fails"),
    _arithmetic("%", "remainder, with the sign of the dividend"),
    _arithmetic("div", "quotient without its fraction, a bigint"),
    _forgiving("+", "try_add", "the sum of two numbers, null if it overflows"),
    _forgiving("-", "try_subtract", "the difference of two numbers, null if it overflows"),
    _forgiving("*", "try_multiply", "the product of two numbers, null if it overflows"),
    _forgiving("/", "try_divide", "the quotient of two numbers, null for a division by zero"),
    _forgiving("%", "try_mod", "the remainder of two numbers, null for a division by zero"),
    Function("negative", "x", "the number with the other sign, also written -x", (1, 1), _minus_or_plus),
    Function("positive", "x", "the number", (1, 1), _positive),
    Function("case", "c1, x1, ..., z", "CASE WHEN c1 THEN x1 ... ELSE z END", (2, None), _case),
    Function("if", "c, x, y", "x where the condition is true, else y", (3, 3), _case),
    Function("coalesce", "x, ...", "the first value that is not null", (1, None), _coalesce),
    Function("nvl", "x, y", "x where it is not null, else y", (2, 2), _coalesce),
    Function("ifnull", "x, y", "x where it is not null, else y", (2, 2), _coalesce),
    Function("nvl2", "x, y, z", "y where x is not null, else z", (3, 3), _nvl2),
    Function("nullif", "x, y", "null where x equals y, else x", (2, 2), _nullif),
]
OPERATORS = {function.name: function for function in _LIST}
