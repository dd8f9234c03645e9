"""The types of tables and of Arrow as Spark types, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.hints import shown_value
from deltaberg.schema.arrow import arrow_schema, arrow_type
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct, nested_fields

__all__ = [
    "arrow_types",
    "output_schema",
    "physical_columns",
    "physical_type",
    "quoted_name",
    "rows_schema",
    "spark_schema",
    "spark_type",
    "spark_width",
    "table_type",
]

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
    # As iceberg-spark reads them.
    "uuid": st.StringType,
}
#: Bytes that Spark assumes for a value where it has no statistics. It assumes that a list or a map has one entry.
_WIDTHS: dict[type[st.DataType], int] = {
    **dict.fromkeys((st.BooleanType, st.ByteType, st.NullType), 1),
    st.ShortType: 2,
    **dict.fromkeys((st.IntegerType, st.FloatType, st.DateType), 4),
    st.StringType: 20,
    st.BinaryType: 100,
}
_WIDTH, _WIDE_DECIMAL, _VARIANT_WIDTH = 8, 16, 2048
#: The most digits of a decimal that fits into 64 bits.
_LONG_DIGITS = 18


def spark_schema(schema: Struct) -> st.StructType:
    """Return the Spark schema of a table's schema."""
    return st.StructType([st.StructField(field.name, spark_type(field.type), True) for field in schema])


def spark_type(table_type: DataType) -> st.DataType:
    """Return the Spark type of a table type.

    Raises
    ------
    UnsupportedFeatureError
        If Spark, or this version of it, lacks the type.
    SchemaError
        If the table type itself is unknown.
    """
    if isinstance(table_type, Primitive):
        if table_type.name == "variant":
            return _variant_type()
        if table_type.name not in _PRIMITIVES:
            raise UnsupportedFeatureError(
                f"Spark has no type for {table_type}", hint="select other columns, or read them by scan.map_in_arrow"
            )
        return _PRIMITIVES[table_type.name]()
    if isinstance(table_type, Fixed):
        return st.BinaryType()
    if isinstance(table_type, Decimal):
        return st.DecimalType(table_type.precision, table_type.scale)
    if isinstance(table_type, Struct):
        return spark_schema(table_type)
    if isinstance(table_type, List):
        return st.ArrayType(spark_type(table_type.element.type), True)
    if isinstance(table_type, Map):
        return st.MapType(spark_type(table_type.key.type), spark_type(table_type.value.type), True)
    raise SchemaError(f"the type {table_type} has no Spark type")


def physical_columns(fields: Iterable[Field]) -> Struct:
    """Return columns with the names that they have in files, at any depth."""
    return Struct(tuple(map(_physical, fields)))


def physical_type(kind: DataType) -> DataType:
    """Return a type with the names that its fields have in files, at any depth."""
    if isinstance(kind, Struct):
        return physical_columns(kind)
    if isinstance(kind, List):
        return List(replace(kind.element, type=physical_type(kind.element.type)))
    if isinstance(kind, Map):
        key, value = (replace(part, type=physical_type(part.type)) for part in (kind.key, kind.value))
        return Map(key, value)
    return kind


def _physical(field: Field) -> Field:
    return replace(field, name=field.physical_name, type=physical_type(field.type))


def _variant_type() -> st.DataType:
    kind = getattr(st, "VariantType", None)
    if kind is None:
        raise UnsupportedFeatureError(
            f"Spark {pyspark.__version__} has no variant type", hint="use Spark 4.0 or newer, or select other columns"
        )
    variant: st.DataType = kind()
    return variant


def spark_width(kind: st.DataType) -> int:
    """Return how many bytes Spark assumes for a value of a type."""
    if isinstance(kind, st.StructType):
        return sum(spark_width(child.dataType) for child in kind)
    if isinstance(kind, st.ArrayType):
        return spark_width(kind.elementType)
    if isinstance(kind, st.MapType):
        return spark_width(kind.keyType) + spark_width(kind.valueType)
    if isinstance(kind, st.DecimalType):
        return _WIDTH if kind.precision <= _LONG_DIGITS else _WIDE_DECIMAL
    return _VARIANT_WIDTH if kind.typeName() == "variant" else _WIDTHS.get(type(kind), _WIDTH)


