"""Parquet files in memory, and their rows by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.schema.projection import tops_of

__all__ = ["decode", "parquet_bytes"]

#: The length of the metadata and the magic number.
_TAIL = 8


def parquet_bytes(table: pa.Table, **options: Any) -> pa.Buffer:
    """Return a table as a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def decode(
    kernels: ModuleType,
    data: pa.Buffer,
    leaves: Sequence[int] | None = None,
    batch_size: int = 1024,
    groups: Sequence[int] | None = None,
    threads: int = 1,
    kept: pa.BooleanArray | None = None,
) -> list[pa.RecordBatch]:
    """Return rows of a file as a kernel decodes them: of all leaves and row groups, if none are chosen."""
    file = pq.ParquetFile(data, coerce_int96_timestamp_unit="us")
    length, metadata = file.metadata.serialized_size, file.metadata
    footer = data.slice(data.size - _TAIL - length, length).to_pybytes()
    wanted = list(range(len(metadata.schema)) if leaves is None else leaves)
    schema = file.schema_arrow
    tops = [top for top in tops_of(wanted, schema) if top < len(schema)]
    rows = kernels.ParquetRows(footer, pa.schema([schema.field(top) for top in tops]), wanted)
    chosen = list(range(metadata.num_row_groups) if groups is None else groups)
    blocks = [
        (begin, pa.Array.from_buffers(pa.uint8(), size, [None, data.slice(begin, size)]))
        for group in chosen
        for begin, size in rows.ranges(group)
    ]
    rows.begin(chosen, blocks, batch_size, threads, kept)
    return list(iter(rows.decode, None))
