"""Decoding only the rows that some of their values choose: entries of manifests by their partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError
from deltaberg.kernels.pure.avro.codec import check_codec
from deltaberg.kernels.pure.avro.cursor import Cursor
from deltaberg.kernels.pure.avro.decode import expand, in_block, read_rows, table_of
from deltaberg.kernels.pure.avro.plan import compile_node
from deltaberg.kernels.pure.avro.skip import least_bytes
from deltaberg.kernels.results import AvroNode

__all__ = ["decode_chosen"]

#: Rows are chosen once so many bytes of them were decompressed.
_GROUP_BYTES = 1 << 18


def decode_chosen(
    data: bytes,
    blocks: Sequence[tuple[int, int, int]],
    codec: str,
    way: tuple[AvroNode, pa.Schema],
    first: tuple[AvroNode, pa.Schema, Callable[[pa.RecordBatch], pa.BooleanArray]],
    threads: int = 0,
) -> tuple[pa.Table, pa.Int64Array]:
    """Decode the rows of blocks of an Avro file that some of their columns choose.

    Of the other rows it is only checked where they end.

    Parameters
    ----------
    data, blocks, codec
        As for `decode_avro`.
    way
        The node and the schema of the wanted columns; see `decode_avro`.
    first
        Those of the columns that rows are chosen by, and the function that chooses: it takes these columns of some
        rows, and returns a mask without nulls. Equal rows may be asked about once, and several threads may ask.
    threads
        Ignored by this twin.

    Returns
    -------
    tuple
        The wanted columns of the chosen rows; and for each, how many rows of the blocks are before it.
    """
    check_codec(codec)
    column = compile_node(way[0], pa.struct(list(way[1])), 0)
    least = least_bytes(way[0], 0)
    chooser = compile_node(first[0], pa.struct(list(first[1])), 0)
    numbers: list[int] = []
    group: list[tuple[int, bytes]] = []
    size = row = 0
    for number, block in enumerate(blocks):
        with in_block(number):
            raw = expand(data, block, codec, least)
            start = 0
            for end in read_rows(chooser, raw, block[2]):
                group.append((number, raw[start:end]))
                start = end
        size += len(raw)
        if size < _GROUP_BYTES and number + 1 < len(blocks):
            continue
        mask = _mask(first[2], table_of(chooser, first[1], number)) if group else []
        for place, (kept, (at, stored)) in enumerate(zip(mask, group, strict=True)):
            if kept:
                with in_block(at):
                    column.read(Cursor(stored))
                numbers.append(row + place)
        row += len(group)
        size = 0
        group.clear()
        chooser = compile_node(first[0], pa.struct(list(first[1])), 0)
    return table_of(column, way[1], len(blocks) - 1), pa.array(numbers, pa.int64())


def _mask(choose: Callable[[pa.RecordBatch], pa.BooleanArray], rows: pa.Table) -> list[bool]:
    (batch,) = rows.combine_chunks().to_batches()
    mask = choose(batch)
    if not isinstance(mask, pa.BooleanArray):
        raise InvalidArgumentError(f"Cast error: a mask was expected, not {mask.type}")
    if len(mask) != len(batch) or mask.null_count:
        raise InvalidArgumentError("a mask without nulls for all of the rows was expected")
    found: list[bool] = mask.to_pylist()
    return found
