"""Reassembling shredded variants (Parquet format, "Variant Shredding").

A shredded column stores parts of its variants as typed columns, for statistics and projection. Reading reassembles
the variant from ``value`` if a row is not shredded, from ``typed_value`` if it is, and from both if only some fields of
an object are shredded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import CorruptDataFileError, SchemaError
from deltaberg.schema.arrow import VARIANT
from deltaberg.schema.convert import struct_of
from deltaberg.schema.variants import values as variant

__all__ = ["VariantLayout", "unshred"]


class _Dictionary(NamedTuple):
    """The names of fields by their ids, several of which can have the same name, and an id of each name."""

    names: list[str]
    ids: dict[str, int]


#: Encodes a row of a shredded column with the ids of the row's metadata. Returns None if the value is missing.
_Encode = Callable[[int, _Dictionary], bytes | None]


@dataclass(frozen=True)
class VariantLayout:
    """The layout of a variant column in a file."""

    has_value: bool
    shredded: bool

    @classmethod
    def of(cls, found: pa.DataType) -> VariantLayout:
        """Read the layout from the Arrow type of the file's column."""
        names = {child.name for child in found} if pt.is_struct(found) else set()
        if "metadata" not in names or not names & {"value", "typed_value"}:
            raise SchemaError(f"the file stores {found}, but the column has the type variant")
        return cls("value" in names, "typed_value" in names)


def unshred(array: pa.StructArray, layout: VariantLayout) -> pa.StructArray:
    """Return a column of variants as structs (metadata, value)."""
    metadata = _binary(array.field("metadata"))
    if not layout.shredded:
        return struct_of(array, [metadata, _binary(array.field("value"))], list(VARIANT))
    encode = _column(array)
    present = array.is_valid().to_pylist()
    dictionaries: dict[bytes, _Dictionary] = {}
    values: list[bytes] = []
    for row, (is_present, row_metadata) in enumerate(zip(present, metadata.to_pylist(), strict=True)):
        if not is_present:
            values.append(variant.NULL)
            continue
        if row_metadata is None:
            raise CorruptDataFileError("a variant has no metadata")
        dictionary = dictionaries.get(row_metadata)
        if dictionary is None:
            names = variant.read_dictionary(row_metadata)
            dictionary = _Dictionary(names, {name: index for index, name in enumerate(names)})
            dictionaries[row_metadata] = dictionary
        # A value that is missing at the top level has no defined meaning; readers treat it as null.
        values.append(encode(row, dictionary) or variant.NULL)
    return struct_of(array, [metadata, pa.array(values, pa.binary())], list(VARIANT))


def _binary(array: pa.Array) -> pa.Array:
    return array if array.type == pa.binary() else array.cast(pa.binary())


def _column(array: pa.StructArray) -> _Encode:
    """Return the encoder of a group of ``value`` and ``typed_value``."""
    names = {child.name for child in array.type}
    rest = _binary(array.field("value")).to_pylist() if "value" in names else None
    if "typed_value" not in names:
        return lambda row, _known: None if rest is None else rest[row]
    typed_array = array.field("typed_value")
    typed = _typed(typed_array)
    has_typed = typed_array.is_valid().to_pylist()
    is_object = pt.is_struct(typed_array.type)
    shredded_names = {child.name for child in typed_array.type} if is_object else set()

    def encode(row: int, dictionary: _Dictionary) -> bytes | None:
        value = None if rest is None else rest[row]
        if not has_typed[row]:
            return value
        if value is None:
            return typed(row, dictionary)
        if not is_object:
            raise CorruptDataFileError("a variant that is not an object has both a value and a typed value")
        # A shredded field must not occur in the rest as well; if it does, engines read the shredded one.
        fields = variant.object_fields(value, dictionary.names)
        kept = {name: part for name, part in fields.items() if name not in shredded_names}
        kept.update(variant.object_fields(typed(row, dictionary) or variant.NULL, dictionary.names))
        return variant.encode_object(kept, dictionary.ids)

    return encode


def _typed(array: pa.Array) -> _Encode:
    """Return the encoder of a column of typed values."""
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return (
            _typed(array.storage)
            if arrow.extension_name != "arrow.uuid"
            else _scalars(array.storage, variant.encode_uuid)
        )
    if pt.is_struct(arrow):
        return _object(array)
    if pt.is_list(arrow) or pt.is_large_list(arrow):
        return _array(array)
    if pt.is_decimal(arrow):
        return _scalars(array, lambda value: variant.encode_decimal(value, arrow.precision))
    if pt.is_fixed_size_binary(arrow) and arrow.byte_width == 16:
        return _scalars(array, variant.encode_uuid)
    if pt.is_binary(arrow) or pt.is_large_binary(arrow):
        return _scalars(array, variant.encode_binary)
    if pt.is_string(arrow) or pt.is_large_string(arrow):
        return _scalars(array, variant.encode_string)
    if pt.is_boolean(arrow):
        return _scalars(array, variant.encode_boolean)
    kind, storage = _number_kind(arrow)
    return _scalars(array.view(storage), lambda value: variant.encode_primitive(kind, value))


def _number_kind(arrow: pa.DataType) -> tuple[str, pa.DataType]:
    """Return the variant type of a typed column of numbers, and the Arrow type of its bare numbers."""
    if pt.is_signed_integer(arrow):
        return f"int{arrow.bit_width}", arrow
    if arrow == pa.float32():
        return "float", arrow
    if arrow == pa.float64():
        return "double", arrow
    if arrow == pa.date32():
        return "date", pa.int32()
    if arrow == pa.time64("us"):
        return "time", pa.int64()
    if pt.is_timestamp(arrow) and arrow.unit in ("us", "ns"):
        zone = "timestamp" if arrow.tz is not None else "timestamp_ntz"
        return (zone if arrow.unit == "us" else f"{zone}_ns"), pa.int64()
    raise SchemaError(f"variants cannot be shredded as {arrow}")


def _scalars(array: pa.Array, encode: Callable[[Any], bytes]) -> _Encode:
    values = array.to_pylist()
    return lambda row, _known: None if values[row] is None else encode(values[row])


def _object(array: pa.StructArray) -> _Encode:
    fields = [(child.name, _column(array.field(child.name))) for child in array.type]

    def encode(row: int, known: _Dictionary) -> bytes:
        found = ((name, field(row, known)) for name, field in fields)
        return variant.encode_object({name: value for name, value in found if value is not None}, known.ids)

    return encode


def _array(array: pa.Array) -> _Encode:
    offsets = array.offsets.to_pylist()
    element = _column(array.values)

    def encode(row: int, known: _Dictionary) -> bytes:
        items = (element(index, known) for index in range(offsets[row], offsets[row + 1]))
        return variant.encode_array([item or variant.NULL for item in items])

    return encode
