"""`encode_avro`: both backends write the same file, and fastavro and our own decoder read it back."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.files.avro.container import AvroFile
from deltaberg.files.avro.encode import UUID, avro_schema_of, write_avro
from tests.kernels.avro_bytes import CODECS, avro_file, records
from tests.kernels.twins import Raised, backends, twins
from tests.support.effort import examples

_SYNC = bytes(range(16))
_UUID_BYTES = bytes.fromhex("F79C3E09677C4BBDA4793F349CB785E7")


def _with_ids(field: pa.Field, ids: Any) -> pa.Field:
    """Return a field with ids at all levels, and as the types of Avro files have them: keys are required."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_with_ids(child, ids) for child in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_with_ids(kind.key_field, ids), _with_ids(kind.item_field, ids))
    elif pa.types.is_list(kind):
        kind = pa.list_(_with_ids(kind.value_field, ids))
    return pa.field(field.name, kind, field.nullable, {"PARQUET:field_id": str(next(ids))})


def _columns(found: Any, is_required: bool) -> pa.Table:
    """Return random rows as a table, through a file that fastavro writes and our decoder reads."""
    schema, arrow, rows = found
    file = AvroFile(avro_file(schema, rows, "null"))
    ids = iter(range(1, 1000))
    fields = [_with_ids(child, ids) for child in arrow]
    table = file.read_by_name(pa.schema(list(arrow)), file.blocks)
    table = table.cast(pa.schema(fields)) if len(table) else pa.schema(fields).empty_table()
    if is_required:
        full = [field.with_nullable(bool(table.column(at).null_count)) for at, field in enumerate(fields)]
        table = pa.Table.from_arrays(table.columns, schema=pa.schema(full))
    return table


@given(records(), st.sampled_from(CODECS), st.integers(1, 3), st.booleans(), st.integers(0, 3))
@examples(60)
def test_what_is_written_is_read(found: Any, codec: str, threads: int, is_required: bool, skipped: int) -> None:
    """The backends agree on the bytes, or for compressed blocks on the rows; slices are written as they are."""
    table = _columns(found, is_required).slice(skipped)
    schema = avro_schema_of(table.schema, "row")
    header = write_avro(table.slice(0, 0), name="row", codec=codec)
    batches, sync = table.to_batches(), header[-16:]

    def call(kernels: Any) -> bytes:
        raw: bytes = kernels.encode_avro(batches, header, sync, "null", None, threads)
        stored = kernels.encode_avro(batches, header, sync, codec, None, threads)
        assert _read(stored, table.schema).equals(table) or not len(table)
        judged = list(fastavro.reader(io.BytesIO(stored)))
        assert len(judged) == len(table)
        return raw

    twins(call)
    if len(table):
        data = write_avro(table, name="row", codec=codec, threads=threads)
        assert fastavro.schema.fullname(schema) == "row"
        assert _read(data, table.schema).equals(table)


def _read(data: bytes, schema: pa.Schema) -> pa.Table:
    return AvroFile(data).read_by_id(schema)


def _uncompressed(batches: list[pa.RecordBatch], threads: int = 0) -> Any:
    return lambda kernels: kernels.encode_avro(batches, b"", _SYNC, "null", None, threads)


def _id(number: int) -> dict[str, str]:
    return {"PARQUET:field_id": str(number)}


def test_long_files_have_blocks_of_bounded_size() -> None:
    """Blocks end at 64 KiB, whatever the number of threads is."""
    rows = 20_000
    fields = [pa.field("n", pa.int64(), False, _id(1)), pa.field("s", pa.string(), metadata=_id(2))]
    table = pa.table([range(rows), ["x" * (n % 40) for n in range(rows)]], schema=pa.schema(fields))
    written = {}
    for threads in (1, 3):
        written[threads] = twins(_uncompressed(table.to_batches(), threads))
    assert written[1] == written[3]
    file = AvroFile(write_avro(table, name="row", codec="none"))
    assert file.rows == rows
    assert len(file.blocks) > 5
    assert max(block.size for block in file.blocks) < (1 << 16) + 64


@pytest.mark.req("ICE-AVRO-02", half="writer")
@pytest.mark.parametrize(
    ("precision", "size"), [(1, 1), (2, 1), (3, 2), (4, 2), (9, 4), (10, 5), (18, 8), (19, 9), (28, 12), (38, 16)]
)
def test_decimals_take_as_few_bytes_as_their_precision_needs(precision: int, size: int) -> None:
    limit = 10**precision - 1
    values = pa.array([limit, -limit, 0], pa.decimal128(38, 0)).cast(pa.decimal128(precision, 0), safe=False)
    field = pa.field("d", pa.decimal128(precision, 0), False, _id(1))
    table = pa.table([values], schema=pa.schema([field]))
    body = twins(_uncompressed(table.to_batches()))[:-16]
    assert body[2:] == b"".join(value.to_bytes(size, "big", signed=True) for value in (limit, -limit, 0))
    assert AvroFile(write_avro(table, name="row")).read_by_id(table.schema).equals(table)
    shown = {"logicalType": "decimal", "precision": precision, "scale": 0}
    expected = {"type": "fixed", "name": f"decimal_{precision}_0", "size": size, **shown}
    assert avro_schema_of(table.schema, "row")["fields"][0]["type"] == expected


