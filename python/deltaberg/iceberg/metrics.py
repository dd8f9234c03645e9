"""Metrics of data files, for some columns at a time (Iceberg spec, "Manifests", and Appendix D)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.iceberg.manifests import ManifestPart
from deltaberg.iceberg.planning import Entries, ManifestReader
from deltaberg.iceberg.schema import SHAPE, iceberg_type_name
from deltaberg.pruning import ColumnStats, FileStats, StatsKey, stats_key
from deltaberg.schema import Decimal, Field, Fixed, Primitive, arrow_type

__all__ = ["METRIC_NAMES", "Metrics", "entry_rows"]

#: What filters use of the metrics.
METRIC_NAMES = ("null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
#: The number of an entry of a snapshot: its manifest's above, its own below.
_MANIFEST_SHIFT = 32
_FLOATING = frozenset({"float", "double"})


def entry_rows(table: pa.Table) -> pa.Int64Array:
    """Give the numbers by which the entries of a snapshot are known."""
    manifests = table.column("manifest").cast(pa.int64())
    rows = pc.add(pc.multiply(manifests, 1 << _MANIFEST_SHIFT), table.column("position"))
    return rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows


class Metrics:
    """The metrics of the data files of a snapshot.

    Those that a filter asked for were read with the entries and are kept; others are read again from the manifests.
    """

    def __init__(self, reader: ManifestReader) -> None:
        self._reader = reader
        self._ids: frozenset[int] = frozenset()
        self._kept: pa.Table | None = None

    def keep(self, ids: frozenset[int], entries: Sequence[Entries]) -> None:
        """Keep the metrics of some columns, which entries hold."""
        if ids and entries:
            self._ids, self._kept = ids, _metrics_of(entries)

    def read(self, manifests: pa.Table, rows: pa.Int64Array, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Give the statistics of columns for the entries of these numbers, in this order."""
        if not len(rows):
            return FileStats(0, pa.array([], pa.int64()))
        ids = frozenset(path[-1].id for path in columns if path[-1].id is not None)
        kept = self._kept
        if kept is None or not ids <= self._ids or pc.index_in(rows, value_set=kept.column("row")).null_count:
            numbers = pc.divide(rows, 1 << _MANIFEST_SHIFT).unique()
            wanted = manifests.filter(pc.is_in(manifests.column("number").cast(pa.int64()), value_set=numbers))
            part = ManifestPart(METRIC_NAMES, ids)
            kept = _metrics_of(self._reader.read(wanted.to_pylist(), part))
            self._ids, self._kept = ids, kept
        found = kept.take(pc.index_in(rows, value_set=kept.column("row")))
        counts = found.column("record_count").combine_chunks()
        stats: dict[StatsKey, ColumnStats] = {}
        maps = {name: _one(found.column(name)) for name in METRIC_NAMES}
        for path in columns:
            stats[stats_key(path)] = _column(maps, path[-1])
        return FileStats(len(rows), counts, stats)


def _metrics_of(entries: Sequence[Entries]) -> pa.Table:
    parts = []
    for found in entries:
        row = entry_rows(found.table)
        parts.append(found.table.select(["record_count", *METRIC_NAMES]).append_column("row", row))
    return pa.concat_tables(parts).combine_chunks()


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _column(maps: dict[str, pa.Array], child: Field) -> ColumnStats:
    """Give the statistics of one column; of a nested one nothing but what its leaves say is known."""
    number, kind = child.id, child.type
    # A column of no type reads as null, whatever a writer counted.
    if number is None or not isinstance(kind, (Primitive, Decimal, Fixed)) or str(kind) == "void":
        return ColumnStats()
    nulls = kernels.parse_counts(maps["null_value_counts"], [number]).column(0)
    # Bounds of shapes are points, between which the bytes of values do not lie.
    if str(kind) == "variant" or SHAPE in child.metadata:
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
