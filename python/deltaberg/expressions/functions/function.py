"""Functions: the name of each, its arguments, and how a call of it is bound to the types of its arguments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from deltaberg.errors import ExpressionError
from deltaberg.expressions.tree.nodes import CallNode, Kernel, ListNode, LiteralNode, Node, folded
from deltaberg.expressions.tree.tree import type_text
from deltaberg.expressions.tree.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    NTZ,
    STRING,
    TIMESTAMP,
    VOID,
    common_type,
    is_numeric,
    keeps_numbers,
)
from deltaberg.schema.types import DataType

__all__ = ["COMPARED", "Context", "Function", "same_type", "simple", "wrong_types"]


@dataclass(frozen=True)
class Context:
    """The surroundings of a value: the zone of its clock, and the time at which it is bound."""

    zone: dt.tzinfo
    now: dt.datetime

    @classmethod
    def at(cls, timezone: str, now: dt.datetime | None) -> Context:
        """Return the surroundings in a zone, by its name, at a time; by default that of the call.

        Raises
        ------
        ExpressionError
            There is no such zone.
        """
        moment = now or dt.datetime.now(dt.timezone.utc)
        if timezone == "UTC":
            return cls(dt.timezone.utc, moment)
        from deltaberg.expressions.time.zones import find_zone

        try:
            return cls(find_zone(timezone), moment)
        except ValueError as error:
            raise ExpressionError(str(error)) from None

    def cast(self, node: Node, to: DataType, *, forgiving: bool = False) -> Node:
        """Return a node converted to a type, as CAST does, or TRY_CAST where that is forgiving."""
        if node.type == to:
            return node
        if isinstance(node, (LiteralNode, ListNode)) and _is_wider(to, node.type):
            return node.widened(to)
        # Most conditions of reads convert nothing.
        from deltaberg.expressions.cast.casts import cast_node, forgiving_cast

        found = folded(cast_node(node, to, self.zone))
        return forgiving_cast(found, node, "try_cast") if forgiving else found

    def assign(self, node: Node, to: DataType, path: tuple[str, ...], completes: bool) -> Node:
        """Return a node converted to the type of a column, with the fields of structs by their names."""
        from deltaberg.expressions.cast.casts import cast_node

        return folded(cast_node(node, to, self.zone, by_name=True, completes=completes, path=path))

    def convert(self, node: Node, to: DataType, function: str) -> Node:
        """Return an argument converted to the type that a function takes, if Spark does so on its own.

        Raises
        ------
        ExpressionError
            If Spark does not.
        """
        source = node.type
        if source == to:
            return node
        implicit = (
            source in (VOID, STRING)
            or (to == STRING and (is_numeric(source) or source in (BOOLEAN, DATE, NTZ, TIMESTAMP, BINARY)))
            or (is_numeric(source) and is_numeric(to) and common_type((source, to)) == to)
            or (source, to) in ((DATE, TIMESTAMP), (DATE, NTZ), (TIMESTAMP, DATE), (NTZ, TIMESTAMP), (NTZ, DATE))
        )
        if not implicit:
            raise wrong_types(function, (node,))
        return self.cast(node, to)


def _is_wider(kind: DataType, than: DataType) -> bool:
    """Return whether a type has all numbers of another one, as Arrow casts them."""
    if kind is DOUBLE:
        return than is FLOAT or INTEGER_BITS.get(than, 64) <= 32
    return keeps_numbers(than, kind)


#: Functions that compare their arguments.
COMPARED = frozenset({"=", "<", "<=", ">", ">=", "<=>", "in"})
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
            several = "argument" if len(arguments) == 1 else "arguments"
            raise ExpressionError(
                f"{self.name} does not take {len(arguments)} {several}", hint=f"write {self.name}({self.arguments})"
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
    arguments = list(nodes)
    kind = common_type(node.type for node in arguments)
    if kind is None:
        raise wrong_types(function, arguments)
    converted_nodes: list[Node] = []
    for node in arguments:
        if not isinstance(node, ListNode) or node.type == kind or _is_wider(kind, node.type):
            converted_nodes.append(context.cast(node, kind))
            continue
        converted = node.cast_by(partial(context.cast, to=kind))
        # A literal that fails does so in the rows that come to it.
        converted_nodes += [context.cast(part, kind) for part in node.parts] if converted is None else [converted]
    return tuple(converted_nodes)


def wrong_types(function: str, nodes: Iterable[Node]) -> ExpressionError:
    """Return the error of a call with arguments of wrong types."""
    shown = ", ".join(type_text(node.type) for node in nodes)
    if function in COMPARED:
        return ExpressionError(f"values of the types {shown} cannot be compared", hint="use CAST")
    return ExpressionError(f"{function} cannot be applied to {shown}", hint="use CAST")
