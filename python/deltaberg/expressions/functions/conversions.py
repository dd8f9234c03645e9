"""Casts that are written as functions: ``int(x)`` is ``CAST(x AS INT)``."""

from __future__ import annotations

from collections.abc import Sequence

from deltaberg.expressions.functions.function import Context, Function
from deltaberg.expressions.tree.nodes import Node
from deltaberg.expressions.tree.tree import type_text
from deltaberg.expressions.tree.types import BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, INTEGER, LONG, STRING, TIMESTAMP
from deltaberg.schema.types import DataType, Decimal, Primitive

__all__ = ["CONVERSIONS"]


def _conversion(name: str, kind: DataType) -> Function:
    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        return context.cast(nodes[0], kind)

    return Function(name, "x", f"CAST(x AS {type_text(kind).upper()})", (1, 1), bind)


_KINDS: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "tinyint": Primitive("byte"),
    "smallint": Primitive("short"),
    "int": INTEGER,
    "bigint": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "decimal": Decimal(10, 0),
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
}
CONVERSIONS = {name: _conversion(name, kind) for name, kind in _KINDS.items()}
