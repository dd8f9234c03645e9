"""Avro files: both kernels read what fastavro wrote, and refuse the same damage."""

from __future__ import annotations

import io
import json
from types import ModuleType
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import CorruptAvroError, CorruptDataFileError, SchemaError, UnsupportedFeatureError
from deltaberg.files.avro.container import AvroFile
from deltaberg.files.avro.plan import by_id, by_name
from deltaberg.files.avro.schema import arrow_field_of, parse_avro_schema
from tests.kernels.avro_bytes import CODECS, avro_file, records
from tests.kernels.twins import Raised, backends, twins
from tests.support.effort import examples


def _call(file: AvroFile, wanted: pa.Schema, threads: int = 1) -> Any:
    node = by_name(file.schema, wanted)
    data, codec = file._data, file._codec
    return lambda kernels: kernels.decode_avro(data, file.blocks, codec, node, wanted, (threads, None))


def _whole(file: AvroFile) -> pa.Schema:
    return pa.schema([arrow_field_of(child) for child in file.schema.fields])


def _expected(rows: list[Any], arrow: pa.DataType) -> list[Any]:
    def shaped(value: Any, type_: pa.DataType) -> Any:
        if value is None:
            return None
        if pa.types.is_struct(type_):
            return {child.name: shaped(value[child.name], child.type) for child in type_}
        if pa.types.is_map(type_):
            pairs = value.items() if isinstance(value, dict) else [(pair["key"], pair["value"]) for pair in value]
            return [(key, shaped(item, type_.item_type)) for key, item in pairs]
        if pa.types.is_list(type_):
            return [shaped(item, type_.value_type) for item in value]
        return value

    return [shaped(row, arrow) for row in rows]


@given(records(), st.sampled_from(CODECS), st.integers(1, 4))
@examples(150)
def test_all_columns(found: Any, codec: str, threads: int) -> None:
    schema, arrow, rows = found
    data = avro_file(schema, rows, codec)
    file = AvroFile(data)
    table = twins(_call(file, _whole(file), threads))
    assert isinstance(table, pa.Table)
    table.validate(full=True)
    # fastavro as the judge of what it wrote: it rounds what a type cannot hold.
    judged = list(fastavro.reader(io.BytesIO(data)))
    assert table.to_pylist() == _expected(judged, arrow)


@given(records(), st.data())
@examples(80)
def test_some_columns(found: Any, data: st.DataObject) -> None:
    schema, _, rows = found
    raw = avro_file(schema, rows, "deflate")
    file = AvroFile(raw)
    whole = _whole(file)
    names = data.draw(st.lists(st.sampled_from(whole.names), unique=True))
    wanted = pa.schema([whole.field(name) for name in names])
    table = twins(_call(file, wanted))
    expected = twins(_call(file, whole)).select(names)
    assert table.num_rows == len(rows) or not names
    assert table.combine_chunks().equals(expected.combine_chunks())


#: Integers at each edge of the lengths of a varint, of one byte to ten.
_EDGES = [sign * (1 << bits) + near for bits in range(6, 63, 7) for sign in (1, -1) for near in (-1, 0)]
_EDGES += [-(1 << 63), (1 << 63) - 1]
_OF_INTEGERS: dict[str, tuple[Any, Any]] = {
    "long": ("long", lambda value: value),
    "union": (["null", "long"], lambda value: value),
    "longs in turns": (
        {"type": "record", "name": "two", "fields": [{"name": name, "type": "long"} for name in "ab"]},
        lambda value: {"a": value, "b": -1 - value},
    ),
    "array": ({"type": "array", "items": "long"}, lambda value: [value, 1, value, -1 - value] * 3),
    "map": ({"type": "map", "values": "long"}, lambda value: {"one": value, "two": -1 - value}),
}


@pytest.mark.parametrize("shape", _OF_INTEGERS)
def test_integers_of_all_lengths_are_read_and_skipped(shape: str) -> None:
    """Small ones take other ways than large ones, and those of nine or ten bytes the last."""
    kind, value_of = _OF_INTEGERS[shape]
    fields = [{"name": "skipped", "type": kind}, {"name": "after", "type": "string"}]
    rows = [{"skipped": value_of(value), "after": str(value)} for value in _EDGES]
    file = AvroFile(avro_file({"type": "record", "name": "r", "fields": fields}, rows, "null"))
    whole = _whole(file)
    read, left = twins(_call(file, whole)), twins(_call(file, pa.schema([whole.field("after")])))
    assert read["after"].to_pylist() == left["after"].to_pylist() == [str(value) for value in _EDGES]
    assert read["skipped"].to_pylist() == [pair["skipped"] for pair in _expected(rows, pa.struct(list(whole)))]


