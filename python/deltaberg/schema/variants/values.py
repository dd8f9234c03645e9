"""Decoding and encoding variants (Parquet format, "Variant Binary Encoding").

A variant consists of two byte strings: ``metadata``, which is a dictionary of field names, and ``value``. Both come
from files, so every length and offset is checked against the bytes that are there.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

from deltaberg.errors import CorruptDataFileError
from deltaberg.kernels.decimals import exact_decimal

__all__ = [
    "NULL",
    "encode_array",
    "encode_binary",
    "encode_boolean",
    "encode_decimal",
    "encode_object",
    "encode_primitive",
    "encode_string",
    "encode_uuid",
    "object_fields",
    "read_dictionary",
    "variant_at",
    "variant_scalar",
    "variant_to_json",
]

#: The variant null.
NULL = b"\x00"

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_MAX_DEPTH = 500
_MAX_SHORT_STRING = 63
#: Fixed-width primitives: type id to (name, struct format).
_FIXED = {
    3: ("int8", "<b"),
    4: ("int16", "<h"),
    5: ("int32", "<i"),
    6: ("int64", "<q"),
    7: ("double", "<d"),
    11: ("date", "<i"),
    12: ("timestamp", "<q"),
    13: ("timestamp_ntz", "<q"),
    14: ("float", "<f"),
    17: ("time", "<q"),
    18: ("timestamp_ns", "<q"),
    19: ("timestamp_ntz_ns", "<q"),
}
_PRIMITIVE_IDS = {name: number for number, (name, _) in _FIXED.items()}
#: The keys in JSON of values that it has no type for.
_MARKS = {
    "date": "$date",
    "timestamp": "$ts",
    "timestamp_ntz": "$tsntz",
    "time": "$time",
    "timestamp_ns": "$tsns",
    "timestamp_ntz_ns": "$tsntzns",
}
_DECIMAL_BYTES = {8: 4, 9: 8, 10: 16}


def read_dictionary(metadata: bytes) -> list[str]:
    """Return the field names of a metadata dictionary."""
    header = _byte(metadata, 0)
    if header & 0x0F != 1:
        raise CorruptDataFileError(f"variant metadata has version {header & 0x0F}, but only version 1 is known")
    width = (header >> 6) + 1
    count = _number(metadata, 1, width)
    first = 1 + width * (count + 2)
    offsets = [_number(metadata, 1 + width * (index + 1), width) for index in range(_bounded(count, metadata) + 1)]
    names = []
    for start, stop in pairwise(offsets):
        try:
            names.append(_slice(metadata, first + start, stop - start).decode())
        except UnicodeDecodeError:
            raise CorruptDataFileError("a field name in variant metadata is not UTF-8") from None
    return names


def object_fields(value: bytes, names: list[str]) -> dict[str, bytes]:
    """Return the fields of a variant object, still encoded."""
    header = _byte(value, 0)
    if header & 3 != _OBJECT:
        raise CorruptDataFileError("a variant object was expected")
    offset_width, id_width = (header >> 2 & 3) + 1, (header >> 4 & 3) + 1
    count_width = 4 if header >> 6 & 1 else 1
    count = _bounded(_number(value, 1, count_width), value)
    ids_at = 1 + count_width
    offsets_at = ids_at + count * id_width
    values_at = offsets_at + (count + 1) * offset_width
    fields, used = {}, 0
    for index in range(count):
        name_id = _number(value, ids_at + index * id_width, id_width)
        if name_id >= len(names):
            raise CorruptDataFileError(
                f"a variant object refers to field {name_id}, but its metadata has {len(names)} fields"
            )
        start = values_at + _number(value, offsets_at + index * offset_width, offset_width)
        fields[names[name_id]] = part = _slice(value, start, _size(value, start))
        used += len(part)
    _check_apart(used, len(value) - values_at)
    return fields


def _array_items(value: bytes) -> list[bytes]:
    header = _byte(value, 0)
    offset_width, count_width = (header >> 2 & 3) + 1, 4 if header >> 4 & 1 else 1
    count = _bounded(_number(value, 1, count_width), value)
    offsets_at = 1 + count_width
    values_at = offsets_at + (count + 1) * offset_width
    items = []
    for index in range(count):
        start = values_at + _number(value, offsets_at + index * offset_width, offset_width)
        items.append(_slice(value, start, _size(value, start)))
    _check_apart(sum(map(len, items)), len(value) - values_at)
    return items


def _check_apart(used: int, there: int) -> None:
    """Refuse parts that share bytes: a few bytes could stand for a tree without end."""
    if used > there:
        raise CorruptDataFileError("parts of a variant overlap")


def _size(value: bytes, at: int) -> int:
    """Return the number of bytes of the value that begins at ``at``."""
    header = _byte(value, at)
    kind, rest = header & 3, header >> 2
    if kind == _SHORT_STRING:
        return 1 + rest
    if kind == _PRIMITIVE:
        return 1 + _primitive_size(value, at, rest)
    if kind == _OBJECT:
        offset_width, id_width = (rest & 3) + 1, (rest >> 2 & 3) + 1
        count_width = 4 if rest >> 4 & 1 else 1
    else:
        offset_width, id_width = (rest & 3) + 1, 0
        count_width = 4 if rest >> 2 & 1 else 1
    count = _bounded(_number(value, at + 1, count_width), value)
    ends_at = 1 + count_width + count * (id_width + offset_width)
    return ends_at + offset_width + _number(value, at + ends_at, offset_width)


def _primitive_size(value: bytes, at: int, kind: int) -> int:
    if kind in (0, 1, 2):
        return 0
    if kind in _FIXED:
        return struct.calcsize(_FIXED[kind][1])
    if kind in _DECIMAL_BYTES:
        return 1 + _DECIMAL_BYTES[kind]
    if kind in (15, 16):
        return 4 + _number(value, at + 1, 4)
    if kind == 20:
        return 16
    raise CorruptDataFileError(f"a variant has the unknown primitive type {kind}")


def encode_primitive(kind: str, number: float) -> bytes:
    """Encode a number.

    ``kind`` is int8 to int64, float, double, date, time, timestamp, timestamp_ntz, timestamp_ns or timestamp_ntz_ns.
    """
    type_id = _PRIMITIVE_IDS[kind]
    return bytes([type_id << 2]) + struct.pack(_FIXED[type_id][1], number)


def encode_boolean(value: bool) -> bytes:
    """Encode a boolean."""
    return bytes([(1 if value else 2) << 2])


def encode_decimal(value: Decimal, precision: int) -> bytes:
    """Encode a decimal in as many bytes as the precision of its type requires."""
    type_id, width = (8, 4) if precision <= 9 else (9, 8) if precision <= 18 else (10, 16)
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    scale = -int(exponent)
    return bytes([type_id << 2, scale]) + unscaled.to_bytes(width, "little", signed=True)


def encode_string(text: str) -> bytes:
    """Encode a string."""
    data = text.encode()
    if len(data) <= _MAX_SHORT_STRING:
        return bytes([len(data) << 2 | _SHORT_STRING]) + data
    return bytes([16 << 2]) + struct.pack("<I", len(data)) + data


def encode_binary(data: bytes) -> bytes:
    """Encode bytes."""
    return bytes([15 << 2]) + struct.pack("<I", len(data)) + data


def encode_uuid(data: bytes) -> bytes:
    """Encode a UUID from its 16 bytes."""
    return bytes([20 << 2]) + data


def encode_object(fields: dict[str, bytes], ids: dict[str, int]) -> bytes:
    """Encode an object from encoded fields; ``ids`` holds the position of each name in the metadata."""
    ordered = sorted(fields, key=str.encode)
    numbers = []
    for name in ordered:
        if name not in ids:
            raise CorruptDataFileError(f"the variant metadata lacks the shredded field {name!r}")
        numbers.append(ids[name])
    offsets = _offsets([fields[name] for name in ordered])
    id_width, offset_width = _width(max(numbers, default=0)), _width(offsets[-1])
    large = len(ordered) > 0xFF
    header = (offset_width - 1 | id_width - 1 << 2 | large << 4) << 2 | _OBJECT
    count = len(ordered).to_bytes(4 if large else 1, "little")
    return b"".join(
        [
            bytes([header]),
            count,
            *(number.to_bytes(id_width, "little") for number in numbers),
            *(offset.to_bytes(offset_width, "little") for offset in offsets),
            *(fields[name] for name in ordered),
        ]
    )


def encode_array(items: list[bytes]) -> bytes:
    """Encode an array from encoded items."""
    offsets = _offsets(items)
    width, large = _width(offsets[-1]), len(items) > 0xFF
    header = (width - 1 | large << 2) << 2 | _ARRAY
    count = len(items).to_bytes(4 if large else 1, "little")
    return b"".join([bytes([header]), count, *(offset.to_bytes(width, "little") for offset in offsets), *items])


def _offsets(parts: list[bytes]) -> list[int]:
    offsets = [0]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return offsets


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def variant_to_json(metadata: bytes, value: bytes) -> str:
    """Return a variant as JSON text with sorted keys.

    A value of a type that JSON lacks becomes an object with one key: ``$date`` (days since 1970), ``$ts`` and
    ``$tsntz`` (microseconds since 1970), ``$tsns`` and ``$tsntzns`` (nanoseconds since 1970), ``$time`` (microseconds
    since midnight), ``$binary`` (hexadecimal) or ``$uuid``.
    """
    return _to_json(value, read_dictionary(metadata), 0)


def _to_json(value: bytes, names: list[str], depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise CorruptDataFileError(f"a variant is nested deeper than {_MAX_DEPTH} levels")
    kind = _byte(value, 0) & 3
    if kind == _OBJECT:
        fields = sorted(object_fields(value, names).items())
        return "{" + ",".join(f"{_quoted(name)}:{_to_json(part, names, depth + 1)}" for name, part in fields) + "}"
    if kind == _ARRAY:
        return "[" + ",".join(_to_json(item, names, depth + 1) for item in _array_items(value)) + "]"
    name, scalar = variant_scalar(value)
    if name in _MARKS:
        return f'{{"{_MARKS[name]}":{scalar}}}'
    if name == "decimal":
        return format(scalar, "f")
    if name in ("binary", "uuid"):
        return f'{{"${name}":"{scalar.hex() if name == "binary" else scalar}"}}'
    return _quoted(scalar)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def variant_at(metadata: bytes, value: bytes, steps: Sequence[str | int]) -> bytes | None:
    """Return the part of a variant to which names of fields and places in arrays lead, still encoded; None without one.

    Raises
    ------
    CorruptDataFileError
        The variant is not what the format says.
    """
    names = read_dictionary(metadata)
    for step in steps:
        kind = _byte(value, 0) & 3
        if kind != (_OBJECT if isinstance(step, str) else _ARRAY):
            return None
        if isinstance(step, str):
            inner = object_fields(value, names).get(step)
        else:
            inner = next(iter(_array_items(value)[step : step + 1]), None)
        if inner is None:
            return None
        value = inner
    return value


def variant_scalar(value: bytes) -> tuple[str, Any]:
    """Return the type of a variant, and its value.

    The type is ``null``, ``boolean``, ``long``, ``float``, ``double``, ``decimal``, ``string``, ``binary``, ``uuid``,
    ``date`` (days), ``timestamp``, ``timestamp_ntz`` or ``time`` (microseconds), ``timestamp_ns`` or
    ``timestamp_ntz_ns``. Objects and arrays have no value.

    Raises
    ------
    CorruptDataFileError
        The variant is not what the format says.
    """
    kind, primitive = _byte(value, 0) & 3, value[0] >> 2
    if kind in (_OBJECT, _ARRAY):
        return ("object" if kind == _OBJECT else "array"), None
    if kind == _SHORT_STRING:
        return "string", _text(_slice(value, 1, primitive))
    if primitive in (0, 1, 2):
        return ("null", None) if primitive == 0 else ("boolean", primitive == 1)
    data = _slice(value, 1, _primitive_size(value, 0, primitive))
    if primitive in _FIXED:
        (number,) = struct.unpack(_FIXED[primitive][1], data)
        name = _FIXED[primitive][0]
        return ("long" if name.startswith("int") else name), number
    if primitive in _DECIMAL_BYTES:
        return "decimal", exact_decimal(int.from_bytes(data[1:], "little", signed=True), data[0])
    if primitive == 20:
        return "uuid", str(uuid.UUID(bytes=data))
    return ("string", _text(data[4:])) if primitive == 16 else ("binary", data[4:])


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptDataFileError("a variant string is not UTF-8") from None


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise CorruptDataFileError("a variant ends before its header")
    return data[at]


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_slice(data, at, width), "little")


def _slice(data: bytes, at: int, size: int) -> bytes:
    part = data[at : at + size]
    if size < 0 or len(part) < size:
        raise CorruptDataFileError(f"a variant of {len(data)} bytes ends where {max(size, 0)} more bytes were expected")
    return part


def _bounded(count: int, data: bytes) -> int:
    """Refuse a count that the bytes cannot hold, before memory is allocated for it."""
    if count > len(data):
        raise CorruptDataFileError(f"a variant of {len(data)} bytes declares {count} parts")
    return count
