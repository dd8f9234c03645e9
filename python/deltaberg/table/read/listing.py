"""Lists the files of a plan as one Arrow table, whose names and types callers can rely on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.kernels.results import empty_structs
from deltaberg.pruning.stats import ColumnStats, stats_key
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.columns import join_name
from deltaberg.schema.types import Field, Struct
from deltaberg.table.read.min_max import has_order
from deltaberg.table.read.plan import Plan, file_formats, file_numbers

__all__ = ["list_files"]

_VECTOR = pa.struct(
    [
        pa.field("file_path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size_in_bytes", pa.int64()),
        pa.field("cardinality", pa.int64()),
    ]
)


def list_files(plan: Plan, described: Struct | None) -> pa.Table:
    """Return a row for each file of a plan, as `Scan.files` describes it.

    ``described`` holds the columns whose statistics are wanted; None for no statistics.
    """
    source = plan.source
    columns = {
        "file_path": plan.located.column("location"),
        "file_format": file_formats(plan.files),
        "file_size_in_bytes": plan.files.column("size"),
        "modification_time": plan.files.column("modified").cast(pa.timestamp("ms", "UTC")),
        "record_count": plan.record_counts,
        "deleted_record_count": plan.deleted_counts,
        "deletion_vector": _vectors(plan),
        "partition": source.partition_values(plan.files),
        "residual": plan.filtered,
    }
    if described is not None:
        columns |= _statistics(plan, described)
    return pa.table(columns)


def _vectors(plan: Plan) -> pa.StructArray:
    vectors = as_array(plan.located.column("deletion_vector"))
    parts = ("location", "offset", "size", "cardinality")
    arrays = [pc.struct_field(vectors, part).cast(child.type) for part, child in zip(parts, _VECTOR, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(_VECTOR), mask=vectors.is_null())


def _statistics(plan: Plan, described: Struct) -> dict[str, pa.Array]:
    constants = set(plan.source.constants.names) - plan.source.layout.stored
    recorded = set(plan.source.schema.names) - constants
    paths = [path for path in _leaves(described) if path[0].name in recorded]
    # Without columns, a source need not read statistics at all.
    known = plan.source.statistics(file_numbers(plan.files), paths).columns if paths else {}
    stats = [(path, known.get(stats_key(path), ColumnStats())) for path in paths]
    bounded = [(path, column) for path, column in stats if has_order(path[-1].type)]
    lower = [(_field(path), column.lower) for path, column in bounded]
    upper = [(_field(path), column.upper) for path, column in bounded]
    nulls = [(_field(path, pa.int64()), column.null_count) for path, column in stats]
    rows = len(plan.files)
    return {
        name: _struct([child for child, _ in parts], [values for _, values in parts], rows)
        for name, parts in (("lower_bounds", lower), ("upper_bounds", upper), ("null_value_counts", nulls))
    }


def _leaves(found: Struct, above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    for child in found:
        if isinstance(child.type, Struct):
            yield from _leaves(child.type, (*above, child))
        else:
            yield (*above, child)


def _field(path: tuple[Field, ...], type: pa.DataType | None = None) -> pa.Field:
    return pa.field(join_name([part.name for part in path]), type or arrow_type(path[-1].type))


def _struct(fields: Sequence[pa.Field], values: Sequence[pa.Array | None], rows: int) -> pa.Array:
    """Return a struct of these fields in which no row is null."""
    if not fields:
        return empty_structs(rows)
    arrays = [
        pa.nulls(rows, child.type) if array is None else array.cast(child.type)
        for child, array in zip(fields, values, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(fields))
