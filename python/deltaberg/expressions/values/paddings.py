"""Comparisons of texts of CHAR(n), which Spark pads with spaces until they are equally long."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.values.kinds import STRING
from deltaberg.expressions.values.nodes import CallNode, ColumnNode, LiteralNode, Node
from deltaberg.schema import TextLength, padded_literal

__all__ = ["padded_alike"]


def padded_alike(nodes: Sequence[Node]) -> Sequence[Node]:
    """Return what is compared with texts of the same length, if one is a CHAR column and all are such, or literals."""
    lengths = [_length(node) for node in nodes]
    known = [length for length in lengths if length is not None]
    others = [node for node, length in zip(nodes, lengths, strict=True) if length is None]
    if not known or not all(isinstance(node, LiteralNode) and node.type == STRING for node in others):
        return nodes
    longest = max(known, key=lambda length: length.characters)
    return [
        _padded_literal(node, longest) if length is None else _padded_column(node, length, longest)
        for node, length in zip(nodes, lengths, strict=True)
    ]


def _length(node: Node) -> TextLength | None:
    # As in Spark, fields of structs are compared as they are.
    length = node.path[0].length if isinstance(node, ColumnNode) and len(node.path) == 1 else None
    return length if length is not None and length.is_padded else None


def _padded_literal(node: Node, longest: TextLength) -> Node:
    text = node.scalar.as_py() if isinstance(node, LiteralNode) else None
    return node if text is None else LiteralNode(STRING, pa.scalar(padded_literal(text, longest)), is_written=True)


def _padded_column(node: Node, length: TextLength, longest: TextLength) -> Node:
    if length.characters == longest.characters:
        return node
    return CallNode(STRING, "rpad", (node,), lambda texts: pc.utf8_rpad(texts, longest.characters))
