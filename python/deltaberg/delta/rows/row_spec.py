"""The rules of a Delta table for the data files that rows are written to."""

from __future__ import annotations

from dataclasses import replace

from deltaberg.delta.actions.domains import clustering_columns
from deltaberg.delta.data.bound_prefixes import cut_bounds
from deltaberg.delta.properties.auto_optimize import optimizes_writes
from deltaberg.delta.properties.properties import target_size
from deltaberg.delta.properties.writer_properties import parquet_options
from deltaberg.delta.rows.curve_sorter import CurveSorter
from deltaberg.delta.schema.iceberg_compat import is_compatible
from deltaberg.delta.schema.indexed_columns import indexed_columns
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.files.write.written import leaf_paths
from deltaberg.schema.types import Field, Primitive
from deltaberg.table.property_values import number_of
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.write.spec import WriteSpec, partition_columns

__all__ = ["RowOptions", "row_spec"]

_RANDOM_PREFIXES, _PREFIX_LENGTH = "delta.randomizeFilePrefixes", "delta.randomPrefixLength"


def row_spec(table: Snapshot, options: RowOptions) -> WriteSpec:
    """Return the rules of a table for the files that rows are written to.

    Raises
    ------
    SchemaError
        A property is not valid.
    """
    configuration = table.metadata.configuration
    target = options.target_file_size or target_size(configuration)
    is_optimized = optimizes_writes(configuration)
    spec = WriteSpec(
        table.schema,
        partition_columns(table.schema, [(field.name,) for field in table.partition_fields]),
        options.conform(),
        parquet_options(table, options.writer_properties, options.compression),
        statistics=_leaves_with_statistics(table),
        cut=cut_bounds,
        stores_partition_columns=is_compatible(table.active_features),
        partition_columns_last=True,
        random_prefix=_prefix_length(table),
        balanced=is_optimized,
        sort=CurveSorter.of(table) if is_optimized else None,
        memory=options.waiting,
    )
    return spec if target is None else replace(spec, target_size=target, is_sized=True)


def _prefix_length(table: Snapshot) -> int:
    """Return how many random characters name the directory of a data file; 0 for none."""
    if not table.is_enabled(_RANDOM_PREFIXES):
        return 0
    return number_of(table.metadata.configuration, _PREFIX_LENGTH, 2)


def _leaves_with_statistics(table: Snapshot) -> frozenset[int]:
    """Return the numbers of the leaves whose statistics the table records.

    Those of the columns by which it is clustered are recorded wherever they are in the schema.
    """
    configuration = table.metadata.configuration
    partition = [field.name for field in table.partition_fields]
    indexed = {_physical(path) for path in indexed_columns(table.schema, partition, configuration)}
    indexed |= set(clustering_columns(table.domains))
    return frozenset(
        number
        for number, path in leaf_paths(table.schema).items()
        if _physical(path) in indexed and path[-1].type != Primitive("void")
    )


def _physical(path: tuple[Field, ...]) -> tuple[str, ...]:
    return tuple(part.physical_name for part in path)
