"""Columns of an Avro file under construction."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import CorruptAvroError, InvalidArgumentError
from deltaberg.kernels.pure.avro.cursor import Cursor

__all__ = ["Column", "LeafColumn", "ListColumn", "OptionalColumn", "RecordColumn", "Step", "no_branch", "weight"]

#: How many values wait as objects, which take several times the memory that they take in Arrow.
_WAITING = 1 << 14

#: Reads a value from a block.
Step = Callable[[Cursor], Any]


class Column:
    """A column under construction. This base class holds only nulls; its subclasses hold values.

    ``read`` takes a value from the cursor, and ``valid`` has a byte for every row: 1, or 0 for a null.
    """

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self.valid = bytearray()

    def __len__(self) -> int:
        return len(self.valid)

    def read(self, cursor: Cursor) -> None:
        """Take a value from the cursor."""
        self.push_null()

    def push_null(self) -> None:
        """Append a null, to nested columns too."""
        self.valid.append(False)

    def array(self, rows: int) -> pa.Array:
        """Return the column's rows."""
        return pa.nulls(rows, self.type)

    def children_arrays(self, rows: int) -> list[pa.Array]:
        """Return the columns of a record."""
        raise InvalidArgumentError("the rows of an Avro file must be records")


class LeafColumn(Column):
    """A column of values without parts."""

    def __init__(self, data_type: pa.DataType, value: Step) -> None:
        super().__init__(data_type)
        self.values: list[Any] = []
        self._value = value
        self._done: list[pa.Array] = []

    def read(self, cursor: Cursor) -> None:
        """Take a value from the cursor."""
        if len(self.values) >= _WAITING:
            self._settle()
        self.values.append(self._value(cursor))
        self.valid.append(True)

    def push_null(self) -> None:
        """Append a null."""
        if len(self.values) >= _WAITING:
            self._settle()
        self.values.append(None)
        self.valid.append(False)

    def _settle(self) -> None:
        self._done.append(pa.array(self.values, self.type))
        self.values.clear()

    def array(self, rows: int) -> pa.Array:
        """Return the column's rows."""
        self._settle()
        return self._done[0] if len(self._done) == 1 else pa.concat_arrays(self._done)


class OptionalColumn(Column):
    """A union of null and one other type: the column of that type, with nulls."""

    def __init__(self, inner: Column, null: int | None, value: int) -> None:
        super().__init__(inner.type)
        self.inner = inner
        self.null = null
        self._branch = value
        self.valid = inner.valid

    def read(self, cursor: Cursor) -> None:
        """Take a value from the cursor."""
        branch = cursor.long()
        if branch == self._branch:
            self.inner.read(cursor)
        elif branch == self.null:
            self.inner.push_null()
        else:
            raise no_branch(branch)

    def push_null(self) -> None:
        """Append a null."""
        self.inner.push_null()

    def array(self, rows: int) -> pa.Array:
        """Return the column's rows."""
        return self.inner.array(rows)


class RecordColumn(Column):
    """A struct. Each step reads a field into its child, or passes over it."""

    def __init__(self, data_type: pa.DataType, steps: Sequence[Column | Step], children: Sequence[Column]) -> None:
        super().__init__(data_type)
        self._steps = [step.read if isinstance(step, Column) else step for step in steps]
        self._children = children
        self.filled = [step for step in steps if isinstance(step, Column)]

    def read(self, cursor: Cursor) -> None:
        """Take a value from the cursor."""
        for step in self._steps:
            step(cursor)
        self.valid.append(True)

    def require(self, slot: int) -> None:
        """Refuse nulls in a child even if its type allows them."""
        child = self._children[slot]
        if isinstance(child, OptionalColumn):
            child.null = None

    def push_null(self) -> None:
        """Append a null."""
        for child in self.filled:
            child.push_null()
        self.valid.append(False)

    def children_arrays(self, rows: int) -> list[pa.Array]:
        """Return the fields as columns, and refuse nulls in required ones."""
        arrays = [child.array(rows) for child in self._children]
        for field, found in zip(self.type, arrays, strict=True):
            _check_nulls(field, found, self.valid)
        return arrays

    def array(self, rows: int) -> pa.Array:
        """Return the column's rows."""
        arrays = self.children_arrays(rows)
        if not arrays:
            return pa.Array.from_buffers(self.type, rows, [_bits(self.valid)], children=[])
        mask = pc.invert(_mask(self.valid)) if False in self.valid else None
        return pa.StructArray.from_arrays(arrays, fields=list(self.type), mask=mask)


