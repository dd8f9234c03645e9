"""Table types and Arrow types as Spark types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.schema import VARIANT, DataType, Decimal, Fixed, List, Map, Primitive, Struct, arrow_type
from deltaberg.schema.convert import list_with_values, struct_of

__all__ = ["arrow_types", "fitted", "for_spark", "output_schema", "spark_schema", "spark_type", "spark_width"]

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
    # As iceberg-spark gives them.
    "uuid": st.StringType,
}
_UUID = Primitive("uuid")
_UUID_PARTS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
#: Bytes that Spark expects of a value where it has no statistics; of elements and entries it expects one.
_WIDTHS: dict[type[st.DataType], int] = {
    **dict.fromkeys((st.BooleanType, st.ByteType, st.NullType), 1),
    st.ShortType: 2,
    **dict.fromkeys((st.IntegerType, st.FloatType, st.DateType), 4),
    st.StringType: 20,
    st.BinaryType: 100,
}
_WIDTH, _WIDE_DECIMAL, _VARIANT_WIDTH = 8, 16, 2048
#: Digits of a decimal that is a number of 64 bits.
_LONG_DIGITS = 18
#: Spark reads a variant's children by their place.
_SPARK_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
#: Layouts of text and bytes that it cannot read.
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
#: Types that Spark takes for others.
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


def _variant_type() -> st.DataType:
    kind = getattr(st, "VariantType", None)
    if kind is None:
        raise UnsupportedFeatureError(
            f"Spark {pyspark.__version__} has no variant type", hint="use Spark 4.0 or newer, or select other columns"
        )
    variant: st.DataType = kind()
    return variant


def spark_width(kind: st.DataType) -> int:
    """Give the bytes that Spark expects of a value of a type."""
    if isinstance(kind, st.StructType):
        return sum(spark_width(child.dataType) for child in kind)
    if isinstance(kind, st.ArrayType):
        return spark_width(kind.elementType)
    if isinstance(kind, st.MapType):
        return spark_width(kind.keyType) + spark_width(kind.valueType)
    if isinstance(kind, st.DecimalType):
        return _WIDTH if kind.precision <= _LONG_DIGITS else _WIDE_DECIMAL
    return _VARIANT_WIDTH if kind.typeName() == "variant" else _WIDTHS.get(type(kind), _WIDTH)


def for_spark(array: pa.Array, table_type: DataType | None = None) -> pa.Array:
    """Bring an array to the layout that Spark takes, at any depth.

    Variants get their children in its order; dictionaries are decoded, views and fixed bytes become plain ones, and
    what the table's type says to be UUIDs becomes text.
    """
    kind = array.type
    if not _is_foreign(kind):
        return array
    if pt.is_dictionary(kind):
        return for_spark(array.dictionary_decode(), table_type)
    if kind in _VIEWS:
        return array.cast(_VIEWS[kind])
    if pt.is_fixed_size_binary(kind):
        return _uuid_text(array) if table_type == _UUID else array.cast(pa.binary())
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


def _uuid_text(array: pa.Array) -> pa.Array:
    """Give UUIDs as 36 characters."""
    if not len(array):
        return pa.array([], pa.string())
    data = array.buffers()[1].slice(16 * array.offset, 16 * len(array)).to_pybytes().hex().encode()
    digits = pa.Array.from_buffers(pa.binary(32), len(array), [None, pa.py_buffer(data)]).cast(pa.binary())
    parts = [pc.binary_slice(digits, first, last).cast(pa.string()) for first, last in _UUID_PARTS]
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise(*parts, "-"), pa.scalar(None, pa.string()))


def _is_variant(kind: pa.DataType) -> bool:
    return bool(kind.equals(VARIANT, check_metadata=True))


def _is_foreign(kind: pa.DataType) -> bool:
    """Say whether Spark does not take an Arrow type as it is."""
    if pt.is_dictionary(kind) or pt.is_fixed_size_binary(kind) or kind in _VIEWS or _is_variant(kind):
        return True
    if pt.is_struct(kind) or pt.is_list(kind) or pt.is_map(kind):
        return any(_is_foreign(kind.field(index).type) for index in range(kind.num_fields))
    return False


def arrow_types(schema: st.StructType) -> dict[str, pa.DataType | None]:
    """Give the Arrow types that Spark expects of columns by name; None where we do not know the type."""
    return {field.name: _arrow_type(field.dataType) for field in schema}


def _arrow_type(kind: st.DataType) -> pa.DataType | None:
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, st.StructType):
        children = arrow_types(kind)
        if None in children.values():
            return None
        return pa.struct([pa.field(name, child) for name, child in children.items()])
    if isinstance(kind, st.ArrayType):
        element = _arrow_type(kind.elementType)
        return None if element is None else pa.list_(element)
    if isinstance(kind, st.MapType):
        key, item = _arrow_type(kind.keyType), _arrow_type(kind.valueType)
        return None if key is None or item is None else pa.map_(key, item)
    return next((arrow_type(Primitive(name)) for name, one in _PRIMITIVES.items() if type(kind) is one), None)


def fitted(array: pa.Array, wanted: pa.DataType | None, name: str) -> pa.Array:
    """Bring a column that a user's function yielded to the type of the schema, where no value changes.

    Raises
    ------
    InvalidArgumentError
        Where it is of another kind, or a value does not fit: Spark's own words for that name no column.
    """
    array = for_spark(array)
    found = array.type
    if wanted is None or found == wanted or _LARGE.get(found) == wanted:
        return array
    # Arrow rounds doubles without a word.
    narrows = pt.is_floating(found) and pt.is_floating(wanted) and found.bit_width > wanted.bit_width
    try:
        if pt.is_null(found) or (_kind(found) == _kind(wanted) and not narrows):
            return array.cast(wanted)
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"the column {name} does not fit its type {wanted}: {error}") from None
    raise InvalidArgumentError(f"the function yielded {found} as the column {name}, whose type is {wanted}")


def _kind(found: pa.DataType) -> str:
    """Name what types must have in common to be cast into one another."""
    if pt.is_timestamp(found):
        return "timestamp" if found.tz else "timestamp_ntz"
    for name, is_of in _KINDS.items():
        if is_of(found):
            return name
    return str(found)


def output_schema(spark: SparkSession, schema: Any) -> st.StructType:
    """Give a schema as a StructType; DDL text is read by the session.

    Raises
    ------
    InvalidArgumentError
        Where it is neither text, nor a StructType, nor a pyarrow schema.
    """
    if isinstance(schema, st.StructType):
        return schema
    if isinstance(schema, str):
        return spark.createDataFrame([], schema).schema
    if isinstance(schema, pa.Schema):
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(schema, prefer_timestamp_ntz=True)
    raise InvalidArgumentError(f"{schema!r} is no schema", hint="pass DDL text, a StructType or a pyarrow schema")
