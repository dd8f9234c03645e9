"""Schemas: table types and their Arrow types, column names, and reading a file's columns as those of a table."""

from __future__ import annotations

from deltaberg.schema.arrow import (
    VARIANT,
    arrow_field,
    arrow_schema,
    arrow_type,
    as_array,
    as_batch,
    columns_of,
    copied,
    count_up,
    is_variant_field,
)
from deltaberg.schema.columns import (
    ColumnName,
    column_names,
    fields_given,
    find_column,
    find_path,
    join_name,
    match_fields,
    select_columns,
    split_name,
)
from deltaberg.schema.name_mapping import (
    FIELD_ID,
    MappedField,
    NameMapping,
    field_id,
    has_field_ids,
    mapping_of,
    with_mapped_ids,
)
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, List, Map, Primitive, Struct, nested_fields
from deltaberg.schema.widths import typical_width

__all__ = [
    "FIELD_ID",
    "VARIANT",
    "ColumnName",
    "DataType",
    "Decimal",
    "Field",
    "Fixed",
    "List",
    "Map",
    "MappedField",
    "NameMapping",
    "Primitive",
    "Struct",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "as_array",
    "as_batch",
    "column_names",
    "columns_of",
    "copied",
    "count_up",
    "field_id",
    "fields_given",
    "find_column",
    "find_path",
    "has_field_ids",
    "is_variant_field",
    "join_name",
    "mapping_of",
    "match_fields",
    "nested_fields",
    "select_columns",
    "split_name",
    "typical_width",
    "with_mapped_ids",
]
