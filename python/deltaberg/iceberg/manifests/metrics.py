"""Metrics of data files, read for some columns at a time (Iceberg spec, "Manifests", and Appendix D)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.iceberg.manifests.fields import ManifestPart
from deltaberg.iceberg.manifests.reader import Entries, ManifestReader
from deltaberg.iceberg.schema.type_names import iceberg_type_name, is_shape
from deltaberg.kernels import plain_values as pv
from deltaberg.pruning.stats import ColumnStats, FileStats, StatsKey, stats_key
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.types import Decimal, Field, Fixed, Primitive

__all__ = ["Metrics", "entry_numbers", "manifests_of", "metric_names"]

#: The metrics that filters use.
_NAMES = ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
#: An entry's number has the number of its manifest in the upper bits, and its position there in the lower ones.
_MANIFEST_SHIFT = 32
_FLOATING = frozenset({"float", "double"})


def entry_numbers(table: pa.Table) -> pa.Int64Array:
    """Return the numbers of entries, which are unique in a snapshot."""
    manifests = table.column("manifest").cast(pa.int64())
    return as_array(pc.add(pc.multiply(manifests, pv.scalar(1 << _MANIFEST_SHIFT)), table.column("position")))


def manifests_of(manifests: pa.Table, entries: pa.Int64Array) -> pa.Table:
    """Return the manifests that hold the entries of these numbers."""
    numbers = pc.divide(entries, 1 << _MANIFEST_SHIFT).unique()
    return manifests.filter(pc.is_in(manifests.column("number").cast(pa.int64()), value_set=numbers))


def metric_names(columns: Iterable[tuple[Field, ...]]) -> tuple[str, ...]:
    """Return the metrics that filters on some columns use.

    The counts of a field of a struct need not include rows in which the struct is null: in ORC files they do not. How
    many values were counted tells these apart.
    """
    return (*_NAMES, "value_counts") if any(len(path) > 1 for path in columns) else _NAMES


class Metrics:
    """The metrics of the files of a snapshot.

    The metrics that a filter needs are read with the entries, and kept. Others are read from the manifests on demand.
    """

    def __init__(self, reader: ManifestReader) -> None:
        self._reader = reader
        self._ids: frozenset[int] = frozenset()
        self._kept: pa.Table | None = None

    def keep(self, ids: frozenset[int], entries: Sequence[Entries]) -> None:
        """Keep the metrics of some columns, which were read with entries."""
        if ids and entries:
            self._ids, self._kept = ids, _metrics_of(entries)

    def read(self, manifests: pa.Table, entries: pa.Int64Array, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Return the statistics of columns for the entries with these numbers, in the same order."""
        if not len(entries):
            return FileStats.unknown(0)
        ids = frozenset(path[-1].id for path in columns if path[-1].id is not None)
        kept = self._kept
        if kept is None or not ids <= self._ids or pc.index_in(entries, value_set=kept.column("number")).null_count:
            wanted = manifests_of(manifests, entries).to_pylist()
            kept = _metrics_of(self._reader.read(wanted, ManifestPart(metric_names(columns), ids)))
            self._ids, self._kept = ids, kept
        found = kept.take(pc.index_in(entries, value_set=kept.column("number")))
        counts = as_array(found.column("record_count"))
        stats: dict[StatsKey, ColumnStats] = {}
        maps = {name: as_array(found.column(name)) for name in metric_names(columns)}
        for path in columns:
            column = _column(maps, path[-1])
            number = path[-1].id
            if len(path) > 1 and column.null_count is not None and number is not None:
                values = kernels.parse_counts(maps["value_counts"], [number]).column(0)
                column = replace(column, null_count=_with_null_structs(column.null_count, values, counts))
            stats[stats_key(path)] = column
        return FileStats(len(entries), counts, stats)


def _with_null_structs(nulls: pa.Int64Array, values: pa.Int64Array, rows: pa.Int64Array) -> pa.Int64Array:
    """Return in how many rows a field of a struct is null, or the struct; null if the counts do not tell."""
    whole = pc.add(nulls, pc.subtract(rows, values))
    is_sound = pc.and_(pc.less_equal(values, rows), pc.less_equal(whole, rows))
    return pc.if_else(is_sound, whole, pv.scalar(None, pa.int64()))


def _metrics_of(entries: Sequence[Entries]) -> pa.Table:
    parts = []
    for found in entries:
        numbers = entry_numbers(found.table)
        names = [name for name in (*_NAMES, "value_counts") if name in found.table.column_names]
        parts.append(found.table.select(["record_count", *names]).append_column("number", numbers))
    return pa.concat_tables(parts).combine_chunks()


def _column(maps: dict[str, pa.Array], child: Field) -> ColumnStats:
    """Return the statistics of one column."""
    number, kind = child.id, child.type
    # A column of type unknown reads as null, whatever a writer counted.
    if number is None or str(kind) == "void":
        return ColumnStats()
    nulls = kernels.parse_counts(maps["null_value_counts"], [number]).column(0)
    # Structs, lists and maps have no bounds. Those of shapes are points, which do not bound the bytes of values.
    if not isinstance(kind, (Primitive, Decimal, Fixed)) or str(kind) == "variant" or is_shape(child):
        return ColumnStats(null_count=nulls)
    target = arrow_type(kind)
    lower, upper = (
        kernels.parse_bounds(maps[name], [(number, iceberg_type_name(kind))]).column(0)
        for name in ("lower_bounds", "upper_bounds")
    )
    if lower.type != target:
        lower, upper = lower.cast(target), upper.cast(target)
    if str(kind) not in _FLOATING:
        return ColumnStats(lower, upper, nulls)
    nan = kernels.parse_counts(maps["nan_value_counts"], [number]).column(0)
    return ColumnStats(lower, upper, nulls, nan_count=nan)
