"""Functions of text. A character is a Unicode code point."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UnsupportedExpressionError
from deltaberg.expressions.values.by_row import each_distinct
from deltaberg.expressions.values.functions.function import Context, Function, simple
from deltaberg.expressions.values.kinds import BOOLEAN, STRING
from deltaberg.expressions.values.like import like_kernel
from deltaberg.expressions.values.nodes import CallNode, Datum, Kernel, LiteralNode, Node, Outcome

__all__ = ["TEXT"]


def _like(name: str, summary: str, ignore_case: bool) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        subject, pattern, *rest = (context.convert(node, STRING, name) for node in nodes)
        escape = rest[0] if rest else None
        if not isinstance(pattern, LiteralNode) or not (escape is None or isinstance(escape, LiteralNode)):
            raise UnsupportedExpressionError(f"{name} with a pattern that is not a literal cannot be evaluated")
        mark = "\\" if escape is None else escape.scalar.as_py()
        return CallNode(BOOLEAN, name, (subject, pattern), like_kernel(pattern.scalar.as_py(), mark, ignore_case))

    return Function(name, "text, pattern", summary, (2, 3), bind)


def _changed_case(ascii_only: Callable[[pa.Array], pa.Array], change: Callable[[str], str]) -> Kernel:
    """Return the kernel of a change of case. Characters beyond ASCII can change into several, or by what follows."""

    def convert(values: pa.Array) -> Datum | Outcome:
        if pc.all(pc.string_is_ascii(values)).as_py() is not False:
            return ascii_only(values)
        return each_distinct(change, pa.string(), "", values)

    return convert


_LIST = [
    simple("upper", "text", "the text in upper case", [STRING], STRING, _changed_case(pc.ascii_upper, str.upper)),
    simple("lower", "text", "the text in lower case", [STRING], STRING, _changed_case(pc.ascii_lower, str.lower)),
    _like("like", "whether the text matches a pattern of % and _", False),
]
TEXT = {function.name: function for function in _LIST}
