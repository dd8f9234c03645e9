"""Partition values: text in the log, typed columns for a scan (Delta protocol, "Partition Value Serialization")."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.schema import partition_type_name
from deltaberg.errors import InvalidPartitionValueError
from deltaberg.schema import Field, Primitive, arrow_type

__all__ = ["read_partition_values"]


def read_partition_values(files: pa.Table, columns: Sequence[Field], timezone: str = "UTC") -> list[pa.Array]:
    """Give an array for each partition column from ``files.partitionValues``.

    Parameters
    ----------
    timezone
        The zone of timestamps whose text names none; the table does not record it.

    Raises
    ------
    InvalidPartitionValueError
        Where a text is no value of its column's type; it names the file.
    """
    if not columns:
        return []
    named = [(field.physical_name, partition_type_name(field)) for field in columns]
    maps = files.column("partitionValues").combine_chunks()
    try:
        values = kernels.parse_partition_values(maps, named)
    except InvalidPartitionValueError as error:
        row = error.context.get("row")
        path = None if row is None else files.column("path")[int(row)].as_py()
        raise error.with_context(file=path) from None
    return [_typed(values.column(index), field, timezone) for index, field in enumerate(columns)]


def _typed(values: pa.Array, field: Field, timezone: str) -> pa.Array:
    if field.type != Primitive("timestamp"):
        return values
    utc = arrow_type(field.type)
    instants = pc.struct_field(values, "value")
    if timezone.upper() == "UTC":
        return instants.view(utc)
    # Local times that a change to or from summer time makes ambiguous, or skips, are taken as Java takes them.
    local = pc.assume_timezone(instants, timezone, ambiguous="earliest", nonexistent="latest")
    return pc.if_else(pc.struct_field(values, "zoned"), instants.view(utc), local.cast(utc))