@pytest.mark.parametrize("shape", _OF_INTEGERS)
def test_integers_of_more_than_64_bits_are_refused(shape: str) -> None:
    kind, value_of = _OF_INTEGERS[shape]
    fields = [{"name": "skipped", "type": kind}, {"name": "after", "type": "string"}]
    rows = [{"skipped": value_of(-(1 << 63)), "after": "the end of a block is far from here"}]
    raw = avro_file({"type": "record", "name": "r", "fields": fields}, rows, "null")
    least = b"\xff" * 9 + b"\x01"
    assert least in raw
    for too_long in (b"\xff" * 9 + b"\x02", b"\xff" * 10):
        file = AvroFile(raw.replace(least, too_long, 1))
        whole = _whole(file)
        for wanted in (whole, pa.schema([whole.field("after")])):
            found = twins(_call(file, wanted))
            assert found.kind is CorruptAvroError
            assert "an integer has more than 64 bits" in found.message


@given(records(), st.sampled_from(CODECS), st.data())
@examples(200)
def test_damage_raises_ours_or_nothing(found: Any, codec: str, data: st.DataObject) -> None:
    """A flipped byte or a cut gives rows or our exception, the same from both."""
    schema, _, rows = found
    raw = bytearray(avro_file(schema, rows, codec, interval=1000))
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.integers(0, 255))
    else:
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    try:
        file = AvroFile(bytes(raw))
        wanted = _whole(file)
    except (CorruptDataFileError, UnsupportedFeatureError, SchemaError):
        return
    twins(_call(file, wanted), messages=False)


_SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "int", "field-id": 1},
        {"name": "b", "type": ["null", "string"], "field-id": 2, "default": None},
        {
            "name": "m",
            "field-id": 3,
            "type": {
                "type": "array",
                "logicalType": "map",
                "items": {
                    "type": "record",
                    "name": "kv",
                    "fields": [
                        {"name": "key", "type": "int", "field-id": 4},
                        {"name": "value", "type": "bytes", "field-id": 5},
                    ],
                },
            },
        },
    ],
}
_ROWS = [
    {"a": n, "b": None if n % 2 else str(n), "m": [{"key": k, "value": bytes([k])} for k in range(n)]} for n in range(5)
]


def _id(number: int) -> dict[str, str]:
    return {"PARQUET:field_id": str(number)}


