"""The orders that rows are put into while their files are rewritten: by columns, or along a curve through several.

An order is asked for by names (`RowOrder`), and bound to the columns of a table (`BoundOrder`). A sample of rows tells
where it is cut into parts (`CutOrder`). Rows are sorted on disk, so that memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.hints import Hint
from deltaberg.schema.columns import ColumnName, ColumnNames, column_names, find_column
from deltaberg.schema.types import Field, Struct
from deltaberg.table.sort.curves import Curve, RangeSample, check_ordered
from deltaberg.table.sort.external_sort import RowKey, divided_rows, row_keys, sort_batches
from deltaberg.table.sort.order import OrderTerm, TermText
from deltaberg.table.sort.row_sample import OrderSample, RowSample
from deltaberg.table.write.spec import PartitionField

__all__ = ["BoundOrder", "CutOrder", "OrderKind", "RowOrder", "order_terms"]

#: How rows are ordered: by one column after the other, or along a curve on which several columns count alike.
OrderKind = Literal["sort", "z-order", "hilbert"]
#: The argument for each order.
_ARGUMENTS: dict[OrderKind, str] = {"sort": "sort_by", "z-order": "z_order_by", "hilbert": "hilbert_by"}
#: A curve has so many columns at most; see `curve_keys`.
_MOST_COLUMNS = 16
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
        The names of the columns, or transforms of them; of a sort with ``desc`` and ``nulls last`` where it is not the
        default.

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
        """The argument of the verb that asks for this order, as hints mark it."""
        return f"⟪{_ARGUMENTS[self.kind]}⟫"

    @classmethod
    def of(
        cls,
        sort_by: ColumnNames | None = None,
        z_order_by: ColumnNames | None = None,
        hilbert_by: ColumnNames | None = None,
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
            Returns the terms that names mean; see `order_terms`.

        Raises
        ------
        InvalidArgumentError
            A column cannot be ordered by, or is named twice, or with a direction for a curve.
        ColumnNotFoundError
            There is no such column.
        UnsupportedFeatureError
            A curve through a column without statistics, or with one value in each partition, is asked for.
        """
        if self.kind == "sort":
            return BoundOrder(terms(self.columns))
        bound_terms: list[OrderTerm] = []
        for term in terms(self.columns):
            name = ".".join(term.source)
            if term.descending or not term.nulls_first:
                raise InvalidArgumentError(
                    Hint(f"{self.argument} names a direction, which a curve does not have"),
                    hint="name the column alone",
                    column=name,
                )
            if term in bound_terms:
                raise InvalidArgumentError(
                    Hint(f"a column is named twice in {self.argument}"), hint="name it once", column=name
                )
            if any(part.source == term.source and part.transform in (None, term.transform) for part in partition):
                raise UnsupportedFeatureError(
                    Hint(f"{self.argument} names a partition column, of which all rows of a partition have one value"),
                    hint="leave it out: files are never put together across partitions",
                    column=name,
                )
            if not has_statistics(find_column(schema, term.source)):
                raise UnsupportedFeatureError(
                    Hint(f"{self.argument} names a column without statistics, so that no filter skips files by it"),
                    hint=_RECORD_STATISTICS,
                    column=name,
                )
            bound_terms.append(term)
        return BoundOrder(tuple(bound_terms), self.kind if len(bound_terms) > 1 else None)


