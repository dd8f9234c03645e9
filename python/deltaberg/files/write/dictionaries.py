"""Which columns of a Parquet file have a dictionary: those whose values repeat, and that hold no -0.0.

A dictionary of values that do not repeat takes longer to make than all the rest of encoding, and more bytes than the
values themselves. The rows of the first row group tell.

parquet-java, which Spark reads with, skips a row group if a value that a filter asks for is not in the dictionary. It
compares bits, so that `x = 0.0` would not find -0.0 in a column with a dictionary.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.schema.arrow import count_up

__all__ = ["columns_without_dictionary", "holds_negative_zero"]

#: Fewer rows make a small dictionary, whatever they hold.
_FEW = 1024
#: How many rows are looked at, evenly spread over all.
_SAMPLE = 4_096
#: Where this share of a full sample differs, there are about 270,000 values or more. Encoders give up a dictionary of
#: so many values anyway, because they bound it by 1 MiB.
_DISTINCT = 0.9925
#: The integers that have the bits of a float.
_AS_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def columns_without_dictionary(rows: pa.Table) -> set[str]:
    """Return the names of the columns whose values hardly repeat. Columns inside others are left out.

    Examples
    --------
    >>> rows = pa.table({"id": range(5000), "name": ["a", "b"] * 2500})
    >>> columns_without_dictionary(rows)
    {'id'}
    """
    if rows.num_rows < _FEW:
        return set()
    step = -(-rows.num_rows // _SAMPLE)
    return {
        name
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
        if not pt.is_nested(column.type) and _is_distinct(_every(step, column).drop_null())
    }


def _every(step: int, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return every value at a multiple of a step in its chunk. Arrow would copy all chunks to take from them."""
    chunks = [chunk.take(pc.multiply(count_up(0, -(-len(chunk) // step)), step)) for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type)


def _is_distinct(sample: pa.ChunkedArray) -> bool:
    if len(sample) < _FEW:
        return False
    try:
        return bool(pc.count_distinct(sample).as_py() >= _DISTINCT * len(sample))
    except pa.ArrowNotImplementedError:
        return False


def holds_negative_zero(values: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether any floating point number is -0.0, also inside structs, lists and maps.

    Examples
    --------
    >>> holds_negative_zero(pa.array([[1.0, -0.0], None])), holds_negative_zero(pa.array([0.0]))
    (True, False)
    """
    if isinstance(values, pa.ChunkedArray):
        return any(holds_negative_zero(chunk) for chunk in values.chunks)
    kind = values.type
    if kind in _AS_BITS:
        bits = _AS_BITS[kind]
        return bool(pc.any(pc.equal(values.view(bits), pa.scalar(-(1 << (bits.bit_width - 1)), bits))).as_py())
    if not _holds_floats(kind):
        return False
    if pt.is_map(kind):
        return holds_negative_zero(values.keys) or holds_negative_zero(values.items)
    inside = values.flatten()
    return any(map(holds_negative_zero, inside)) if pt.is_struct(kind) else holds_negative_zero(inside)


def _holds_floats(kind: pa.DataType) -> bool:
    return kind in _AS_BITS or (
        pt.is_nested(kind) and any(_holds_floats(kind.field(index).type) for index in range(kind.num_fields))
    )
