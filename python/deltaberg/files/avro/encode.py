"""Writing Avro files: the schema with Iceberg's field ids, the header, and the blocks (Iceberg spec, Appendix A)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.schema.name_mapping import FIELD_ID

__all__ = ["UUID", "AvroBlocks", "avro_schema_of", "write_avro"]

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
#: The names of codecs in Iceberg's table properties and in Avro's headers.
_CODECS = {
    "uncompressed": "null",
    "none": "null",
    "null": "null",
    "gzip": "deflate",
    "deflate": "deflate",
    "snappy": "snappy",
    "zstd": "zstandard",
    "zstandard": "zstandard",
}
#: The metadata of an Arrow field of 16 bytes that says that its values are UUIDs.
UUID = {b"ARROW:extension:name": b"arrow.uuid", b"ARROW:extension:metadata": b""}


def write_avro(
    table: pa.Table,
    *,
    name: str,
    metadata: Mapping[str, str | bytes] | None = None,
    codec: str = "deflate",
    level: int | None = None,
    threads: int = 0,
) -> bytes:
    r"""Return the bytes of an Avro file that holds the rows of a table.

    Parameters
    ----------
    table
        The rows. Each field, at any level, has its id as ``PARQUET:field_id``; one that is not nullable is required.
    name
        The name of the record.
    metadata
        What the header says besides ``avro.schema`` and ``avro.codec``.
    codec
        ``deflate``, ``zstd``, ``snappy`` or ``none``, or one of their other names (``gzip``, ``uncompressed``).
    level
        The level of deflate, 1 to 9; other codecs have none.
    threads
        The number of threads to encode with; 0 for all processors.

    Raises
    ------
    InvalidArgumentError
        If the codec is not known, or a required value is null.
    SchemaError
        If a type has no Avro type, or a field has no id.

    Examples
    --------
    >>> field = pa.field("n", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
    >>> data = write_avro(pa.table([[1, 2]], schema=pa.schema([field])), name="row", codec="none")
    >>> data[:4], data.count(data[-16:])
    (b'Obj\x01', 2)
    """
    return AvroBlocks(table.schema, name=name, metadata=metadata, codec=codec, level=level, threads=threads).of(table)


class AvroBlocks:
    """Makes the bytes of an Avro file, one part after another. The parameters are those of `write_avro`."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        name: str,
        metadata: Mapping[str, str | bytes] | None = None,
        codec: str = "deflate",
        level: int | None = None,
        threads: int = 0,
    ) -> None:
        codec_name = _CODECS.get(codec.lower())
        if codec_name is None:
            raise InvalidArgumentError(
                f"{codec!r} is not a codec of Avro files", hint="use deflate, zstd, snappy or none", codec=codec
            )
        pairs = {
            "avro.schema": json.dumps(avro_schema_of(schema, name), separators=(",", ":"), ensure_ascii=False),
            "avro.codec": codec_name,
            **(metadata or {}),
        }
        self._sync = os.urandom(_SYNC_BYTES)
        self._rest = _header(pairs, self._sync)
        self._codec, self._level, self._threads = codec_name, level, threads

    def of(self, table: pa.Table) -> bytes:
        """Return the blocks of some rows; the first ones begin with the header."""
        header, self._rest = self._rest, b""
        return kernels.encode_avro(table.to_batches(), header, self._sync, self._codec, self._level, self._threads)


def _header(pairs: Mapping[str, str | bytes], sync: bytes) -> bytes:
    parts = [_MAGIC, _long(len(pairs))]
    for key, value in pairs.items():
        for text in (key, value):
            raw = text if isinstance(text, bytes) else text.encode()
            parts += [_long(len(raw)), raw]
    return b"".join([*parts, b"\x00", sync])


def _long(value: int) -> bytes:
    rest = value << 1
    found = bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def avro_schema_of(schema: pa.Schema, name: str) -> dict[str, Any]:
    """Return the Avro schema of Arrow columns, as the kernel `encode_avro` writes them.

    Raises
    ------
    SchemaError
        If a type has no Avro type, or a field has no id.
    """
    return _Types().record(list(schema), name)


