"""Parquet files give the rows, the positions and the errors of pyarrow, whoever decodes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg import kernels
from deltaberg.files.formats.parquet import ParquetSource
from deltaberg.files.formats.parquet_chunks import ParquetChunks
from tests.kernels.parquet_bytes import parquet_bytes
from tests.kernels.random_parquet import random_file
from tests.support.effort import examples

_BATCH = 100
_TO_THE_END = (1 << 63) - 1


def _read(data: pa.Buffer, threads: bool = False) -> pa.Table | str:
    """Return the rows of a file, or what is wrong with it."""
    source = ParquetSource(pa.BufferReader(data))
    groups = source.row_groups(0, _TO_THE_END)
    batches = []
    try:
        for batch in source.batches(groups, range(source.metadata.num_columns), _BATCH, threads):
            assert batch.rows == batch.batch.num_rows
            batches.append(batch)
    except (pa.ArrowException, OSError) as error:
        return str(error)
    starts = list(accumulate((batch.rows for batch in batches), initial=0))
    assert [batch.start for batch in batches] == starts[:-1]
    return pa.Table.from_batches([batch.batch for batch in batches], source.schema)


def _read_by_pyarrow(data: pa.Buffer) -> pa.Table | str:
    file = pq.ParquetFile(data, coerce_int96_timestamp_unit="us")
    try:
        return pa.Table.from_batches(file.iter_batches(_BATCH, use_threads=False), file.schema_arrow)
    except (pa.ArrowException, OSError) as error:
        return str(error)


@examples(200)
@given(st.integers(0, 1 << 32), st.booleans(), st.booleans())
def test_the_same_rows_and_errors(seed: int, threads: bool, is_damaged: bool) -> None:
    content, draw = bytearray(random_file(seed)[0].to_pybytes()), Random(seed)
    if is_damaged:
        pages = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        content[draw.randrange(4, max(pages, 5))] ^= 1 << draw.randrange(8)
    data = pa.py_buffer(bytes(content))
    try:
        expected = _read_by_pyarrow(data)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return
    outcome = _read(data, threads)
    if isinstance(expected, str) or isinstance(outcome, str):
        assert outcome == expected
    else:
        # NaN is not equal to itself, and only damage makes one.
        assert outcome.equals(expected) or str(outcome.to_pydict()) == str(expected.to_pydict())


def test_pyarrow_reads_on_where_the_kernel_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"n": range(1000), "s": [str(n % 7) for n in range(1000)]})
    data = parquet_bytes(table, row_group_size=150)
    direct = ParquetChunks.batches

    def stopping(*arguments: Any) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(direct(*arguments)):
            if number == 3:
                return
            yield batch.slice(0, 70) if number == 2 else batch

    monkeypatch.setattr(ParquetChunks, "batches", stopping)
    assert _read(data) == table
    source = ParquetSource(pa.BufferReader(parquet_bytes(table)))
    kept = pa.array([n % 3 == 0 or n > 500 for n in range(1000)])
    (group,) = source.row_groups(0, _TO_THE_END)
    assert pa.Table.from_batches(source.chosen(group, [0, 1], _BATCH, False, kept)) == table.filter(kept)


def test_the_kernel_reads_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    direct = ParquetChunks.batches

    def counting(*arguments: Any) -> Iterator[pa.RecordBatch]:
        for batch in direct(*arguments):
            taken.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(ParquetChunks, "batches", counting)
    table = pa.table({"n": range(250)})
    assert _read(parquet_bytes(table)) == table
    assert taken == ([100, 100, 50] if kernels.report().backend == "native" else [])
