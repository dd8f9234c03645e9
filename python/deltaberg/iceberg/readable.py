"""Metrics and partition summaries as values and text: what metadata tables show of maps and of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from deltaberg import kernels
from deltaberg.iceberg.evolution import nested_fields
from deltaberg.iceberg.partitioning import AS_TEXT, field_by_id, partition_struct
from deltaberg.iceberg.planning import ManifestReader
from deltaberg.iceberg.schema import SHAPE, iceberg_type_name
from deltaberg.iceberg.spec import PartitionField
from deltaberg.iceberg.transforms import parse_transform
from deltaberg.schema import DataType, Decimal, Field, Fixed, Primitive, Struct, arrow_type

__all__ = ["readable_metrics", "readable_summaries"]

_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
_BOUNDS = {"lower_bound": "lower_bounds", "upper_bound": "upper_bounds"}
_BYTES = pa.map_(pa.int32(), pa.binary())
_SUMMARIES = pa.list_(
    pa.struct(
        [
            pa.field("contains_null", pa.bool_()),
            pa.field("contains_nan", pa.bool_()),
            pa.field("lower_bound", pa.string()),
            pa.field("upper_bound", pa.string()),
        ]
    )
)


def readable_metrics(files: pa.Table, schema: Struct) -> pa.StructArray:
    """Give the metrics of files with a struct for each column: its counts, and its bounds in its own type.

    Columns within others have names with dots, as ``address.city`` or ``tags.element``. A bound that is no value of
    the type is null.

    Parameters
    ----------
    files
        The metrics as manifests have them (`METRICS`).
    schema
        The columns that are wanted.
    """
    leaves = list(_leaves(schema, ""))
    ids = [child.id or 0 for _, child in leaves]
    bounded = [(child.id or 0, iceberg_type_name(child.type)) for _, child in leaves if _has_bounds(child)]
    counts = {name: kernels.parse_counts(_one(files.column(column)), ids) for name, column in _COUNTS.items()}
    bounds = {name: kernels.parse_bounds(_one(files.column(column)), bounded) for name, column in _BOUNDS.items()}
    arrays = []
    for _, child in leaves:
        key, target = str(child.id or 0), arrow_type(child.type)
        parts = {name: found.column(key) for name, found in counts.items()}
        for name, found in bounds.items():
            parts[name] = found.column(key).cast(target) if _has_bounds(child) else pa.nulls(len(files), target)
        arrays.append(pa.StructArray.from_arrays(list(parts.values()), names=list(parts)))
    if not arrays:
        return pa.Array.from_buffers(pa.struct([]), len(files), [None], children=[])
    return pa.StructArray.from_arrays(arrays, names=[name for name, _ in leaves])


def _leaves(within: DataType, path: str) -> Iterator[tuple[str, Field]]:
    """Give the columns of plain types with their names."""
    for child in nested_fields(within):
        name = f"{path}{child.name}"
        if isinstance(child.type, (Primitive, Decimal, Fixed)):
            if child.type != Primitive("variant"):
                yield name, child
        else:
            yield from _leaves(child.type, f"{name}.")


def _has_bounds(child: Field) -> bool:
    """Say whether bounds are values of the column's type: those of shapes are points."""
    return child.type != Primitive("void") and SHAPE not in child.metadata


def readable_summaries(manifests: pa.Table, reader: ManifestReader) -> pa.ListArray:
    """Give the partition summaries of manifests with bounds as text, as paths of data files show partition values.

    A bound is null where its type is known no longer.
    """
    rows: list[list[dict[str, Any]] | None] = manifests.column("partitions").to_pylist()
    specs = manifests.column("partition_spec_id").to_pylist()
    for number in sorted(set(specs)):
        spec = reader.spec_of(number)
        mine = [row for row, found in zip(rows, specs, strict=True) if found == number and row is not None]
        kinds = partition_struct(spec, reader.schemas)
        for index in range(max(map(len, mine), default=0)):
            summaries = [row[index] for row in mine if index < len(row)]
            part = spec.fields[index] if index < len(spec.fields) else None
            for name in _BOUNDS:
                found = [summary[name] for summary in summaries]
                kind = None if part is None else kinds.fields[index]
                texts = _texts(found, part, kind, reader.schemas)
                for summary, text in zip(summaries, texts, strict=True):
                    summary[name] = text
    return pa.array(rows, _SUMMARIES)


def _texts(
    bounds: Sequence[bytes | None], part: PartitionField | None, kind: Field | None, schemas: Sequence[Struct]
) -> list[str | None]:
    source = None if part is None else field_by_id(schemas, part.source_ids[0])
    if part is None or kind is None or source is None or AS_TEXT in kind.metadata:
        return [None] * len(bounds)
    maps = pa.array([None if bound is None else [(0, bound)] for bound in bounds], _BYTES)
    values = kernels.parse_bounds(maps, [(0, iceberg_type_name(kind.type))]).column(0).cast(arrow_type(kind.type))
    transform = parse_transform(part.transform)
    return [transform.to_human(value, source.type) if value.is_valid else None for value in values]


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
