"""Single values as bytes, such as bounds (Iceberg spec, Appendix D, "Binary single-value serialization")."""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import SchemaError
from deltaberg.schema.types import DataType, Decimal, Fixed, Primitive

__all__ = ["encode_values", "has_value_bytes"]

#: Types whose values are numbers of a fixed width, least significant byte first.
_NUMBERS = frozenset(
    {
        *("integer", "long", "float", "double", "date", "time"),
        *("timestamp", "timestamp_ntz", "timestamp_ns", "timestamp_ntz_ns"),
    }
)
_BYTES = frozenset({"string", "binary", "uuid"})


def has_value_bytes(kind: DataType) -> bool:
    """Return whether values of a type can be single values: structs, lists, maps, variants and void cannot."""
    return isinstance(kind, (Decimal, Fixed)) or (
        isinstance(kind, Primitive) and (kind.name == "boolean" or kind.name in _NUMBERS | _BYTES)
    )


def encode_values(array: pa.Array, kind: DataType) -> pa.BinaryArray:
    r"""Return the bytes of each value; null for null.

    Parameters
    ----------
    array
        Values of the Arrow type of ``kind``.
    kind
        Their type.

    Raises
    ------
    SchemaError
        If values of the type have no single-value form.

    Examples
    --------
    >>> encode_values(pa.array([34, None], pa.int32()), Primitive("integer")).to_pylist()
    [b'"\x00\x00\x00', None]
    """
    if not has_value_bytes(kind):
        raise SchemaError(f"values of the type {kind} have no single-value form")
    if pt.is_boolean(array.type):
        return pc.if_else(array, pa.scalar(b"\x01"), pa.scalar(b"\x00"))
    if isinstance(kind, Decimal):
        raw = array.view(pa.binary(16)).to_pylist()
        return pa.array([None if value is None else _least_bytes(value) for value in raw], pa.binary())
    if isinstance(kind, Primitive) and kind.name in _NUMBERS:
        width = array.type.bit_width // 8
        found = array.view(pa.binary(width)).cast(pa.binary())
        if sys.byteorder == "big":
            found = pa.array([None if value is None else value[::-1] for value in found.to_pylist()], pa.binary())
        return found
    return array.cast(pa.binary())


def _least_bytes(raw: bytes) -> bytes:
    """Return the two's complement of a number in as few bytes as possible, most significant byte first."""
    number = int.from_bytes(raw, sys.byteorder, signed=True)
    bits = (number if number >= 0 else -number - 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
