"""Decoding only the rows that some of their values choose: entries of manifests by their partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import pyarrow as pa

from deltaberg.errors import CorruptAvroError, InvalidArgumentError
from deltaberg.kernels.pure.avro.codec import check_codec
from deltaberg.kernels.pure.avro.columns import Column
from deltaberg.kernels.pure.avro.cursor import Cursor
from deltaberg.kernels.pure.avro.decode import Memory, expand, in_block, table_of
from deltaberg.kernels.pure.avro.plan import compile_node
from deltaberg.kernels.pure.avro.skip import least_bytes, skip_node
from deltaberg.kernels.results import AvroNode

__all__ = ["decode_chosen"]

#: Rows are chosen once this many bytes have been decompressed.
_GROUP_BYTES = 1 << 18


def decode_chosen(
    data: bytes,
    blocks: Sequence[tuple[int, int, int]],
    codec: str,
    way: tuple[AvroNode, pa.Schema],
    first: tuple[AvroNode, pa.Schema, Callable[[pa.RecordBatch], pa.BooleanArray]],
    limits: tuple[int, int | None] | None = None,
) -> tuple[pa.Table, pa.Int64Array]:
    """Decode the rows of blocks of an Avro file that some of their columns choose.

    The other rows are only skipped, to find where they end.

    Parameters
    ----------
    data, blocks, codec
        As for `decode_avro`.
    way
        The node and the schema of the wanted columns; see `decode_avro`.
    first
        Those of the columns that rows are chosen by, and the function that chooses: it takes these columns of some
        rows, and returns a mask without nulls. It may be asked once about equal rows, and by several threads.
    limits
        As for `decode_avro`.

    Returns
    -------
    tuple
        The wanted columns of the chosen rows; and for each, how many rows of the blocks are before it.
    """
    check_codec(codec)
    column, least = compile_node(way[0], pa.struct(list(way[1])), 0), least_bytes(way[0], 0)
    if not least:
        raise CorruptAvroError("the rows of the file take no bytes")
    pass_over, by = skip_node(first[0], 0), pa.struct(list(first[1]))
    chooser = compile_node(first[0], by, 0)
    memory = Memory(limits, pa.struct(list(way[1])))
    numbers: list[int] = []
    group: list[tuple[int, bytes]] = []
    size = row = 0
    for number, block in enumerate(blocks):
        with in_block(number):
            raw = expand(data, block, codec, least, memory)
            cursor = Cursor(raw)
            for _ in range(block[2]):
                start = cursor.at
                pass_over(cursor)
                stored = raw[start : cursor.at]
                _read(chooser, stored, inf)
                group.append((number, stored))
            cursor.end()
        size += len(raw)
        if size < _GROUP_BYTES and number + 1 < len(blocks):
            continue
        mask = _mask(first[2], table_of(chooser, first[1], number)) if group else []
        for place, (kept, (at, stored)) in enumerate(zip(mask, group, strict=True)):
            if kept:
                with in_block(at):
                    memory.room = _read(column, stored, memory.room - memory.weight)
                numbers.append(row + place)
        row += len(group)
        size = 0
        group.clear()
        chooser = compile_node(first[0], by, 0)
    return table_of(column, way[1], len(blocks) - 1), pa.array(numbers, pa.int64())


def _read(column: Column, row: bytes, room: float) -> float:
    """Read a row, which must end where its bytes end: it was skipped by sizes, and is read by numbers of items.

    Its values may take as much memory as there is room; what is left is returned.
    """
    cursor = Cursor(row, room)
    cursor.spend(0)
    column.read(cursor)
    if cursor.at != len(row):
        raise CorruptAvroError("the items of an array do not have the size that it declares")
    return cursor.room


def _mask(choose: Callable[[pa.RecordBatch], pa.BooleanArray], rows: pa.Table) -> list[bool]:
    (batch,) = rows.combine_chunks().to_batches()
    mask = choose(batch)
    if not isinstance(mask, pa.BooleanArray):
        raise InvalidArgumentError(f"Cast error: a mask was expected, not {mask.type}")
    if len(mask) != len(batch) or mask.null_count:
        raise InvalidArgumentError("a mask without nulls for all of the rows was expected")
    found: list[bool] = mask.to_pylist()
    return found
