"""Arrow types as table types: the columns of a new table, or new columns of an existing one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.schema.arrow import is_variant_field
from deltaberg.schema.columns import join_name
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct

__all__ = ["as_table_schema", "table_field", "table_schema"]

_MAX_PRECISION = 38
_HINT = "pass an Arrow schema, the schema of a table, or a dict of names and Arrow types"
#: Types without parameters. Unsigned integers become the next wider signed type.
_PRIMITIVES: dict[pa.DataType, DataType] = {
    pa.bool_(): Primitive("boolean"),
    pa.int8(): Primitive("byte"),
    pa.int16(): Primitive("short"),
    pa.int32(): Primitive("integer"),
    pa.int64(): Primitive("long"),
    pa.uint8(): Primitive("short"),
    pa.uint16(): Primitive("integer"),
    pa.uint32(): Primitive("long"),
    pa.uint64(): Decimal(20, 0),
    pa.float16(): Primitive("float"),
    pa.float32(): Primitive("float"),
    pa.float64(): Primitive("double"),
    pa.string(): Primitive("string"),
    pa.large_string(): Primitive("string"),
    pa.string_view(): Primitive("string"),
    pa.binary(): Primitive("binary"),
    pa.large_binary(): Primitive("binary"),
    pa.binary_view(): Primitive("binary"),
    pa.date32(): Primitive("date"),
    pa.date64(): Primitive("date"),
    pa.null(): Primitive("void"),
}

_Path = tuple[str, ...]


def as_table_schema(given: Any) -> Struct:
    """Return the columns that a caller describes.

    Parameters
    ----------
    given
        The schema of a table, an Arrow schema, anything with ``__arrow_c_schema__``, or names with Arrow types.

    Raises
    ------
    InvalidArgumentError
        It is nothing of this kind.
    SchemaError
        An Arrow type has no table type.

    Examples
    --------
    >>> str(as_table_schema({"id": pa.int64()}))
    'struct<id: long>'
    """
    if isinstance(given, Struct):
        return given
    try:
        if isinstance(given, Mapping) or hasattr(given, "__arrow_c_schema__"):
            # Of what else has this method, such as a deltalake schema, pyarrow takes the fields.
            return table_schema(given if isinstance(given, pa.Schema) else pa.schema(given))
    except (TypeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        raise InvalidArgumentError(f"the schema is not one of Arrow: {error}", hint=_HINT) from error
    raise InvalidArgumentError(f"a schema of type {type(given).__name__} describes no columns", hint=_HINT)


def table_schema(found: pa.Schema) -> Struct:
    """Return the columns of a table for rows with an Arrow schema.

    Timestamps have microseconds whatever the unit of the Arrow type; with a zone they are ``timestamp``, without one
    ``timestamp_ntz``. Of the metadata of fields only a ``comment`` is kept.

    Raises
    ------
    SchemaError
        If an Arrow type has no table type, such as a duration.

    Examples
    --------
    >>> str(table_schema(pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns", "UTC"))])))
    'struct<id: long, at: timestamp>'
    """
    return Struct(tuple(table_field(child, (child.name,)) for child in found))


def table_field(found: pa.Field, path: _Path) -> Field:
    """Return the field of a table for an Arrow field. The path names it in messages.

    Raises
    ------
    SchemaError
        If the Arrow type has no table type.
    """
    comment = (found.metadata or {}).get(b"comment")
    metadata = {} if comment is None else {"comment": comment.decode(errors="replace")}
    kind = Primitive("variant") if is_variant_field(found) else _table_type(found.type, path)
    return Field(found.name, kind, found.nullable, metadata)


def _table_type(found: pa.DataType, path: _Path) -> DataType:
    primitive = _PRIMITIVES.get(found)
    if primitive is not None:
        return primitive
    if isinstance(found, pa.BaseExtensionType):
        return _table_type(found.storage_type, path)
    if pt.is_dictionary(found) or pt.is_run_end_encoded(found):
        return _table_type(found.value_type, path)
    if pt.is_fixed_size_binary(found):
        return Primitive("binary")
    if pt.is_timestamp(found):
        return Primitive("timestamp_ntz" if found.tz is None else "timestamp")
    if pt.is_decimal(found) and found.precision <= _MAX_PRECISION and 0 <= found.scale <= found.precision:
        return Decimal(found.precision, found.scale)
    if pt.is_struct(found):
        return Struct(tuple(table_field(child, (*path, child.name)) for child in found))
    if pt.is_map(found):
        key = table_field(found.key_field.with_name("key").with_nullable(False), (*path, "key"))
        return Map(key, table_field(found.item_field.with_name("value"), (*path, "value")))
    # Not all supported versions of pyarrow have list views.
    if pt.is_list(found) or pt.is_large_list(found) or pt.is_fixed_size_list(found) or "list_view" in str(found):
        return List(table_field(found.value_field.with_name("element"), (*path, "element")))
    raise SchemaError(
        f"the Arrow type {found} has no type in tables", hint="convert the column first", column=join_name(path)
    )
