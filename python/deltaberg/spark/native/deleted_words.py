"""Deleted rows as 64-bit words; Spark tests one bit per row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as sf

from deltaberg.files.read.bitmaps import RowSelection
from deltaberg.files.read.task import FileTask, tasks_of
from deltaberg.table.read.bound import BoundScan
from deltaberg.workers import map_in_order

__all__ = ["deleted_words", "is_kept"]

#: Deletion vectors and delete files that are read at a time.
_REQUESTS = 16
_WORD = 64
_WORD_BITS = 6


def deleted_words(scan: BoundScan, tasks: pa.RecordBatch, rows: Sequence[int]) -> pa.ListArray:
    """Return a list of words for each file, a bit for each row that is set where the row is deleted.

    Parameters
    ----------
    tasks
        One task for each file.
    rows
        How many rows each file has.

    Returns
    -------
    pyarrow.ListArray
        Lists of int64; null for files of which no row is deleted.
    """
    layout, store = scan.layout, scan.source.store

    def of_file(file: tuple[FileTask, int]) -> pa.Array | None:
        task, count = file
        keep = RowSelection(task, store, layout.resolver).kept(0, count)
        return None if keep is None else _words(pc.invert(keep))

    files = zip(tasks_of(tasks), rows, strict=True)
    words = map_in_order(_REQUESTS, of_file, files)
    lengths = pa.array([0, *(0 if found is None else len(found) for found in words)], pa.int32())
    values = pa.concat_arrays([pa.array([], pa.int64()), *(found for found in words if found is not None)])
    is_null = pa.array([found is None for found in words], pa.bool_())
    return pa.ListArray.from_arrays(pc.cumulative_sum(lengths), values, mask=is_null)


def _words(deleted: pa.BooleanArray) -> pa.Array:
    count = -(-len(deleted) // _WORD)
    data = deleted.buffers()[1].to_pybytes()[: -(-len(deleted) // 8)]
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(data.ljust(8 * count, b"\0"))])


def is_kept(words: str) -> Column:
    """Return whether the bit of a row is not set in a column of words; rows beyond the last word are kept."""
    row = sf.col("_metadata.row_index")
    word = sf.get(sf.col(words), sf.shiftright(row, _WORD_BITS).cast("int"))
    bit = sf.getbit(word, row.bitwiseAND(_WORD - 1).cast("int"))
    return sf.coalesce(bit, sf.lit(0)) == 0
