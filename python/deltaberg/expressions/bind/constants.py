"""Constant parts of values that cannot be computed, which are refused before any row is read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import EvaluationError, ExpressionError
from deltaberg.expressions.functions.function import COMPARED
from deltaberg.expressions.tree.nodes import (
    CallNode,
    ColumnNode,
    LiteralNode,
    Node,
    columns_of,
    computed_once,
)
from deltaberg.expressions.tree.scalars import python_value
from deltaberg.expressions.tree.tree import type_text
from deltaberg.expressions.tree.types import MICROS_OF
from deltaberg.hints import shown_value
from deltaberg.schema.columns import join_name

__all__ = ["moment_out_of_range", "refuse_failing"]

#: What decides by the values of a row which arguments are computed. AND, OR and IN are not among them: Spark computes
#: their constant parts when it plans a query.
_CONDITIONAL = frozenset({"case", "coalesce"})
_JOINING = frozenset({"and", "or"})


def refuse_failing(node: Node) -> None:
    """Refuse a value of which a part is the same for every row, and cannot be computed, unless it may be passed over.

    As in Spark, it does not matter whether there are rows, nor whether one of them would need the part. Only what
    stands inside of CASE or COALESCE, or beside a null, may be passed over, and one constant by another that AND or OR
    joins to it.

    Raises
    ------
    ExpressionError
        A column is compared with a literal that is no value of its type.
    EvaluationError
        Another part cannot be computed.
    """
    if _is_constant(node, checks=True):
        _check(node, node)


def moment_out_of_range(node: Node) -> pa.Scalar | None:
    """Return the moment of a literal that is compared with nanoseconds, which do not reach it; None for other nodes."""
    if not isinstance(node, CallNode) or node.name != "cast" or node.type not in MICROS_OF:
        return None
    (moment,) = node.arguments
    if not isinstance(moment, LiteralNode) or not pa.types.is_timestamp(moment.scalar.type):
        return None
    return moment.scalar


def _is_constant(node: Node, *, checks: bool) -> bool:
    """Return whether a node has no columns, and check the largest parts of it that have none."""
    children = node.children
    if not children:
        return not isinstance(node, ColumnNode)
    if _is_null(node):
        return False
    name = getattr(node, "name", None)
    checks = checks and name not in _CONDITIONAL
    constant = [child for child in children if _is_constant(child, checks=checks)]
    if len(constant) == len(children):
        return True
    if checks and not (name in _JOINING and len(constant) > 1) and not any(map(_is_null, children)):
        for child in constant:
            _check(child, node)
    return False


def _is_null(node: Node) -> bool:
    """Return whether a node is null for every row, whatever its other parts are, which Spark leaves out then."""
    if isinstance(node, LiteralNode):
        return not node.scalar.is_valid
    return isinstance(node, CallNode) and node.name not in _CONDITIONAL and any(map(_is_null, node.arguments))


def _check(constant: Node, parent: Node) -> None:
    """Refuse a constant that cannot be computed."""
    if not constant.children:
        return
    is_compared = getattr(parent, "name", None) in COMPARED
    if is_compared and moment_out_of_range(constant) is not None:
        return
    failures = [one for one in computed_once(constant).failures if pc.any(one.rows).as_py()]
    if not failures:
        return
    kind, inner = constant.type, constant
    while isinstance(inner, CallNode) and inner.name == "cast":
        kind, inner = inner.type, inner.arguments[0]
    columns = columns_of(parent)
    if isinstance(inner, LiteralNode) and columns and is_compared:
        column = columns[0].path
        raise ExpressionError(
            f"{shown_value(python_value(inner.scalar))} cannot be compared with a column of type {column[-1].type}: "
            f"it is not a value of the type {type_text(kind)}",
            column=join_name([part.name for part in column]),
        )
    raise EvaluationError(failures[0].message)
