"""Partition values: strings in the log, typed columns in a scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, InvalidPartitionValueError
from deltaberg.kernels.pure.log.values import PrimitiveType, parse_timestamp
from deltaberg.kernels.pure.quoted import quoted
from deltaberg.kernels.results import empty_batch

__all__ = ["parse_partition_values"]

_ZONED = pa.struct([("value", pa.timestamp("us")), ("zoned", pa.bool_())])


def parse_partition_values(values: pa.MapArray, columns: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """Return the values of columns (name in the map, primitive type) from maps of string to string.

    A missing key, a null and an empty string become null. A ``timestamp`` column becomes a struct of ``value``
    (microseconds) and ``zoned``. If the text names a zone, ``zoned`` is true and the value is in UTC; otherwise it is
    local time in a zone that the table does not record.
    """
    if not isinstance(values, pa.MapArray):
        raise InvalidArgumentError("Cast error: an array of maps was expected")
    for part, found in (("keys", values.type.key_type), ("values", values.type.item_type)):
        if found != pa.string():
            raise InvalidArgumentError(f"the {part} of a partition value map must be strings")
    rows: list[dict[str, str | None]] = [dict(row or ()) for row in values.to_pylist()]
    primitives = [(name, PrimitiveType.from_name(primitive)) for name, primitive in columns]
    cells: list[list[Any]] = [[] for _ in columns]
    for number, row in enumerate(rows):
        for (name, primitive), column in zip(primitives, cells, strict=True):
            column.append(_value(row.get(name), name, primitive, number))
    arrays = [_column(column, primitive) for column, (_, primitive) in zip(cells, primitives, strict=True)]
    if not arrays:
        return empty_batch(len(rows))
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in primitives])


def _value(text: str | None, name: str, primitive: PrimitiveType, row: int) -> Any:
    value: Any = None
    if text:
        value = parse_timestamp(text) if primitive.name == "timestamp" else primitive.parse(text)
        if value is None:
            raise InvalidPartitionValueError(
                f"partition value {quoted(text[:100])} of column {quoted(name)} is not a valid {primitive.name}",
                column=name,
                row=str(row),
            )
    if primitive.name != "timestamp":
        return value
    micros, zone = value or (None, "missing")
    return {"value": micros, "zoned": zone != "missing"}


def _column(values: list[Any], primitive: PrimitiveType) -> pa.Array:
    if primitive.name != "timestamp":
        return pa.array(values, primitive.arrow)
    micros = pa.array([value["value"] for value in values], pa.timestamp("us"))
    zoned = pa.array([value["zoned"] for value in values], pa.bool_())
    return pa.StructArray.from_arrays([micros, zoned], fields=list(_ZONED))
