"""ORC files with field ids as Iceberg's writers store them, in the attribute ``iceberg.id`` of each type."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import orc

from deltaberg.schema.name_mapping import FIELD_ID

__all__ = ["write_orc"]


def write_orc(path: Path, table: pa.Table) -> None:
    """Write a table. pyarrow turns the metadata of its fields into attributes of ORC types."""
    schema = pa.schema(_with_attributes(table.schema))
    orc.write_table(table.cast(schema), path)


def _with_attributes(children: Iterable[pa.Field]) -> list[pa.Field]:
    return [_with_attribute(child) for child in children]


def _with_attribute(child: pa.Field) -> pa.Field:
    number = (child.metadata or {}).get(FIELD_ID)
    return child.with_type(_inner(child.type)).with_metadata(None if number is None else {b"iceberg.id": number})


def _inner(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct(_with_attributes(kind))
    if pt.is_list(kind):
        return pa.list_(_with_attribute(kind.value_field))
    if pt.is_map(kind):
        return pa.map_(_with_attribute(kind.key_field), _with_attribute(kind.item_field))
    return kind