@pytest.mark.req("ICE-MAN-01", half="reader")
@pytest.mark.parametrize("module", backends(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_columns_are_found_by_id(module: ModuleType) -> None:
    file = AvroFile(avro_file(_SCHEMA, _ROWS, "deflate"))
    projection = pa.schema(
        [
            pa.field("renamed", pa.string(), metadata=_id(2)),
            pa.field("widened", pa.int64(), metadata=_id(1)),
            pa.field("absent", pa.float64(), metadata=_id(77)),
        ]
    )
    node = by_id(file.schema, projection, {})
    table = module.decode_avro(file._data, file.blocks, "deflate", node, projection)
    assert table.to_pylist() == [{"renamed": None if n % 2 else str(n), "widened": n, "absent": None} for n in range(5)]


def test_chosen_keys_of_a_map() -> None:
    file = AvroFile(avro_file(_SCHEMA, _ROWS, "null"))
    projection = pa.schema(
        [
            pa.field(
                "m",
                pa.map_(
                    pa.field("key", pa.int32(), nullable=False, metadata=_id(4)),
                    pa.field("value", pa.binary(), metadata=_id(5)),
                ),
                metadata=_id(3),
            )
        ]
    )
    node = by_id(file.schema, projection, {4: [1, 3]})
    found = twins(lambda kernels: kernels.decode_avro(file._data, file.blocks, "null", node, projection))
    assert found.column("m").to_pylist() == [[], [], [(1, b"\x01")], [(1, b"\x01")], [(1, b"\x01"), (3, b"\x03")]]


def test_a_required_field_that_is_missing_is_named() -> None:
    file = AvroFile(avro_file(_SCHEMA, _ROWS, "null"))
    wanted = pa.schema([pa.field("file_path", pa.string(), nullable=False, metadata=_id(100))])
    with pytest.raises(CorruptAvroError, match=r"file_path \(id 100\)"):
        file.read_by_id(wanted)


_LONG: Any = ("union", 0, 0, [("null", 0, None, [], None), ("long", 0, None, [], None)], None)
_REQUIRED = pa.field("x", pa.int64(), nullable=False)


@pytest.mark.parametrize(
    ("node", "wanted", "body", "value"),
    [
        pytest.param(_LONG, _REQUIRED, b"\x00", None, id="column"),
        pytest.param(_LONG, _REQUIRED, b"\x02\x0e", 7, id="column with a value"),
        pytest.param(
            ("array", 0, 0, [_LONG], None), pa.field("a", pa.list_(_REQUIRED)), b"\x04\x02\x0e\x00\x00", None, id="item"
        ),
        pytest.param(
            ("record", 0, 0, [_LONG], None), pa.field("r", pa.struct([_REQUIRED])), b"\x00", None, id="in a record"
        ),
        pytest.param(
            ("union", 0, 0, [("null", 0, None, [], None), ("record", 0, 0, [_LONG], None)], None),
            pa.field("r", pa.struct([_REQUIRED])),
            b"\x00",
            {},
            id="in a record that is null itself",
        ),
    ],
)
def test_a_null_in_a_required_field(node: Any, wanted: pa.Field, body: bytes, value: Any) -> None:
    data, blocks = _block(1, body)
    root = ("record", 0, None, [node], None)
    outcome = twins(lambda kernels: kernels.decode_avro(data, blocks, "null", root, pa.schema([wanted])))
    if value is None:
        assert isinstance(outcome, Raised)
        assert outcome.kind is CorruptAvroError
        assert "the required field x is null" in outcome.message
    else:
        assert outcome.column(0).to_pylist() == [value or None]


def test_unknown_codecs_and_markers_are_refused() -> None:
    data = avro_file(_SCHEMA, _ROWS, "null")
    with pytest.raises(UnsupportedFeatureError, match="bzip9"):
        AvroFile(data.replace(b"avro.codec\x08null", b"avro.codec\x0abzip9"))
    with pytest.raises(CorruptAvroError, match="marker"):
        AvroFile(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptAvroError, match="not an Avro file"):
        AvroFile(b"PAR1")


def _block(rows: int, body: bytes) -> tuple[bytes, list[tuple[int, int, int]]]:
    return body, [(0, len(body), rows)]


@pytest.mark.parametrize(
    ("node", "wanted", "rows", "body"),
    [
        pytest.param(("long", 0, 0, [], None), pa.int64(), 1, b"\xff" * 10 + b"\x01", id="endless varint"),
        pytest.param(("bytes", 0, 0, [], None), pa.binary(), 1, b"\xfe\xff\xff\xff\x0f", id="huge length"),
        pytest.param(("bytes", 0, 0, [], None), pa.binary(), 1, b"\x01", id="negative length"),
        pytest.param(("string", 0, 0, [], None), pa.string(), 1, b"\x02\xff", id="no utf-8"),
        pytest.param(("int", 0, 0, [], None), pa.int32(), 1, b"\x80\x80\x80\x80\x20", id="too wide"),
        pytest.param(("long", 0, 0, [], None), pa.int64(), 1 << 40, b"\x00", id="more rows than bytes"),
        pytest.param(("null", 0, 0, [], None), pa.null(), 1 << 40, b"", id="endless rows without bytes"),
        pytest.param(("long", 0, 0, [], None), pa.int64(), 1, b"\x00\x00", id="bytes left"),
        pytest.param(
            ("array", 0, 0, [("long", 0, None, [], None)], None),
            pa.list_(pa.int64()),
            1,
            b"\xfe\xff\xff\x0f\x00",
            id="huge array",
        ),
        pytest.param(
            ("array", 0, 0, [("null", 0, None, [], None)], None),
            pa.list_(pa.null()),
            1,
            b"\x7e\x00",
            id="items without bytes",
        ),
        pytest.param(
            ("union", 0, 0, [("null", 0, None, [], None), ("long", 0, None, [], None)], None),
            pa.int64(),
            1,
            b"\x04",
            id="no branch",
        ),
        pytest.param(("boolean", 0, 0, [], None), pa.bool_(), 1, b"\x02", id="no boolean"),
        pytest.param(("bytes", 0, 0, [], None), pa.decimal128(38, 0), 1, b"\x22" + b"\x7f" * 17, id="wide decimal"),
        pytest.param(("bytes", 0, 0, [], None), pa.decimal128(3, 0), 1, b"\x04\x04\x00", id="too many digits"),
        pytest.param(("bytes", 0, 0, [], None), pa.decimal128(3, 0), 1, b"\x00", id="empty decimal"),
    ],
)
def test_hostile_values(node: Any, wanted: pa.DataType, rows: int, body: bytes) -> None:
    data, blocks = _block(rows, body)
    root = ("record", 0, None, [node], None)
    schema = pa.schema([pa.field("x", wanted)])
    found = twins(lambda kernels: kernels.decode_avro(data, blocks, "null", root, schema), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is CorruptAvroError


def test_a_bomb_is_bounded() -> None:
    """A block that inflates to more than 1 GiB is refused; the kernels stop there."""
    import zlib

    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    # What is flushed wholly refers to nothing before it, so that it can stand there many times.
    chunk = compressor.compress(b"\x00" * (1 << 24)) + compressor.flush(zlib.Z_FULL_FLUSH)
    bomb = chunk * 65 + compressor.flush()
    root: Any = ("record", 0, None, [("long", 0, None, [], None)], None)
    schema = pa.schema([pa.field("x", pa.int64())])
    found = twins(
        lambda kernels: kernels.decode_avro(bomb, [(0, len(bomb), 1)], "deflate", root, schema), messages=False
    )
    assert isinstance(found, Raised)


def test_a_block_that_is_cut_off_is_refused() -> None:
    """Also where all of its values are there, but not its end."""
    import zlib

    body = b"\x02" * 1000
    whole, cut = zlib.compressobj(9, zlib.DEFLATED, -15), zlib.compressobj(9, zlib.DEFLATED, -15)
    data = whole.compress(body) + whole.flush()
    half = cut.compress(body) + cut.flush(zlib.Z_SYNC_FLUSH)
    root: Any = ("record", 0, None, [("long", 0, 0, [], None)], None)
    schema = pa.schema([pa.field("x", pa.int64())])

    def decoded(bad: bytes) -> Any:
        blocks = [(0, len(bad), 1000)]
        return twins(lambda kernels: kernels.decode_avro(bad, blocks, "deflate", root, schema), messages=False)

    for bad in (data[:-1], half, b""):
        found = decoded(bad)
        assert isinstance(found, Raised)
        assert found.kind is CorruptAvroError


@pytest.mark.parametrize("find", [by_id, by_name])
def test_two_fields_for_one_column_are_refused(find: Any) -> None:
    fields = [{"name": "x", "type": "long", "field-id": 1}, {"name": "y", "type": "long", "field-id": 1}]
    if find is by_name:
        fields[1]["name"] = "x"
    text = json.dumps({"type": "record", "name": "r", "fields": fields})
    wanted = pa.schema([pa.field("x", pa.int64(), metadata=_id(1))])
    arguments: tuple[Any, ...] = (
        (parse_avro_schema(text), wanted, {}) if find is by_id else (parse_avro_schema(text), wanted)
    )
    with pytest.raises(CorruptAvroError, match="two fields for the column x"):
        find(*arguments)
    # What nobody asks for may be there twice.
    other = pa.schema([pa.field("z", pa.int64(), metadata=_id(2))])
    assert find(*(arguments[0], other, *arguments[2:]))[0] == "record"


def test_a_schema_that_names_types_again_and_again_is_bounded() -> None:
    """Each of forty records holds the one before twice, which makes 2**40 fields."""
    fields: list[dict[str, Any]] = [{"name": "f0", "type": {"type": "record", "name": "r0", "fields": []}}]
    for number in range(1, 40):
        inner = [{"name": name, "type": f"r{number - 1}"} for name in ("a", "b")]
        fields.append({"name": f"f{number}", "type": {"type": "record", "name": f"r{number}", "fields": inner}})
    with pytest.raises(CorruptAvroError, match="consists of more than"):
        parse_avro_schema(json.dumps({"type": "record", "name": "top", "fields": fields}))
    few = {"type": "record", "name": "top", "fields": fields[:8]}
    assert len(parse_avro_schema(json.dumps(few)).fields) == 8