class _Types:
    """Converts types, and gives each named one a name that no other has.

    Avro lets a schema define a name once, and refer to it after; yet there are readers that do not follow references.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def _unused(self, name: str, number: int) -> str:
        candidate, more = name, 0
        while candidate in self._names:
            candidate = f"{name}_{number + more}"
            more += 1
        self._names.add(candidate)
        return candidate

    def record(self, fields: list[pa.Field], name: str) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        taken: set[str] = set()
        for field in fields:
            number = _id(field)
            own = compatible_name(field.name)
            while own in taken:
                own = f"{own}_{number}"
            taken.add(own)
            part: dict[str, Any] = {"name": own, "type": self._maybe(field)}
            if field.nullable:
                part["default"] = None
            if own != field.name:
                part["iceberg-field-name"] = field.name
            parts.append({**part, "field-id": number})
        return {"type": "record", "name": self._unused(name, 1), "fields": parts}

    def _maybe(self, field: pa.Field) -> Any:
        found = self._type(field)
        return ["null", found] if field.nullable and found != "null" else found

    def _type(self, field: pa.Field) -> Any:
        kind = field.type
        for is_kind, found in _PLAIN:
            if is_kind(kind):
                return found
        if pt.is_timestamp(kind) and kind.unit in _TIMESTAMPS:
            return {"type": "long", "logicalType": _TIMESTAMPS[kind.unit], "adjust-to-utc": kind.tz is not None}
        number = _id(field)
        if pt.is_decimal128(kind):
            precision, scale = kind.precision, kind.scale
            size = ((10**precision - 1).bit_length() + 8) // 8
            known = {"logicalType": "decimal", "precision": precision, "scale": scale}
            return self._fixed(f"decimal_{precision}_{scale}", number, size) | known
        if pt.is_fixed_size_binary(kind):
            if (field.metadata or {}).get(b"ARROW:extension:name") == b"arrow.uuid":
                return self._fixed("uuid_fixed", number, kind.byte_width) | {"logicalType": "uuid"}
            return self._fixed(f"fixed_{kind.byte_width}", number, kind.byte_width)
        if pt.is_struct(kind):
            return self.record(list(kind), f"r{number}")
        if pt.is_list(kind):
            element = kind.value_field
            return {"type": "array", "items": self._maybe(element), "element-id": _id(element)}
        if pt.is_map(kind):
            return self._map(kind)
        raise SchemaError(f"a column of type {kind} cannot be written to an Avro file", column=field.name)

    def _fixed(self, name: str, number: int, size: int) -> dict[str, Any]:
        return {"type": "fixed", "name": self._unused(name, number), "size": size}

    def _map(self, kind: pa.MapType) -> dict[str, Any]:
        key, item = kind.key_field, kind.item_field
        ids = (_id(key), _id(item))
        if pt.is_string(key.type):
            return {"type": "map", "values": self._maybe(item), "key-id": ids[0], "value-id": ids[1]}
        parts = [key.with_name("key"), item.with_name("value")]
        return {"type": "array", "logicalType": "map", "items": self.record(parts, f"k{ids[0]}_v{ids[1]}")}


def _id(field: pa.Field) -> int:
    found = (field.metadata or {}).get(FIELD_ID)
    if found is None:
        raise SchemaError(f"the field {field.name} has no id, which Avro files need", column=field.name)
    return int(found)


def compatible_name(name: str) -> str:
    """Return a name that Avro allows: other characters become ``_x`` and their code, a leading digit gets ``_``.

    Examples
    --------
    >>> compatible_name("2 ä")
    '_2_x20_xE4'
    """
    safe = re.sub(r"[^A-Za-z0-9_]", lambda found: f"_x{ord(found[0]):X}", name)
    return f"_{safe}" if not safe or safe[0].isdigit() else safe


_PLAIN: list[tuple[Callable[[pa.DataType], bool], Any]] = [
    (pt.is_null, "null"),
    (pt.is_boolean, "boolean"),
    (pt.is_int32, "int"),
    (pt.is_int64, "long"),
    (pt.is_float32, "float"),
    (pt.is_float64, "double"),
    (pt.is_string, "string"),
    (pt.is_binary, "bytes"),
    (pt.is_date32, {"type": "int", "logicalType": "date"}),
    (lambda kind: kind == pa.time64("us"), {"type": "long", "logicalType": "time-micros"}),
]
_TIMESTAMPS = {"ms": "timestamp-millis", "us": "timestamp-micros", "ns": "timestamp-nanos"}
