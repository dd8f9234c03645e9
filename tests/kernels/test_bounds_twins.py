"""Bounds and counts in manifests: native and Python agree on every type and any bytes."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError
from tests.kernels.twins import Raised, twins
from tests.support.effort import examples

_MAP = pa.map_(pa.int32(), pa.binary())
_COUNTS = pa.map_(pa.int32(), pa.int64())
_TYPES = [
    "boolean", "int", "long", "float", "double", "decimal(9,2)", "decimal(38,38)", "decimal(1,0)", "decimal(18, 3)",
    "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "string", "binary", "uuid",
    "fixed[1]", "fixed[5]",
]  # fmt: skip
_BAD_TYPES = [
    "", "integer", "Long", "decimal", "decimal(39,0)", "decimal(0,0)", "decimal(2,3)", "fixed", "fixed[0]", "fixed[-1]",
    "fixed[+1]", "fixed[99999999999]", "fixed[2147483648]", "fixed[ 4]", "fixed[4]]", "decimal(4,2))", "unknown",
    "fixed[\u0664]", "list", "variant", "struct<1: a: int>",
    'in"t\\', "\0\b\t\n\f\r\x1b\x7f\x9b",
]  # fmt: skip
_BYTES = st.one_of(
    st.binary(max_size=18),
    st.sampled_from([b"", b"\xff" * 4, b"\xff" * 8, b"\0\0\xc0\x7f", b"\0" * 8, b"\xed\xa0\x80", "日本".encode()]),
    st.floats().map(lambda value: struct.pack("<d", value)),
    st.floats(width=32).map(lambda value: struct.pack("<f", value)),
    st.integers(0, 86_400_000_001).map(lambda value: struct.pack("<q", value)),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda value: struct.pack("<i", value)),
    st.integers(-(1 << 127), (1 << 127) - 1).map(lambda value: value.to_bytes(16, "big", signed=True)),
)
_IDS = st.sampled_from([1, 2, 3, -1, 2147483647])


def _rows(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    # Keys may come twice: the last of them counts.
    return st.lists(st.none() | st.lists(st.tuples(_IDS, st.none() | values), max_size=4), max_size=6)


@examples(300)
@given(_rows(_BYTES), st.lists(st.tuples(_IDS, st.sampled_from(_TYPES)), max_size=4), st.integers(0, 2))
def test_bounds(rows: list[Any], fields: list[tuple[int, str]], skip: int) -> None:
    maps = pa.array(rows, _MAP)[skip:]
    found = twins(lambda kernels: kernels.parse_bounds(maps, fields, 2))
    assert found.num_rows == len(maps)
    assert found.schema.names == [str(number) for number, _ in fields]


@examples(300)
@given(st.sampled_from(_TYPES).flatmap(lambda name: st.tuples(st.just(name), st.lists(_BYTES, max_size=6))))
def test_one_type(case: tuple[str, list[bytes]]) -> None:
    name, values = case
    maps = pa.array([[(1, value)] for value in values], _MAP)
    twins(lambda kernels: kernels.parse_bounds(maps, [(1, name)]))


@examples(100)
@given(_rows(st.integers(-(1 << 63), (1 << 63) - 1)), st.lists(_IDS, max_size=4), st.integers(0, 2))
def test_counts(rows: list[Any], ids: list[int], skip: int) -> None:
    maps = pa.array(rows, _COUNTS)[skip:]
    found = twins(lambda kernels: kernels.parse_counts(maps, ids))
    assert found.schema.types == [pa.int64()] * len(ids)
    for number, column in zip(ids, found.columns, strict=True):
        assert column.to_pylist() == [dict(row or ()).get(number) for row in maps.to_pylist()]


def test_more_than_one_thread() -> None:
    rows = [[(1, struct.pack("<q", row)), (2, str(row).encode())] if row % 7 else None for row in range(70_000)]
    maps = pa.array(rows, _MAP)
    found = twins(lambda kernels: kernels.parse_bounds(maps, [(2, "string"), (1, "long")], 5))
    assert found.column(1).to_pylist() == [row if row % 7 else None for row in range(70_000)]
    assert found.column(0).to_pylist() == [str(row) if row % 7 else None for row in range(70_000)]
    counts = pa.array([[(1, row)] for row in range(70_000)], _COUNTS)
    assert twins(lambda kernels: kernels.parse_counts(counts, [1], 5)).column(0).to_pylist() == list(range(70_000))


@pytest.mark.parametrize("name", _BAD_TYPES)
def test_types_without_bounds(name: str) -> None:
    found = twins(lambda kernels: kernels.parse_bounds(pa.nulls(1, _MAP), [(1, name)]))
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError
    assert "not a type with bounds" in found.message


@pytest.mark.parametrize(
    "kind",
    [
        _COUNTS,
        pa.map_(pa.string(), pa.binary()),
        pa.map_(pa.int64(), pa.binary()),
        pa.map_(pa.int32(), pa.string()),
        pa.binary(),
    ],
    ids=str,
)
def test_what_is_no_map_of_bounds(kind: pa.DataType) -> None:
    maps = pa.nulls(1, kind)
    found = twins(lambda kernels: kernels.parse_bounds(maps, [(1, "int")]), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


def test_what_is_no_map_of_counts() -> None:
    found = twins(lambda kernels: kernels.parse_counts(pa.nulls(1, _MAP), [1]))
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError
