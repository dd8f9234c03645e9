"""Putting small batches together, so that what is done once for each batch is not done for every small file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from deltaberg.schema.arrow import as_batch

__all__ = ["gathered"]

#: A batch of so many rows or bytes is large enough.
_ROWS, _BYTES = 1 << 16, 8 << 20


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of batches, in order, with small batches put together and empty ones left out.

    Parameters
    ----------
    batches
        Batches of the same schema. No more than 64 Ki rows or 8 MiB of them wait.

    Examples
    --------
    >>> small = pa.record_batch({"id": [1, 2]})
    >>> [batch.num_rows for batch in gathered([small, small.slice(0, 0), small])]
    [4]
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        own = batch.nbytes
        if waiting and own >= _BYTES:
            # It is not copied, and an array may not hold its texts and others.
            yield as_batch(waiting, waiting[0].schema)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += own
        if rows >= _ROWS or size >= _BYTES:
            yield as_batch(waiting, waiting[0].schema)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield as_batch(waiting, waiting[0].schema)
