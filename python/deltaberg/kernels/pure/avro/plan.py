"""The plan by which a block is read, compiled from the writer's schema and the wanted columns."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal as PyDecimal

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import CorruptAvroError, InvalidArgumentError
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.kernels.pure.avro.columns import Column, LeafColumn, ListColumn, OptionalColumn, RecordColumn, Step
from deltaberg.kernels.pure.avro.cursor import Cursor
from deltaberg.kernels.pure.avro.skip import check_depth, least_of_items, skip_node
from deltaberg.kernels.results import AvroNode

__all__ = ["compile_node"]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def compile_node(node: AvroNode, target: pa.DataType, depth: int) -> Column:
    """Return the column that takes a node's values."""
    kind, size, _, children, keys = node
    check_depth(depth)
    inner = depth + 1
    if kind == "null":
        return Column(target)
    if kind == "union":
        return _compile_union(children, target, inner)
    if kind == "record" and pt.is_struct(target):
        return _compile_record(children, target, inner)
    if kind == "array" and pt.is_list(target):
        (item,) = children
        return ListColumn(target, compile_node(item, target.value_type, inner), least_of_items(item, inner), None)
    if kind == "pairs" and pt.is_map(target):
        (item,) = children
        entries = pa.struct([target.key_field, target.item_field])
        pairs = _compile_record(item[3], entries, inner)
        pairs.require(0)
        return ListColumn(target, pairs, least_of_items(item, inner), keys)
    if kind == "map" and pt.is_map(target) and target.key_type == pa.string():
        (item,) = children
        entries = pa.struct([target.key_field, target.item_field])
        pair = [LeafColumn(pa.string(), _text), compile_node(item, target.item_type, inner)]
        return ListColumn(target, RecordColumn(entries, pair, pair), 1, None)
    return LeafColumn(target, _reader(kind, size, target))


def _compile_union(branches: Sequence[AvroNode], target: pa.DataType, depth: int) -> Column:
    kinds = [branch[0] for branch in branches]
    if len(kinds) == 1:
        return OptionalColumn(compile_node(branches[0], target, depth), None, 0)
    if len(kinds) != 2 or "null" not in kinds:
        raise InvalidArgumentError("only a union of null and one other type can be read")
    null = kinds.index("null")
    return OptionalColumn(compile_node(branches[1 - null], target, depth), null, 1 - null)


def _compile_record(children: Sequence[AvroNode], target: pa.DataType, depth: int) -> RecordColumn:
    columns: list[Column] = [Column(child.type) for child in target]
    steps: list[Column | Step] = []
    for child in children:
        slot = child[2]
        if slot is None:
            steps.append(skip_node(child, depth))
            continue
        if slot >= len(columns):
            raise InvalidArgumentError(f"slot {slot} is not a wanted column")
        columns[slot] = compile_node(child, target.field(slot).type, depth)
        steps.append(columns[slot])
    return RecordColumn(target, steps, columns)


def _reader(kind: str, size: int, target: pa.DataType) -> Step:
    """Return the function that reads the values of a leaf."""
    if kind == "fixed":
        reader = _fixed_reader(size, target)
    else:
        reader = next((read for kinds, fits, read in _LEAVES if kind in kinds and fits(target)), None)
        if reader is None and kind == "bytes" and pt.is_decimal128(target):
            return lambda cursor: _unscaled(cursor.prefixed(), target)
    if reader is None:
        raise InvalidArgumentError(f"an Avro {kind} cannot be read as {target}")
    return reader


def _fixed_reader(size: int, target: pa.DataType) -> Step | None:
    if pt.is_fixed_size_binary(target) and target.byte_width == size:
        return lambda cursor: cursor.take(size)
    if pt.is_decimal128(target) and 1 <= size <= 16:
        return lambda cursor: _unscaled(cursor.take(size), target)
    return None


def _int32(cursor: Cursor) -> int:
    value = cursor.long()
    if not -(1 << 31) <= value < 1 << 31:
        raise CorruptAvroError(f"{value} does not fit into 32 bits")
    return value


def _text(cursor: Cursor) -> str:
    try:
        return cursor.kept().decode()
    except UnicodeDecodeError as error:
        raise CorruptAvroError(f"text is not UTF-8: {error}") from None


def _is_32_bits(target: pa.DataType) -> bool:
    return bool(pt.is_int32(target) or pt.is_date32(target) or pt.is_time32(target))


def _is_64_bits(target: pa.DataType) -> bool:
    return bool(pt.is_int64(target) or pt.is_timestamp(target) or pt.is_time64(target))


_WHOLE, _BYTES = ("int", "long"), ("bytes", "string")
#: Which Avro kinds are read as which Arrow types, and how.
_LEAVES: tuple[tuple[Sequence[str], Callable[[pa.DataType], bool], Step], ...] = (
    (_WHOLE, _is_32_bits, _int32),
    (_WHOLE, _is_64_bits, Cursor.long),
    (("boolean",), pt.is_boolean, Cursor.boolean),
    (
        ("float",),
        lambda target: target in (pa.float32(), pa.float64()),
        lambda cursor: _FLOAT.unpack(cursor.take(4))[0],
    ),
    (("double",), pt.is_float64, lambda cursor: _DOUBLE.unpack(cursor.take(8))[0]),
    (_BYTES, pt.is_string, _text),
    (_BYTES, pt.is_binary, Cursor.kept),
)


def _unscaled(value: bytes, target: pa.DataType) -> PyDecimal:
    if not value:
        raise CorruptAvroError("a decimal has no bytes")
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**target.precision:
        raise CorruptAvroError(f"a decimal has more than {target.precision} digits")
    return exact_decimal(number, target.scale)
