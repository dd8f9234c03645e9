"""Both kernels decode the same rows of Parquet files, with the same types, and refuse what they refuse."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import CorruptDataFileError, InvalidArgumentError, KernelPanicError
from tests.kernels.parquet_bytes import decode, parquet_bytes
from tests.kernels.twins import backends, native_kernels, twins
from tests.support.effort import examples

_UTC = dt.timezone.utc
#: The types of leaves, and how a random value of each is made.
_LEAVES: dict[pa.DataType, Any] = {
    pa.bool_(): lambda draw: draw.random() < 0.5,
    pa.int8(): lambda draw: draw.randint(-128, 127),
    pa.int16(): lambda draw: draw.randint(-(1 << 15), (1 << 15) - 1),
    pa.int32(): lambda draw: draw.choice([0, 1, -(1 << 31), draw.randint(-1000, 1000)]),
    pa.int64(): lambda draw: draw.choice([0, (1 << 63) - 1, -(1 << 63), draw.randint(-1000, 1000)]),
    pa.float32(): lambda draw: draw.choice([0.0, -0.0, 1.5, float("inf"), draw.randint(-9, 9) / 4]),
    pa.float64(): lambda draw: draw.choice([0.0, -0.0, float("-inf"), draw.random()]),
    pa.string(): lambda draw: draw.choice(["", "a", "é" * 9, "x" * draw.randint(0, 40), str(draw.random())]),
    pa.large_string(): lambda draw: draw.choice(["", "a", "é" * 9]),
    pa.binary(): lambda draw: draw.randbytes(draw.randint(0, 12)),
    pa.binary(5): lambda draw: draw.randbytes(5),
    pa.date32(): lambda draw: dt.date(1970, 1, 1) + dt.timedelta(draw.randint(-50_000, 50_000)),
    pa.timestamp("us"): lambda draw: dt.datetime(2000, 1, 1) + dt.timedelta(microseconds=draw.randint(0, 10**15)),
    pa.timestamp("ms", "UTC"): lambda draw: dt.datetime(2000, 1, 1, tzinfo=_UTC) + dt.timedelta(draw.randint(0, 999)),
    pa.timestamp("us", "Europe/Berlin"): lambda draw: dt.datetime(2000, 1, draw.randint(1, 28), tzinfo=_UTC),
    pa.timestamp("ns"): lambda draw: draw.randint(0, 10**18),
    pa.decimal128(5, 2): lambda draw: Decimal(draw.randint(-99_999, 99_999)).scaleb(-2),
    pa.decimal128(18, 0): lambda draw: Decimal(draw.randint(-(10**17), 10**17)),
    pa.decimal128(38, 10): lambda draw: Decimal(draw.randint(-(10**27), 10**27)),
}
_CODECS = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]
#: Encodings that pyarrow writes besides dictionaries, by the types that have them.
_ENCODINGS = {
    "DELTA_BINARY_PACKED": (pa.int32(), pa.int64()),
    "DELTA_BYTE_ARRAY": (pa.string(), pa.binary(), pa.binary(5)),
    "DELTA_LENGTH_BYTE_ARRAY": (pa.string(), pa.binary()),
    "BYTE_STREAM_SPLIT": (pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.binary(5)),
    "RLE": (pa.bool_(),),
}


def _kind(draw: Random, depth: int = 0) -> pa.DataType:
    if depth < 3 and draw.random() < 0.3:
        inner = [_kind(draw, depth + 1) for _ in range(draw.randint(1, 3))]
        nested = draw.choice(["list", "struct"])
        if nested == "list":
            return pa.list_(pa.field("element", inner[0], nullable=draw.random() < 0.7))
        return pa.struct([pa.field(f"f{at}", one, draw.random() < 0.7) for at, one in enumerate(inner)])
    return draw.choice(list(_LEAVES))


def _value(draw: Random, kind: pa.DataType, nulls: float, *, nullable: bool = True) -> Any:
    if nullable and draw.random() < nulls:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _value(draw, one.type, nulls, nullable=one.nullable) for one in kind}
    if pa.types.is_list(kind):
        inner = kind.value_field
        return [_value(draw, inner.type, nulls, nullable=inner.nullable) for _ in range(draw.randint(0, 4))]
    return _LEAVES[kind](draw)


def _file(seed: int) -> pa.Buffer:
    """Return a random file: types, nesting, nulls, codecs, encodings, sizes of pages and versions."""
    draw = Random(seed)
    rows, nulls = draw.choice([0, 1, 7, 300, 2000]), draw.choice([0, 0.1, 0.9, 1])
    fields = [pa.field(f"c{at}", _kind(draw), draw.random() < 0.8) for at in range(draw.randint(1, 4))]
    few = draw.random() < 0.5
    columns = []
    for one in fields:
        values = [_value(draw, one.type, nulls, nullable=one.nullable) for _ in range(min(rows, 20) if few else rows)]
        columns.append(pa.array([draw.choice(values) for _ in range(rows)] if few and values else values, one.type))
    table = pa.table(columns, schema=pa.schema(fields))
    # pyarrow finds no row of a list without any truth value, as its writer stores it in pages of version 2.
    has_listed_bools = any("bool" in str(one.type) and one.type != pa.bool_() for one in fields)
    options: dict[str, Any] = {
        "compression": draw.choice(_CODECS),
        "row_group_size": draw.choice([64, 1000, 1 << 20]),
        "data_page_size": draw.choice([64, 4096, 1 << 20]),
        "data_page_version": "1.0" if has_listed_bools else draw.choice(["1.0", "2.0"]),
        "version": "2.6",
        "store_schema": draw.random() < 0.8,
        "use_dictionary": draw.random() < 0.5,
        "store_decimal_as_integer": draw.random() < 0.5,
        "dictionary_pagesize_limit": draw.choice([100, 1 << 20]),
        "write_page_index": draw.random() < 0.5,
    }
    if not options["use_dictionary"]:
        encodings = {}
        for one in fields:
            known = [encoding for encoding, kinds in _ENCODINGS.items() if one.type in kinds]
            if known and draw.random() < 0.7:
                encodings[one.name] = draw.choice(known)
        options["column_encoding"] = encodings or None
    return parquet_bytes(table, **options)


@examples(300)
@given(st.integers(0, 1 << 32), st.sampled_from([1, 10, 1024]))
def test_random_files(seed: int, batch_size: int) -> None:
    data = _file(seed)
    _as_pyarrow_reads(data, None, batch_size)


@examples(100)
@given(st.integers(0, 1 << 32), st.randoms(use_true_random=False))
def test_some_columns_and_row_groups(seed: int, draw: Random) -> None:
    data = _file(seed)
    metadata = pq.read_metadata(data)
    leaves = sorted(draw.sample(range(len(metadata.schema)), draw.randint(1, len(metadata.schema))))
    count = metadata.num_row_groups
    groups = sorted(draw.sample(range(count), draw.randint(0, count)))
    _as_pyarrow_reads(data, leaves, 100, groups)


def _as_pyarrow_reads(
    data: pa.Buffer, leaves: list[int] | None, batch_size: int, groups: list[int] | None = None
) -> None:
    file = pq.ParquetFile(data, coerce_int96_timestamp_unit="us")
    chosen = list(range(file.num_row_groups)) if groups is None else groups
    wanted = list(range(len(file.metadata.schema))) if leaves is None else leaves
    expected = list(file.reader.iter_batches(batch_size, row_groups=chosen, column_indices=wanted, use_threads=False))
    found = decode(native_kernels(), data, wanted, batch_size, chosen)
    assert [batch.schema for batch in found] == [batch.schema for batch in expected][: len(found)]
    for batch in found:
        batch.validate(full=True)
    if found or any(batch.num_rows for batch in expected):
        schema = (found or expected)[0].schema
        one, other = pa.Table.from_batches(found, schema), pa.Table.from_batches(expected, schema)
        assert one.combine_chunks().equals(other.combine_chunks())


def test_the_twins_agree() -> None:
    table = pa.table({"n": range(5000), "s": [None if n % 7 == 0 else str(n % 90) for n in range(5000)]})
    data = parquet_bytes(table, row_group_size=700)
    assert twins(lambda kernels: pa.Table.from_batches(decode(kernels, data))).equals(table)
    rest = twins(lambda kernels: pa.Table.from_batches(decode(kernels, data, [1], groups=[2, 5])))
    assert rest.num_rows == 1400


@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_wrong_arguments(kernels: ModuleType) -> None:
    data = parquet_bytes(pa.table({"n": [1, 2]}))
    with pytest.raises(InvalidArgumentError):
        decode(kernels, data, [1])
    with pytest.raises(InvalidArgumentError):
        decode(kernels, data, groups=[1])
    with pytest.raises(InvalidArgumentError):
        decode(kernels, data, batch_size=0)
    with pytest.raises(CorruptDataFileError):
        kernels.ParquetRows(b"nonsense", pa.schema([("n", pa.int64())]), [0])
    file = pq.ParquetFile(data)
    footer = data.slice(data.size - 8 - file.metadata.serialized_size, file.metadata.serialized_size).to_pybytes()
    with pytest.raises(CorruptDataFileError):
        kernels.ParquetRows(footer, pa.schema([("n", pa.string())]), [0])


@examples(400)
@given(st.integers(0, 60), st.randoms(use_true_random=False))
def test_damage_never_ends_the_process(seed: int, draw: Random) -> None:
    """What a damaged file gives is rows, our error of the kernel, or a panic that became one."""
    whole = _file(seed)
    damaged = bytearray(whole.to_pybytes())
    length = int.from_bytes(damaged[-8:-4], "little")
    schema = pq.read_schema(whole).remove_metadata()
    footer_begin = len(damaged) - 8 - length
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(4, len(damaged) - 8)
        damaged[at] = draw.choice([0, 0xFF, damaged[at] ^ (1 << draw.randrange(8)), draw.randrange(256)])
    data = pa.py_buffer(bytes(damaged))
    kernels = native_kernels()
    try:
        rows = kernels.ParquetRows(bytes(damaged[footer_begin:-8]), schema, list(range(_leaf_count(schema))))
        for group in range(3):
            ranges = rows.ranges(group)
            if any(begin + size > data.size for begin, size in ranges):
                continue
            chunks = [
                (begin, pa.Array.from_buffers(pa.uint8(), size, [None, data.slice(begin, size)]))
                for begin, size in ranges
            ]
            rows.begin([group], chunks, 500)
            count = 0
            while (batch := rows.decode()) is not None and count < 20:
                batch.validate()
                count += 1
    except (CorruptDataFileError, InvalidArgumentError, KernelPanicError):
        pass


def _leaf_count(schema: pa.Schema) -> int:
    def count(kind: pa.DataType) -> int:
        if not pa.types.is_nested(kind):
            return 1
        return sum(count(kind.field(number).type) for number in range(kind.num_fields))

    return sum(map(count, schema.types))