def table_type(kind: st.DataType) -> DataType | None:
    """Return the table type of a Spark type, in which everything may be null but keys; None if there is none."""
    if isinstance(kind, st.DecimalType):
        return Decimal(kind.precision, kind.scale)
    if isinstance(kind, st.StructType):
        children = [(child.name, table_type(child.dataType)) for child in kind]
        known = [Field(name, child) for name, child in children if child is not None]
        return Struct(tuple(known)) if len(known) == len(children) else None
    if isinstance(kind, st.ArrayType):
        element = table_type(kind.elementType)
        return None if element is None else List(Field("element", element))
    if isinstance(kind, st.MapType):
        key, value = table_type(kind.keyType), table_type(kind.valueType)
        return None if key is None or value is None else Map(Field("key", key, nullable=False), Field("value", value))
    if kind.typeName() == "variant":
        return Primitive("variant")
    return next((Primitive(name) for name, one in _PRIMITIVES.items() if type(kind) is one), None)


def arrow_types(schema: st.StructType) -> dict[str, pa.DataType | None]:
    """Return the Arrow types that Spark expects, by column name; None for a type that is unknown here.

    That of variants is unknown: Spark wants their parts in another order than tables have them.
    """
    kinds = {field.name: table_type(field.dataType) for field in schema}
    return {name: None if kind is None or _has_variant(kind) else arrow_type(kind) for name, kind in kinds.items()}


def _has_variant(kind: DataType) -> bool:
    return kind == Primitive("variant") or any(_has_variant(child.type) for child in nested_fields(kind))


def rows_schema(schema: st.StructType) -> pa.Schema:
    """Return the Arrow schema of rows that are to be written, with columns that may all be null.

    The comments of columns and of fields at any depth are kept, as the metadata of Arrow fields.

    Raises
    ------
    UnsupportedFeatureError
        If a column has a type that cannot be written.
    InvalidArgumentError
        If two columns have the same name.
    """
    columns = []
    for field in schema:
        kind = table_type(field.dataType)
        if kind is None:
            raise UnsupportedFeatureError(
                f"a column of Spark's type {field.dataType.simpleString()} cannot be written",
                hint="cast or drop the column",
                column=field.name,
            )
        columns.append(Field(field.name, kind))
    if len({field.name for field in columns}) != len(columns):
        names = [field.name for field in columns]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgumentError(
            f"two columns of the DataFrame have the same name: {twice}",
            hint="select the columns that are needed, each with a name of its own, as in "
            'frame.select("a.id", col("b.name").alias("new_name")), or rename all of them by frame.toDF("id", …)',
        )
    made = arrow_schema(Struct(tuple(columns)))
    return pa.schema([_with_comment(child, field) for child, field in zip(made, schema, strict=True)])


def _with_comment(converted: pa.Field, field: st.StructField) -> pa.Field:
    """Return an Arrow field with the comments that a field of Spark has, at any depth."""
    converted = converted.with_type(_with_comments(converted.type, field.dataType))
    comment = field.metadata.get("comment")
    return (
        converted.with_metadata({**(converted.metadata or {}), b"comment": comment.encode()})
        if isinstance(comment, str)
        else converted
    )


def _with_comments(converted: pa.DataType, kind: st.DataType) -> pa.DataType:
    if isinstance(kind, st.StructType):
        return pa.struct([_with_comment(child, field) for child, field in zip(converted, kind, strict=True)])
    if isinstance(kind, st.ArrayType):
        return pa.list_(converted.value_field.with_type(_with_comments(converted.value_type, kind.elementType)))
    if isinstance(kind, st.MapType):
        key = converted.key_field.with_type(_with_comments(converted.key_type, kind.keyType))
        return pa.map_(key, converted.item_field.with_type(_with_comments(converted.item_type, kind.valueType)))
    return converted


def quoted_name(name: str) -> str:
    """Return a name of one part as Spark's SQL and its columns take it.

    Examples
    --------
    >>> quoted_name("a.b")
    '`a.b`'
    """
    return f"`{name.replace('`', '``')}`"


def output_schema(spark: SparkSession, schema: Any) -> st.StructType:
    """Return a schema as a StructType; the session parses DDL text.

    Raises
    ------
    InvalidArgumentError
        If the schema is neither text, nor a StructType, nor a pyarrow schema.
    """
    if isinstance(schema, st.StructType):
        return schema
    if isinstance(schema, str):
        return spark.createDataFrame([], schema).schema
    if isinstance(schema, pa.Schema):
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(schema, prefer_timestamp_ntz=True)
    raise InvalidArgumentError(
        f"{shown_value(schema)} is not a schema", hint="pass DDL text, a StructType or a pyarrow schema"
    )