_DEEP = pa.struct(
    [
        pa.field("l", pa.list_(pa.field("element", pa.int64(), metadata=_id(9))), metadata=_id(8)),
        pa.field(
            "m",
            pa.map_(pa.field("key", pa.string(), False, _id(10)), pa.field("value", pa.int32(), False, _id(11))),
            False,
            _id(7),
        ),
        pa.field(
            "p",
            pa.map_(pa.field("key", pa.int32(), False, _id(12)), pa.field("value", pa.string(), metadata=_id(13))),
            False,
            _id(6),
        ),
    ]
)


@pytest.mark.req("ICE-AVRO-01", half="writer")
@pytest.mark.req("ICE-AVRO-03", half="writer")
@pytest.mark.req("ICE-AVRO-04", half="writer")
@pytest.mark.req("ICE-AVRO-05", half="writer")
@pytest.mark.req("ICE-AVRO-06", half="writer")
@pytest.mark.req("ICE-AVRO-07", half="writer")
@pytest.mark.req("ICE-AVRO-08", half="writer")
@pytest.mark.req("ICE-AVRO-09", half="writer")
@pytest.mark.req("ICE-AVRO-10", half="writer")
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (pa.field("a", pa.bool_(), False, _id(1)), "boolean"),
        (pa.field("a", pa.int32(), False, _id(1)), "int"),
        (pa.field("a", pa.int64(), False, _id(1)), "long"),
        (pa.field("a", pa.float32(), False, _id(1)), "float"),
        (pa.field("a", pa.float64(), False, _id(1)), "double"),
        (pa.field("a", pa.string(), False, _id(1)), "string"),
        (pa.field("a", pa.binary(), False, _id(1)), "bytes"),
        (pa.field("a", pa.date32(), False, _id(1)), {"type": "int", "logicalType": "date"}),
        (pa.field("a", pa.time64("us"), False, _id(1)), {"type": "long", "logicalType": "time-micros"}),
        (
            pa.field("a", pa.timestamp("us"), False, _id(1)),
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
        ),
        (
            pa.field("a", pa.timestamp("us", "UTC"), True, _id(1)),
            ["null", {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}],
        ),
        (
            pa.field("a", pa.timestamp("ns", "UTC"), False, _id(1)),
            {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
        ),
        (
            pa.field("a", pa.binary(16), False, {b"PARQUET:field_id": b"1", **UUID}),
            {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
        ),
        (pa.field("a", pa.binary(3), False, _id(1)), {"type": "fixed", "name": "fixed_3", "size": 3}),
        (
            pa.field("a", _DEEP, True, _id(5)),
            [
                "null",
                {
                    "type": "record",
                    "name": "r5",
                    "fields": [
                        {
                            "name": "l",
                            "type": ["null", {"type": "array", "items": ["null", "long"], "element-id": 9}],
                            "default": None,
                            "field-id": 8,
                        },
                        {
                            "name": "m",
                            "type": {"type": "map", "values": "int", "key-id": 10, "value-id": 11},
                            "field-id": 7,
                        },
                        {
                            "name": "p",
                            "type": {
                                "type": "array",
                                "logicalType": "map",
                                "items": {
                                    "type": "record",
                                    "name": "k12_v13",
                                    "fields": [
                                        {"name": "key", "type": "int", "field-id": 12},
                                        {
                                            "name": "value",
                                            "type": ["null", "string"],
                                            "default": None,
                                            "field-id": 13,
                                        },
                                    ],
                                },
                            },
                            "field-id": 6,
                        },
                    ],
                },
            ],
        ),
    ],
    ids=lambda value: str(value.type)[:20] if isinstance(value, pa.Field) else "",
)
def test_the_types_of_the_specification(field: pa.Field, expected: Any) -> None:
    (part,) = avro_schema_of(pa.schema([field]), "row")["fields"]
    default = {"default": None} if field.nullable else {}
    assert part == {"name": "a", "type": expected, **default, "field-id": part["field-id"]}
    fastavro.parse_schema(avro_schema_of(pa.schema([field]), "row"))


