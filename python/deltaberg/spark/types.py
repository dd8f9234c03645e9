"""Table types and Arrow types as Spark types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import types as st

from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.schema import DataType, Decimal, List, Map, Primitive, Struct
from deltaberg.schema.convert import list_with_values, struct_of

__all__ = ["for_spark", "output_schema", "spark_schema", "spark_type"]

_PRIMITIVES: dict[str, type[st.DataType]] = {
    "boolean": st.BooleanType,
    "byte": st.ByteType,
    "short": st.ShortType,
    "integer": st.IntegerType,
    "long": st.LongType,
    "float": st.FloatType,
    "double": st.DoubleType,
    "string": st.StringType,
    "binary": st.BinaryType,
    "date": st.DateType,
    "timestamp": st.TimestampType,
    "timestamp_ntz": st.TimestampNTZType,
    "void": st.NullType,
}
#: Spark reads a variant's children by their place.
_SPARK_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)


def spark_schema(schema: Struct) -> st.StructType:
    """Give the Spark schema of a table's schema."""
    return st.StructType([st.StructField(field.name, spark_type(field.type), True) for field in schema])


def spark_type(table_type: DataType) -> st.DataType:
    """Give the Spark type of a table type.

    Raises
    ------
    UnsupportedFeatureError
        Where this version of Spark lacks the type.
    """
    if isinstance(table_type, Primitive):
        if table_type.name == "variant":
            return _variant_type()
        return _PRIMITIVES[table_type.name]()
    if isinstance(table_type, Decimal):
        return st.DecimalType(table_type.precision, table_type.scale)
    if isinstance(table_type, Struct):
        return spark_schema(table_type)
    if isinstance(table_type, List):
        return st.ArrayType(spark_type(table_type.element.type), True)
    if isinstance(table_type, Map):
        return st.MapType(spark_type(table_type.key.type), spark_type(table_type.value.type), True)
    raise SchemaError(f"the type {table_type} has no Spark type")


def _variant_type() -> st.DataType:
    kind = getattr(st, "VariantType", None)
    if kind is None:
        raise UnsupportedFeatureError(
            f"Spark {pyspark.__version__} has no variant type", hint="use Spark 4.0 or newer, or select other columns"
        )
    variant: st.DataType = kind()
    return variant


def for_spark(array: pa.Array, table_type: DataType) -> pa.Array:
    """Bring an array to the layout that Spark wants: variants with their children in its order, at any depth."""
    if not _holds_variant(table_type):
        return array
    if isinstance(table_type, Struct):
        children = [for_spark(array.field(index), field.type) for index, field in enumerate(table_type)]
        fields = [pa.field(field.name, child.type) for field, child in zip(table_type, children, strict=True)]
        return struct_of(array, children, fields)
    if isinstance(table_type, List):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        values = for_spark(array.values.slice(start, stop - start), table_type.element.type)
        return list_with_values(array, values, pa.list_(values.type), start)
    if isinstance(table_type, Map):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        keys = array.keys.slice(start, stop - start)
        items = for_spark(array.items.slice(start, stop - start), table_type.value.type)
        target = pa.map_(keys.type, items.type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return list_with_values(array, entries, target, start)
    return struct_of(array, [array.field("value"), array.field("metadata")], list(_SPARK_VARIANT))


def _holds_variant(table_type: DataType) -> bool:
    if isinstance(table_type, Struct):
        return any(_holds_variant(field.type) for field in table_type)
    if isinstance(table_type, List):
        return _holds_variant(table_type.element.type)
    if isinstance(table_type, Map):
        return _holds_variant(table_type.value.type)
    return table_type == Primitive("variant")


def output_schema(schema: Any) -> st.StructType | str:
    """Give a schema as Spark takes it: a StructType, or DDL text, which Spark itself reads.

    Raises
    ------
    InvalidArgumentError
        Where it is neither, nor a pyarrow schema.
    """
    if isinstance(schema, (st.StructType, str)):
        return schema
    if isinstance(schema, pa.Schema):
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(schema)
    raise InvalidArgumentError(f"{schema!r} is no schema", hint="pass DDL text, a StructType or a pyarrow schema")
