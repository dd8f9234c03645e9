"""Functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP
from decimal import Context as Digits
from decimal import Decimal as PyDecimal

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.compute.arithmetic import absolute, fit_integer
from deltaberg.expressions.compute.by_row import each_distinct
from deltaberg.expressions.compute.decimals import fit_decimal
from deltaberg.expressions.compute.logic import compare
from deltaberg.expressions.functions.conditions import CONDITIONS, comparable
from deltaberg.expressions.functions.function import Context, Function, same_type, simple, wrong_types
from deltaberg.expressions.functions.operators import OPERATORS, arithmetic
from deltaberg.expressions.tree.nodes import CallNode, Datum, LiteralNode, Node, Outcome
from deltaberg.expressions.tree.types import (
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    VOID,
    bounded_decimal,
    common_type,
    decimal_of,
    is_floating,
    is_integral,
    is_numeric,
)
from deltaberg.kernels.decimals import parse_decimal
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import DataType, Decimal

__all__ = ["NUMBERS"]

_EXACT = Digits(prec=800)
#: More digits than any number has before or after its point: rounding to more of them is the same.
_MOST_DIGITS, _MOST_OF_DECIMALS = 400, 75


def _number(context: Context, node: Node, name: str) -> Node:
    if node.type in (STRING, VOID):
        return context.cast(node, DOUBLE)
    if not is_numeric(node.type):
        raise wrong_types(name, (node,))
    return node


def _abs(context: Context, nodes: Sequence[Node]) -> Node:
    node = _number(context, nodes[0], "abs")
    return CallNode(node.type, "abs", (node,), absolute(node.type))


def _to_whole(name: str, compute: Callable[..., pa.Array]) -> Function:
    mode = "up" if compute is pc.ceil else "down"

    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        node = _number(context, nodes[0], name)
        if len(nodes) > 1:
            kind = decimal_of(node.type) or _OF_FLOATS[node.type]
            return _round_decimal(name, context.cast(node, kind), kind, _digits(context, nodes[1], name), mode)
        if is_integral(node.type):
            return context.cast(node, LONG)
        if isinstance(node.type, Decimal):
            if not node.type.scale:
                return node
            kind = Decimal(min(node.type.precision - node.type.scale + 1, 38), 0)
            wide = pa.decimal256(node.type.precision + 1, node.type.scale)
            return CallNode(kind, name, (node,), lambda values: fit_decimal(compute(values.cast(wide)), kind))
        return CallNode(LONG, name, (context.cast(node, DOUBLE),), lambda values: _saturated(compute(values)))

    return Function(name, "x, digits", f"the number rounded {mode}, to digits a decimal", (1, 2), bind)


#: The decimals that Spark takes floating point numbers for.
_OF_FLOATS: dict[DataType, Decimal] = {FLOAT: Decimal(14, 7), DOUBLE: Decimal(30, 15)}


def _digits(context: Context, node: Node, name: str) -> int:
    given = context.convert(node, INTEGER, name)
    if not isinstance(given, LiteralNode) or not given.scalar.is_valid:
        raise UnsupportedExpressionError(f"{name} to a number of digits that is not a literal cannot be evaluated")
    return max(-_MOST_DIGITS, min(int(given.scalar.as_py()), _MOST_DIGITS))


def _saturated(values: pa.Array) -> pa.Array:
    """Return doubles without fraction as Java converts them to long: NaN to 0, others to the nearest long."""
    greatest = (1 << 63) - 1
    above, below = pc.greater_equal(values, 2.0**63), pc.less(values, -(2.0**63))
    kept = pc.if_else(pc.or_(pc.or_(above, below), pc.is_nan(values)), 0.0, values).cast(pa.int64())
    return pc.if_else(above, pa.scalar(greatest), pc.if_else(below, pa.scalar(-greatest - 1), kept))


def _rounded(name: str, mode: str, python_mode: str, summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        node = _number(context, nodes[0], name)
        digits = _digits(context, nodes[1], name) if len(nodes) > 1 else 0
        if isinstance(node.type, Decimal):
            return _round_decimal(name, node, node.type, digits, mode)
        if is_integral(node.type):
            return node if digits >= 0 else _round_integer(name, node, digits, python_mode)

        def round_one(number: float) -> float:
            if not math.isfinite(number):
                return number
            # Java's decimals have no negative zero.
            return float(parse_decimal(repr(number)).quantize(PyDecimal((0, (1,), -digits)), python_mode, _EXACT)) + 0.0

        kind = arrow_type(node.type)
        return CallNode(node.type, name, (node,), lambda values: each_distinct(round_one, kind, "", values))

    return Function(name, "x, digits", summary, (1, 2), bind)


def _round_decimal(name: str, node: Node, source: Decimal, digits: int, mode: str) -> Node:
    whole = source.precision - source.scale + 1
    digits = max(digits, source.scale - _MOST_OF_DECIMALS)
    if digits < 0:
        kind = bounded_decimal(max(whole, -digits + 1), 0)
    else:
        scale = min(source.scale, digits)
        kind = bounded_decimal(whole + scale, scale)

    def compute(values: pa.Array) -> Outcome:
        wide = values.cast(pa.decimal256(76, source.scale))
        return fit_decimal(pc.round(wide, digits, mode) if digits < source.scale else wide, kind)

    return CallNode(kind, name, (node,), compute)


def _round_integer(name: str, node: Node, digits: int, python_mode: str) -> Node:
    def round_one(number: int) -> PyDecimal:
        return PyDecimal(number).quantize(PyDecimal((0, (1,), -digits)), python_mode, _EXACT)

    def compute(values: pa.Array) -> Outcome:
        rounded = each_distinct(lambda number: PyDecimal(int(round_one(number))), pa.decimal256(76, 0), "", values)
        return fit_integer(rounded.values, node.type, f"{node.type} overflow")

    return CallNode(node.type, name, (node,), compute)


def _sqrt(values: pa.Array) -> pa.Array:
    return pc.sqrt(values)


def _sign(values: pa.Array) -> pa.Array:
    # Zero keeps its sign, and NaN is NaN.
    return pc.if_else(pc.greater(values, 0.0), 1.0, pc.if_else(pc.less(values, 0.0), -1.0, values))


def _extreme(name: str, operator: str, summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        arguments = same_type(context, nodes, name)
        kind = comparable(arguments)
        is_better = compare(operator, kind)

        def choose(first: Datum, *others: Datum) -> Datum:
            best = first
            for other in others:
                best = pc.if_else(_wins(is_better(other, best), best), other, best)
            return best

        def _wins(better: pa.Array, best: Datum) -> pa.Array:
            return pc.if_else(pc.is_null(best), True, pc.if_else(pc.is_null(better), False, better))

        return CallNode(kind, name, arguments, choose, eager=True)

    return Function(name, "x, y, ...", summary, (2, None), bind)


def _bits(name: str, compute: Callable[..., pa.Array], summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        kind = common_type(node.type for node in nodes)
        if kind is None or not is_integral(kind):
            raise wrong_types(name, nodes)
        arguments = tuple(context.cast(node, kind) for node in nodes)
        return CallNode(kind, name, arguments, compute)

    count = 1 if name == "~" else 2
    return Function(name, "x, y" if count == 2 else "x", summary, (count, count), bind)


def _nanvl(context: Context, nodes: Sequence[Node]) -> Node:
    pair = same_type(context, nodes, "nanvl")
    if not is_floating(pair[0].type):
        pair = tuple(context.convert(node, DOUBLE, "nanvl") for node in pair)
    return OPERATORS["if"].bind(context, (CONDITIONS["isnan"].bind(context, pair[:1]), pair[1], pair[0]))


def _same(name: str, operator: str, summary: str) -> Function:
    return Function(name, "x, y", summary, (2, 2), lambda context, nodes: arithmetic(operator, context, *nodes))


_LIST = [
    Function("abs", "x", "the absolute value", (1, 1), _abs),
    _to_whole("ceil", pc.ceil),
    _to_whole("ceiling", pc.ceil),
    _to_whole("floor", pc.floor),
    _rounded("round", "half_towards_infinity", ROUND_HALF_UP, "the number rounded to digits, halves away from zero"),
    _rounded("bround", "half_to_even", ROUND_HALF_EVEN, "the number rounded to digits, halves to the even digit"),
    *(simple(name, "x", "-1.0, 0.0 or 1.0", [DOUBLE], DOUBLE, _sign) for name in ("sign", "signum")),
    simple("sqrt", "x", "the square root; NaN for negative numbers", [DOUBLE], DOUBLE, _sqrt),
    _same("mod", "%", "remainder, with the sign of the dividend"),
    _same("pmod", "pmod", "remainder that is not negative, if the divisor is positive"),
    _extreme("greatest", ">", "the greatest value that is not null; NaN is greater than all other numbers"),
    _extreme("least", "<", "the least value that is not null"),
    Function("nanvl", "x, y", "x unless it is NaN, else y", (2, 2), _nanvl),
    _bits("&", pc.bit_wise_and, "the bits set in both"),
    _bits("|", pc.bit_wise_or, "the bits set in one of both"),
    _bits("^", pc.bit_wise_xor, "the bits set in exactly one of both"),
    _bits("~", pc.bit_wise_not, "the other bits"),
]
NUMBERS = {function.name: function for function in _LIST}
