"""Patterns: LIKE, and regular expressions as far as Java and RE2 read them alike."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.compute.regex import java_groups, java_regex, matches_nothing
from deltaberg.expressions.functions.function import Context, Function
from deltaberg.expressions.functions.text import growing, lowered
from deltaberg.expressions.tree.like import ESCAPE, like_kernel
from deltaberg.expressions.tree.nodes import CallNode, LiteralNode, Node, Outcome
from deltaberg.expressions.tree.types import BOOLEAN, INTEGER, STRING
from deltaberg.hints import shown_value
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.types import Field, List

__all__ = ["PATTERNS"]

_SPECIAL = frozenset("\\.[]{}()*+?^$|")
#: What a part of a text takes beside its characters, and texts so short that their parts take little in any case.
_BYTES_OF_PART, _FEW_BYTES = 4, 1 << 24


def _literal(context: Context, node: Node, function: str) -> str | None:
    node = context.convert(node, STRING, function)
    if not isinstance(node, LiteralNode):
        raise UnsupportedExpressionError(f"{function} with a pattern that is not a literal cannot be evaluated")
    text: str | None = node.scalar.as_py()
    return text


def _like(name: str, summary: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        subject = context.convert(nodes[0], STRING, name)
        pattern = _literal(context, nodes[1], name)
        escape = _literal(context, nodes[2], name) if len(nodes) > 2 else ESCAPE
        if name == "ilike":
            subject = CallNode(STRING, "lower", (subject,), lowered)
            pattern = None if pattern is None else pattern.lower()
        kernel = like_kernel(pattern, escape)
        shown = LiteralNode(STRING, pv.scalar(pattern, pa.string()))
        called = name if escape == ESCAPE else f"{name} escape"
        return CallNode(BOOLEAN, called, (subject, shown), lambda values, _: kernel(values))

    return Function(name, "text, pattern", summary, (2, 3), bind)


def _rlike(name: str) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        subject, pattern = context.convert(nodes[0], STRING, name), _literal(context, nodes[1], name)
        if pattern is None:
            return CallNode(BOOLEAN, name, (subject,), lambda values: pa.nulls(len(values), pa.bool_()))
        regex = java_regex(pattern)
        return CallNode(BOOLEAN, name, (subject,), lambda values: pc.match_substring_regex(values, regex))

    return Function(name, "text, regex", "whether a part of the text matches a regular expression", (2, 2), bind)


def _extract(context: Context, nodes: Sequence[Node]) -> Node:
    subject, pattern = (
        context.convert(nodes[0], STRING, "regexp_extract"),
        _literal(context, nodes[1], "regexp_extract"),
    )
    first = LiteralNode(INTEGER, pv.scalar(1, pa.int32()))
    number = context.convert(nodes[2], INTEGER, "regexp_extract") if len(nodes) > 2 else first
    if pattern is None or not isinstance(number, LiteralNode) or not number.scalar.is_valid:
        raise UnsupportedExpressionError("regexp_extract takes a pattern and a number that are literals")
    (regex, groups), group = java_groups(pattern), int(number.scalar.as_py())
    if not 0 <= group <= groups:
        raise UnsupportedExpressionError(f"the pattern {shown_value(pattern)} has no group {group}")

    def find(values: pa.Array) -> pa.Array:
        found = pc.struct_field(pc.extract_regex(values, regex), [group])
        return pc.if_else(pc.is_valid(values), pc.fill_null(found, pv.scalar("")), pv.scalar(None, pa.string()))

    return CallNode(STRING, "regexp_extract", (subject,), find)


def _replace(context: Context, nodes: Sequence[Node]) -> Node:
    name = "regexp_replace"
    subject, pattern, new = (
        context.convert(nodes[0], STRING, name),
        *(_literal(context, node, name) for node in nodes[1:]),
    )
    if pattern is None or new is None:
        raise UnsupportedExpressionError(f"{name} takes a pattern and a replacement that are literals")
    exact = java_regex(pattern)
    if "$" in new or "\\" in new or matches_nothing(pattern, exact):
        raise UnsupportedExpressionError(
            f"{name} with groups in the replacement, or a pattern that matches nothing at all, cannot be evaluated"
        )
    added = len(new.encode())

    def replace(values: pa.Array) -> Outcome:
        more = pc.multiply(pc.count_substring_regex(values, exact).cast(pa.int64()), pv.scalar(added, pa.int64()))
        return growing(values, more, lambda texts: pc.replace_substring_regex(texts, pattern=exact, replacement=new))

    return CallNode(STRING, name, (subject,), replace)


def _split(context: Context, nodes: Sequence[Node]) -> Node:
    subject, pattern = context.convert(nodes[0], STRING, "split"), _literal(context, nodes[1], "split")
    exact = "" if pattern is None else java_regex(pattern)
    if pattern is None or matches_nothing(pattern, exact):
        raise UnsupportedExpressionError("split by a pattern that matches nothing at all cannot be evaluated")
    most = None
    if len(nodes) > 2:
        limit = context.convert(nodes[2], INTEGER, "split")
        if not isinstance(limit, LiteralNode) or not limit.scalar.is_valid:
            raise UnsupportedExpressionError("split by a limit that is not a literal cannot be evaluated")
        # PySpark always sends a limit; numbers below 1 are none.
        most = limit.scalar.as_py() - 1 if limit.scalar.as_py() > 0 else None
    kind = List(Field("element", STRING, nullable=False))

    # Patterns without special characters are counted many times as fast.
    count = pc.count_substring if _SPECIAL.isdisjoint(exact) else pc.count_substring_regex

    def parts(values: pa.Array) -> pa.Array:
        return pc.split_pattern_regex(values, exact, max_splits=most).cast(pa.list_(pa.field("element", pa.string())))

    def split(values: pa.Array) -> pa.Array | Outcome:
        few = most is not None and most * len(values) < _FEW_BYTES
        if few or values.nbytes < _FEW_BYTES:
            return parts(values)
        found = count(values, exact) if most is None else pc.min_element_wise(count(values, exact), most)
        more = pc.multiply(found.cast(pa.int64()), pa.scalar(_BYTES_OF_PART, pa.int64()))
        return growing(values, more, parts, "the parts of a text take more than 256 MiB")

    return CallNode(kind, "split", (subject,), split)


_LIST = [
    _like("like", "whether the text matches a pattern of % and _"),
    _like("ilike", "whether the text in lower case matches the pattern in lower case"),
    *map(_rlike, ("rlike", "regexp", "regexp_like")),
    Function("regexp_extract", "text, regex, n", "the nth group of the first match, or empty text", (2, 3), _extract),
    Function("regexp_replace", "text, regex, new", "the text with each match replaced", (3, 3), _replace),
    Function("split", "text, regex, n", "the parts of the text between the matches, at most n", (2, 3), _split),
]
PATTERNS = {function.name: function for function in _LIST}
