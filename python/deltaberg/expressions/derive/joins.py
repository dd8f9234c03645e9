"""The equalities in a condition on two relations, by which their rows can be joined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltaberg.expressions.bind.bind import BoundValue
from deltaberg.expressions.compute.logic import decide_and
from deltaberg.expressions.derive.sides import exact_column
from deltaberg.expressions.tree.nodes import CallNode, LazyNode, Node, columns_of
from deltaberg.expressions.tree.types import BOOLEAN
from deltaberg.schema.types import Field

__all__ = ["JoinCondition", "JoinEquality", "split_join"]


class JoinEquality(NamedTuple):
    """Two values of one type that must be equal, one of each relation.

    Parameters
    ----------
    left, right
        The values.
    null_safe
        Whether a null equals a null.
    column
        The column of relation 0 that is the left value, but for its type, if it is one that filters can compare.
    """

    left: BoundValue
    right: BoundValue
    null_safe: bool
    column: tuple[Field, ...] | None


class JoinCondition(NamedTuple):
    """A condition as equalities, and as what else must be true, if there is anything."""

    equalities: tuple[JoinEquality, ...]
    rest: BoundValue | None


def split_join(condition: BoundValue) -> JoinCondition:
    """Return the equalities between relation 0 and relation 1 that a condition demands, and the rest of it.

    Examples
    --------
    >>> from deltaberg.expressions.bind.bind import Relation, bind_condition
    >>> from deltaberg.schema.types import Field, Primitive, Struct
    >>> columns = Struct((Field("id", Primitive("long")), Field("x", Primitive("long"))))
    >>> bound = bind_condition("t.id = s.id + 1 AND t.x > s.x", [Relation("t", columns), Relation("s", columns)])
    >>> found = split_join(bound)
    >>> len(found.equalities), found.rest.paths == bound.paths
    (1, False)
    """
    equalities: list[JoinEquality] = []
    others: list[Node] = []
    for node in _conjuncts(condition.node):
        found = _equality(node, condition)
        if found is None:
            others.append(node)
        else:
            equalities.append(found)
    if not others:
        return JoinCondition(tuple(equalities), None)
    rest = LazyNode(BOOLEAN, "and", tuple(others), decide_and) if len(others) > 1 else others[0]
    return JoinCondition(tuple(equalities), _bound(rest, condition))


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, LazyNode) and node.name == "and":
        for part in node.arguments:
            yield from _conjuncts(part)
    else:
        yield node


def _equality(node: Node, condition: BoundValue) -> JoinEquality | None:
    if not isinstance(node, CallNode) or node.name not in ("=", "<=>"):
        return None
    left, right = sorted(node.arguments, key=lambda side: sorted(_relations(side)))
    if (_relations(left), _relations(right)) != ({0}, {1}):
        return None
    column = exact_column(left, 0)
    path = None if column is None else column.path
    return JoinEquality(_bound(left, condition), _bound(right, condition), node.name == "<=>", path)


def _relations(node: Node) -> set[int]:
    return {leaf.relation for leaf in columns_of(node)}


def _bound(node: Node, whole: BoundValue) -> BoundValue:
    return BoundValue(node.type, whole.tree, node)
