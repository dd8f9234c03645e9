"""Summaries of partition values in manifest lists (Iceberg spec, "Manifest Lists", ``field_summary``)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.iceberg.partition.structs import AS_TEXT
from deltaberg.iceberg.schema.value_bytes import encode_values, has_value_bytes
from deltaberg.schema.from_arrow import table_schema
from deltaberg.schema.types import Field, Struct

__all__ = ["partition_summaries"]


def partition_summaries(values: pa.StructArray, partition: Struct) -> list[dict[str, Any]]:
    """Return a summary for each field of a manifest's spec, in the order of its fields.

    Parameters
    ----------
    values
        The partition values of all entries of the manifest, also of those that are deleted.
    partition
        The partition struct of the spec.
    """
    return [_summary(child, pc.struct_field(values, index)) for index, child in enumerate(partition)]


def _summary(child: Field, values: pa.Array) -> dict[str, Any]:
    present = values.drop_null()
    has_nan = False
    if pt.is_floating(values.type):
        is_nan = pc.is_nan(present)
        has_nan = bool(pc.any(is_nan, min_count=0).as_py())
        present = present.filter(pc.invert(is_nan))
    kind = child.type
    # Only the values themselves tell their type where the transform is unknown or its source column is gone.
    if AS_TEXT in child.metadata:
        kind = table_schema(pa.schema([(child.name, values.type)])).fields[0].type
    bounds: list[bytes | None] = [None, None]
    if len(present) and has_value_bytes(kind):
        bounds = encode_values(_extremes(present), kind).to_pylist()
    return {
        "contains_null": values.null_count > 0,
        "contains_nan": has_nan,
        "lower_bound": bounds[0],
        "upper_bound": bounds[1],
    }


def _extremes(present: pa.Array) -> pa.Array:
    """Return the least and the greatest value."""
    ends = pc.min_max(present)
    if not pt.is_floating(present.type):
        return pa.concat_arrays([pa.repeat(ends["min"], 1), pa.repeat(ends["max"], 1)])
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    # Arrow takes the zeros for equal, but in a summary the negative one is less than the positive one.
    zeros = present.filter(pc.equal(present, 0)).view(pa.int32() if pt.is_float32(present.type) else pa.int64())
    if least == 0:
        least = -0.0 if pc.any(pc.less(zeros, 0)).as_py() else 0.0
    if greatest == 0:
        greatest = 0.0 if pc.any(pc.equal(zeros, 0)).as_py() else -0.0
    return pa.array([least, greatest], present.type)
