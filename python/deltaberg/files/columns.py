"""How the columns of one task are made: from the file, from constants, and from what is computed for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions import TRUE, Bound, bound_paths, evaluate
from deltaberg.files.bitmaps import RowSelection
from deltaberg.files.deletes import KeySet, leaf_of
from deltaberg.files.layout import FileLayout
from deltaberg.files.metadata import DELETED, ComputedColumns
from deltaberg.files.positioned import PositionedBatch
from deltaberg.files.task import FileTask
from deltaberg.kernels.results import empty_batch
from deltaberg.pruning import StatsKey, known_values
from deltaberg.schema import Field, Struct, arrow_schema
from deltaberg.schema.projection import plan_projection

__all__ = ["TaskColumns"]


class TaskColumns:
    """Makes the wanted rows of a task from batches of its file.

    Parameters
    ----------
    output
        The wanted columns, in order.
    constants
        The columns that have one value in the file, where the task has it.
    residual
        The filter that remains where the task says so.
    key_sets
        Equality deletes: rows whose columns equal one of the keys are not wanted.
    included_sets
        Likewise, of a task that wants the rows that something deletes.
    """

    def __init__(
        self,
        table: str,
        output: Struct,
        constants: Struct,
        residual: Bound,
        layout: FileLayout,
        task: FileTask,
        key_sets: Sequence[KeySet],
        included_sets: Sequence[KeySet] = (),
    ) -> None:
        self._output = output
        self._layout = layout
        self._task = task
        self._key_sets = key_sets
        self._included_sets = included_sets
        self._is_chosen = task.include is not None or bool(task.included)
        known = [child for child in constants if child.name not in layout.stored or task.constants[child.name].is_valid]
        self._constants = frozenset((child.name, child.id) for child in known)
        #: The values of the constants, by the key of their statistics.
        self.constants: dict[StatsKey, pa.Scalar] = {}
        for child in known:
            self.constants |= known_values(child, task.constants[child.name])
        self.condition = residual if task.filtered else TRUE
        needed = [*output, *(_narrow(path) for path in bound_paths(self.condition))]
        computed = [child for child in needed if child.name in layout.computed and not self._is_constant(child)]
        self._computed = ComputedColumns(table, task, list(dict.fromkeys(computed)), layout)
        self._gives_deleted = any(child.name == DELETED for child in computed)
        self._output_schema = arrow_schema(output)
        from_file = [*needed, *(child for keys in (*key_sets, *included_sets) for child in keys.fields)]
        #: The columns that come from the file, each perhaps narrowed to a part of it.
        self._from_file = list(dict.fromkeys(child for child in from_file if self._is_in_file(child)))

    def _is_in_file(self, child: Field) -> bool:
        return not self._is_constant(child) and child.name not in self._layout.computed

    def _is_constant(self, child: Field) -> bool:
        """Say whether a column has one value; a dropped one, which deletes still compare, may only be named like it."""
        return (child.name, child.id) in self._constants

    def resolve(self, file_schema: pa.Schema) -> None:
        """Plan against the schema of the file."""
        self._hidden = self._computed.file_fields
        self._projection = plan_projection([*self._from_file, *self._hidden], file_schema, self._layout.by_id)
        self.leaves = self._projection.leaves

    def rows(self, positioned: PositionedBatch, selection: RowSelection) -> pa.RecordBatch:
        """Give the wanted rows of a batch of the file."""
        start, count, _ = positioned
        arrays = self._projection.apply(positioned.batch, count)
        columns = dict(zip(self._from_file, arrays, strict=False))
        keep = selection.mask(start, count)
        for keys in self._key_sets:
            spared = pc.invert(self._named(keys, columns, count))
            keep = spared if keep is None else pc.and_(keep, spared)
        if self._is_chosen:
            chosen = self._chosen(selection.included(start, count), columns, count)
            keep = chosen if keep is None else pc.and_(keep, chosen)
        columns.update(self._computed.build(start, count, arrays[len(self._from_file) :], keep))
        mask = None if self._gives_deleted else keep
        if self._task.filtered:
            matches = self._matches(columns, count)
            mask = matches if mask is None else pc.and_kleene(mask, matches)
        made = [self._column(child, columns, count) for child in self._output]
        batch = pa.RecordBatch.from_arrays(made, schema=self._output_schema) if made else empty_batch(count)
        return batch if mask is None else batch.filter(mask)

    def _named(self, keys: KeySet, columns: dict[Field, pa.Array], count: int) -> pa.BooleanArray:
        """Say which rows equal a key."""
        return keys.deleted([leaf_of(self._column(child, columns, count), child) for child in keys.fields])

    def _chosen(self, chosen: pa.BooleanArray | None, columns: dict[Field, pa.Array], count: int) -> pa.BooleanArray:
        """Say which rows are named by positions or by keys."""
        for keys in self._included_sets:
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
            array = self._column(_narrow(path), columns, count)
            for part in path[1:]:
                array = pc.struct_field(array, array.type.get_field_index(part.name))
            return array

        return evaluate(self.condition, column, count)


def _narrow(path: Sequence[Field]) -> Field:
    """Give the first field of a path with nothing in it but the rest of the path."""
    narrow = path[-1]
    for outer in reversed(path[:-1]):
        narrow = replace(outer, type=Struct((narrow,)))
    return narrow
