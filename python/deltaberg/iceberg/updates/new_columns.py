"""Columns of a new table, or new columns of one, in types that Iceberg has, and their default values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.errors import SchemaError
from deltaberg.hints import verbatim
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE
from deltaberg.iceberg.schema.single_values import json_of_value, value_of_json
from deltaberg.iceberg.schema.type_names import TYPE, is_shape, shown_type
from deltaberg.schema.from_arrow import OwnTypes, as_table_schema, table_field
from deltaberg.schema.types import DataType, Field, Fixed, List, Map, Primitive, Struct

__all__ = [
    "WRITE_DEFAULT",
    "default_json",
    "given_column",
    "given_columns",
    "iceberg_columns",
    "own_types",
    "with_default",
    "written_default",
]

#: What the metadata of a field calls its value in new rows that lack it.
WRITE_DEFAULT = "write-default"

#: Integers that Iceberg does not have, and the one that holds their values.
_NARROW = {"byte": "integer", "short": "integer"}


def given_columns(schema: Any, version: int) -> Struct:
    """Return the columns that a caller describes, in types of a format version.

    Fixed bytes, UUIDs and times of the day have types of their own. Timestamps have nanoseconds if the Arrow type has
    them and the version is 3, else microseconds.

    Parameters
    ----------
    schema
        As for `as_table_schema`.
    version
        The format version of the table.

    Raises
    ------
    InvalidArgumentError
        It describes no columns.
    SchemaError
        An Arrow type has no type in Iceberg.

    Examples
    --------
    >>> columns = {"at": pa.timestamp("ns"), "key": pa.binary(16), "hour": pa.time64("us")}
    >>> print(given_columns(columns, 3))
    struct<at: timestamp_ntz_ns, key: fixed(16), hour: time>
    """
    return iceberg_columns(as_table_schema(schema, own=own_types(version)))


def given_column(field: pa.Field, path: tuple[str, ...], version: int) -> Field:
    """Return the column that an Arrow field describes, as `given_columns` does. The path names it in messages.

    Raises
    ------
    SchemaError
        The Arrow type has no type in Iceberg.
    """
    return iceberg_columns(Struct((table_field(field, path, own=own_types(version)),))).fields[0]


def with_default(column: Field, value: Any, name: str) -> Field:
    """Return a new column with a default value: that of the rows that are there, and of new ones that lack it.

    Raises
    ------
    InvalidArgumentError
        It is not a value of the column's type.
    SchemaError
        The type has no default values.
    """
    text = default_json(value, column, name)
    kept = {**column.metadata, WRITE_DEFAULT: text}
    return replace(column, default=value_of_json(text, column.type), metadata=kept)


def default_json(value: Any, column: Field, name: str) -> Any:
    """Return the JSON of a default value of a column.

    Raises
    ------
    InvalidArgumentError
        It is not a value of the column's type.
    SchemaError
        The type has no default values but null.
    """
    kind = column.type
    if isinstance(kind, (List, Map)) or str(kind) in ("variant", "void") or is_shape(column):
        raise SchemaError(f"columns of the type {shown_type(kind)} have no default values", column=name)
    if isinstance(kind, Struct):
        # The specification has empty structs as defaults, but iceberg-java loads no table with one.
        raise SchemaError(
            "a struct has no default value of its own that all engines read",
            hint="add it without one, and give its fields defaults, as by "
            f'⟪alter().set_default("{verbatim(name)}.FIELD", value)⟫',
            column=name,
        )
    return json_of_value(value.as_py() if isinstance(value, pa.Scalar) else value, kind)


def written_default(column: Field) -> Any:
    """Return the value of a column in new rows that lack it; None for null.

    Raises
    ------
    CorruptMetadataError
        If the default is not a value of the column's type.
    """
    default: Any = column.metadata.get(WRITE_DEFAULT)
    kind = column.type
    value = value_of_json(default, kind)
    if value is None or not isinstance(kind, Struct):
        return value
    # Fields that are not named get the defaults of new rows.
    return {child.name: value[child.name] if str(child.id) in default else written_default(child) for child in kind}


def own_types(version: int) -> OwnTypes:
    """Return what tells the types that tables of a format version have, and not all formats."""

    def own(arrow: pa.DataType) -> DataType | None:
        if getattr(arrow, "extension_name", "") == "arrow.uuid":
            return Primitive("uuid")
        if pt.is_fixed_size_binary(arrow) and not pt.is_decimal(arrow):
            return Fixed(arrow.byte_width)
        if pt.is_time(arrow):
            return Primitive("time")
        if pt.is_timestamp(arrow) and arrow.unit == "ns" and version >= ROW_LINEAGE:
            return Primitive("timestamp_ntz_ns" if arrow.tz is None else "timestamp_ns")
        return None

    return own


def iceberg_columns(columns: Struct) -> Struct:
    """Return columns in types that Iceberg has: integers of fewer than 32 bits become integers of 32 bits.

    Of what the schema says about a field, only a comment is kept, as its ``doc``.

    Raises
    ------
    SchemaError
        Two fields have the same name.

    Examples
    --------
    >>> str(iceberg_columns(Struct((Field("n", Primitive("byte")),))))
    'struct<n: integer>'
    """
    seen: set[str] = set()
    for child in columns:
        if child.name in seen:
            raise SchemaError(f"two columns, or two fields of a struct, are called {child.name!r}", column=child.name)
        seen.add(child.name)
    return Struct(tuple(_field(child) for child in columns))


def _field(child: Field) -> Field:
    doc = child.metadata.get("doc", child.metadata.get("comment"))
    kept = {"doc": doc} if isinstance(doc, str) else {}
    if isinstance(child.metadata.get(TYPE), str):
        kept[TYPE] = child.metadata[TYPE]
    return replace(child, type=_type(child.type), physical_name=child.name, metadata=kept)


def _type(kind: DataType) -> DataType:
    if isinstance(kind, Primitive):
        return Primitive(_NARROW.get(kind.name, kind.name))
    if isinstance(kind, Struct):
        return iceberg_columns(kind)
    if isinstance(kind, List):
        return List(replace(kind.element, type=_type(kind.element.type)))
    if isinstance(kind, Map):
        return Map(replace(kind.key, type=_type(kind.key.type)), replace(kind.value, type=_type(kind.value.type)))
    return kind
