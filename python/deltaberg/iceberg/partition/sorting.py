"""Sorting rows by a sort order (Iceberg spec, "Sorting")."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder
from deltaberg.iceberg.partition.assign import AppliedTransform
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.iceberg.partition.transforms import Identity, Unknown, Void, parse_transform
from deltaberg.schema.types import Struct
from deltaberg.table.sort.order import OrderTerm, sort_indices

__all__ = ["RowSorter", "row_sorter"]


@dataclass(frozen=True)
class RowSorter:
    """Sorts rows with the columns of a table; it pickles.

    Parameters
    ----------
    schema
        The columns.
    fields
        The terms of the order.
    """

    schema: Struct
    fields: tuple[SortField, ...]

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Return the rows in order. Rows that are equal stay in theirs.

        Nulls are where the order wants them. Of floating-point numbers, -NaN is the least and NaN the greatest, and
        -0.0 is less than 0.0.

        Examples
        --------
        >>> from deltaberg.schema.types import Field, Primitive
        >>> schema = Struct((Field("x", Primitive("double"), id=1),))
        >>> sort = RowSorter(schema, (SortField((1,), "identity", "desc", "nulls-first"),))
        >>> sort(pa.table({"x": [1.0, float("nan"), None, 2.0]}))["x"].to_pylist()
        [None, nan, 2.0, 1.0]
        """
        return rows.take(sort_indices(rows, self.terms))

    @property
    def terms(self) -> tuple[OrderTerm, ...]:
        """The terms of the order."""
        return tuple(_term(self.schema, part) for part in self.fields)


def _term(schema: Struct, part: SortField) -> OrderTerm:
    path = path_to_id(schema, part.source_ids[0])
    transform = parse_transform(part.transform)
    applied = None if isinstance(transform, Identity) else AppliedTransform(transform, path[-1].type)
    nulls_first = part.null_order == "nulls-first"
    return OrderTerm(tuple(step.name for step in path), applied, part.direction != "asc", nulls_first)


def row_sorter(order: SortOrder, schema: Struct) -> RowSorter | None:
    """Return what sorts rows by an order; None if rows cannot be sorted by it, or need not be.

    Terms whose transform is not known, or whose column is gone, cannot be sorted by.
    """
    terms = [(part, parse_transform(part.transform)) for part in order.fields]
    known = [
        len(part.source_ids) == 1 and bool(path_to_id(schema, part.source_ids[0])) and not isinstance(term, Unknown)
        for part, term in terms
    ]
    if not all(known):
        return None
    fields = tuple(part for part, term in terms if not isinstance(term, Void))
    return RowSorter(schema, fields) if fields else None
