"""Partition values of Arrow arrays, beside those of pyiceberg."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import transforms, types

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.iceberg.partition.of_arrow import partition_values
from tests.support.partition_cases import CASES, partition_sources

_TYPES: dict[str, Any] = {
    "i": types.IntegerType(),
    "l": types.LongType(),
    "m": types.DecimalType(9, 2),
    "s": types.StringType(),
    "b": types.BinaryType(),
    "d": types.DateType(),
    "t": types.TimestamptzType(),
    "n": types.TimestampType(),
}


def _theirs(name: str, text: str, column: pa.Array) -> list[Any]:
    transform: Any = transforms.parse_transform(text)
    if not text.startswith("truncate"):
        return list(transform.pyarrow_transform(_TYPES[name])(column).cast(pa.int32()).to_pylist())
    apply = transform.transform(_TYPES[name])
    found = [None if value is None else apply(value) for value in column.to_pylist()]
    # The smallest integers wrap around, as in Java.
    for bits in (31, 63):
        found = [2**bits - 1 if value == -(2**bits) - 1 else value for value in found]
    return found


def test_values_are_those_of_pyiceberg() -> None:
    rows = partition_sources()
    for name, text in CASES:
        found = partition_values(text, rows[name])
        plain = found if text.startswith("truncate") else found.view(pa.int32())
        assert plain.to_pylist() == _theirs(name, text, rows[name].combine_chunks()), (name, text)
    long = pa.array([34], pa.int64())
    for values in (pa.array([34], pa.int8()), long, long.to_pandas(), [34]):
        assert partition_values("bucket[16]", values).to_pylist() == [3]
    with pytest.raises(InvalidArgumentError, match="is not a transform"):
        partition_values("zorder", [1])
    with pytest.raises(SchemaError, match="does not take a column of type double"):
        partition_values("bucket[4]", [0.5])
