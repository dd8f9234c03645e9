"""Which columns of a Parquet file are worth a dictionary: those whose values repeat.

A dictionary of values that do not repeat takes longer to make than all the rest of encoding, and more bytes than the
values themselves. The rows of the first row group tell.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.schema import count_up

__all__ = ["columns_without_dictionary"]

#: Fewer rows make a small dictionary, whatever they hold.
_FEW = 1024
#: How many rows are looked at, evenly spread over all.
_SAMPLE = 16_384
#: Where this share of a full sample differs, there are about 270,000 values or more. Encoders give up a dictionary of
#: so many values anyway, because they bound it by 1 MiB.
_DISTINCT = 0.97


def columns_without_dictionary(rows: pa.Table) -> set[str]:
    """Return the names of the columns whose values hardly repeat. Columns inside of others are left out.

    Examples
    --------
    >>> rows = pa.table({"id": range(5000), "name": ["a", "b"] * 2500})
    >>> columns_without_dictionary(rows)
    {'id'}
    """
    if rows.num_rows < _FEW:
        return set()
    step = -(-rows.num_rows // _SAMPLE)
    spread = pc.multiply(count_up(0, -(-rows.num_rows // step)), step)
    return {
        name
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
        if not pt.is_nested(column.type) and _is_distinct(column.take(spread).drop_null())
    }


def _is_distinct(sample: pa.ChunkedArray) -> bool:
    if len(sample) < _FEW:
        return False
    try:
        return bool(pc.count_distinct(sample).as_py() >= _DISTINCT * len(sample))
    except pa.ArrowNotImplementedError:
        return False
