"""Computed columns on the native road: the hidden columns that may store them, and the values that each file adds.

They are the fields of Delta's ``_metadata`` and Iceberg's ``_pos``, ``_row_id`` and ``_last_updated_sequence_number``
(Delta protocol, "Row Tracking"; Iceberg spec, "Reserved Field IDs" and "Row Lineage").
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.bound import bound_paths
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.metadata import LAST_UPDATED, ROW_IDS, is_position, materialized_fields
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.table.read.bound import BoundScan

__all__ = ["computed_parts", "file_values", "stored_fields"]

_LONG, _TEXT = Primitive("long"), Primitive("string")
_INSTANT = pa.timestamp("us", "UTC")


def computed_parts(scan: BoundScan) -> tuple[Field, ...]:
    """Return the computed columns that a scan and its filter need; of a struct, the fields that they need."""
    parts: dict[str, Field] = {}
    for path in [*((child,) for child in scan.output), *bound_paths(scan.read_spec.residual)]:
        first = path[0]
        if first.name in scan.layout.computed:
            inner = first.type if isinstance(first.type, Struct) else path[:1]
            parts.update((part.name, part) for part in path[1:2] or inner)
    return tuple(parts.values())


def stored_fields(scan: BoundScan) -> tuple[Field, ...]:
    """Return the hidden columns in which files may store the computed columns of a scan."""
    return tuple(materialized_fields(computed_parts(scan), scan.layout).values())


def file_values(
    parts: tuple[Field, ...], tasks: pa.RecordBatch, layout: FileLayout
) -> dict[str, tuple[Field, pa.Array]]:
    """Return the value of each computed column for each file, by name; for a row id, that of the first row."""
    values = {}
    for part in parts:
        if is_position(part.name, layout):
            continue
        if part.name in ROW_IDS:
            values[part.name] = Field(part.name, _LONG), tasks.column("base_row_id")
        elif part.name == "file_modification_time":
            micros = pc.multiply_checked(tasks.column("modified"), 1000)
            values[part.name] = Field(part.name, Primitive("timestamp")), micros.cast(_INSTANT)
        elif part.name in ("file_path", "file_name"):
            places = tasks.column("location")
            names = pc.replace_substring_regex(places, ".*/", "") if part.name == "file_name" else places
            values[part.name] = Field(part.name, _TEXT), names
        elif part.name == LAST_UPDATED:
            has_ids = tasks.column("base_row_id").is_valid()
            versions = pc.if_else(has_ids, tasks.column("row_commit_version"), pa.scalar(None, pa.int64()))
            values[part.name] = Field(part.name, _LONG), versions
        else:
            column = "size" if part.name == "file_size" else "row_commit_version"
            values[part.name] = Field(part.name, _LONG), tasks.column(column)
    return values
