"""Conditions: comparisons, logic and tests, which most reads need alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.compute.logic import compare, decide_and, decide_in, decide_member, decide_or
from deltaberg.expressions.functions.function import Context, Function, same_type, wrong_types
from deltaberg.expressions.tree.nodes import CallNode, ColumnNode, LazyNode, ListNode, LiteralNode, MemberNode, Node
from deltaberg.expressions.tree.tree import IntervalType, type_text
from deltaberg.expressions.tree.types import BOOLEAN, DOUBLE, STRING, VOID, is_floating
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.rows.text_lengths import padded_literal
from deltaberg.schema.types import DataType, List, Map, Primitive, Struct, TextLength

__all__ = ["CONDITIONS", "comparable", "condition", "is_not_null"]

_VARIANT = Primitive("variant")


def comparable(nodes: Sequence[Node]) -> DataType:
    """Return the one type of nodes that are compared.

    Raises
    ------
    UnsupportedExpressionError
        If values of the type are not compared here.
    """
    kind = nodes[0].type
    if isinstance(kind, (List, Map, Struct, IntervalType)) or kind is _VARIANT:
        raise UnsupportedExpressionError(f"values of the type {type_text(kind)} cannot be compared")
    return kind


def _padded_alike(nodes: Sequence[Node]) -> Sequence[Node]:
    """Return what is compared with texts of the same length, if one is a CHAR column and all are such, or literals."""
    lengths = [_length(node) for node in nodes]
    declared = [length for length in lengths if length is not None]
    if not declared:
        return nodes
    others = [node for node, length in zip(nodes, lengths, strict=True) if length is None]
    if not all(isinstance(node, (LiteralNode, ListNode)) and node.type == STRING for node in others):
        return nodes
    longest = max(declared, key=lambda length: length.characters)
    return [
        _padded_literal(node, longest) if length is None else _padded_column(node, length, longest)
        for node, length in zip(nodes, lengths, strict=True)
    ]


def _length(node: Node) -> TextLength | None:
    # As in Spark, fields of structs are compared as they are.
    length = node.path[0].length if isinstance(node, ColumnNode) and len(node.path) == 1 else None
    return length if length is not None and length.is_padded else None


def _padded_literal(node: Node, longest: TextLength) -> Node:
    if isinstance(node, ListNode):
        return ListNode(STRING, pa.array([padded_literal(text, longest) for text in node.values.to_pylist()]))
    text = node.scalar.as_py() if isinstance(node, LiteralNode) else None
    return node if text is None else LiteralNode(STRING, pa.scalar(padded_literal(text, longest)), is_written=True)


def _padded_column(node: Node, length: TextLength, longest: TextLength) -> Node:
    if length.characters == longest.characters:
        return node
    return CallNode(STRING, "rpad", (node,), lambda texts: pc.utf8_rpad(texts, longest.characters))


def _comparison(name: str, summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        pair = same_type(context, _padded_alike(nodes), name)
        kind = comparable(pair)
        if kind == VOID:
            pair = tuple(context.cast(node, BOOLEAN) for node in pair)
        # Null is a value to <=>, so both sides are evaluated.
        return CallNode(BOOLEAN, name, pair, compare(name, kind), eager=name == "<=>")

    return Function(name, "x, y", summary, (2, 2), bind)


def _logic(name: str, summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        parts = tuple(condition(context, node, name) for node in nodes)
        return LazyNode(BOOLEAN, name, parts, decide_and if name == "and" else decide_or)

    return Function(name, "x, y", summary, (2, None), bind)


def condition(context: Context, node: Node, name: str) -> Node:
    """Return a node as a condition, which is a boolean or null."""
    if node.type in (VOID, STRING):
        return context.cast(node, BOOLEAN)
    if node.type != BOOLEAN:
        raise wrong_types(name, (node,))
    return node


def _not(context: Context, nodes: Sequence[Node]) -> Node:
    return CallNode(BOOLEAN, "not", (condition(context, nodes[0], "not"),), pc.invert)


def _is_null(_: Context, nodes: Sequence[Node]) -> Node:
    return CallNode(BOOLEAN, "isnull", tuple(nodes), pc.is_null)


def is_not_null(_: Context, nodes: Sequence[Node]) -> Node:
    """Return a test for null, negated."""
    return CallNode(BOOLEAN, "isnotnull", tuple(nodes), pc.is_valid)


def _is_nan(context: Context, nodes: Sequence[Node]) -> Node:
    (node,) = nodes
    if not is_floating(node.type):
        node = context.convert(node, DOUBLE, "isnan")
    return CallNode(BOOLEAN, "isnan", (node,), lambda values: pc.is_nan(values).fill_null(False))


def _in(context: Context, nodes: Sequence[Node]) -> Node:
    subject, *items = same_type(context, _padded_alike(nodes), "in")
    kind = comparable([subject])
    if kind == VOID:
        subject, *items = (context.cast(node, BOOLEAN) for node in (subject, *items))
        kind = BOOLEAN
    arrays = [found for item in items if (found := _values(item)) is not None]
    if len(arrays) == len(items):
        known = arrays[0] if len(arrays) == 1 else pa.concat_arrays([pa.array([], arrow_type(kind)), *arrays])
        return MemberNode(BOOLEAN, "in", (subject,), decide_member(known, kind), known)
    each = [part for item in items for part in (item.parts if isinstance(item, ListNode) else (item,))]
    return LazyNode(BOOLEAN, "in", (subject, *each), lambda outcomes, rows: decide_in(outcomes, rows, kind))


def _values(node: Node) -> pa.Array | None:
    """Return the values of literals; None for what is computed."""
    if isinstance(node, LiteralNode):
        return pa.array([node.scalar], arrow_type(node.type))
    return node.values if isinstance(node, ListNode) else None


_LIST = [
    _comparison("=", "whether both are equal; NaN equals NaN"),
    _comparison("<", "whether x is less than y; NaN is greater than all other numbers"),
    _comparison("<=", "whether x is at most y"),
    _comparison(">", "whether x is greater than y"),
    _comparison(">=", "whether x is at least y"),
    _comparison("<=>", "whether both are equal or both are null; never null"),
    _logic("and", "true if both are true, false if one is false, else null"),
    _logic("or", "true if one is true, false if both are false, else null"),
    Function("not", "x", "the other truth value", (1, 1), _not),
    Function("isnull", "x", "whether the value is null, also written x IS NULL", (1, 1), _is_null),
    Function("isnotnull", "x", "whether the value is not null, also written x IS NOT NULL", (1, 1), is_not_null),
    Function("isnan", "x", "whether a number is NaN; false for null", (1, 1), _is_nan),
    Function("in", "x, y, ...", "whether x equals one of the others, written x IN (y, ...)", (1, None), _in),
]
CONDITIONS = {function.name: function for function in _LIST}
