"""Converting Arrow values to JSON values without loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.cli.show.text import JsonText, json_number
from deltaberg.schema.arrow import is_variant_field
from deltaberg.schema.types import DataType, List, Map, Primitive, Struct
from deltaberg.schema.variants.values import variant_to_json

__all__ = ["json_rows"]


def json_rows(rows: pa.RecordBatch | pa.Table, types: Struct | None = None) -> Iterator[dict[str, Any]]:
    r"""Iterate over rows as values for `json_text`.

    Integers, floats, booleans and text stay as they are. Decimals become text with all their digits, dates and
    timestamps text in ISO 8601, binary values hexadecimal text, and NaN, Infinity and -Infinity text. Maps become lists
    of {key, value}, because their keys may not be text. Variants become the JSON that they hold.

    Parameters
    ----------
    types
        The table types of the columns, which tell UUIDs from other values of 16 bytes.

    Examples
    --------
    >>> list(json_rows(pa.table({"a": [float("nan"), 0.5], "b": [b"\x01\xff", None]})))
    [{'a': 'NaN', 'b': '01ff'}, {'a': 0.5, 'b': None}]
    """
    names = rows.schema.names
    kinds = _kinds(types)
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
        columns = [
            _values(column, field, kinds.get(field.name))
            for column, field in zip(batch.columns, batch.schema, strict=True)
        ]
        for index in range(batch.num_rows):
            yield {name: column[index] for name, column in zip(names, columns, strict=True)}


def _kinds(types: DataType | None) -> dict[str, DataType]:
    return {child.name: child.type for child in types} if isinstance(types, Struct) else {}


def _values(array: pa.Array, field: pa.Field, kind: DataType | None) -> list[Any]:
    arrow = array.type
    if is_variant_field(field):
        return [
            None if value is None else JsonText(variant_to_json(value["metadata"], value["value"]))
            for value in array.to_pylist()
        ]
    if pt.is_struct(arrow):
        return _structs(array, _kinds(kind))
    if pt.is_map(arrow):
        key_kind, item_kind = (kind.key.type, kind.value.type) if isinstance(kind, Map) else (None, None)
        keys = _values(array.keys, arrow.key_field, key_kind)
        items = _values(array.items, arrow.item_field, item_kind)
        return _lists(array, [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)])
    if pt.is_list(arrow) or pt.is_large_list(arrow):
        element = kind.element.type if isinstance(kind, List) else None
        return _lists(array, _values(array.values, arrow.value_field, element))
    if pt.is_temporal(arrow):
        # Converted by Arrow, because Python's dates do not support all years.
        texts: list[Any] = pc.replace_substring(array.cast(pa.string()), " ", "T").to_pylist()
        return texts
    values: list[Any] = array.to_pylist()
    if kind == Primitive("uuid"):
        return [None if value is None else str(UUID(bytes=value)) for value in values]
    if pt.is_decimal(arrow):
        return [None if value is None else format(value, "f") for value in values]
    if pt.is_floating(arrow):
        return [None if value is None else json_number(value) for value in values]
    if pt.is_binary(arrow) or pt.is_large_binary(arrow) or pt.is_fixed_size_binary(arrow):
        return [None if value is None else value.hex() for value in values]
    return values


def _structs(array: pa.StructArray, kinds: Mapping[str, DataType]) -> list[Any]:
    fields = [array.type.field(index) for index in range(array.type.num_fields)]
    children = [
        _values(child, field, kinds.get(field.name)) for child, field in zip(array.flatten(), fields, strict=True)
    ]
    names = [field.name for field in fields]
    valid = array.is_valid().to_pylist()
    return [
        {name: child[index] for name, child in zip(names, children, strict=True)} if valid[index] else None
        for index in range(len(array))
    ]


def _lists(array: pa.Array, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    spans = zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    return [values[start:end] if valid else None for start, end, valid in spans]
