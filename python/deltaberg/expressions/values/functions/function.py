"""Functions: the name of each, its arguments, and how a call of it is bound to the types of its arguments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.errors import ExpressionError
from deltaberg.expressions.values.casts import cast_node
from deltaberg.expressions.values.kinds import (
    BINARY,
    BOOLEAN,
    DATE,
    NTZ,
    STRING,
    TIMESTAMP,
    VOID,
    common_type,
    is_numeric,
)
from deltaberg.expressions.values.nodes import CallNode, ColumnNode, Frame, Kernel, LiteralNode, Node, folded, spread
from deltaberg.expressions.values.tree import type_text
from deltaberg.schema import DataType, Primitive, arrow_type

__all__ = ["Context", "Function", "same_type", "simple", "wrong_types"]

#: So many literals are converted one by one.
_FEW = 16


@dataclass(frozen=True)
class Context:
    """The surroundings of a value: the zone of its clock, and the time at which it is bound."""

    zone: dt.tzinfo
    now: dt.datetime

    def cast(self, node: Node, to: DataType) -> Node:
        """Return a node converted to a type, as CAST does."""
        return folded(cast_node(node, to, self.zone))

    def assign(self, node: Node, to: DataType, path: tuple[str, ...], completes: bool) -> Node:
        """Return a node converted to the type of a column, with the fields of structs by their names."""
        return folded(cast_node(node, to, self.zone, by_name=True, completes=completes, path=path))

    def convert(self, node: Node, to: DataType, function: str) -> Node:
        """Return an argument converted to the type that a function takes, if Spark does so on its own.

        Raises
        ------
        ExpressionError
            If Spark does not.
        """
        given = node.type
        if given == to:
            return node
        implicit = (
            given in (VOID, STRING)
            or (to == STRING and (is_numeric(given) or given in (BOOLEAN, DATE, NTZ, TIMESTAMP, BINARY)))
            or (is_numeric(given) and is_numeric(to) and common_type((given, to)) == to)
            or (given, to) in ((DATE, TIMESTAMP), (DATE, NTZ), (TIMESTAMP, DATE), (NTZ, TIMESTAMP), (NTZ, DATE))
        )
        if not implicit:
            raise wrong_types(function, (node,))
        return self.cast(node, to)


#: Binds a call to its arguments.
Binding = Callable[[Context, Sequence[Node]], Node]


@dataclass(frozen=True)
class Function:
    """A function or operator.

    Parameters
    ----------
    arguments
        How the arguments are named in the documentation.
    counts
        How many arguments it takes: the least and the greatest number, None for any.
    summary
        What it returns, in a few words.
    """

    name: str
    arguments: str
    summary: str
    counts: tuple[int, int | None]
    binding: Binding

    def bind(self, context: Context, arguments: Sequence[Node]) -> Node:
        """Return the bound call.

        Raises
        ------
        ExpressionError
            If the number or the types of the arguments are wrong.
        """
        least, most = self.counts
        if len(arguments) < least or (most is not None and len(arguments) > most):
            raise ExpressionError(
                f"{self.name} does not take {len(arguments)} arguments", hint=f"write {self.name}({self.arguments})"
            )
        return self.binding(context, arguments)


def simple(
    name: str,
    arguments: str,
    summary: str,
    kinds: Sequence[DataType],
    result: DataType,
    kernel: Kernel,
    optional: int = 0,
) -> Function:
    """Return a function of fixed types. The last ``optional`` arguments can be left out."""

    def bind(context: Context, given: Sequence[Node]) -> Node:
        nodes = [context.convert(node, kind, name) for node, kind in zip(given, kinds, strict=False)]
        return CallNode(result, name, tuple(nodes), kernel)

    return Function(name, arguments, summary, (len(kinds) - optional, len(kinds)), bind)


def same_type(context: Context, nodes: Iterable[Node], function: str) -> tuple[Node, ...]:
    """Return nodes converted to the one type that Spark finds for them.

    Raises
    ------
    ExpressionError
        If there is none.
    """
    given = tuple(nodes)
    kind = common_type(dict.fromkeys(node.type for node in given))
    if kind is None:
        raise wrong_types(function, given)
    converted = _literals_converted(context, given, kind)
    return tuple(
        node if node.type == kind else converted.get(number) or context.cast(node, kind)
        for number, node in enumerate(given)
    )


def _literals_converted(context: Context, nodes: Sequence[Node], to: DataType) -> dict[int, Node]:
    """Return literals of a type by their numbers, where there are many, which are converted at once."""
    found: dict[DataType, list[tuple[int, LiteralNode]]] = {}
    for number, node in enumerate(nodes):
        if isinstance(node, LiteralNode) and node.type not in (to, VOID) and isinstance(node.type, Primitive):
            found.setdefault(node.type, []).append((number, node))
    done: dict[int, Node] = {}
    for kind, literals in found.items():
        if len(literals) > _FEW:
            values = pa.array([node.scalar for _, node in literals], arrow_type(kind))
            cast = cast_node(ColumnNode(kind, 0, (), (0,)), to, context.zone)
            outcome = cast.evaluate(Frame(pa.RecordBatch.from_arrays([values], ["value"])))
            if not outcome.failures:
                scalars = spread(outcome.values, len(literals))
                done |= {number: LiteralNode(to, scalar) for (number, _), scalar in zip(literals, scalars, strict=True)}
    return done


def wrong_types(function: str, nodes: Iterable[Node]) -> ExpressionError:
    """Return the error of a call with arguments of wrong types."""
    shown = ", ".join(type_text(node.type) for node in nodes)
    return ExpressionError(f"{function} cannot be applied to {shown}", hint="use CAST")
