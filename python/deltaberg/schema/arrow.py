"""Table types as Arrow types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import SchemaError, TooLargeError
from deltaberg.kernels import plain_values as pv
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct

__all__ = [
    "VARIANT",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "as_array",
    "as_batch",
    "columns_of",
    "copied",
    "count_up",
    "is_variant_field",
    "with_children",
]

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp_ns": pa.timestamp("ns", "UTC"),
    "timestamp_ntz_ns": pa.timestamp("ns"),
    "time": pa.time64("us"),
    "uuid": pa.binary(16),
    "void": pa.null(),
}

#: The unshredded variant. Spark recognises it by the metadata of its first child.
VARIANT = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
#: Arrow libraries recognise a variant by the canonical extension type in the metadata of its field.
_VARIANT_FIELD = {b"ARROW:extension:name": b"arrow.parquet.variant", b"ARROW:extension:metadata": b""}


def arrow_type(table_type: DataType) -> pa.DataType:
    """Return the Arrow type of a table type. A uuid is 16 bytes, a variant a struct (metadata, value).

    Raises
    ------
    SchemaError
        If the type has no Arrow type.
    """
    if isinstance(table_type, Primitive):
        if table_type.name == "variant":
            return VARIANT
        known = _PRIMITIVES.get(table_type.name)
        if known is not None:
            return known
    elif isinstance(table_type, Decimal):
        return pa.decimal128(table_type.precision, table_type.scale)
    elif isinstance(table_type, Fixed):
        return pa.binary(table_type.length)
    elif isinstance(table_type, Struct):
        return pa.struct([arrow_field(child) for child in table_type])
    elif isinstance(table_type, List):
        return pa.list_(arrow_field(table_type.element, "element"))
    elif isinstance(table_type, Map):
        key = arrow_field(table_type.key, "key").with_nullable(False)
        return pa.map_(key, arrow_field(table_type.value, "value"))
    raise SchemaError(f"the type {table_type} has no Arrow type")


def arrow_field(child: Field, name: str | None = None) -> pa.Field:
    """Return the Arrow field of a field, with its own or another name.

    Every field is nullable, because files that were written before a column became required may hold nulls.
    """
    metadata = _VARIANT_FIELD if child.type == Primitive("variant") else None
    return pa.field(name or child.name, arrow_type(child.type), metadata=metadata)


def with_children(kind: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """Return an Arrow type with other fields, elements, keys and values; a type without any as it is."""
    if pt.is_struct(kind):
        return pa.struct([change(child) for child in kind])
    if pt.is_list(kind):
        return pa.list_(change(kind.value_field))
    return pa.map_(change(kind.key_field), change(kind.item_field)) if pt.is_map(kind) else kind


def arrow_schema(schema: Struct) -> pa.Schema:
    """Return the Arrow schema of a table's schema."""
    return pa.schema([arrow_field(child) for child in schema])


def columns_of(structs: pa.StructArray) -> pa.RecordBatch:
    """Return the children of an array of structs as the columns of a batch.

    Before pyarrow 20, ``from_struct_array`` ignores that an array is a slice.
    """
    return pa.RecordBatch.from_arrays(structs.flatten(), schema=pa.schema(list(structs.type)))


def count_up(first: int, count: int) -> pa.Int64Array:
    """Return so many whole numbers from the first one on.

    Examples
    --------
    >>> count_up(3, 2).to_pylist()
    [3, 4]
    """
    ones = pa.repeat(pv.scalar(1, pa.int64()), count)
    return pc.cumulative_sum(ones, start=pv.scalar(first - 1, pa.int64()))


_Rows = TypeVar("_Rows", pa.Array, pa.RecordBatch)


def copied(rows: _Rows) -> _Rows:
    """Return a copy of an array or a batch, which needs no more memory than its own rows: a slice keeps all others.

    Examples
    --------
    >>> numbers = pa.array(range(1000))
    >>> numbers.slice(0, 1).get_total_buffer_size(), copied(numbers.slice(0, 1)).get_total_buffer_size()
    (8000, 8)
    """
    own: _Rows = rows.take(count_up(0, len(rows)))
    return own


def with_columns(table: pa.Table, **columns: Any) -> pa.Table:
    """Return a table with some columns replaced: by arrays, or by one value for all rows, None for null.

    Examples
    --------
    >>> with_columns(pa.table({"a": [1, 2], "b": [3, 4]}), a=None, b=pa.array([5, 6])).to_pylist()
    [{'a': None, 'b': 5}, {'a': None, 'b': 6}]
    """
    for name, new in columns.items():
        at = table.schema.get_field_index(name)
        if isinstance(new, (pa.Array, pa.ChunkedArray)):
            values = new
        else:
            kind = table.schema.field(at).type
            values = pa.nulls(len(table), kind) if new is None else pa.repeat(pv.scalar(new, kind), len(table))
        table = table.set_column(at, name, values)
    return table


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column of a table as one array.

    `ChunkedArray.combine_chunks` would copy even the only chunk.
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    is_whole = column.num_chunks == 1 and column.chunk(0).offset == 0
    return column.chunk(0) if is_whole else column.combine_chunks()


def as_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of batches of a schema as one batch.

    Raises
    ------
    TooLargeError
        A column has more than 2 GiB of text or bytes, which no array of its type can hold.
    """
    if len(batches) == 1:
        return batches[0]
    whole = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    if len(whole) > 1:
        raise TooLargeError(
            f"{sum(batch.num_rows for batch in batches)} rows have more than 2 GiB of text or bytes in one column",
            hint="use less memory for a join, or leave out columns that are not needed",
        )
    if whole:
        return whole[0]
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def is_variant_field(child: pa.Field) -> bool:
    """Return whether an Arrow field is marked as a variant."""
    metadata = child.metadata or {}
    return metadata.get(b"ARROW:extension:name") == b"arrow.parquet.variant"
