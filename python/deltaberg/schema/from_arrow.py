"""Arrow types as table types: the columns of a new table, or new columns of an existing one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.schema.arrow import is_variant_field
from deltaberg.schema.columns import join_name
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct

__all__ = ["FieldMetadata", "OwnTypes", "as_comment", "as_table_schema", "table_field", "table_schema"]

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
#: Returns what a table keeps of the metadata of an Arrow field.
FieldMetadata: TypeAlias = Callable[[Mapping[str, str]], dict[str, Any]]
#: Returns the type that a table format of its own has for an Arrow type; None where it has the type of all formats.
OwnTypes: TypeAlias = Callable[[pa.DataType], "DataType | None"]


def as_table_schema(schema: Any, kept: FieldMetadata | None = None, own: OwnTypes | None = None) -> Struct:
    """Return the columns that a caller describes.

    Parameters
    ----------
    schema
        The schema of a table, an Arrow schema, anything with ``__arrow_c_schema__``, or names with Arrow types.
    kept, own
        As for `table_schema`.

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
    if isinstance(schema, Struct):
        return schema
    try:
        if isinstance(schema, Mapping) or hasattr(schema, "__arrow_c_schema__"):
            # Of what else has this method, such as a deltalake schema, pyarrow takes the fields.
            return table_schema(schema if isinstance(schema, pa.Schema) else pa.schema(schema), kept, own)
    except (TypeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        raise InvalidArgumentError(f"the schema is not one of Arrow: {error}", hint=_HINT) from error
    raise InvalidArgumentError(f"a schema of type {type(schema).__name__} describes no columns", hint=_HINT)


def table_schema(arrow: pa.Schema, kept: FieldMetadata | None = None, own: OwnTypes | None = None) -> Struct:
    """Return the columns of a table for rows with an Arrow schema.

    Timestamps have microseconds whatever the unit of the Arrow type; with a zone they are ``timestamp``, without one
    ``timestamp_ntz``.

    Parameters
    ----------
    kept
        Returns what is kept of the metadata of a field, in which ``doc`` is a ``comment``; by default only that is.
    own
        Returns the types that only one table format has.

    Raises
    ------
    SchemaError
        If an Arrow type has no table type, such as a duration.

    Examples
    --------
    >>> str(table_schema(pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns", "UTC"))])))
    'struct<id: long, at: timestamp>'
    """
    return Struct(tuple(table_field(child, (child.name,), kept, own) for child in arrow))


def table_field(arrow: pa.Field, path: _Path, kept: FieldMetadata | None = None, own: OwnTypes | None = None) -> Field:
    """Return the field of a table for an Arrow field. The path names it in messages.

    Raises
    ------
    SchemaError
        If the Arrow type has no table type.
    """
    texts = {
        key.decode(errors="replace"): value.decode(errors="replace") for key, value in (arrow.metadata or {}).items()
    }
    metadata = (kept or _comments)(as_comment(texts))
    kind = Primitive("variant") if is_variant_field(arrow) else _table_type(arrow.type, path, kept, own)
    return Field(arrow.name, kind, arrow.nullable, metadata)


def as_comment(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a field in which ``doc``, the word of Iceberg for a comment, is one.

    Examples
    --------
    >>> as_comment({"doc": "in metres"}), as_comment({"doc": "old", "comment": "new"})
    ({'comment': 'in metres'}, {'doc': 'old', 'comment': 'new'})
    """
    if not isinstance(metadata.get("doc"), str) or "comment" in metadata:
        return dict(metadata)
    return {"comment" if key == "doc" else key: value for key, value in metadata.items()}


def _comments(metadata: Mapping[str, str]) -> dict[str, Any]:
    return {key: text for key, text in metadata.items() if key == "comment"}


def _table_type(arrow: pa.DataType, path: _Path, kept: FieldMetadata | None, own: OwnTypes | None) -> DataType:
    is_extension = isinstance(arrow, pa.BaseExtensionType)
    # Extension types that are written in Python have no hash.
    primitive = None if is_extension else _PRIMITIVES.get(arrow)
    primitive = primitive or (own(arrow) if own is not None else None)
    if primitive is not None:
        return primitive
    if is_extension:
        return _table_type(arrow.storage_type, path, kept, own)
    if pt.is_dictionary(arrow) or pt.is_run_end_encoded(arrow):
        return _table_type(arrow.value_type, path, kept, own)
    if pt.is_fixed_size_binary(arrow):
        return Primitive("binary")
    if pt.is_timestamp(arrow):
        return Primitive("timestamp_ntz" if arrow.tz is None else "timestamp")
    if pt.is_decimal(arrow) and arrow.precision <= _MAX_PRECISION and 0 <= arrow.scale <= arrow.precision:
        return Decimal(arrow.precision, arrow.scale)
    if pt.is_struct(arrow):
        return Struct(tuple(table_field(child, (*path, child.name), kept, own) for child in arrow))
    if pt.is_map(arrow):
        key = table_field(arrow.key_field.with_name("key").with_nullable(False), (*path, "key"), kept, own)
        return Map(key, table_field(arrow.item_field.with_name("value"), (*path, "value"), kept, own))
    # Not all supported versions of pyarrow have list views.
    if pt.is_list(arrow) or pt.is_large_list(arrow) or pt.is_fixed_size_list(arrow) or "list_view" in str(arrow):
        return List(table_field(arrow.value_field.with_name("element"), (*path, "element"), kept, own))
    raise SchemaError(
        f"the Arrow type {arrow} has no type in tables", hint="convert the column first", column=join_name(path)
    )
