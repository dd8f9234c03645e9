"""Entries of manifests for files that were written (Iceberg spec, "Manifests")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.files.write.written import leaf_paths, struct_paths, written_leaves
from deltaberg.files.write.written_footers import parquet_leaves
from deltaberg.iceberg.manifests.fields import ADDED, DATA, FURTHER, METRICS, WHOLE_ENTRIES
from deltaberg.iceberg.manifests.manifests import no_entries
from deltaberg.iceberg.manifests.metrics_modes import MetricsMode, cut_lower, cut_upper
from deltaberg.iceberg.manifests.write_manifest import partition_values
from deltaberg.iceberg.schema.type_names import is_shape
from deltaberg.iceberg.schema.value_bytes import encode_values, has_value_bytes
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Field, List, Map, Struct, field_paths, nested_fields

__all__ = ["added_entries", "entry_columns", "leaves_with_metrics"]

_Column = tuple[int, pa.Array]


def entry_columns(partition: Struct) -> pa.Schema:
    """Return the columns of whole entries as they are written: those that are read, without their position."""
    found: pa.Schema = no_entries(partition, WHOLE_ENTRIES).schema
    return found.remove(found.get_field_index("position"))


def leaves_with_metrics(schema: Struct, modes: Mapping[int, MetricsMode]) -> frozenset[int]:
    """Return the numbers of the leaves whose statistics are taken while rows are written."""
    return frozenset(number for number, path in leaf_paths(schema).items() if _mode(path[-1], modes).counts)


def added_entries(
    files: pa.Table,
    location: str,
    schema: Struct,
    partition: Struct,
    modes: Mapping[int, MetricsMode],
    *,
    sort_order_id: int | None = None,
) -> pa.Table:
    """Return entries that add files. What they inherit from the manifest list is null.

    Parameters
    ----------
    files
        The rows that describe the files, with what their footers tell.
    location
        The recorded location that the paths of the files are relative to.
    schema
        The columns with which the files were written.
    partition
        The partition struct of their spec.
    modes
        Which metrics are recorded.
    sort_order_id
        The order of the rows in the files; None for an unknown one.
    """
    target = entry_columns(partition)
    rows = len(files)
    metrics = _metrics(files, schema, modes)
    own: dict[str, pa.Array] = {
        "status": pa.repeat(pa.scalar(ADDED, pa.int32()), rows),
        "content": pa.repeat(pa.scalar(DATA, pa.int32()), rows),
        "file_path": pc.binary_join_element_wise(location, files.column("path"), "/"),
        "file_format": pc.utf8_upper(files.column("format")),
        "partition": partition_values(as_array(files.column("partition")), target.field("partition")),
        "record_count": files.column("record_count"),
        "file_size_in_bytes": files.column("size"),
        "split_offsets": _known(as_array(files.column("split_offsets"))).cast(FURTHER["split_offsets"].type),
    }
    for name, (column, _) in METRICS.items():
        own[name] = _maps(metrics[name], rows, column.type)
    if sort_order_id is not None:
        own["sort_order_id"] = pa.repeat(pa.scalar(sort_order_id, pa.int32()), rows)
    columns = [as_array(own[child.name]) if child.name in own else pa.nulls(rows, child.type) for child in target]
    return pa.Table.from_arrays(columns, schema=target)


def _is_counted(nulls: pa.Array | None) -> TypeGuard[pa.Array]:
    return nulls is not None and nulls.null_count < len(nulls)


def _known(offsets: pa.ListArray) -> pa.ListArray:
    """Return where files can be split; null for files of which it is not known."""
    return pc.if_else(pc.greater(pc.list_value_length(offsets), 0), offsets, pa.scalar(None, offsets.type))


def _metrics(files: pa.Table, schema: Struct, modes: Mapping[int, MetricsMode]) -> dict[str, list[_Column]]:
    """Return the columns of each metric, with their ids."""
    metrics: dict[str, list[_Column]] = {name: [] for name in METRICS}
    counts = as_array(files.column("record_count"))
    leaves = {name: written_leaves(files, name) for name in ("null_count", "nan_count", "lower", "upper")}
    for number, path in leaf_paths(schema).items():
        mode, child = _mode(path[-1], modes), path[-1]
        if child.id is None or not mode.counts:
            continue
        nulls = leaves["null_count"].get(number)
        if not _is_counted(nulls):
            # Nothing was written of it: a void column, or a variant whose nulls were not counted.
            continue
        metrics["value_counts"].append((child.id, counts))
        metrics["null_value_counts"].append((child.id, nulls))
        nans = leaves["nan_count"].get(number)
        if nans is not None:
            metrics["nan_value_counts"].append((child.id, nans))
        if mode.bounds and has_value_bytes(child.type) and not is_shape(child):
            for side, name, cut in (("lower", "lower_bounds", cut_lower), ("upper", "upper_bounds", cut_upper)):
                bounds = leaves[side].get(number)
                if bounds is not None:
                    metrics[name].append((child.id, encode_values(_cut(bounds, cut, mode.length), child.type)))
    struct_nulls = written_leaves(files, "struct_null_count")
    for field_id, path in struct_paths(schema).items():
        nulls = struct_nulls.get(field_id)
        if _is_counted(nulls) and _mode(path[-1], modes).counts:
            metrics["value_counts"].append((field_id, counts))
            metrics["null_value_counts"].append((field_id, nulls))
    _add_footer_metrics(metrics, files, schema, modes)
    return metrics


def _add_footer_metrics(
    metrics: dict[str, list[_Column]], files: pa.Table, schema: Struct, modes: Mapping[int, MetricsMode]
) -> None:
    # The leaves, in the order in which they are numbered.
    leaves = [child for *_, child in field_paths(schema) if not isinstance(child.type, (Struct, List, Map))]
    names = {"column_sizes": "column_size", "value_counts": "inner_count", "null_value_counts": "inner_null_count"}
    facts = {name: written_leaves(files, column) for name, column in names.items()}
    corners = {f"{side}_bounds": written_leaves(files, f"{side}_point") for side in ("lower", "upper")}
    for leaf in {leaf.number: leaf for leaves in parquet_leaves(schema).values() for leaf in leaves}.values():
        child = leaves[leaf.number]
        mode = _mode(child, modes)
        if child.id is None or not mode.counts:
            continue
        # Of shapes, bounds are points.
        bounds = corners if mode.bounds and is_shape(child) else {}
        for name, by_leaf in (*facts.items(), *bounds.items()):
            values = by_leaf.get(leaf.number)
            if values is not None:
                metrics[name].append((child.id, values))
    for columns in metrics.values():
        columns.sort(key=lambda pair: pair[0])


def _mode(child: Field, modes: Mapping[int, MetricsMode]) -> MetricsMode:
    """Return the mode of a column. Structs, lists and maps have none, and are counted with the leaves in them."""
    counts = any(_mode(inner, modes).counts for inner in nested_fields(child.type))
    return modes.get(-1 if child.id is None else child.id, MetricsMode(counts, bounds=False))


def _cut(bounds: pa.Array, cut: Any, length: int | None) -> pa.Array:
    if length is None or not (pt.is_string(bounds.type) or pt.is_binary(bounds.type)):
        return bounds
    return pa.array([None if value is None else cut(value, length) for value in bounds.to_pylist()], bounds.type)


def _maps(columns: Sequence[_Column], rows: int, kind: pa.MapType) -> pa.MapArray:
    """Return a map for each file, from the ids of columns to values that are not null; null for an empty map."""
    lists = [(number, values.to_pylist()) for number, values in columns]
    found = ([(number, values[row]) for number, values in lists if values[row] is not None] for row in range(rows))
    return pa.array((pairs or None for pairs in found), kind)
