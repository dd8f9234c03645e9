"""Partition values of Arrow arrays, for callers who have no table at hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE
from deltaberg.iceberg.partition.transforms import Unknown, parse_transform
from deltaberg.iceberg.updates.new_columns import given_column
from deltaberg.schema.arrow import arrow_type, as_array

__all__ = ["partition_values"]

_NAME = "value"


def partition_values(transform: str, values: Any) -> pa.Array:
    """Return the partition value of each of some values, as an Iceberg table that is partitioned by them has it.

    Parameters
    ----------
    transform
        As metadata names it: ``bucket[16]``, ``truncate[4]``, ``year``, ``month``, ``day``, ``hour`` or ``identity``.
    values
        An array or a chunked array of Arrow, or what `pyarrow.array` takes, such as a pandas Series.

    Raises
    ------
    InvalidArgumentError
        There is no such transform, or a value does not fit.
    SchemaError
        The transform does not take values of this type.

    Examples
    --------
    >>> import datetime as dt
    >>> partition_values("bucket[16]", pa.array([34, None], pa.int64())).to_pylist()
    [3, None]
    >>> partition_values("month", [dt.date(1970, 2, 1), dt.date(1969, 12, 31)]).to_pylist()
    [1, -1]
    """
    parsed = parse_transform(transform)
    if isinstance(parsed, Unknown):
        raise InvalidArgumentError(
            f"{shown_value(transform)} is not a transform",
            hint="known are year, month, day, hour, bucket[16], truncate[4] and identity, with other numbers, too",
        )
    array = as_array(values) if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    column = given_column(pa.field(_NAME, array.type), (_NAME,), ROW_LINEAGE)
    try:
        return parsed.apply(array.cast(arrow_type(column.type)), column.type)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"a value does not fit into a column of the type {column.type}: {error}") from error
