"""Avro blocks to Arrow columns: the twin of ``rust/core/src/avro``."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from decimal import Context
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import CorruptAvroError, InvalidArgumentError, TooLargeError

__all__ = ["decode_avro"]

#: Kind, size, slot, children, keys: as the compiled kernel takes it.
_Node = tuple[str, int, "int | None", "Sequence[_Node]", "Sequence[int] | None"]
_Step = Callable[["_Cursor"], Any]

_MOST_BLOCK = 1 << 30
_MOST_EMPTY_ROWS = 1 << 24
_DEEPEST = 100
_EXACT = Context(prec=60)
_CODECS = ("null", "deflate", "snappy", "zstandard")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def decode_avro(
    data: bytes,
    blocks: Sequence[tuple[int, int, int]],
    codec: str,
    node: _Node,
    schema: pa.Schema,
    threads: int = 0,
) -> pa.Table:
    """Decode blocks (offset, size, rows) of an Avro file; ``node`` is the writer's schema with its slots."""
    if codec not in _CODECS:
        raise InvalidArgumentError(f"there is no Avro codec {codec!r}")
    root = pa.struct(list(schema))
    column = _compile(node, root, 0)
    least = _least(node, 0)
    for number, (offset, size, rows) in enumerate(blocks):
        try:
            _block(column, data[offset : offset + size], size, rows, codec, least)
        except (CorruptAvroError, TooLargeError) as error:
            raise error.with_context(block=str(number)) from None
        except RecursionError:
            raise CorruptAvroError("the values are nested too deeply", block=str(number)) from None
    if not blocks:
        return schema.empty_table()
    rows = len(column)
    try:
        arrays = column.children_arrays(rows)
    except (pa.ArrowInvalid, UnicodeDecodeError, OverflowError) as error:
        raise CorruptAvroError(f"the values do not fit their types: {error}", block=str(len(blocks) - 1)) from error
    if not arrays:
        empty = pa.Array.from_buffers(pa.struct([]), rows, [None], children=[])
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(empty)])
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(arrays, schema=schema)] if rows else [], schema)


def _block(column: _Column, stored: bytes, size: int, rows: int, codec: str, least: int) -> None:
    if len(stored) != size:
        raise CorruptAvroError("the file ends inside of a block")
    raw = _decompress(stored, codec)
    if rows * least > len(raw) or (not least and rows > _MOST_EMPTY_ROWS):
        raise CorruptAvroError("a block has fewer bytes than its rows need")
    cursor = _Cursor(raw)
    for _ in range(rows):
        column.read(cursor)
    if cursor.at != len(raw):
        raise CorruptAvroError(f"{len(raw) - cursor.at} bytes are left behind the last row of a block")


def _decompress(stored: bytes, codec: str) -> bytes:
    if codec == "null":
        return stored
    try:
        if codec == "deflate":
            raw = zlib.decompressobj(-15).decompress(stored, _MOST_BLOCK + 1)
        elif codec == "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
                raw = stream.read(_MOST_BLOCK + 1)
        else:
            return _snappy(stored)
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise CorruptAvroError(f"a block cannot be decompressed: {error}") from error
    _check_size(len(raw))
    return raw


def _snappy(stored: bytes) -> bytes:
    if len(stored) < 4:
        raise CorruptAvroError("a snappy block has no checksum")
    compressed = stored[:-4]
    size = _snappy_length(compressed)
    _check_size(size)
    if size // 32 > len(compressed):
        raise CorruptAvroError("a snappy block is shorter than its length says")
    raw: bytes = pa.decompress(compressed, decompressed_size=size, codec="snappy", asbytes=True) if size else b""
    if zlib.crc32(raw) != int.from_bytes(stored[-4:], "big"):
        raise CorruptAvroError("the checksum of a snappy block is wrong")
    return raw