class ListColumn(Column):
    """A list or a map: items of variable number."""

    def __init__(self, data_type: pa.DataType, item: Column, least: int, keys: Sequence[int] | None) -> None:
        super().__init__(data_type)
        self._item = item
        self._least = least
        self._keeps_all = keys is None
        self._weight = weight(item.type)
        self._read = item.read if keys is None else _KeyFilter(item, frozenset(keys)).read
        self._offsets = array("q", [0])

    def read(self, cursor: Cursor) -> None:
        """Take a value from the cursor."""
        while (part := cursor.items(self._least)) is not None:
            if self._keeps_all:
                cursor.spend(part[0] * self._weight)
            for _ in range(part[0]):
                self._read(cursor)
        self._offsets.append(len(self._item))
        self.valid.append(True)

    def push_null(self) -> None:
        """Append a null."""
        self._offsets.append(self._offsets[-1])
        self.valid.append(False)

    def array(self, rows: int) -> pa.Array:
        """Return the column's rows."""
        items = self._item.array(len(self._item))
        if pt.is_list(self.type):
            _check_nulls(self.type.value_field, items)
        starts = pa.Array.from_buffers(pa.int64(), len(self._offsets), [None, pa.py_buffer(self._offsets)])
        offsets = starts.cast(pa.int32()).buffers()[1]
        if pt.is_map(self.type):
            # Counts the nulls: before version 17, Arrow aborts on map entries whose nulls were not counted.
            _ = items.null_count
        return pa.Array.from_buffers(self.type, rows, [_bits(self.valid), offsets], children=[items])


class _KeyFilter:
    """Reads the pairs of a map, and keeps those with a wanted key."""

    def __init__(self, pairs: Column, keys: frozenset[int]) -> None:
        if not isinstance(pairs, RecordColumn) or len(pairs.filled) != 2 or len(pairs.type) != 2:
            raise InvalidArgumentError("keys can be selected only if a pair has a key and a value and nothing else")
        columns = [column.inner if isinstance(column, OptionalColumn) else column for column in pairs.filled]
        self._leaves = [column for column in columns if isinstance(column, LeafColumn)]
        if len(self._leaves) != len(columns):
            raise InvalidArgumentError("keys can be selected only if the values are integers or bytes")
        self._pairs = pairs
        self._weight = weight(pairs.type)
        self._wanted = keys

    def read(self, cursor: Cursor) -> None:
        pairs = self._pairs
        pairs.read(cursor)
        if self._leaves[0].values[-1] not in self._wanted:
            for leaf in self._leaves:
                leaf.values.pop()
                leaf.valid.pop()
            pairs.valid.pop()
        else:
            cursor.spend(self._weight)


def _mask(valid: bytearray) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.uint8(), len(valid), [None, pa.py_buffer(valid)]).cast(pa.bool_())


def _bits(valid: bytearray) -> pa.Buffer | None:
    return _mask(valid).buffers()[1] if False in valid else None


def weight(data_type: pa.DataType) -> int:
    """Return the memory that a value takes, also as a null, without the bytes of texts and the items of lists."""
    if pt.is_struct(data_type):
        return sum(weight(child.type) for child in data_type)
    if pt.is_null(data_type):
        return 0
    if pt.is_boolean(data_type):
        return 1
    if pt.is_nested(data_type) or pt.is_string(data_type) or pt.is_binary(data_type):
        return 4
    width: int = data_type.byte_width
    return width


def _check_nulls(child: pa.Field, found: pa.Array, outer: bytearray | None = None) -> None:
    """Refuse a null in a required field, unless its parent is null."""
    if child.nullable or not found.null_count:
        return
    if outer is None or pc.any(pc.and_(found.is_null(), _mask(outer))).as_py():
        raise CorruptAvroError(f"the required field {child.name} is null")


def no_branch(branch: int) -> CorruptAvroError:
    """Return the error of a union whose branch does not exist."""
    return CorruptAvroError(f"a union has no branch {branch}")
