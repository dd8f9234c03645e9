"""Dividing rows by a hash of their keys, so that rows with equal keys meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg import kernels

__all__ = ["partition_numbers", "split_by_number"]

_LOW_BITS = (1 << 31) - 1


def partition_numbers(keys: Sequence[pa.Array], bits: int) -> pa.Int64Array:
    """Return, for each row, a number of ``bits`` bits that is the same for equal keys.

    Examples
    --------
    >>> numbers = partition_numbers([pa.array([0.0, -0.0, None])], 4).to_pylist()
    >>> numbers[0] == numbers[1]
    True
    """
    hashes = _joined_hashes(keys, len(keys[0]))
    # The low bits of a product say little of the high ones.
    mixed = pc.bit_wise_xor(hashes, pc.shift_right(hashes, pa.scalar(15, pa.int64())))
    return pc.bit_wise_and(mixed, pa.scalar((1 << bits) - 1, pa.int64()))


def _joined_hashes(arrays: Sequence[pa.Array], rows: int) -> pa.Int64Array:
    hashes = pa.repeat(pa.scalar(17, pa.int64()), rows)
    for array in arrays:
        wider = pc.add(pc.multiply(hashes, pa.scalar(31, pa.int64())), _hashes(array))
        hashes = pc.bit_wise_and(wider, pa.scalar(_LOW_BITS, pa.int64()))
    return hashes


def _hashes(array: pa.Array) -> pa.Int64Array:
    """Return a hash of each value that is equal for values that are equal in SQL; 0 for nulls."""
    kind = array.type
    if pt.is_struct(kind):
        return _joined_hashes(array.flatten(), len(array))
    if pt.is_null(kind):
        return pa.repeat(pa.scalar(0, pa.int64()), len(array))
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        # Lists of equal length meet, although most are not equal.
        return pc.list_value_length(array).cast(pa.int64()).fill_null(0)
    if pt.is_int8(kind) or pt.is_int16(kind):
        array = array.cast(pa.int32())
    elif (pt.is_date(kind) or pt.is_time32(kind)) and not pt.is_date32(kind):
        array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    return kernels.hash32(array).cast(pa.int64()).fill_null(0)


def split_by_number(batch: pa.RecordBatch, numbers: pa.Int64Array) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Return the rows of each number, in ascending order of the numbers. Rows of a number keep their order."""
    order = pc.sort_indices(numbers)
    batch, numbers = batch.take(order), numbers.take(order)
    runs = pc.run_end_encode(numbers)
    start = 0
    for number, stop in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield number, batch.slice(start, stop - start)
        start = stop