@dataclass(frozen=True)
class BoundOrder:
    """An order of the rows of a table; it pickles.

    Parameters
    ----------
    terms
        The terms of a sort or of a curve.
    curve
        ``z-order`` or ``hilbert``; None for a sort. A curve through one term is a sort by it.
    """

    terms: tuple[OrderTerm, ...]
    curve: str | None = None

    @property
    def sources(self) -> list[tuple[str, ...]]:
        """The names from the root of the schema to each column that the order depends on."""
        return list(dict.fromkeys(term.source for term in self.terms))

    def sample(self, **arguments: int) -> RowSample:
        """Return a sample without rows, of which `cut` takes one; the arguments are those of `RowSample`."""
        return OrderSample(self.terms, **arguments) if self.curve is None else RangeSample(self.terms, **arguments)

    def cut(self, sample: RowSample, count: int, schema: pa.Schema) -> CutOrder | None:
        """Return the order cut into so many parts of about equally many rows, or fewer; None if there are no rows.

        A curve is cut where it enters a large cell: a part with a bit of the next cell would be found by filters on all
        of that cell.

        Parameters
        ----------
        schema
            The columns of the rows.
        """
        if isinstance(sample, OrderSample):
            return CutOrder(schema, self.terms, tuple(sample.cuts(count))) if sample.columns else None
        if not isinstance(sample, RangeSample) or self.curve is None:
            raise AssertionError("the sample is one of this order")
        curve, key = sample.curve(self.curve), _KEY
        if curve is None:
            return None
        while key in schema.names:
            key = f"_{key}"
        terms = (OrderTerm((key,)),)
        places = pa.record_batch([pa.array(sample.cuts(curve, count), curve.key_type)], [key])
        return CutOrder(schema, terms, tuple(row_keys(places, terms)), curve)

    def parts(
        self,
        rows: Callable[[], Iterator[pa.RecordBatch]],
        keys: Callable[[], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
        count: int,
        memory: int,
    ) -> Iterator[Generator[pa.RecordBatch, None, None]]:
        """Return rows in order, in parts that each go into files of their own.

        A part must be taken before the next one is. A sort is one part. The columns of a curve are read once before.

        Parameters
        ----------
        rows
            Reads the rows.
        keys
            Reads the columns `sources` of the same rows.
        schema
            The columns of the rows.
        count
            How many parts a curve is cut into.
        memory
            Bytes of rows in memory at most, approximately.
        """
        cut: CutOrder | None = CutOrder(schema, self.terms)
        if self.curve is not None:
            sample = self.sample()
            with closing(keys()) as batches:  # type: ignore[type-var]
                for batch in batches:
                    sample.add(batch)
            cut = self.cut(sample, count, schema)
        if cut is not None:
            with closing(rows()) as batches:  # type: ignore[type-var]
                for part in cut.parts(cut.placed(batches), memory):
                    yield cut.bare(part)


@dataclass(frozen=True)
class CutOrder:
    """An order, and where it is cut into parts. It pickles.

    Parameters
    ----------
    schema
        The columns of the rows.
    terms
        What rows are sorted by.
    cuts
        The keys that parts but the first one begin with.
    curve
        The curve on which rows have a place, which is then the last column while they are sorted; None for a sort.
    """

    schema: pa.Schema
    terms: tuple[OrderTerm, ...]
    cuts: tuple[RowKey, ...] = ()
    curve: Curve | None = None

    @property
    def stored(self) -> pa.Schema:
        """The columns of rows while they are sorted."""
        if self.curve is None:
            return self.schema
        return self.schema.append(pa.field(self.terms[0].source[0], self.curve.key_type))

    def placed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return rows with the columns that they have while they are sorted."""
        for batch in batches:
            yield batch if self.curve is None else batch.append_column(self.stored.names[-1], self.curve.keys(batch))

    def sorted(self, batches: Iterable[pa.RecordBatch], memory: int) -> Iterator[pa.RecordBatch]:
        """Return rows in order, which `placed` returned."""
        return sort_batches(batches, self.stored, self.terms, memory=memory)

    def parts(self, batches: Iterable[pa.RecordBatch], memory: int) -> Generator[Generator[pa.RecordBatch]]:
        """Return rows in order, which `placed` returned, in the parts of the order."""
        with closing(self.sorted(batches, memory)) as ordered:  # type: ignore[type-var]
            yield from divided_rows(ordered, self.terms, self.cuts)

    def bare(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        """Return rows as they were before `placed`."""
        for batch in batches:
            yield batch if self.curve is None else batch.select(range(len(self.schema)))


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
    terms = []
    for said in map(TermText.of, names):
        path = find_column(schema, said.term)
        check_ordered(path)
        source = tuple(part.name for part in path)
        terms.append(OrderTerm(source, descending=said.descending, nulls_first=said.nulls_first))
    return tuple(terms)
