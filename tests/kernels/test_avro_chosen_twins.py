"""Rows of Avro files that some of their values choose: both kernels read the same ones, and refuse the same damage."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import (
    CorruptAvroError,
    CorruptDataFileError,
    InvalidArgumentError,
    SchemaError,
    UnsupportedFeatureError,
)
from deltaberg.files.avro.container import AvroFile
from deltaberg.files.avro.plan import by_name
from deltaberg.files.avro.schema import arrow_field_of
from tests.kernels.avro_bytes import CODECS, avro_file, records
from tests.kernels.twins import Raised, backends, twins
from tests.support.effort import examples

_Choose = Callable[[pa.RecordBatch], pa.Array]
_modules = pytest.mark.parametrize("module", backends(), ids=lambda module: module.__name__.rpartition(".")[2])


def _call(file: AvroFile, wanted: pa.Schema, first: pa.Schema, choose: _Choose, threads: int = 1) -> Any:
    way, chooser = (by_name(file.schema, wanted), wanted), (by_name(file.schema, first), first, choose)
    return lambda kernels: kernels.decode_chosen(file._data, file.blocks, file._codec, way, chooser, (threads, None))


def _whole(file: AvroFile) -> pa.Schema:
    return pa.schema([arrow_field_of(child) for child in file.schema.fields])


def _by_text(divisor: int) -> _Choose:
    """Choose some rows, by nothing but their values."""

    def choose(rows: pa.RecordBatch) -> pa.Array:
        return pa.array([zlib.crc32(repr(row).encode()) % divisor == 0 for row in rows.to_pylist()], pa.bool_())

    return choose


@given(records(), st.sampled_from(CODECS), st.integers(1, 3), st.integers(1, 4), st.data())
@examples(200)
def test_the_chosen_rows(found: Any, codec: str, divisor: int, threads: int, data: st.DataObject) -> None:
    schema, _, rows = found
    file = AvroFile(avro_file(schema, rows, codec))
    whole = _whole(file)
    first = pa.schema([whole.field(name) for name in data.draw(st.sets(st.sampled_from(whole.names), min_size=1))])
    projection = pa.schema([whole.field(name) for name in data.draw(st.sets(st.sampled_from(whole.names), min_size=1))])
    table, numbers = twins(_call(file, projection, first, _by_text(divisor), threads))
    everything = file.read_by_name(whole, file.blocks)
    mask = _by_text(divisor)(everything.select(first.names)) if rows else pa.array([], pa.bool_())
    assert numbers.to_pylist() == [number for number, kept in enumerate(mask.to_pylist()) if kept]
    assert table.combine_chunks().equals(everything.filter(mask).select(projection.names).combine_chunks())


@given(records(), st.sampled_from(CODECS), st.integers(1, 3), st.data())
@examples(200)
def test_damage_raises_ours_or_nothing(found: Any, codec: str, divisor: int, data: st.DataObject) -> None:
    schema, _, rows = found
    raw = bytearray(avro_file(schema, rows, codec, interval=data.draw(st.sampled_from([50, 1000]))))
    if data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    else:
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    try:
        file = AvroFile(bytes(raw))
        whole = _whole(file)
    except (CorruptDataFileError, UnsupportedFeatureError, SchemaError):
        return
    first = pa.schema([whole.field(data.draw(st.sampled_from(whole.names)))])
    twins(_call(file, whole, first, _by_text(divisor)), messages=False)


_SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "n", "type": "int"}, {"name": "part", "type": ["null", "int"]}, {"name": "s", "type": "bytes"}],
}
_N, _PART, _TEXT = pa.field("n", pa.int32()), pa.field("part", pa.int32()), pa.field("s", pa.string())


def _file(rows: list[tuple[int, int | None, bytes]], interval: int = 1000) -> AvroFile:
    return AvroFile(
        avro_file(_SCHEMA, [dict(zip(["n", "part", "s"], row, strict=True)) for row in rows], "deflate", interval)
    )


def _is_one(rows: pa.RecordBatch) -> pa.Array:
    return pc.equal(rows.column(0), 1).fill_null(False)


@_modules
def test_equal_values_are_asked_about_once(module: ModuleType) -> None:
    """By the compiled kernel: a filter on a partition costs nothing for each file."""
    file = _file([(number, number % 7, b"x" * 50) for number in range(5000)])
    asked: list[int] = []

    def choose(rows: pa.RecordBatch) -> pa.Array:
        asked.extend(rows.column(0).to_pylist())
        return _is_one(rows)

    table, numbers = _call(file, pa.schema([_N]), pa.schema([_PART]), choose)(module)
    assert table.column("n").to_pylist() == numbers.to_pylist() == list(range(1, 5000, 7))
    assert sorted(asked) == list(range(7)) if module.__name__.endswith("_native") else len(asked) == 5000


def test_more_values_than_are_remembered() -> None:
    file = _file([(number, number, b"") for number in [*range(150_000), *range(1000)]], 16_000)
    table, numbers = twins(_call(file, pa.schema([_N]), pa.schema([_PART]), lambda rows: pc.less(rows.column(0), 500)))
    assert table.column("n").to_pylist() == [*range(500), *range(500)]
    assert numbers.to_pylist() == [*range(500), *range(150_000, 150_500)]


@pytest.mark.parametrize("bad", [0, 1])
def test_other_rows_are_not_decoded(bad: int) -> None:
    """Text that is not UTF-8 is refused in a chosen row alone, by the name of its block."""
    file = _file([(number, int(number == bad), b"\xff" if not number else b"a" * 40) for number in range(4)], 16)
    found = twins(_call(file, pa.schema([_TEXT]), pa.schema([_PART]), _is_one), messages=False)
    if bad:
        assert found[0].column("s").to_pylist() == ["a" * 40]
    else:
        assert (found.kind, found.context) == (CorruptAvroError, {"block": "0"})


@_modules
def test_what_the_choice_raises_is_raised(module: ModuleType) -> None:
    def choose(rows: pa.RecordBatch) -> pa.Array:
        raise LookupError("no such partition")

    with pytest.raises(LookupError, match="no such partition"):
        _call(_file([(1, 1, b"")]), pa.schema([_N]), pa.schema([_PART]), choose)(module)


@pytest.mark.parametrize(
    "mask", [pa.array([True]), pa.array([True, None]), pa.array([True] * 3), pa.array([1, 0])], ids=str
)
def test_a_choice_that_is_no_mask(mask: pa.Array) -> None:
    file = _file([(1, 1, b""), (2, 2, b"")])
    found = twins(_call(file, pa.schema([_N]), pa.schema([_PART]), lambda _: mask), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


def _node(kind: str, slot: int | None, children: list[Any] | None = None) -> Any:
    return (kind, 0, slot, children or [], None)


@pytest.mark.parametrize("sized", [b"\x01\x04\x0a\x00", b"\x01\x06\x0a\x0a"])
def test_items_and_their_size_differ(sized: bytes) -> None:
    """An array is skipped by its size, and read by its number of items."""
    items = [_node("long", None)]
    whole, first = pa.schema([_N, ("a", pa.list_(pa.int64()))]), pa.schema([("a", pa.list_(pa.int64()))])
    way = _node("record", None, [_node("array", 1, items), _node("int", 0)]), whole
    by = _node("record", None, [_node("array", 0, items), _node("int", None)]), first
    row = sized + b"\x00\x02"

    def choose(rows: pa.RecordBatch) -> pa.Array:
        return pa.array([True] * len(rows))

    found = twins(lambda kernels: kernels.decode_chosen(row, [(0, len(row), 1)], "null", way, (*by, choose)))
    assert found.kind is CorruptAvroError


def test_rows_without_bytes() -> None:
    """A few bytes could claim any number of them."""
    way = _node("record", None, [_node("null", 0)]), pa.schema([_N])
    blocks = [(0, 0, 1 << 24)] * 64
    found = twins(lambda kernels: kernels.decode_chosen(b"", blocks, "null", way, (*way, _is_one)))
    assert found.kind is CorruptAvroError


@pytest.mark.parametrize("row", [b"\x00\x02", b"\x01\x02", b"\x01"])
def test_a_union_of_one_branch(row: bytes) -> None:
    way = _node("record", None, [_node("union", 0, [_node("int", None)])]), pa.schema([_N])
    blocks = [(0, len(row), 1)]
    found = twins(lambda kernels: kernels.decode_chosen(row, blocks, "null", way, (*way, _is_one)))
    plain = twins(lambda kernels: kernels.decode_avro(row, blocks, "null", *way))
    assert isinstance(found, Raised) == isinstance(plain, Raised) == row.startswith(b"\x01")


# Blocks


@given(records(), st.sampled_from(CODECS))
@examples(50)
def test_blocks_are_found(found: Any, codec: str) -> None:
    schema, _, rows = found
    file = AvroFile(avro_file(schema, rows, codec, interval=20))
    assert sum(block.rows for block in file.blocks) == len(rows)
    start = file._data.index(file._data[-16:]) + 16
    assert twins(lambda kernels: kernels.find_blocks(file._data, start, file._data[-16:])) == file.blocks


@given(st.binary(max_size=60), st.integers(0, 70), st.binary(max_size=2))
@examples(300)
def test_any_bytes(data: bytes, start: int, sync: bytes) -> None:
    twins(lambda kernels: kernels.find_blocks(data, start, sync))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x02\x02x#\x02\x04x#", "cut off"),
        (b"\x02\x02x!", "marker"),
        (b"\x01\x02x#", "negative"),
        (b"\x02\x01x#", "negative"),
        (b"\x02", "ends inside"),
        (b"\xff" * 12, "64 bits"),
        (b"\x02" + b"\xfe" * 9 + b"\x01x#", "cut off"),
    ],
)
def test_blocks_that_cannot_be(data: bytes, said: str) -> None:
    found = twins(lambda kernels: kernels.find_blocks(data, 0, b"#"))
    assert found.kind is CorruptAvroError
    assert said in found.message
