"""Metrics and partition summaries as values and text, the way metadata tables show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from deltaberg import kernels
from deltaberg.iceberg.manifests.reader import ManifestReader
from deltaberg.iceberg.metadata.specs import PartitionField
from deltaberg.iceberg.partition.structs import AS_TEXT, field_by_id, partition_struct
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.type_names import iceberg_type_name, is_shape
from deltaberg.kernels.results import empty_structs
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.types import DataType, Decimal, Field, Fixed, Primitive, Struct, field_paths

__all__ = ["TIME", "readable_metrics", "readable_summaries"]

#: The type of times in metadata tables.
TIME = pa.timestamp("ms", "UTC")
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
    """Return a struct for each file, with a struct for each column: its counts, and its bounds in the column's type.

    Nested columns have dotted names, as ``address.city`` or ``tags.element``. A bound that is not a value of the type
    is null.

    Parameters
    ----------
    files
        The metrics as manifests hold them (`METRICS`).
    schema
        The columns of the struct.
    """
    leaves = list(_leaves(schema))
    ids = [child.id or 0 for _, child in leaves]
    bounded = [(child.id or 0, iceberg_type_name(child.type)) for _, child in leaves if _has_bounds(child)]
    counts = {name: kernels.parse_counts(as_array(files.column(column)), ids) for name, column in _COUNTS.items()}
    bounds = {name: kernels.parse_bounds(as_array(files.column(column)), bounded) for name, column in _BOUNDS.items()}
    arrays = []
    for _, child in leaves:
        key, target = str(child.id or 0), arrow_type(child.type)
        parts = {name: found.column(key) for name, found in counts.items()}
        for name, found in bounds.items():
            parts[name] = found.column(key).cast(target) if _has_bounds(child) else pa.nulls(len(files), target)
        arrays.append(pa.StructArray.from_arrays(list(parts.values()), names=list(parts)))
    if not arrays:
        return empty_structs(len(files))
    return pa.StructArray.from_arrays(arrays, names=[name for name, _ in leaves])


def _leaves(within: DataType) -> Iterator[tuple[str, Field]]:
    """Yield the columns that are not nested, with their dotted names."""
    for path in field_paths(within):
        kind = path[-1].type
        if isinstance(kind, (Primitive, Decimal, Fixed)) and kind != Primitive("variant"):
            yield ".".join(part.name for part in path), path[-1]


def _has_bounds(child: Field) -> bool:
    """Return whether bounds are values of the column's type; those of shapes are points."""
    return child.type != Primitive("void") and not is_shape(child)


def readable_summaries(manifests: pa.Table, reader: ManifestReader) -> pa.ListArray:
    """Return the partition summaries of manifests, with bounds as text in the form of paths of data files.

    A bound is null if its type is no longer known.
    """
    rows: list[list[dict[str, Any]] | None] = manifests.column("partitions").to_pylist()
    specs = manifests.column("partition_spec_id").to_pylist()
    for number in sorted(set(specs)):
        spec = reader.spec_of(number)
        mine = [row for row, spec_id in zip(rows, specs, strict=True) if spec_id == number and row is not None]
        kinds = partition_struct(spec, reader.schemas)
        for index in range(max(map(len, mine), default=0)):
            summaries = [row[index] for row in mine if index < len(row)]
            part = spec.fields[index] if index < len(spec.fields) else None
            for name in _BOUNDS:
                bounds = [summary[name] for summary in summaries]
                kind = None if part is None else kinds.fields[index]
                texts = _texts(bounds, part, kind, reader.schemas)
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
    return [transform.to_text(value, source.type) if value.is_valid else None for value in values]
