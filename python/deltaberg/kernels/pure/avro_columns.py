"""Columns of an Avro file under construction, and how values of the writer's types get there or are passed over."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import CorruptAvroError, InvalidArgumentError

__all__ = ["Column", "Cursor", "Node", "compile_node", "least_bytes"]

#: Kind, size, slot, children, keys: as the compiled kernel takes it.
Node = tuple[str, int, "int | None", "Sequence[Node]", "Sequence[int] | None"]
_Step = Callable[["Cursor"], Any]

_DEEPEST = 100
_EXACT = Context(prec=60)
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class Cursor:
    """The rest of a block."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def long(self) -> int:
        """Read a zigzag varint of up to 64 bits."""
        raw, at = self.raw, self.at
        value = shift = 0
        while True:
            if at >= len(raw):
                raise _ends()
            byte = raw[at]
            at += 1
            if shift == 63 and byte > 1:
                raise CorruptAvroError("an integer has more than 64 bits")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        self.at = at
        return value >> 1 ^ -(value & 1)

    def take(self, length: int) -> bytes:
        """Read so many bytes."""
        end = self.at + length
        if end > len(self.raw):
            raise _ends()
        taken = self.raw[self.at : end]
        self.at = end
        return taken

    def prefixed(self) -> bytes:
        """Read bytes with their length in front."""
        length = self.long()
        if length < 0:
            raise CorruptAvroError("a length is negative")
        return self.take(length)

    def boolean(self) -> bool:
        """Read a byte that is 0 or 1."""
        (byte,) = self.take(1)
        if byte > 1:
            raise CorruptAvroError("a boolean is neither 0 nor 1")
        return byte == 1

    def items(self, least: int) -> tuple[int, int | None] | None:
        """Read how many items come next, and their bytes where they are told; None at the end."""
        count = self.long()
        if not count:
            return None
        size = None
        if count < 0:
            count, size = -count, self.long()
            if size < 0:
                raise CorruptAvroError("a length is negative")
        if count * least > len(self.raw) - self.at:
            raise _ends()
        return count, size


def _ends() -> CorruptAvroError:
    return CorruptAvroError("the block ends inside of a value")


class Column:
    """A column under construction, of nulls alone unless a kind of it says more.

    ``read`` takes a value from the cursor; all rows have a place in ``valid``.
    """

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self.valid: list[bool] = []

    def __len__(self) -> int:
        return len(self.valid)

    def read(self, cursor: Cursor) -> None:  # noqa: ARG002
        """Take a value from the cursor."""
        self.push_null()

    def push_null(self) -> None:
        """Append a null, with whatever stands below it."""
        self.valid.append(False)

    def array(self, rows: int) -> pa.Array:
        """Give the column's rows."""
        return pa.nulls(rows, self.type)

    def children_arrays(self, rows: int) -> list[pa.Array]:  # noqa: ARG002
        """Give the columns of a record."""
        raise InvalidArgumentError("the rows of an Avro file are records")


class _Leaf(Column):
    def __init__(self, data_type: pa.DataType, value: _Step) -> None:
        super().__init__(data_type)
        self.values: list[Any] = []
        self._value = value

    def read(self, cursor: Cursor) -> None:
        self.values.append(self._value(cursor))
        self.valid.append(True)

    def push_null(self) -> None:
        self.values.append(None)
        self.valid.append(False)

    def array(self, rows: int) -> pa.Array:  # noqa: ARG002
        return pa.array(self.values, self.type)


class _Optional(Column):
    def __init__(self, inner: Column, null: int, value: int) -> None:
        super().__init__(inner.type)
        self.inner = inner
        self.null: int | None = null
        self._branch = value
        self.valid = inner.valid

    def read(self, cursor: Cursor) -> None:
        branch = cursor.long()
        if branch == self._branch:
            self.inner.read(cursor)
        elif branch == self.null:
            self.inner.push_null()
        else:
            raise _no_branch(branch)

    def push_null(self) -> None:
        self.inner.push_null()

    def array(self, rows: int) -> pa.Array:
        return self.inner.array(rows)


class _Record(Column):
    def __init__(self, data_type: pa.DataType, steps: Sequence[Column | _Step], children: Sequence[Column]) -> None:
        super().__init__(data_type)
        self._steps = [step.read if isinstance(step, Column) else step for step in steps]
        self._children = children
        self.filled = [step for step in steps if isinstance(step, Column)]

    def read(self, cursor: Cursor) -> None:
        for step in self._steps:
            step(cursor)
        self.valid.append(True)

    def require(self, slot: int) -> None:
        """Refuse nulls in a child, even where its type allows them."""
        child = self._children[slot]
        if isinstance(child, _Optional):
            child.null = None

    def push_null(self) -> None:
        for child in self.filled:
            child.push_null()
        self.valid.append(False)

    def children_arrays(self, rows: int) -> list[pa.Array]:
        arrays = [child.array(rows) for child in self._children]
        for field, array in zip(self.type, arrays, strict=True):
            _check_nulls(field, array, self.valid)
        return arrays

    def array(self, rows: int) -> pa.Array:
        arrays = self.children_arrays(rows)
        if not arrays:
            validity = pa.array(self.valid, pa.bool_()).buffers()[1] if False in self.valid else None
            return pa.Array.from_buffers(self.type, rows, [validity], children=[])
        mask = pa.array([not valid for valid in self.valid], pa.bool_()) if False in self.valid else None
        return pa.StructArray.from_arrays(arrays, fields=list(self.type), mask=mask)


