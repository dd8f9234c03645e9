"""Table types as Arrow types."""

from __future__ import annotations

import pyarrow as pa

from deltaberg.errors import SchemaError
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct

__all__ = ["VARIANT", "arrow_field", "arrow_schema", "arrow_type", "is_variant_field"]

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

#: The unshredded variant: Spark recognises it by the metadata of its first child.
VARIANT = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
#: Arrow libraries recognise it by the canonical extension type in the metadata of its field.
_VARIANT_FIELD = {b"ARROW:extension:name": b"arrow.parquet.variant", b"ARROW:extension:metadata": b""}


def arrow_type(table_type: DataType) -> pa.DataType:
    """Give the Arrow type of a table type; uuids are 16 bytes, variants a struct (metadata, value).

    Raises
    ------
    SchemaError
        Where there is none.
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
    """Give the Arrow field of a field, under its own or another name.

    Every field is nullable: files written before a column became required may hold nulls.
    """
    metadata = _VARIANT_FIELD if child.type == Primitive("variant") else None
    return pa.field(name or child.name, arrow_type(child.type), metadata=metadata)


def arrow_schema(schema: Struct) -> pa.Schema:
    """Give the Arrow schema of a table's schema."""
    return pa.schema([arrow_field(child) for child in schema])


def columns_of(structs: pa.StructArray) -> pa.RecordBatch:
    """Give the children of an array of structs as the columns of a batch.

    Before pyarrow 20, from_struct_array() gives the columns of a slice their whole length.
    """
    return pa.RecordBatch.from_arrays(structs.flatten(), schema=pa.schema(list(structs.type)))


def is_variant_field(child: pa.Field) -> bool:
    """Say whether an Arrow field is a variant of ours."""
    metadata = child.metadata or {}
    return metadata.get(b"ARROW:extension:name") == b"arrow.parquet.variant"
