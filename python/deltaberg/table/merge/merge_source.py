"""The source of a merge: read once, kept, and known by its keys."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ConstraintViolationError
from deltaberg.expressions.build.column import all_of
from deltaberg.expressions.tree.tree import TRUE, Value
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.columns import fields_given, find_column, join_name
from deltaberg.schema.from_arrow import OwnTypes, table_schema
from deltaberg.schema.rows.conform import Conformer, ConformOptions
from deltaberg.schema.rows.matched_fields import places_of_fields
from deltaberg.schema.rows.text_lengths import fit_texts
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.merge.common_types import common_types
from deltaberg.table.merge.join import JoinMemory
from deltaberg.table.merge.key_filter import filter_of_keys
from deltaberg.table.merge.merge import MergePlan, SourceValue
from deltaberg.table.merge.stored_rows import StoredRows
from deltaberg.table.rows.row_rules import empty_to_null
from deltaberg.table.rows.stream import small_batches
from deltaberg.table.write.sources import open_source

__all__ = ["MergeSource", "source_filter"]


class MergeSource:
    """Rows to merge, of which nothing is read before they are stored.

    Parameters
    ----------
    data
        Anything that `open_source` takes.
    options
        What is allowed when values are converted to the types of tables.
    own
        Returns the types that the format of the table has, and not all formats; None if it has none.

    Raises
    ------
    InvalidArgumentError
        The data is of a kind that has no rows.
    """

    def __init__(self, data: Any, options: ConformOptions | None = None, own: OwnTypes | None = None) -> None:
        self._rows = open_source(data)
        #: The columns, first as a new table would have them.
        self.columns: Struct = table_schema(self._rows.schema, own=own)
        self._options = options
        self._check()
        self._empty_as_null: AbstractSet[str] = frozenset()

    def meet(self, columns: Struct) -> None:
        """Have the columns in the types in which they meet those of a table; see `common_types`.

        Raises
        ------
        SchemaError
            Two columns are for one of the table, as ``k`` and ``K`` are for ``k``.
        """
        places_of_fields(columns, self.columns.names)
        self.columns = common_types(self.columns, columns)
        self._check()

    def conform(self, columns: Struct, empty_as_null: AbstractSet[str] = frozenset()) -> None:
        """Have the rows converted to columns of a table as for an append: values are those that the table would hold.

        Parameters
        ----------
        columns
            The columns of the table, of which the rows may lack some, and some fields of structs.
        empty_as_null
            The names of columns whose empty values become null.

        Raises
        ------
        ColumnNotFoundError
            The table lacks a column.
        SchemaError
            A column has a type that cannot be stored exactly in that of the table.
        """
        source_types = {find_column(columns, (child.name,))[0].name: child.type for child in self.columns}
        # Whether a column takes nulls is asked of the rows that are written, which need not be all rows.
        conformed = Struct(
            tuple(
                replace(child, type=fields_given(child.type, source_types[child.name]), nullable=True)
                for child in columns
                if child.name in source_types
            )
        )
        self.columns = conformed
        self._check()
        self._empty_as_null = empty_as_null

    def _check(self) -> None:
        """Refuse rows of which it is known before they are read that they do not fit."""
        Conformer(self._rows.schema, self.columns, self._options)

    def store(
        self, columns: set[str], memory: JoinMemory, keys: Sequence[tuple[str, ...]], store: StoreSpec, root: Location
    ) -> StoredRows:
        """Read the rows, and keep the columns that are used. The others become nulls of the type null.

        Parameters
        ----------
        keys
            Paths to columns in which a null is refused.
        store, root
            Where Spark stores rows on their way to this machine.

        Raises
        ------
        ConstraintViolationError
            A key is null.
        StorageError
            The rows cannot be stored.
        """
        known = arrow_schema(self.columns)
        schema = pa.schema([child if child.name in columns else pa.field(child.name, pa.null()) for child in known])
        stored = StoredRows(schema, memory.limit // 4, memory.directory)
        try:
            with self._rows.staged(columns, store, root) as reader:
                # Columns that are not needed may be missing.
                conformer = Conformer(reader.schema, self.columns, self._options)
                for batch in small_batches(reader):
                    stored.add(self._kept(conformer.apply(batch), columns, keys, schema))
        except BaseException:
            stored.close()
            raise
        return stored

    def _kept(
        self, rows: pa.RecordBatch, columns: set[str], keys: Sequence[tuple[str, ...]], schema: pa.Schema
    ) -> pa.RecordBatch:
        for number, child in enumerate(rows.schema):
            if child.name in self._empty_as_null:
                rows = rows.set_column(number, child, empty_to_null(rows.column(number)))
        for number, field in enumerate(self.columns):
            fitted = fit_texts(field)
            if fitted is not None:
                rows = rows.set_column(number, rows.schema.field(number), fitted(rows.column(number)))
        _check_keys(rows, keys)
        arrays = [
            rows.column(number) if child.name in columns else pa.nulls(rows.num_rows)
            for number, child in enumerate(rows.schema)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check_keys(rows: pa.RecordBatch, keys: Sequence[tuple[str, ...]]) -> None:
    for path in keys:
        values = rows.column(path[0])
        for part in path[1:]:
            # A field of a null is null.
            values = pc.struct_field(values, part)
        if values.null_count:
            name = join_name(path)
            raise ConstraintViolationError(f"the key {name} is null in a row of the source", column=name)


def source_filter(plan: MergePlan, source: StoredRows) -> Value:
    """Return a filter on the table that every row fulfils that can match a row of the source.

    Of keys that are columns of the table, the values in the source are looked at; see `filter_of_keys`.
    """
    parts: list[Value] = []
    for equality in plan.join.equalities:
        path = equality.column
        if path is not None and not equality.null_safe:
            names = tuple(field.name for field in path)
            keys = SourceValue(equality.right, len(plan.target.columns))
            parts.append(filter_of_keys(names, map(keys, source.batches())))
    return all_of(parts) if parts else TRUE