class _Items(Column):
    def __init__(self, data_type: pa.DataType, item: Column, least: int, keys: Sequence[int] | None) -> None:
        super().__init__(data_type)
        self._item = item
        self._least = least
        self._read = item.read if keys is None else _KeyFilter(item, frozenset(keys)).read
        self._offsets = [0]

    def read(self, cursor: Cursor) -> None:
        while (part := cursor.items(self._least)) is not None:
            for _ in range(part[0]):
                self._read(cursor)
        self._offsets.append(len(self._item))
        self.valid.append(True)

    def push_null(self) -> None:
        self._offsets.append(self._offsets[-1])
        self.valid.append(False)

    def array(self, rows: int) -> pa.Array:
        items = self._item.array(len(self._item))
        if pt.is_list(self.type):
            _check_nulls(self.type.value_field, items)
        validity = pa.array(self.valid, pa.bool_()).buffers()[1] if False in self.valid else None
        offsets = pa.array(self._offsets, pa.int32()).buffers()[1]
        if pt.is_map(self.type):
            # Asked for, nulls are counted: before version 17 Arrow aborts on entries whose nulls were not.
            _ = items.null_count
        return pa.Array.from_buffers(self.type, rows, [validity, offsets], children=[items])


class _KeyFilter:
    """Reads pairs of which only some keys are wanted."""

    def __init__(self, pairs: Column, wanted: frozenset[int]) -> None:
        if not isinstance(pairs, _Record) or len(pairs.filled) != 2 or len(pairs.type) != 2:
            raise InvalidArgumentError("keys can be chosen where a key and a value are all of a pair")
        columns = [column.inner if isinstance(column, _Optional) else column for column in pairs.filled]
        self._leaves = [column for column in columns if isinstance(column, _Leaf)]
        if len(self._leaves) != len(columns):
            raise InvalidArgumentError("keys can be chosen where values are integers or bytes")
        self._pairs = pairs
        self._wanted = wanted

    def read(self, cursor: Cursor) -> None:
        pairs = self._pairs
        pairs.read(cursor)
        if self._leaves[0].values[-1] not in self._wanted:
            for leaf in self._leaves:
                leaf.values.pop()
                leaf.valid.pop()
            pairs.valid.pop()


def _check_nulls(child: pa.Field, array: pa.Array, outer: Sequence[bool] | None = None) -> None:
    """Refuse a null in a required field, but where what it belongs to is null."""
    if child.nullable or not array.null_count:
        return
    if outer is None or pc.any(pc.and_(array.is_null(), pa.array(outer, pa.bool_()))).as_py():
        raise CorruptAvroError(f"the required field {child.name} is null")


def compile_node(node: Node, target: pa.DataType, depth: int) -> Column:
    """Give the column that a node's values go to."""
    kind, size, _, children, keys = node
    if depth > _DEEPEST:
        raise CorruptAvroError("the schema is nested too deeply")
    inner = depth + 1
    if kind == "null":
        return Column(target)
    if kind == "union":
        return _compile_union(children, target, inner)
    if kind == "record" and pt.is_struct(target):
        return _compile_record(children, target, inner)
    if kind == "array" and pt.is_list(target):
        (item,) = children
        return _Items(target, compile_node(item, target.value_type, inner), _least_of_items(item, inner), None)
    if kind == "pairs" and pt.is_map(target):
        (item,) = children
        entries = pa.struct([target.key_field, target.item_field])
        pairs = _compile_record(item[3], entries, inner)
        pairs.require(0)
        return _Items(target, pairs, _least_of_items(item, inner), keys)
    if kind == "map" and pt.is_map(target) and target.key_type == pa.string():
        (item,) = children
        entries = pa.struct([target.key_field, target.item_field])
        pair = [_Leaf(pa.string(), _text), compile_node(item, target.item_type, inner)]
        return _Items(target, _Record(entries, pair, pair), 1, None)
    return _Leaf(target, _reader(kind, size, target))


def _compile_union(branches: Sequence[Node], target: pa.DataType, depth: int) -> Column:
    kinds = [branch[0] for branch in branches]
    if len(kinds) == 1:
        return _Optional(compile_node(branches[0], target, depth), -1, 0)
    if len(kinds) != 2 or "null" not in kinds:
        raise InvalidArgumentError("a wanted union has other branches than null and one type")
    null = kinds.index("null")
    return _Optional(compile_node(branches[1 - null], target, depth), null, 1 - null)


