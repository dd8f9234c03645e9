"""The orders that rows are put into while their files are rewritten: by columns, or along a curve through several.

An order is asked for by names (`RowOrder`), and bound to the columns of a table (`BoundOrder`). Rows are sorted on
disk, so that memory does not grow with them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.hints import Hint, verbatim
from deltaberg.schema.arrow import arrow_schema, arrow_type
from deltaberg.schema.columns import ColumnName, column_names, find_column
from deltaberg.schema.types import Field, List, Map, Struct
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.sort.curves import Curve, RangeSample, has_ranges
from deltaberg.table.sort.external_sort import sort_batches
from deltaberg.table.sort.order import OrderTerm, TermText
from deltaberg.table.write.spec import PartitionField

__all__ = ["BoundOrder", "OrderKind", "RowOrder", "order_terms"]

#: How rows are ordered: by one column after the other, or along a curve on which several columns count alike.
OrderKind = Literal["sort", "z-order", "hilbert"]
#: The argument for each order.
_ARGUMENTS: dict[OrderKind, str] = {"sort": "sort_by", "z-order": "z_order_by", "hilbert": "hilbert_by"}
#: A curve has so many columns at most; see `curve_keys`.
_MOST_COLUMNS = 16
#: Rows that are sorted take this share of the memory of the scan.
_SHARE = 2
_KEY = "_curve_key"
_RECORD_STATISTICS = (
    "have them recorded first: the properties delta.dataSkippingStatsColumns and delta.dataSkippingNumIndexedCols of a "
    "Delta table, or write.metadata.metrics.column.NAME of an Iceberg table, say which columns have some"
)


@dataclass(frozen=True)
class RowOrder:
    """An order as it is asked for.

    Parameters
    ----------
    kind
        Whether rows are sorted by columns, or along which curve.
    columns
        The names of the columns; of a sort with ``desc`` and ``nulls last`` where it is not the default.

    Raises
    ------
    InvalidArgumentError
        There is no column, or there are too many.
    """

    kind: OrderKind
    columns: tuple[ColumnName, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidArgumentError(
                Hint(f"{self.argument} names no column"), hint="leave it out if rows are not to be ordered"
            )
        if self.kind != "sort" and len(self.columns) > _MOST_COLUMNS:
            raise InvalidArgumentError(
                Hint(f"{self.argument} names {len(self.columns)} columns, but a curve takes {_MOST_COLUMNS} at most"),
                hint="name the columns that filters ask for most: every other one makes it weaker for these",
            )

    @property
    def argument(self) -> str:
        """The argument that asks for it, as hints mark it."""
        return f"⟪{_ARGUMENTS[self.kind]}⟫"

    @classmethod
    def of(
        cls,
        sort_by: ColumnName | Sequence[ColumnName] | None = None,
        z_order_by: ColumnName | Sequence[ColumnName] | None = None,
        hilbert_by: ColumnName | Sequence[ColumnName] | None = None,
    ) -> RowOrder | None:
        """Return the order that one of the arguments of a verb asks for; None if there is none.

        Examples
        --------
        >>> RowOrder.of(z_order_by="day")
        RowOrder(kind='z-order', columns=('day',))
        """
        given = dict(zip(_ARGUMENTS, (sort_by, z_order_by, hilbert_by), strict=True))
        orders = [cls(kind, tuple(column_names(names))) for kind, names in given.items() if names is not None]
        if len(orders) > 1:
            named = " and ".join(order.argument for order in orders)
            raise InvalidArgumentError(Hint(f"{named} exclude each other"), hint="pass one of them")
        return orders[0] if orders else None

    def bind(
        self,
        schema: Struct,
        partition: Sequence[PartitionField],
        has_statistics: Callable[[tuple[Field, ...]], bool],
        terms: Callable[[Sequence[ColumnName]], tuple[OrderTerm, ...]],
    ) -> BoundOrder:
        """Return the order of the rows of a table.

        Parameters
        ----------
        schema
            The columns.
        partition
            The partition fields of new files.
        has_statistics
            Whether bounds of a column are recorded, by the path of its fields: without them no file is skipped.
        terms
            Returns the terms that names of a sort mean; see `order_terms`.

        Raises
        ------
        InvalidArgumentError
            A column cannot be ordered by, or is named twice.
        ColumnNotFoundError
            There is no such column.
        UnsupportedFeatureError
            A curve through a column without statistics, or with one value in each partition, is asked for.
        """
        if self.kind == "sort":
            return BoundOrder(terms(self.columns))
        constant = {part.source for part in partition if part.transform is None}
        found: list[OrderTerm] = []
        for path in (_ordered_column(schema, name) for name in self.columns):
            source = tuple(part.name for part in path)
            if any(term.source == source for term in found):
                raise InvalidArgumentError(
                    Hint(f"a column is named twice in {self.argument}"), hint="name it once", column=".".join(source)
                )
            if source in constant:
                raise UnsupportedFeatureError(
                    Hint(f"{self.argument} names a partition column, of which all rows of a partition have one value"),
                    hint="leave it out: files are never put together across partitions",
                    column=".".join(source),
                )
            if not has_statistics(path):
                raise UnsupportedFeatureError(
                    Hint(f"{self.argument} names a column without statistics, so that no filter skips files by it"),
                    hint=_RECORD_STATISTICS,
                    column=".".join(source),
                )
            found.append(OrderTerm(source))
        return BoundOrder(tuple(found), self.kind if len(found) > 1 else None)


@dataclass(frozen=True)
class BoundOrder:
    """An order of the rows of a table.

    Parameters
    ----------
    terms
        The terms of a sort, or the columns of a curve.
    curve
        ``z-order`` or ``hilbert``; None for a sort. A curve through one column is a sort by it.
    """

    terms: tuple[OrderTerm, ...]
    curve: str | None = None

    def parts(self, scan: BoundScan, count: int) -> Iterator[Generator[pa.RecordBatch, None, None]]:
        """Return the rows of a scan in order, with the same columns, in parts that each go into files of their own.

        A part must be taken before the next one is. A sort is one part. A curve is cut into about equally many rows, at
        places where it enters a large cell: a part with a bit of the next cell would be found by filters on all of that
        cell. The columns of the curve are read once before.

        Parameters
        ----------
        count
            How many parts a curve is cut into.
        """
        memory = max(scan.options.memory // _SHARE, 1)
        schema = arrow_schema(scan.output)
        if self.curve is None:
            yield _sorted(scan, schema, self.terms, memory)
            return
        sources = [term.source for term in self.terms]
        sample = RangeSample(sources)
        with closing(scan.with_columns(sources).batches()) as batches:  # type: ignore[type-var]
            for batch in batches:
                sample.add(batch)
        curve = sample.curve(self.curve)
        if curve is None:
            return
        key = _KEY
        while key in schema.names:
            key = f"_{key}"
        terms, whole = (OrderTerm((key,)),), schema.append(pa.field(key, curve.key_type))
        with closing(_sorted(scan, whole, terms, memory, curve)) as batches:
            yield from _divided(batches, sample.cuts(curve, count))


def _sorted(
    scan: BoundScan, schema: pa.Schema, terms: Sequence[OrderTerm], memory: int, curve: Curve | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """Return the rows of a scan in order. Their place on a curve is the last column of the schema."""
    with closing(scan.batches()) as batches:  # type: ignore[type-var]
        rows: Iterator[pa.RecordBatch] = batches
        if curve is not None:
            rows = (batch.append_column(schema.names[-1], curve.keys(batch)) for batch in batches)
        yield from sort_batches(rows, schema, terms, memory=memory)


def _divided(
    batches: Iterator[pa.RecordBatch], cuts: Sequence[bytes]
) -> Iterator[Generator[pa.RecordBatch, None, None]]:
    """Divide rows that are sorted by their last column, and leave it out. A part begins with each cut."""
    rest: list[pa.RecordBatch] = []

    def until(cut: bytes | None) -> Generator[pa.RecordBatch, None, None]:
        while True:
            batch = rest.pop() if rest else next(batches, None)
            if batch is None:
                return
            keys, count = batch.column(batch.num_columns - 1), batch.num_rows
            end = count if cut is None else bisect_left(range(count), cut, key=lambda place: keys[place].as_py())
            if end:
                yield batch.slice(0, end).select(batch.schema.names[:-1])
            if end < count:
                rest.append(batch.slice(end))
                return

    for cut in (*cuts, None):
        yield until(cut)


def order_terms(schema: Struct, names: Sequence[ColumnName]) -> tuple[OrderTerm, ...]:
    """Return the terms of a sort by columns.

    Raises
    ------
    InvalidArgumentError
        Values of a column have no order.
    ColumnNotFoundError
        There is no such column.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> order_terms(Struct((Field("id", Primitive("long")),)), ["id desc nulls first"])
    (OrderTerm(source=('id',), transform=None, descending=True, nulls_first=True),)
    """
    found = []
    for said in map(TermText.of, names):
        path = _ordered_column(schema, said.term)
        source = tuple(part.name for part in path)
        found.append(OrderTerm(source, descending=said.descending, nulls_first=said.nulls_first))
    return tuple(found)


def _ordered_column(schema: Struct, name: ColumnName) -> tuple[Field, ...]:
    path = find_column(schema, name)
    kind = path[-1].type
    if isinstance(kind, (Struct, List, Map)) or not has_ranges(arrow_type(kind)):
        raise InvalidArgumentError(
            f"values of the type {verbatim(str(kind))} have no order",
            hint="name a field of the struct" if isinstance(kind, Struct) else "name another column",
            column=".".join(part.name for part in path),
        )
    return path
