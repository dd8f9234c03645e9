"""Rows of a clustered table in the order of its clustering, as they are written.

They are put in order file by file. Clustering them together with other files is up to compaction, so that the files
have no marks of it (Delta protocol, "Clustered Table").
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from deltaberg.delta.schema.column_mapping import clustering_names
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.schema.columns import find_column
from deltaberg.table.sort.curves import RangeSample
from deltaberg.table.sort.order import OrderTerm, sort_indices

__all__ = ["CurveSorter"]


@dataclass(frozen=True)
class CurveSorter:
    """Puts rows along Hilbert's curve; it pickles.

    Parameters
    ----------
    sources
        The names from the root of the schema to each column. Rows are sorted by a single one.
    """

    sources: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, table: Snapshot) -> CurveSorter | None:
        """Return what puts rows in the order of the clustering of a table; None if it is not clustered."""
        names = clustering_names(table.schema, table.domains)
        paths = (find_column(table.schema, name) for name in names)
        return cls(tuple(tuple(part.name for part in path) for path in paths)) if names else None

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Return the rows in order.

        Examples
        --------
        >>> rows = pa.table({"x": [9, 1, 8, None], "y": [7, 2, 9, 1]})
        >>> CurveSorter((("x",),))(rows)["y"].to_pylist()
        [1, 2, 9, 7]
        """
        terms = [OrderTerm(source) for source in self.sources]
        if len(terms) == 1:
            return rows.take(sort_indices(rows, terms))
        batches, sample = rows.to_batches(), RangeSample(terms)
        for batch in batches:
            sample.add(batch)
        curve = sample.curve("hilbert")
        if curve is None:
            return rows
        keys = pa.chunked_array([curve.keys(batch) for batch in batches], curve.key_type)
        return rows.take(sort_indices(pa.table({"key": keys}), (OrderTerm(("key",)),)))