def _compile_record(children: Sequence[Node], target: pa.DataType, depth: int) -> _Record:
    columns: list[Column] = [Column(child.type) for child in target]
    steps: list[Column | _Step] = []
    for child in children:
        slot = child[2]
        if slot is None:
            steps.append(_skip(child, depth))
            continue
        if slot >= len(columns):
            raise InvalidArgumentError(f"there is no wanted column {slot}")
        columns[slot] = compile_node(child, target.field(slot).type, depth)
        steps.append(columns[slot])
    return _Record(target, steps, columns)


def _reader(kind: str, size: int, target: pa.DataType) -> _Step:
    """Give the function that reads a value of a leaf."""
    if kind == "fixed":
        found = _fixed_reader(size, target)
    else:
        found = next((read for kinds, fits, read in _LEAVES if kind in kinds and fits(target)), None)
        if found is None and kind == "bytes" and pt.is_decimal128(target):
            return lambda cursor: _unscaled(cursor.prefixed(), target)
    if found is None:
        raise InvalidArgumentError(f"an Avro {kind} is not read as {target}")
    return found


def _fixed_reader(size: int, target: pa.DataType) -> _Step | None:
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
        return cursor.prefixed().decode()
    except UnicodeDecodeError as error:
        raise CorruptAvroError(f"text is not UTF-8: {error}") from None


def _is_32_bits(target: pa.DataType) -> bool:
    return bool(pt.is_int32(target) or pt.is_date32(target) or pt.is_time32(target))


def _is_64_bits(target: pa.DataType) -> bool:
    return bool(pt.is_int64(target) or pt.is_timestamp(target) or pt.is_time64(target))


_WHOLE, _BYTES = ("int", "long"), ("bytes", "string")
#: Which kinds are read as which types, and how.
_LEAVES: tuple[tuple[Sequence[str], Callable[[pa.DataType], bool], _Step], ...] = (
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
    (_BYTES, pt.is_binary, Cursor.prefixed),
)


def _unscaled(value: bytes, target: pa.DataType) -> PyDecimal:
    if not value:
        raise CorruptAvroError("a decimal has no bytes")
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**target.precision:
        raise CorruptAvroError(f"a decimal has more than {target.precision} digits")
    return PyDecimal(number).scaleb(-target.scale, _EXACT)


def _skip(node: Node, depth: int) -> _Step:
    kind, size, _, children, _ = node
    if depth > _DEEPEST:
        raise CorruptAvroError("the schema is nested too deeply")
    inner = depth + 1
    simple = _SKIPS.get(kind)
    if simple is not None:
        return simple
    if kind == "fixed":
        return lambda cursor: cursor.take(size)
    if kind in ("record", "union"):
        steps = [_skip(child, inner) for child in children]
        return (lambda cursor: [step(cursor) for step in steps]) if kind == "record" else _skip_union(steps)
    if kind in ("array", "pairs"):
        (item,) = children
        return _skip_items(_skip(item, inner), _least_of_items(item, inner))
    if kind == "map":
        value = _skip(children[0], inner)
        return _skip_items(lambda cursor: (cursor.prefixed(), value(cursor)), 1)
    raise InvalidArgumentError(f"there is no Avro type {kind!r}")


_SKIPS: dict[str, _Step] = {
    "null": lambda _: None,
    "boolean": Cursor.boolean,
    "int": Cursor.long,
    "long": Cursor.long,
    "float": lambda cursor: cursor.take(4),
    "double": lambda cursor: cursor.take(8),
    "bytes": Cursor.prefixed,
    "string": Cursor.prefixed,
}


def _skip_union(steps: Sequence[_Step]) -> _Step:
    def skip(cursor: Cursor) -> None:
        branch = cursor.long()
        if not 0 <= branch < len(steps):
            raise _no_branch(branch)
        steps[branch](cursor)

    return skip


def _skip_items(item: _Step, least: int) -> _Step:
    def skip(cursor: Cursor) -> None:
        while (part := cursor.items(least)) is not None:
            count, size = part
            if size is not None:
                cursor.take(size)
                continue
            for _ in range(count):
                item(cursor)

    return skip


def _no_branch(branch: int) -> CorruptAvroError:
    return CorruptAvroError(f"a union has no branch {branch}")


def least_bytes(node: Node, depth: int) -> int:
    """Give how many bytes a value takes at the least."""
    kind, size, _, children, _ = node
    if kind == "record":
        return sum(least_bytes(child, depth + 1) for child in children)
    return {"null": 0, "float": 4, "double": 8, "fixed": size}.get(kind, 1)


def _least_of_items(item: Node, depth: int) -> int:
    least = least_bytes(item, depth)
    if not least:
        raise CorruptAvroError("the items of an array have no bytes")
    return least
