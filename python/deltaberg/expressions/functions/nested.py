"""Functions of arrays, maps and structs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ColumnNotFoundError, ExpressionError
from deltaberg.expressions.compute.evaluate import compare_values
from deltaberg.expressions.compute.lists import (
    element_at,
    entries_of,
    list_lengths,
    list_of,
    list_offsets,
    lookup,
    member_of,
)
from deltaberg.expressions.functions.conditions import comparable
from deltaberg.expressions.functions.function import Context, Function, same_type, wrong_types
from deltaberg.expressions.tree.nodes import CallNode, Datum, LiteralNode, Node, Outcome, failed_where, spread
from deltaberg.expressions.tree.types import BOOLEAN, INTEGER, LONG, STRING, VOID, common_type, is_floating, is_integral
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.columns import find_path
from deltaberg.schema.types import Field, List, Map, Struct

__all__ = ["NESTED"]


def _size(_: Context, nodes: Sequence[Node]) -> Node:
    (node,) = nodes
    if not isinstance(node.type, (List, Map)):
        raise wrong_types("size", nodes)
    return CallNode(INTEGER, "size", (node,), list_lengths)


def _index(context: Context, node: Node, name: str) -> Node:
    if not (is_integral(node.type) and node.type != LONG) and node.type not in (STRING, VOID):
        raise wrong_types(name, (node,))
    return context.cast(node, INTEGER)


def _access(name: str) -> Function:
    """Return element access: ``x[i]`` counts from 0, element_at from 1. Only get tolerates a missing element."""

    def bind(context: Context, nodes: Sequence[Node]) -> Node:
        value, key = nodes
        if isinstance(value.type, Map) and name != "get":
            kind = value.type.key.type
            comparable((LiteralNode(kind, pa.scalar(None)),))
            key = context.convert(key, kind, name)
            return CallNode(value.type.value.type, name, (value, key), lambda maps, keys: lookup(maps, keys, kind))
        if isinstance(value.type, Struct) and name == "[]" and isinstance(key, LiteralNode) and key.type == STRING:
            return _field_of(value, str(key.scalar.as_py()))
        if not isinstance(value.type, List):
            raise wrong_types(name, nodes)
        first = 1 if name == "element_at" else 0
        element = value.type.element.type

        def find(lists: Datum, numbers: Datum) -> Outcome:
            return element_at(lists, numbers, first, fails=name != "get")

        return CallNode(element, name, (value, _index(context, key, name)), find)

    summary = {
        "[]": "x[i]: an element of an array, counted from 0, which fails if there is none; the value of a key of a "
        "map, null if there is none; a field of a struct, by its name",
        "element_at": "an element of an array, counted from 1 or, if negative, from the end, which fails if there is "
        "none; the value of a key of a map, null if there is none",
        "get": "an element, counted from 0; null if there is none",
    }[name]
    return Function(name, "x, i", summary, (2, 2), bind)


def _field_of(value: Node, name: str) -> Node:
    if not isinstance(value.type, Struct):
        raise ExpressionError(f"a value of type {value.type} has no field {name}")
    (found,) = find_path(value.type, (name,))
    place = next(number for number, child in enumerate(value.type) if child is found)
    return CallNode(found.type, "get_field", (value,), lambda structs: pc.struct_field(structs, [place]))


def _get_field(_: Context, nodes: Sequence[Node]) -> Node:
    value, name = nodes
    if not isinstance(name, LiteralNode):
        raise ColumnNotFoundError("the name of a field is a literal")
    return _field_of(value, str(name.scalar.as_py()))


def _contains(context: Context, nodes: Sequence[Node]) -> Node:
    value, member = nodes
    if not isinstance(value.type, List):
        raise wrong_types("array_contains", nodes)
    kind = common_type((value.type.element.type, member.type))
    if kind is None:
        raise wrong_types("array_contains", nodes)
    comparable((LiteralNode(kind, pa.scalar(None)),))
    value = context.cast(value, List(Field("element", kind, value.type.element.nullable)))
    member = context.cast(member, kind)
    return CallNode(BOOLEAN, "array_contains", (value, member), lambda lists, values: member_of(lists, values, kind))


def _array(context: Context, nodes: Sequence[Node]) -> Node:
    if not nodes:
        kind = List(Field("element", VOID, nullable=False))
        empty = pa.scalar([], arrow_type(kind))
        return LiteralNode(kind, empty)
    elements = same_type(context, nodes, "array")
    kind = List(Field("element", elements[0].type))
    return CallNode(kind, "array", elements, lambda *values: list_of(values, kind), eager=True)


def _map(context: Context, nodes: Sequence[Node]) -> Node:
    if len(nodes) % 2 or not nodes:
        raise ExpressionError("map takes keys and values in turns")
    keys, values = same_type(context, nodes[0::2], "map"), same_type(context, nodes[1::2], "map")
    comparable(keys)
    key_type = keys[0].type
    if key_type == VOID:
        # Arrow ends the process where it makes such a map.
        raise ExpressionError("the keys of a map are null")
    kind = Map(Field("key", key_type, nullable=False), Field("value", values[0].type))
    count = len(keys)

    def make(*given: Datum) -> Outcome:
        rows = next(len(value) for value in given if isinstance(value, pa.Array))
        columns = [spread(value, rows) for value in given]
        wrong = pa.repeat(pa.scalar(False), rows)
        for key in columns[:count]:
            wrong = pc.or_(wrong, pc.is_null(key))
        for one, other in combinations(columns[:count], 2):
            wrong = pc.or_(wrong, compare_values("=", one, other, is_floating(key_type)).fill_null(False))
        if is_floating(key_type):
            # Spark stores the key 0.0 for -0.0.
            zero = pa.scalar(0.0).cast(columns[0].type)
            columns[:count] = [pc.if_else(pc.equal(key, zero), zero, key) for key in columns[:count]]
        lists = [
            list_of(part, List(Field("element", child)))
            for part, child in ((columns[:count], key_type), (columns[count:], values[0].type))
        ]
        filled = pc.if_else(wrong, pa.scalar(None, lists[0].type), lists[0])
        keys_kept, items_kept = (pc.list_flatten(pc.if_else(wrong, pa.scalar(None, part.type), part)) for part in lists)
        offsets = list_offsets(filled)
        found = pa.MapArray.from_arrays(offsets, keys_kept, items_kept).cast(arrow_type(kind))
        return failed_where(found, wrong, "a key of a map is null, or is there twice")

    return CallNode(kind, "map", (*keys, *values), make, eager=True)


def _named_struct(_: Context, nodes: Sequence[Node]) -> Node:
    if len(nodes) % 2 or not nodes:
        raise ExpressionError("named_struct takes names and values in turns")
    names = [node.scalar.as_py() if isinstance(node, LiteralNode) else None for node in nodes[0::2]]
    if not all(isinstance(name, str) for name in names):
        raise ExpressionError("the names of named_struct are literals")
    return _struct_of([str(name) for name in names], nodes[1::2])


def _struct_of(names: Sequence[str], values: Sequence[Node]) -> Node:
    kind = Struct(tuple(Field(name, node.type) for name, node in zip(names, values, strict=True)))

    def make(*given: Datum) -> pa.Array:
        rows = next(len(value) for value in given if isinstance(value, pa.Array))
        return pa.StructArray.from_arrays([spread(value, rows) for value in given], fields=list(arrow_type(kind)))

    return CallNode(kind, "named_struct", tuple(values), make, eager=True)


def _part_of_map(name: str, nodes: Sequence[Node]) -> Node:
    (node,) = nodes
    if not isinstance(node.type, Map):
        raise wrong_types(name, nodes)
    child = node.type.key if name == "map_keys" else node.type.value
    kind = List(Field("element", child.type, child.nullable))
    part = 0 if name == "map_keys" else 1

    def take(maps: pa.Array) -> pa.Array:
        entries = entries_of(maps)
        flat = pc.struct_field(pc.list_flatten(entries), [part])
        return pa.ListArray.from_arrays(list_offsets(entries), flat).cast(arrow_type(kind))

    return CallNode(kind, name, (node,), take)


def _has_key(context: Context, nodes: Sequence[Node]) -> Node:
    value, key = nodes
    if not isinstance(value.type, Map):
        raise wrong_types("map_contains_key", nodes)
    keys = _part_of_map("map_keys", (value,))
    return _contains(context, (keys, key))


_LIST = [
    *(
        Function(name, "x", "the number of elements or entries", (1, 1), _size)
        for name in ("size", "cardinality", "array_size")
    ),
    *map(_access, ("[]", "element_at", "get")),
    Function("get_field", "x, name", "a field of a struct, also written x.name", (2, 2), _get_field),
    Function("array_contains", "x, value", "whether an element equals the value", (2, 2), _contains),
    Function("array", "x, ...", "the values as an array", (0, None), _array),
    Function("map", "k1, v1, ...", "the keys and values as a map", (2, None), _map),
    Function("named_struct", "name1, x1, ...", "the values as a struct", (2, None), _named_struct),
    Function("map_keys", "x", "the keys of a map", (1, 1), lambda _, nodes: _part_of_map("map_keys", nodes)),
    Function("map_values", "x", "the values of a map", (1, 1), lambda _, nodes: _part_of_map("map_values", nodes)),
    Function("map_contains_key", "x, key", "whether a map has a key", (2, 2), _has_key),
]
NESTED = {function.name: function for function in _LIST}
