"""Small batches are put together without changing their rows."""

from __future__ import annotations

import mmap
import struct

import pyarrow as pa
import pytest

from deltaberg.errors import TooLargeError
from deltaberg.schema.arrow import as_batch
from deltaberg.table.change.gather import gathered

pytestmark = pytest.mark.one_backend


def test_rows_keep_their_order() -> None:
    sizes = [0, 3, 1, 1 << 16, 2, 65_534, 5, 0]
    rows = pa.table({"id": list(range(sum(sizes)))})
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    batches = [rows.slice(start, size).combine_chunks().to_batches() for start, size in zip(starts, sizes, strict=True)]
    found = list(gathered(batch for parts in batches for batch in parts))
    assert [batch.num_rows for batch in found] == [65_540, 65_536, 5]
    assert pa.Table.from_batches(found) == rows


def test_wide_rows_do_not_wait() -> None:
    wide = pa.record_batch({"text": ["x" * (5 << 20)]})
    assert [batch.num_rows for batch in gathered([wide, wide, wide])] == [2, 1]
    wider = pa.record_batch({"text": ["x" * (9 << 20)]})
    assert list(gathered([wide, wider, wide])) == [wide, wider, wide]


def _wide(size: int) -> pa.RecordBatch:
    """Return a row with so many bytes, which the system provides when they are read."""
    value = pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, size)), pa.py_buffer(mmap.mmap(-1, size))]
    )
    return pa.RecordBatch.from_arrays([value], names=["text"])


@pytest.mark.full
def test_rows_beyond_an_array_are_refused() -> None:
    """Where they must be one batch. Where they need not, a large one stays as it is."""
    batch = _wide(3 << 29)
    with pytest.raises(TooLargeError, match="2 rows have more than 2 GiB"):
        as_batch([batch, batch], batch.schema)
    most = _wide((1 << 31) - 2)
    found = gathered([pa.record_batch({"text": pa.array([b"x" * 100])}), most])
    assert [each["text"][0].as_buffer().size for each in found] == [100, (1 << 31) - 2]
