"""Random Avro schemas and values, written by fastavro, which the decoder must read back."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["CODECS", "avro_file", "records"]

CODECS = ("null", "deflate", "snappy", "zstandard")

_integers = st.integers(-(1 << 63), (1 << 63) - 1)
_small = st.integers(-(1 << 31), (1 << 31) - 1)


def _named(kind: str, **attributes: Any) -> dict[str, Any]:
    return {"type": kind, **attributes}


#: Avro type, Arrow type, values.
_LEAVES: list[tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = [
    ("boolean", pa.bool_(), st.booleans()),
    ("int", pa.int32(), _small),
    ("long", pa.int64(), _integers),
    ("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    ("double", pa.float64(), st.floats(allow_nan=False)),
    ("bytes", pa.binary(), st.binary(max_size=200)),
    ("string", pa.string(), st.text(max_size=100)),
    (_named("int", logicalType="date"), pa.date32(), st.dates()),
    (
        _named("long", logicalType="timestamp-micros", **{"adjust-to-utc": True}),
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(dt.timezone.utc)),
    ),
    (
        _named("bytes", logicalType="decimal", precision=9, scale=2),
        pa.decimal128(9, 2),
        st.decimals(-1000, 1000, places=2),
    ),
]


@st.composite
def _types(draw: st.DrawFn, names: list[int], depth: int = 0) -> tuple[Any, pa.DataType, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["leaf"] * 4 + (["record", "array", "pairs", "map", "optional"] if depth < 3 else [])))
    if kind == "leaf":
        leaf: tuple[Any, pa.DataType, st.SearchStrategy[Any]] = draw(st.sampled_from(_LEAVES))
        return leaf
    if kind == "record":
        inner: tuple[Any, pa.DataType, st.SearchStrategy[Any]] = draw(_records(names, depth + 1))
        return inner
    avro, arrow, values = draw(_types(names, depth + 1))
    names.append(len(names))
    if kind == "array":
        return {"type": "array", "items": avro, "element-id": len(names)}, pa.list_(arrow), st.lists(values, max_size=3)
    if kind == "map":
        return (
            {"type": "map", "values": avro},
            pa.map_(pa.string(), arrow),
            st.dictionaries(st.text(max_size=5), values, max_size=3),
        )
    if kind == "pairs":
        fields = [{"name": "key", "type": "int", "field-id": 1}, {"name": "value", "type": avro, "field-id": 2}]
        record = {"type": "record", "name": f"kv{len(names)}", "fields": fields}
        pairs = st.lists(st.fixed_dictionaries({"key": _small, "value": values}), max_size=3)
        return {"type": "array", "logicalType": "map", "items": record}, pa.map_(pa.int32(), arrow), pairs
    if isinstance(avro, list):
        return avro, arrow, values
    union = ["null", avro] if draw(st.booleans()) else [avro, "null"]
    return union, arrow, st.none() | values


@st.composite
def _records(draw: st.DrawFn, names: list[int], depth: int) -> tuple[Any, pa.DataType, st.SearchStrategy[Any]]:
    names.append(len(names))
    fields, arrow, values = [], [], {}
    name = f"r{len(names)}"
    for number in range(draw(st.integers(1, 4))):
        child, type_, value = draw(_types(names, depth))
        fields.append({"name": f"c{number}", "type": child, "field-id": number})
        arrow.append(pa.field(f"c{number}", type_, metadata={b"PARQUET:field_id": str(number)}))
        values[f"c{number}"] = value
    return {"type": "record", "name": name, "fields": fields}, pa.struct(arrow), st.fixed_dictionaries(values)


@st.composite
def records(draw: st.DrawFn) -> tuple[dict[str, Any], pa.StructType, list[dict[str, Any]]]:
    """Return a record schema, the Arrow type of it, and rows."""
    avro, arrow, values = draw(_records([], 0))
    return avro, arrow, draw(st.lists(values, max_size=20))


def avro_file(schema: dict[str, Any], rows: list[dict[str, Any]], codec: str, interval: int = 100) -> bytes:
    """Write rows with fastavro."""
    buffer = io.BytesIO()
    fastavro.writer(buffer, fastavro.parse_schema(schema), rows, codec=codec, sync_interval=interval)
    return buffer.getvalue()
