"""Skipping the values of a block that are not wanted."""

from __future__ import annotations

from collections.abc import Sequence

from deltaberg.errors import CorruptAvroError, InvalidArgumentError
from deltaberg.kernels.pure.avro.columns import Step, no_branch
from deltaberg.kernels.pure.avro.cursor import Cursor
from deltaberg.kernels.pure.quoted import quoted
from deltaberg.kernels.results import AvroNode

__all__ = ["check_depth", "least_bytes", "least_of_items", "skip_node"]

_DEEPEST = 100


def check_depth(depth: int) -> None:
    """Refuse a schema that is nested too deeply to compile by recursion."""
    if depth > _DEEPEST:
        raise CorruptAvroError("the schema is nested too deeply")


def skip_node(node: AvroNode, depth: int) -> Step:
    """Return the function that skips a value."""
    kind, size, _, children, _ = node
    check_depth(depth)
    inner = depth + 1
    simple = _SKIPS.get(kind)
    if simple is not None:
        return simple
    if kind == "fixed":
        return lambda cursor: cursor.take(size)
    if kind in ("record", "union"):
        steps = [skip_node(child, inner) for child in children]
        return (lambda cursor: [step(cursor) for step in steps]) if kind == "record" else _skip_union(steps)
    if kind in ("array", "pairs"):
        (item,) = children
        return _skip_items(skip_node(item, inner), least_of_items(item, inner))
    if kind == "map":
        value = skip_node(children[0], inner)
        return _skip_items(lambda cursor: (cursor.prefixed(), value(cursor)), 1)
    raise InvalidArgumentError(f"unknown Avro type {quoted(kind)}")


_SKIPS: dict[str, Step] = {
    "null": lambda _: None,
    "boolean": Cursor.boolean,
    "int": Cursor.long,
    "long": Cursor.long,
    "float": lambda cursor: cursor.take(4),
    "double": lambda cursor: cursor.take(8),
    "bytes": Cursor.prefixed,
    "string": Cursor.prefixed,
}


def _skip_union(steps: Sequence[Step]) -> Step:
    def skip(cursor: Cursor) -> None:
        branch = cursor.long()
        if not 0 <= branch < len(steps):
            raise no_branch(branch)
        steps[branch](cursor)

    return skip


def _skip_items(item: Step, least: int) -> Step:
    def skip(cursor: Cursor) -> None:
        while (part := cursor.items(least)) is not None:
            count, size = part
            if size is not None:
                cursor.take(size)
                continue
            for _ in range(count):
                item(cursor)

    return skip


def least_bytes(node: AvroNode, depth: int) -> int:
    """Return how many bytes a value takes at least."""
    kind, size, _, children, _ = node
    if kind == "record":
        return sum(least_bytes(child, depth + 1) for child in children)
    return {"null": 0, "float": 4, "double": 8, "fixed": size}.get(kind, 1)


def least_of_items(item: AvroNode, depth: int) -> int:
    """Return how many bytes an item takes at least, and refuse none: a file could claim any number of such items."""
    least = least_bytes(item, depth)
    if not least:
        raise CorruptAvroError("the items of an array take no bytes")
    return least
