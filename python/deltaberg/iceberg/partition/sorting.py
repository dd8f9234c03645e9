"""Sorting rows by a sort order (Iceberg spec, "Sorting")."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.iceberg.metadata.sort_orders import SortField, SortOrder
from deltaberg.iceberg.partition.structs import path_to_id
from deltaberg.iceberg.partition.transforms import Identity, Unknown, Void, parse_transform
from deltaberg.schema import Struct

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
        >>> from deltaberg.schema import Field, Primitive
        >>> schema = Struct((Field("x", Primitive("double"), id=1),))
        >>> sort = RowSorter(schema, (SortField((1,), "identity", "desc", "nulls-first"),))
        >>> sort(pa.table({"x": [1.0, float("nan"), None, 2.0]}))["x"].to_pylist()
        [None, nan, 2.0, 1.0]
        """
        keys: dict[str, pa.ChunkedArray] = {}
        order: list[tuple[str, str]] = []
        for number, part in enumerate(self.fields):
            values = self._values(rows, part)
            direction = "ascending" if part.direction == "asc" else "descending"
            if values.null_count:
                # One place of nulls holds for all keys of a sort, so they get a key of their own.
                keys[f"n{number}"] = pc.is_null(values)
                order.append((f"n{number}", "descending" if part.null_order == "nulls-first" else "ascending"))
            keys[f"v{number}"] = _ordered(values)
            order.append((f"v{number}", direction))
        # The position keeps equal rows in their order.
        keys["at"] = pa.chunked_array([pa.array(range(rows.num_rows), pa.int64())])
        chosen = pc.sort_indices(pa.table(keys), [*order, ("at", "ascending")])
        return rows.take(chosen)

    def _values(self, rows: pa.Table, part: SortField) -> pa.ChunkedArray:
        path = path_to_id(self.schema, part.source_ids[0])
        column = rows.column(path[0].name)
        for step in path[1:]:
            column = pc.struct_field(column, column.type.get_field_index(step.name))
        transform = parse_transform(part.transform)
        if isinstance(transform, Identity):
            return column
        arrays = [transform.apply(chunk, path[-1].type) for chunk in column.chunks]
        return pa.chunked_array(arrays) if arrays else column


def _ordered(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that sort as the specification wants it."""
    kind = values.type
    if pt.is_floating(kind):
        bits, largest = (pa.int32(), 0x7FFFFFFF) if kind.bit_width == 32 else (pa.int64(), 0x7FFFFFFFFFFFFFFF)
        numbers = pa.chunked_array([chunk.view(bits) for chunk in values.chunks], bits)
        # Negative numbers are ordered the other way round.
        flipped = pc.bit_wise_xor(numbers, pa.scalar(largest, bits))
        return pc.if_else(pc.less(numbers, 0), flipped, numbers)
    if pt.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    return values


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
