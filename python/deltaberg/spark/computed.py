"""The columns that our reader makes for each row, as Spark's: what they need of a file, and of its task.

They are the fields of Delta's ``_metadata`` and Iceberg's ``_pos``, ``_row_id`` and ``_last_updated_sequence_number``
(Delta protocol, "Row Tracking"; Iceberg spec, "Reserved Field IDs" and "Row Lineage").
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions import bound_paths
from deltaberg.files import ROW_IDS, ROW_INDEXES, materialized_fields
from deltaberg.schema import Field, Primitive, Struct
from deltaberg.table import Scan

__all__ = ["computed_parts", "file_values", "stored_fields"]

_LONG, _TEXT = Primitive("long"), Primitive("string")
_INSTANT = pa.timestamp("us", "UTC")


def computed_parts(scan: Scan) -> tuple[Field, ...]:
    """Give the computed columns that a scan and its filter need, and of a struct those of its fields."""
    found: dict[str, Field] = {}
    for path in [*((child,) for child in scan.output), *bound_paths(scan.read_spec.residual)]:
        first = path[0]
        if first.name in scan.source.layout.computed:
            inner = first.type if isinstance(first.type, Struct) else path[:1]
            found.update((part.name, part) for part in path[1:2] or inner)
    return tuple(found.values())


def stored_fields(scan: Scan) -> tuple[Field, ...]:
    """Give the hidden columns of files in which those are, as far as a file has them."""
    return tuple(materialized_fields(computed_parts(scan), scan.source.layout).values())


def file_values(parts: tuple[Field, ...], tasks: pa.RecordBatch) -> dict[str, tuple[Field, pa.Array]]:
    """Give what computed columns need to know of each file, by their names: of a row id the one of the first row."""
    found = {}
    for part in parts:
        if part.name in ROW_INDEXES:
            continue
        if part.name in ROW_IDS:
            found[part.name] = Field(part.name, _LONG), tasks.column("base_row_id")
        elif part.name == "file_modification_time":
            micros = pc.multiply_checked(tasks.column("modified"), 1000)
            found[part.name] = Field(part.name, Primitive("timestamp")), micros.cast(_INSTANT)
        elif part.name in ("file_path", "file_name"):
            places = tasks.column("location")
            names = pc.replace_substring_regex(places, ".*/", "") if part.name == "file_name" else places
            found[part.name] = Field(part.name, _TEXT), names
        else:
            column = "size" if part.name == "file_size" else "row_commit_version"
            found[part.name] = Field(part.name, _LONG), tasks.column(column)
    return found
