"""Delta schemas as the log spells them, from names, type trees or Arrow types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["delta_type", "field", "struct_type"]

_DELTA_TYPES = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.int32(): "integer",
    pa.int16(): "short",
    pa.int8(): "byte",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def field(name: str, type: Any, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    """Return a field of a Delta schema; ``type`` is a name, a type tree or an Arrow type.

    Metadata is passed by name, with ``__`` for a dot: ``delta__columnMapping__id=3``.
    """
    keys = {key.replace("__", "."): value for key, value in metadata.items()}
    return {"name": name, "type": delta_type(type), "nullable": nullable, "metadata": keys}


def struct_type(*fields: dict[str, Any]) -> dict[str, Any]:
    """Return a struct type."""
    return {"type": "struct", "fields": list(fields)}


def delta_type(arrow: Any) -> Any:
    """Return the Delta type of an Arrow type; names and trees stay as they are."""
    if not isinstance(arrow, pa.DataType):
        return arrow
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_struct(arrow):
        return struct_type(*(field(child.name, child.type, child.nullable) for child in arrow))
    if pa.types.is_list(arrow):
        return {"type": "array", "elementType": delta_type(arrow.value_type), "containsNull": True}
    if pa.types.is_map(arrow):
        return {
            "type": "map",
            "keyType": delta_type(arrow.key_type),
            "valueType": delta_type(arrow.item_type),
            "valueContainsNull": True,
        }
    return _DELTA_TYPES[arrow]
