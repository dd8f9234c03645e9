"""Rows of an open data file that a task wants: where few match a filter, its columns are read ahead of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from deltaberg.files.formats.data_file import DataFile, RowGroup
from deltaberg.files.read.bitmaps import RowSelection
from deltaberg.files.read.columns import TaskColumns
from deltaberg.kernels.results import empty_batch

__all__ = ["SelectedRows", "rows_of"]

#: Row groups have at least so many rows each where it pays to read them in two passes.
_ROWS = 1 << 16
#: The greatest share of rows that are few.
_FEW = 0.2


class SelectedRows(NamedTuple):
    """Wanted rows of a file, up to a physical position, and how many rows were looked at since the last ones."""

    until: int
    read: int
    batch: pa.RecordBatch


def rows_of(
    source: DataFile,
    plan: TaskColumns,
    selection: RowSelection,
    groups: Sequence[RowGroup],
    batch_size: int,
    threads: bool,
    is_limited: bool,
) -> Iterator[SelectedRows]:
    """Return the wanted rows of some row groups.

    Parameters
    ----------
    is_limited
        Whether the reader may stop early, so that nothing is read ahead.
    """
    left = list(groups)
    if source.skips_rows and not is_limited and sum(group.rows for group in left) >= _ROWS * max(len(left), 1):
        tested = plan.tested_leaves
        while left and tested and len(tested) < len(plan.leaves):
            kept = _few(source, plan, selection, left[0], tested, batch_size, threads)
            if kept is None:
                break
            yield from _chosen(source, plan, left.pop(0), kept, batch_size, threads)
    for positioned in source.batches(left, plan.leaves, batch_size, threads):
        yield SelectedRows(positioned.start + positioned.rows, positioned.rows, plan.rows(positioned, selection))


def _few(
    source: DataFile,
    plan: TaskColumns,
    selection: RowSelection,
    group: RowGroup,
    tested: Sequence[int],
    batch_size: int,
    threads: bool,
) -> pa.BooleanArray | None:
    """Return which rows of a group are wanted; None if they are many, as far as its first rows tell."""
    masks: list[pa.BooleanArray] = []
    for positioned in source.batches([group], tested, batch_size, threads):
        masks.append(plan.tested(positioned, selection))
        if len(masks) == 1 and masks[0].true_count > _FEW * positioned.rows:
            return None
    return pa.concat_arrays(masks)


def _chosen(
    source: DataFile, plan: TaskColumns, group: RowGroup, kept: pa.BooleanArray, batch_size: int, threads: bool
) -> Iterator[SelectedRows]:
    read = group.rows
    if kept.true_count:
        for batch in source.chosen(group, plan.leaves, batch_size, threads, kept):
            yield SelectedRows(group.start + group.rows, read, plan.of_tested(batch))
            read = 0
    if read:
        yield SelectedRows(group.start + group.rows, read, empty_batch(0))
