"""Builds the columns of one task: from the file, from constants, and from what is computed for each row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.expressions.compute.bound import Bound, bound_paths, is_computed
from deltaberg.expressions.compute.evaluate import evaluate
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.formats.data_file import PositionedBatch
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.bitmaps import RowSelection
from deltaberg.files.read.deletes import KeySet, leaf_of
from deltaberg.files.read.metadata import DELETED, ComputedColumns
from deltaberg.files.read.task import FileTask
from deltaberg.kernels.results import empty_batch
from deltaberg.pruning.stats import StatsKey, known_values
from deltaberg.schema.columns import narrowed
from deltaberg.schema.projection import Projections
from deltaberg.schema.types import Field, Struct

__all__ = ["TaskColumns"]

#: The share of rows from which on they are most rows.
_MOST = 0.95


class TaskColumns:
    """Builds the wanted rows of a task from batches of its file.

    Parameters
    ----------
    output, schema
        The wanted columns, in order, and their Arrow schema.
    constants
        The columns that have one value in the whole file, where the task knows it.
    residual
        The filter, which is applied where the task says so.
    deleted_keys
        Equality deletes: rows whose columns equal one of the keys are deleted.
    only_keys
        Equality deletes that name the only rows wanted, in a task that reads what a change deleted or restored.
    """

    def __init__(
        self,
        table: str,
        output: Struct,
        constants: Struct,
        residual: Bound,
        layout: FileLayout,
        task: FileTask,
        deleted_keys: Sequence[KeySet],
        only_keys: Sequence[KeySet],
        *,
        schema: pa.Schema,
    ) -> None:
        self._output = output
        self._layout = layout
        self._task = task
        self._deleted_keys = deleted_keys
        self._only_keys = only_keys
        self._is_chosen = task.only_in_vector is not None or bool(task.only_in_delete_files)
        known = [child for child in constants if child.name not in layout.stored or task.constants[child.name].is_valid]
        self._constants = frozenset((child.name, child.id) for child in known)
        #: The values of the constants, by statistics key.
        self.constants: dict[StatsKey, pa.Scalar] = {}
        for child in known:
            self.constants |= known_values(child, task.constants[child.name])
        self.condition = residual if task.filtered else TRUE
        needed = [*output, *(narrowed(path) for path in bound_paths(self.condition))]
        computed = [child for child in needed if child.name in layout.computed and not self._is_constant(child)]
        self._computed = ComputedColumns(table, task, list(dict.fromkeys(computed)), layout)
        self._gives_deleted = any(child.name == DELETED for child in computed)
        self._output_schema = schema
        compared = (child for keys in (*deleted_keys, *only_keys) for child in keys.fields)
        # Nothing compares computed columns, but a dropped column may have the name of one.
        from_file = [*(child for child in needed if child.name not in layout.computed), *compared]
        #: The columns to read from the file, each perhaps narrowed to some of its fields.
        self._from_file = list(dict.fromkeys(child for child in from_file if not self._is_constant(child)))
        #: Whether rows are the columns of the file as they are, less those that positions delete.
        self._is_plain = (
            len(output) == len(from_file)
            and not (deleted_keys or only_keys or self._is_chosen or task.filtered)
            and self._from_file == from_file
        )

    def _is_constant(self, child: Field) -> bool:
        """Return whether a column is a constant. A dropped column that deletes compare may have the name of one."""
        return (child.name, child.id) in self._constants

    def resolve(self, file_schema: pa.Schema, projections: Projections) -> None:
        """Plan how the columns are read from a file of this schema, or take the plan of an earlier file."""
        self._hidden = self._computed.file_fields
        self._projection = projections.plan([*self._from_file, *self._hidden], file_schema, self._layout.by_id)
        self.leaves = self._projection.leaves

        filters = [child for child in map(narrowed, bound_paths(self.condition)) if not self._is_constant(child)]
        stored = [child for child in filters if child.name not in self._layout.computed]
        is_apart = not (self._computed.wanted or self._deleted_keys or self._is_chosen or is_computed(self.condition))
        self._tested = list(dict.fromkeys(stored)) if is_apart and stored == filters else []
        self._test = projections.plan(self._tested, file_schema, self._layout.by_id) if self._tested else None

    @property
    def tested_leaves(self) -> list[int]:
        """The leaves that tell by themselves which rows are wanted; none where the rows have to be built for that.

        Rows that are gone must not be computed, since that could fail.
        """
        return [] if self._test is None else self._test.leaves

    def tested(self, positioned: PositionedBatch, selection: RowSelection) -> pa.BooleanArray:
        """Return which rows of a batch of the tested leaves are wanted."""
        start, count, batch = positioned
        arrays = [] if self._test is None else self._test.apply(batch, count)
        matches = self._matches(dict(zip(self._tested, arrays, strict=True)), count)
        mask = selection.kept(start, count)
        return (matches if mask is None else pc.and_kleene(mask, matches)).fill_null(False)

    def of_tested(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return wanted rows, from a batch that has no others."""
        count = batch.num_rows
        columns = dict(zip(self._from_file, self._projection.apply(batch, count), strict=True))
        made = [self._column(child, columns, count) for child in self._output]
        return pa.RecordBatch.from_arrays(made, schema=self._output_schema) if made else empty_batch(count)

    def rows(self, positioned: PositionedBatch, selection: RowSelection) -> pa.RecordBatch:
        """Return the wanted rows of a batch of the file."""
        start, count, _ = positioned
        arrays = self._projection.apply(positioned.batch, count)
        if self._is_plain and arrays:
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._output_schema)
            mask = selection.kept(start, count)
            return batch if mask is None else _kept(batch, mask)
        columns = dict(zip(self._from_file, arrays, strict=False))
        keep = selection.kept(start, count)
        for keys in self._deleted_keys:
            spared = pc.invert(self._named(keys, columns, count))
            keep = spared if keep is None else pc.and_(keep, spared)
        if self._is_chosen:
            chosen = self._chosen(selection.only(start, count), columns, count)
            keep = chosen if keep is None else pc.and_(keep, chosen)
        columns.update(self._computed.build(start, count, arrays[len(self._from_file) :], keep))
        mask = None if self._gives_deleted else keep
        if self._task.filtered:
            if mask is not None and is_computed(self.condition):
                # Rows that are gone must not be computed, since that could fail.
                columns = {child: array.filter(mask) for child, array in columns.items()}
                count, mask = pc.sum(mask).as_py() or 0, None
            matches = self._matches(columns, count)
            mask = matches if mask is None else pc.and_kleene(mask, matches)
        made = [self._column(child, columns, count) for child in self._output]
        batch = pa.RecordBatch.from_arrays(made, schema=self._output_schema) if made else empty_batch(count)
        return batch if mask is None else _kept(batch, mask)

    def _named(self, keys: KeySet, columns: dict[Field, pa.Array], count: int) -> pa.BooleanArray:
        """Return which rows equal a key."""
        return keys.deleted([leaf_of(self._column(child, columns, count), child) for child in keys.fields])

    def _chosen(self, chosen: pa.BooleanArray | None, columns: dict[Field, pa.Array], count: int) -> pa.BooleanArray:
        """Return which rows positions or keys name."""
        for keys in self._only_keys:
            named = self._named(keys, columns, count)
            chosen = named if chosen is None else pc.or_(chosen, named)
        return pa.repeat(False, count) if chosen is None else chosen

    def _column(self, child: Field, columns: dict[Field, pa.Array], count: int) -> pa.Array:
        if not self._is_constant(child):
            return columns[child]
        value = self._task.constants[child.name]
        return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)

    def _matches(self, columns: dict[Field, pa.Array], count: int) -> pa.BooleanArray:
        def column(path: tuple[Field, ...]) -> pa.Array:
            array = self._column(narrowed(path), columns, count)
            for part in path[1:]:
                array = pc.struct_field(array, array.type.get_field_index(part.name))
            return array

        return evaluate(self.condition, column, count)


def _kept(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """Return the rows of a batch for which a mask is true.

    Arrow turns the mask of a batch into row numbers, and takes the values one by one. A single flat column is copied in
    runs, which takes half the time where most rows stay, as after most deletes.
    """
    if mask.true_count < batch.num_rows * _MOST or any(map(pt.is_nested, batch.schema.types)) or not batch.num_columns:
        return batch.filter(mask)
    return pa.RecordBatch.from_arrays([column.filter(mask) for column in batch.columns], schema=batch.schema)