def _snappy_length(compressed: bytes) -> int:
    value = 0
    for index, byte in enumerate(compressed[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise CorruptAvroError("a snappy block has no length")


def _check_size(size: int) -> None:
    if size > _MOST_BLOCK:
        raise TooLargeError("an Avro block has more than 1 GiB")


class _Cursor:
    """The rest of a block."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def long(self) -> int:
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
        end = self.at + length
        if end > len(self.raw):
            raise _ends()
        taken = self.raw[self.at : end]
        self.at = end
        return taken

    def prefixed(self) -> bytes:
        length = self.long()
        if length < 0:
            raise CorruptAvroError("a length is negative")
        return self.take(length)

    def boolean(self) -> bool:
        (byte,) = self.take(1)
        if byte > 1:
            raise CorruptAvroError("a boolean is neither 0 nor 1")
        return byte == 1

    def items(self, least: int) -> tuple[int, int | None] | None:
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


class _Column:
    """A column under construction, of nulls alone unless a kind of it says more.

    ``read`` takes a value from the cursor; all rows have a place in ``valid``.
    """

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self.valid: list[bool] = []

    def __len__(self) -> int:
        return len(self.valid)

    def read(self, cursor: _Cursor) -> None:  # noqa: ARG002
        self.push_null()

    def push_null(self) -> None:
        self.valid.append(False)

    def array(self, rows: int) -> pa.Array:
        return pa.nulls(rows, self.type)

    def children_arrays(self, rows: int) -> list[pa.Array]:  # noqa: ARG002
        raise InvalidArgumentError("the rows of an Avro file are records")


class _Leaf(_Column):
    def __init__(self, data_type: pa.DataType, value: _Step) -> None:
        super().__init__(data_type)
        self.values: list[Any] = []
        self._value = value

    def read(self, cursor: _Cursor) -> None:
        self.values.append(self._value(cursor))
        self.valid.append(True)

    def push_null(self) -> None:
        self.values.append(None)
        self.valid.append(False)

    def array(self, rows: int) -> pa.Array:  # noqa: ARG002
        return pa.array(self.values, self.type)


class _Optional(_Column):
    def __init__(self, inner: _Column, null: int, value: int) -> None:
        super().__init__(inner.type)
        self.inner = inner
        self.null: int | None = null
        self._branch = value
        self.valid = inner.valid

    def read(self, cursor: _Cursor) -> None:
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


class _Record(_Column):
    def __init__(self, data_type: pa.DataType, steps: Sequence[_Column | _Step], children: Sequence[_Column]) -> None:
        super().__init__(data_type)
        self._steps = [step.read if isinstance(step, _Column) else step for step in steps]
        self._children = children
        self.filled = [step for step in steps if isinstance(step, _Column)]

    def read(self, cursor: _Cursor) -> None:
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
        return [child.array(rows) for child in self._children]

    def array(self, rows: int) -> pa.Array:
        arrays = self.children_arrays(rows)
        if not arrays:
            validity = pa.array(self.valid, pa.bool_()).buffers()[1] if False in self.valid else None
            return pa.Array.from_buffers(self.type, rows, [validity], children=[])
        mask = pa.array([not valid for valid in self.valid], pa.bool_()) if False in self.valid else None
        return pa.StructArray.from_arrays(arrays, fields=list(self.type), mask=mask)


class _Items(_Column):
    def __init__(self, data_type: pa.DataType, item: _Column, least: int, keys: Sequence[int] | None) -> None:
        super().__init__(data_type)
        self._item = item
        self._least = least
        self._read = item.read if keys is None else _KeyFilter(item, frozenset(keys)).read
        self._offsets = [0]

    def read(self, cursor: _Cursor) -> None:
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
        validity = pa.array(self.valid, pa.bool_()).buffers()[1] if False in self.valid else None
        offsets = pa.array(self._offsets, pa.int32()).buffers()[1]
        if pt.is_map(self.type):
            # Asked for, nulls are counted: before version 17 Arrow aborts on entries whose nulls were not.
            _ = items.null_count
        return pa.Array.from_buffers(self.type, rows, [validity, offsets], children=[items])


class _KeyFilter:
    """Reads pairs of which only some keys are wanted."""

    def __init__(self, pairs: _Column, wanted: frozenset[int]) -> None:
        if not isinstance(pairs, _Record) or len(pairs.filled) != 2 or len(pairs.type) != 2:
            raise InvalidArgumentError("keys can be chosen where a key and a value are all of a pair")
        columns = [column.inner if isinstance(column, _Optional) else column for column in pairs.filled]
        self._leaves = [column for column in columns if isinstance(column, _Leaf)]
        if len(self._leaves) != len(columns):
            raise InvalidArgumentError("keys can be chosen where values are integers or bytes")
        self._pairs = pairs
        self._wanted = wanted

    def read(self, cursor: _Cursor) -> None:
        pairs = self._pairs
        pairs.read(cursor)
        if self._leaves[0].values[-1] not in self._wanted:
            for leaf in self._leaves:
                leaf.values.pop()
                leaf.valid.pop()
            pairs.valid.pop()


def _compile(node: _Node, target: pa.DataType, depth: int) -> _Column:
    kind, size, _, children, keys = node
    if depth > _DEEPEST:
        raise CorruptAvroError("the schema is nested too deeply")
    inner = depth + 1
    if kind == "null":
        return _Column(target)
    if kind == "union":
        return _compile_union(children, target, inner)
    if kind == "record" and pt.is_struct(target):
        return _compile_record(children, target, inner)
    if kind == "array" and pt.is_list(target):
        (item,) = children
        return _Items(target, _compile(item, target.value_type, inner), _least_of_items(item, inner), None)
    if kind == "pairs" and pt.is_map(target):
        (item,) = children
        entries = pa.struct([target.key_field, target.item_field])
        pairs = _compile_record(item[3], entries, inner)
        pairs.require(0)
        return _Items(target, pairs, _least_of_items(item, inner), keys)
    if kind == "map" and pt.is_map(target) and target.key_type == pa.string():
        (item,) = children
        entries = pa.struct([target.key_field, target.item_field])
        pair = [_Leaf(pa.string(), _text), _compile(item, target.item_type, inner)]
        return _Items(target, _Record(entries, pair, pair), 1, None)
    return _Leaf(target, _reader(kind, size, target))


def _compile_union(branches: Sequence[_Node], target: pa.DataType, depth: int) -> _Column:
    kinds = [branch[0] for branch in branches]
    if len(kinds) == 1:
        return _Optional(_compile(branches[0], target, depth), -1, 0)
    if len(kinds) != 2 or "null" not in kinds:
        raise InvalidArgumentError("a wanted union has other branches than null and one type")
    null = kinds.index("null")
    return _Optional(_compile(branches[1 - null], target, depth), null, 1 - null)


def _compile_record(children: Sequence[_Node], target: pa.DataType, depth: int) -> _Record:
    columns: list[_Column] = [_Column(child.type) for child in target]
    steps: list[_Column | _Step] = []
    for child in children:
        slot = child[2]
        if slot is None:
            steps.append(_skip(child, depth))
            continue
        if slot >= len(columns):
            raise InvalidArgumentError(f"there is no wanted column {slot}")
        columns[slot] = _compile(child, target.field(slot).type, depth)
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


def _int32(cursor: _Cursor) -> int:
    value = cursor.long()
    if not -(1 << 31) <= value < 1 << 31:
        raise CorruptAvroError(f"{value} does not fit into 32 bits")
    return value


def _text(cursor: _Cursor) -> str:
    try:
        return cursor.prefixed().decode()
    except UnicodeDecodeError as error:
        raise CorruptAvroError(f"text is not UTF-8: {error}") from None


def _is_32_bits(target: pa.DataType) -> bool:
    return bool(pt.is_int32(target) or pt.is_date32(target) or pt.is_time32(target))


def _is_64_bits(target: pa.DataType) -> bool:
    return bool(pt.is_int64(target) or pt.is_timestamp(target) or pt.is_time64(target))


def _is_floating(target: pa.DataType) -> bool:
    return target in (pa.float32(), pa.float64())


_WHOLE, _BYTES = ("int", "long"), ("bytes", "string")
#: Which kinds are read as which types, and how.
_LEAVES: tuple[tuple[Sequence[str], Callable[[pa.DataType], bool], _Step], ...] = (
    (_WHOLE, _is_32_bits, _int32),
    (_WHOLE, _is_64_bits, _Cursor.long),
    (("boolean",), pt.is_boolean, _Cursor.boolean),
    (
        ("float",),
        lambda target: target in (pa.float32(), pa.float64()),
        lambda cursor: _FLOAT.unpack(cursor.take(4))[0],
    ),
    (("double",), pt.is_float64, lambda cursor: _DOUBLE.unpack(cursor.take(8))[0]),
    (_BYTES, pt.is_string, _text),
    (_BYTES, pt.is_binary, _Cursor.prefixed),
)


def _unscaled(value: bytes, target: pa.DataType) -> PyDecimal:
    if not value:
        raise CorruptAvroError("a decimal has no bytes")
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**target.precision:
        raise CorruptAvroError(f"a decimal has more than {target.precision} digits")
    return PyDecimal(number).scaleb(-target.scale, _EXACT)


def _skip(node: _Node, depth: int) -> _Step:
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
    "boolean": _Cursor.boolean,
    "int": _Cursor.long,
    "long": _Cursor.long,
    "float": lambda cursor: cursor.take(4),
    "double": lambda cursor: cursor.take(8),
    "bytes": _Cursor.prefixed,
    "string": _Cursor.prefixed,
}


def _skip_union(steps: Sequence[_Step]) -> _Step:
    def skip(cursor: _Cursor) -> None:
        branch = cursor.long()
        if not 0 <= branch < len(steps):
            raise _no_branch(branch)
        steps[branch](cursor)

    return skip


def _skip_items(item: _Step, least: int) -> _Step:
    def skip(cursor: _Cursor) -> None:
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


def _least(node: _Node, depth: int) -> int:
    """Give how many bytes a value takes at the least."""
    kind, size, _, children, _ = node
    if kind == "record":
        return sum(_least(child, depth + 1) for child in children)
    return {"null": 0, "float": 4, "double": 8, "fixed": size}.get(kind, 1)


def _least_of_items(item: _Node, depth: int) -> int:
    least = _least(item, depth)
    if not least:
        raise CorruptAvroError("the items of an array have no bytes")
    return least