@pytest.mark.req("ICE-AVRO-01", half="writer")
@pytest.mark.req("ICE-AVRO-03", half="writer")
@pytest.mark.req("ICE-AVRO-04", half="writer")
@pytest.mark.req("ICE-AVRO-05", half="writer")
def test_values_of_the_specification() -> None:
    """The bytes that Appendix A's encodings have, the same from both backends."""
    values = [
        (pa.array([17486], pa.date32()), b"\x9c\x91\x02"),
        (pa.array([-(1 << 31)], pa.int32()), b"\xff\xff\xff\xff\x0f"),
        (pa.array([81068000000], pa.int64()).cast(pa.time64("us")), b"\x80\x8c\xbc\x80\xdc\x04"),
        (pa.array([1510871468000000], pa.timestamp("us")), b"\x80\x8c\xb6\xd2\xa5\x88\xaf\x05"),
        (pa.array([1510871468000000], pa.timestamp("us", "UTC")), b"\x80\x8c\xb6\xd2\xa5\x88\xaf\x05"),
        (pa.array([_UUID_BYTES], pa.binary(16)), _UUID_BYTES),
        (pa.array(["14.20"]).cast(pa.decimal128(9, 2)), b"\x00\x00\x05\x8c"),
        (pa.array([-0.0], pa.float32()), b"\x00\x00\x00\x80"),
        (pa.array([math.nan], pa.float64()), b"\x00\x00\x00\x00\x00\x00\xf8\x7f"),
        (pa.array([-(1 << 63)], pa.int64()), b"\xff" * 9 + b"\x01"),
        (pa.array(["ab"]), b"\x04ab"),
        (pa.array([[1, -1]], pa.list_(pa.field("element", pa.int64(), False))), b"\x04\x02\x01\x00"),
        (pa.array([[]], pa.list_(pa.int64())), b"\x00"),
        (pa.array([None], pa.null()), b""),
    ]
    for array, expected in values:
        batch = pa.record_batch([array], schema=pa.schema([pa.field("x", array.type, array.type == pa.null())]))
        body = twins(_uncompressed([batch]))[:-16]
        assert body[2:] == expected, array.type


@pytest.mark.parametrize(
    ("array", "what"),
    [
        pytest.param(pa.array([1], pa.int8()), "Avro encoding", id="type"),
        pytest.param(pa.array([[None]], pa.list_(pa.null())), "no bytes", id="items without bytes"),
        pytest.param(pa.array([None], pa.int64()), None, id="null"),
        pytest.param(
            pa.Array.from_buffers(pa.decimal128(3, 0), 1, [None, pa.py_buffer((1000).to_bytes(16, "little"))]),
            "digits",
            id="digits",
        ),
    ],
)
def test_what_cannot_be_encoded_is_refused(array: pa.Array, what: str | None) -> None:
    field = pa.field("x", array.type, nullable=False)
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([field]))
    found = twins(_uncompressed([batch]), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError
    assert what is None or what in found.message


@pytest.mark.parametrize(("codec", "level"), [("deflate", 0), ("deflate", 10), ("zstandard", 3), ("bzip9", None)])
def test_wrong_codecs_and_levels_are_refused(codec: str, level: int | None) -> None:
    found = twins(lambda kernels: kernels.encode_avro([], b"", b"", codec, level), messages=False)
    assert isinstance(found, Raised)
    assert found.kind is InvalidArgumentError


def test_levels_of_deflate_differ() -> None:
    table = pa.table(
        [[f"path/{n * n}/{n % 7}" for n in range(5000)]], schema=pa.schema([pa.field("s", pa.string(), False, _id(1))])
    )
    for module in backends():
        sizes = [len(module.encode_avro(table.to_batches(), b"", b"", "deflate", level)) for level in (1, 9)]
        assert sizes[0] > sizes[1]
    assert write_avro(table, name="row").count(b'"type":"string"') == 1


@pytest.mark.one_backend
def test_names_are_safe_and_unique() -> None:
    """Avro has fewer characters in names than Iceberg, and allows no name to be defined twice."""
    day = pa.field("day of", pa.decimal128(9, 2), metadata=_id(1))
    schema = pa.schema([day, day.with_name("day_x20of"), day.with_name("1st").with_metadata(_id(3))])
    found = avro_schema_of(schema, "row")
    assert [part["name"] for part in found["fields"]] == ["day_x20of", "day_x20of_1", "_1st"]
    assert [part.get("iceberg-field-name") for part in found["fields"]] == ["day of", "day_x20of", "1st"]
    fastavro.parse_schema(json.loads(json.dumps(found)))
    with pytest.raises(SchemaError, match="has no id"):
        avro_schema_of(pa.schema([pa.field("x", pa.int64())]), "row")
    with pytest.raises(SchemaError, match="cannot be written"):
        avro_schema_of(pa.schema([pa.field("x", pa.uint8(), metadata=_id(1))]), "row")
    with pytest.raises(InvalidArgumentError, match="lzma"):
        write_avro(schema.empty_table(), name="row", codec="lzma")
