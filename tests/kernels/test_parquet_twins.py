"""Both kernels decode the same rows of Parquet files, with the same types.

The compiled one refuses more: lists, rare codecs and encodings, and whatever writers do not leave. It never reads what
pyarrow refuses.
"""

from __future__ import annotations

from random import Random
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import CorruptDataFileError, InvalidArgumentError, KernelPanicError
from tests.kernels.parquet_bytes import decode, parquet_bytes
from tests.kernels.random_parquet import random_file
from tests.kernels.twins import backends, native_kernels, twins
from tests.support.effort import examples


@examples(300)
@given(st.integers(0, 1 << 32), st.sampled_from([1, 10, 1024]))
def test_random_files(seed: int, batch_size: int) -> None:
    data, is_taken = random_file(seed)
    assert _as_pyarrow_reads(data, None, batch_size) or not is_taken


@examples(100)
@given(st.integers(0, 1 << 32), st.randoms(use_true_random=False))
def test_some_columns_and_row_groups(seed: int, draw: Random) -> None:
    data, is_taken = random_file(seed)
    metadata = pq.read_metadata(data)
    leaves = sorted(draw.sample(range(len(metadata.schema)), draw.randint(1, len(metadata.schema))))
    count = metadata.num_row_groups
    groups = sorted(draw.sample(range(count), draw.randint(0, count)))
    assert _as_pyarrow_reads(data, leaves, 100, groups, threads=draw.randint(1, 3)) or not is_taken


@examples(100)
@given(st.integers(0, 1 << 32), st.randoms(use_true_random=False))
def test_some_rows(seed: int, draw: Random) -> None:
    data, is_taken = random_file(seed)
    rows, share = pq.read_metadata(data).num_rows, draw.choice([0, 0.01, 0.3, 0.95, 1])
    kept = pa.array([draw.random() < share for _ in range(rows)], pa.bool_())
    assert _as_pyarrow_reads(data, None, 100, threads=draw.randint(1, 3), kept=kept) or not is_taken


def _as_pyarrow_reads(
    data: pa.Buffer,
    leaves: list[int] | None,
    batch_size: int,
    groups: list[int] | None = None,
    threads: int = 1,
    kept: pa.BooleanArray | None = None,
) -> bool:
    """Compare what the kernel reads with what pyarrow does; False if the kernel refuses the file."""
    file = pq.ParquetFile(data, coerce_int96_timestamp_unit="us")
    chosen = list(range(file.num_row_groups)) if groups is None else groups
    columns = list(range(len(file.metadata.schema))) if leaves is None else leaves
    try:
        decoded = decode(native_kernels(), data, columns, batch_size, chosen, threads, kept)
    except (CorruptDataFileError, KernelPanicError, InvalidArgumentError):
        return False
    read = file.reader.iter_batches(batch_size, row_groups=chosen, column_indices=columns, use_threads=False)
    expected = list(read)
    if kept is not None and expected:
        expected = pa.Table.from_batches(expected).filter(kept).to_batches()
    for batch in decoded:
        batch.validate(full=_are_valid(expected))
    assert [batch.schema for batch in decoded] == [batch.schema for batch in expected][: len(decoded)]
    if decoded or any(batch.num_rows for batch in expected):
        schema = (decoded or expected)[0].schema
        one, other = (pa.Table.from_batches(batches, schema).combine_chunks() for batches in (decoded, expected))
        # NaN is not equal to itself, and only damage makes one.
        assert one.equals(other) or str(one.to_pydict()) == str(other.to_pydict())
    return True


def _are_valid(batches: list[pa.RecordBatch]) -> bool:
    """Return whether pyarrow itself reads no value that its type cannot hold, such as a decimal with more digits."""
    try:
        for batch in batches:
            batch.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def test_the_twins_agree() -> None:
    table = pa.table({"n": range(5000), "s": [None if n % 7 == 0 else str(n % 90) for n in range(5000)]})
    data = parquet_bytes(table, row_group_size=700)
    assert twins(lambda kernels: pa.Table.from_batches(decode(kernels, data))).equals(table)
    rest = twins(lambda kernels: pa.Table.from_batches(decode(kernels, data, [1], groups=[2, 5])))
    assert rest.num_rows == 1400


@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_wrong_arguments(kernels: ModuleType) -> None:
    data = parquet_bytes(pa.table({"n": [1, 2]}))
    with pytest.raises(InvalidArgumentError, match="the file has no such columns, or not in this order"):
        decode(kernels, data, [1])
    with pytest.raises(InvalidArgumentError, match="the file has no such row group"):
        decode(kernels, data, groups=[1])
    with pytest.raises(InvalidArgumentError, match="the file has no such row group"):
        decode(kernels, data, batch_size=0)
    with pytest.raises(InvalidArgumentError, match="the mask is not of the rows of the row groups"):
        decode(kernels, data, kept=pa.array([True]))
    with pytest.raises(InvalidArgumentError, match="the mask is not of the rows of the row groups"):
        decode(kernels, data, kept=pa.array([True, None]))
    with pytest.raises(CorruptDataFileError, match=r"thrift|Unexpected struct field type"):
        kernels.ParquetRows(b"nonsense", pa.schema([("n", pa.int64())]), [0])
    file = pq.ParquetFile(data)
    footer = data.slice(data.size - 8 - file.metadata.serialized_size, file.metadata.serialized_size).to_pybytes()
    with pytest.raises(
        CorruptDataFileError, match=r"not of the type that it is to be read as|Incompatible supplied Arrow schema"
    ):
        kernels.ParquetRows(footer, pa.schema([("n", pa.string())]), [0])


@examples(400)
@given(st.integers(0, 60), st.randoms(use_true_random=False))
def test_damage_is_refused_or_read_as_pyarrow_reads_it(seed: int, draw: Random) -> None:
    damaged = bytearray(random_file(seed)[0].to_pybytes())
    pages = len(damaged) - 8 - int.from_bytes(damaged[-8:-4], "little")
    for _ in range(draw.randint(1, 3)):
        # Headers and levels stand at the beginning of small files.
        at = draw.randrange(4, max(min(pages, draw.choice([60, 200, pages])), 5))
        damaged[at] = draw.choice([0, 0xFF, damaged[at] ^ (1 << draw.randrange(8)), draw.randrange(256)])
    data = pa.py_buffer(bytes(damaged))
    try:
        pq.ParquetFile(data)
    except (pa.ArrowException, OSError):
        return
    _as_pyarrow_reads(data, None, 500)
