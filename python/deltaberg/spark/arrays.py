"""Arrow arrays in the layouts that Spark takes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.arrow import VARIANT
from deltaberg.schema.convert import list_with_values, struct_of
from deltaberg.schema.rows.exact import plain_text
from deltaberg.schema.rows.uuids import text_of_uuids
from deltaberg.schema.types import DataType, List, Map, Primitive, Struct

__all__ = ["fitted", "for_spark"]

_UUID = Primitive("uuid")
#: Spark finds the children of a variant by their place.
_SPARK_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
#: Layouts of text and bytes that Spark cannot read.
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
#: Layouts that Spark reads as well as the ones with short offsets.
_LARGE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_KINDS = {
    "number": lambda found: pt.is_integer(found) or pt.is_decimal(found),
    "floating": pt.is_floating,
    "date": pt.is_date,
    "struct": pt.is_struct,
    "list": lambda found: pt.is_list(found) or pt.is_large_list(found) or pt.is_fixed_size_list(found),
    "map": pt.is_map,
    "bytes": lambda found: pt.is_binary(found) or pt.is_fixed_size_binary(found),
}


def for_spark(array: pa.Array, table_type: DataType | None = None) -> pa.Array:
    """Bring an array to the layout that Spark takes, at any depth.

    The children of variants are put into Spark's order, dictionaries are decoded, and views and bytes of a fixed length
    become plain ones. UUIDs become text where the type of the table says that they are UUIDs.
    """
    kind = array.type
    if not _is_foreign(kind):
        return array
    if pt.is_dictionary(kind):
        return for_spark(array.dictionary_decode(), table_type)
    if kind in _VIEWS:
        return plain_text(array).cast(_VIEWS[kind])
    if pt.is_fixed_size_binary(kind):
        return text_of_uuids(array) if table_type == _UUID else array.cast(pa.binary())
    if _is_variant(kind):
        return struct_of(array, [array.field("value"), array.field("metadata")], list(_SPARK_VARIANT))
    inner = _inner_types(table_type)
    if pt.is_struct(kind):
        children = [for_spark(array.field(index), inner.get(field.name)) for index, field in enumerate(kind)]
        fields = [field.with_type(child.type) for field, child in zip(kind, children, strict=True)]
        return struct_of(array, children, fields)
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    if pt.is_list(kind):
        values = for_spark(array.values.slice(start, stop - start), inner.get("element"))
        return list_with_values(array, values, pa.list_(kind.value_field.with_type(values.type)), start)
    keys = for_spark(array.keys.slice(start, stop - start), inner.get("key"))
    items = for_spark(array.items.slice(start, stop - start), inner.get("value"))
    target = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return list_with_values(array, entries, target, start)


def _inner_types(table_type: DataType | None) -> dict[str, DataType]:
    if isinstance(table_type, Struct):
        return {field.name: field.type for field in table_type}
    if isinstance(table_type, List):
        return {"element": table_type.element.type}
    return {"key": table_type.key.type, "value": table_type.value.type} if isinstance(table_type, Map) else {}


def _is_variant(kind: pa.DataType) -> bool:
    return bool(kind.equals(VARIANT, check_metadata=True))


def _is_foreign(kind: pa.DataType) -> bool:
    """Return whether Spark cannot take arrays of an Arrow type as they are."""
    if pt.is_dictionary(kind) or pt.is_fixed_size_binary(kind) or kind in _VIEWS or _is_variant(kind):
        return True
    if pt.is_struct(kind) or pt.is_list(kind) or pt.is_map(kind):
        return any(_is_foreign(kind.field(index).type) for index in range(kind.num_fields))
    return False


def fitted(array: pa.Array, target: pa.DataType | None, name: str) -> pa.Array:
    """Cast a column that a user's function yielded to the type of the schema, where no value changes.

    Raises
    ------
    InvalidArgumentError
        If the column is of another kind, or a value does not fit. Spark's own error would not name the column.
    """
    array = for_spark(array)
    arrow = array.type
    if target is None or arrow == target or _LARGE.get(arrow) == target:
        return array
    # Arrow would round doubles silently.
    narrows = pt.is_floating(arrow) and pt.is_floating(target) and arrow.bit_width > target.bit_width
    try:
        if pt.is_null(arrow) or (_kind(arrow) == _kind(target) and not narrows):
            return array.cast(target)
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"the column {name} does not fit its type {target}: {error}") from None
    raise InvalidArgumentError(f"the function yielded {arrow} as the column {name}, whose type is {target}")


def _kind(data_type: pa.DataType) -> str:
    """Return the family of a type: types of one family may be cast into each other."""
    if pt.is_timestamp(data_type):
        return "timestamp" if data_type.tz else "timestamp_ntz"
    for name, is_of in _KINDS.items():
        if is_of(data_type):
            return name
    return str(data_type)
