"""The canonical text of a query result, and its hash, as the conformance index defines them.

Each row is a JSON object with sorted keys; the lines are sorted and hashed together, so that neither the order of
rows nor that of columns matters. Variants are the JSON text of their value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.schema.arrow import is_variant_field
from deltaberg.schema.variants.values import variant_to_json

__all__ = ["canonical_lines", "digest"]

_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def digest(table: pa.Table, variants: bool = True) -> str:
    """Return the SHA-256 of a table's canonical lines; without ``variants``, variants are structs of bytes."""
    lines = "".join(f"{line}\n" for line in canonical_lines(table, variants))
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()


def canonical_lines(table: pa.Table, variants: bool = True) -> list[str]:
    """Return the canonical text of each row, sorted."""
    if not table.num_columns:
        return ["{}"] * table.num_rows
    members = {
        field.name: _members(field.name, _values(table.column(index).combine_chunks(), field, variants))
        for index, field in enumerate(table.schema)
    }
    rows = zip(*(members[name] for name in sorted(members)), strict=True)
    return sorted(f"{{{','.join(row)}}}" for row in rows)


def _members(name: str, values: list[Any]) -> Iterator[str]:
    """Yield a column's member of each row's object; columns of a million rows often have few values."""
    before = f"{_json(name)}:"
    encoded: dict[str, str] = {}
    for value in values:
        if not isinstance(value, str):
            yield before + _json(value)
            continue
        text = encoded.get(value)
        if text is None:
            text = before + _json(value)
            if len(encoded) < 1000:
                encoded[value] = text
        yield text


def _values(array: pa.Array | pa.ChunkedArray, field: pa.Field, variants: bool) -> list[Any]:
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _values(chunk, field, variants)]
    if variants and _is_variant(field):
        return [
            None if row is None else "s:" + variant_to_json(row["metadata"], row["value"]) for row in array.to_pylist()
        ]
    kind = array.type
    if pt.is_struct(kind):
        children = {child.name: _values(array.field(index), child, variants) for index, child in enumerate(kind)}
        valid = array.is_valid().to_pylist()
        return [
            {name: values[row] for name, values in children.items()} if valid[row] else None
            for row in range(len(array))
        ]
    if pt.is_map(kind):
        keys, items = _values(array.keys, kind.key_field, variants), _values(array.items, kind.item_field, variants)
        return _lists(array, [[key, item] for key, item in zip(keys, items, strict=True)], _map)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return _lists(array, _values(array.values, kind.value_field, variants), list)
    if pt.is_decimal(kind):
        encoded = array.dictionary_encode()
        distinct = [None if value is None else _scalar(value, kind) for value in encoded.dictionary.to_pylist()]
        return [None if index is None else distinct[index] for index in encoded.indices.to_pylist()]
    return [None if value is None else _scalar(value, kind) for value in _plain(array)]


def _is_variant(field: pa.Field) -> bool:
    """Recognise a variant of ours by its field, and one that came through Spark by its child."""
    if is_variant_field(field):
        return True
    marked = (
        [child for child in field.type if (child.metadata or {}).get(b"variant") == b"true"]
        if pt.is_struct(field.type)
        else []
    )
    return bool(marked)


def _lists(array: pa.Array, values: list[Any], make: Any) -> list[Any]:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [make(values[offsets[row] : offsets[row + 1]]) if valid[row] else None for row in range(len(array))]


def _map(pairs: list[Any]) -> dict[str, Any]:
    return {"m": sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True, ensure_ascii=False))}


def _plain(array: pa.Array) -> list[Any]:
    """Return dates and timestamps as numbers, which may be outside Python's range."""
    if pt.is_date32(array.type):
        array = array.view(pa.int32())
    elif pt.is_timestamp(array.type):
        array = array.view(pa.int64())
    return list(array.to_pylist())


def _scalar(value: Any, kind: pa.DataType) -> Any:
    if pt.is_boolean(kind) or pt.is_integer(kind):
        return value
    if pt.is_floating(kind):
        return f"f:{float(value)!r}"
    if isinstance(value, Decimal):
        text = format(value, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return f"n:{'0' if text in ('-0', '') else text}"
    if pt.is_date32(kind):
        return f"d:{value}"
    if pt.is_timestamp(kind):
        return f"u:{value * _MICROS[kind.unit]}"
    if isinstance(value, bytes):
        return f"x:{value.hex()}"
    return f"s:{value}"
