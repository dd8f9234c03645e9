"""The common interface of open data files of every format.

Rows come with their physical position, which projection, filters, skipping of row groups and batch borders all keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from deltaberg.expressions.compute.bound import Bound
from deltaberg.files.formats.layout import FileLayout
from deltaberg.kernels.results import empty_batch
from deltaberg.pruning.stats import StatsKey
from deltaberg.schema.name_mapping import NameMapping

__all__ = ["DataFile", "PositionedBatch", "RowGroup", "bare_batches"]


class PositionedBatch(NamedTuple):
    """Consecutive rows of a file; ``start`` is the physical position of the first one."""

    start: int
    rows: int
    batch: pa.RecordBatch


def bare_batches(start: int, rows: int, batch_size: int) -> Iterator[PositionedBatch]:
    """Return rows from a position on as batches without columns."""
    for first in range(0, rows, batch_size):
        size = min(batch_size, rows - first)
        yield PositionedBatch(start + first, size, empty_batch(size))


class RowGroup(NamedTuple):
    """Consecutive rows of a file that can be read apart from others: its number, its first row, how many rows."""

    number: int
    start: int
    rows: int


class DataFile(ABC):
    """An open data file: its schema, and its rows in groups that can be read apart."""

    @abstractmethod
    def schema_with(self, mapping: NameMapping | None) -> pa.Schema:
        """Return the schema, with ids by name where the file has none."""

    @abstractmethod
    def row_groups(self, start: int, stop: int) -> list[RowGroup]:
        """Return the groups whose middle lies in bytes ``start`` to ``stop`` of the file."""

    def prune(
        self,
        groups: Sequence[RowGroup],
        condition: Bound,
        constants: Mapping[StatsKey, pa.Scalar],
        layout: FileLayout,
    ) -> list[RowGroup]:
        """Return the groups in which a row can match: all of them, where a format has no statistics of groups."""
        return list(groups)

    @abstractmethod
    def batches(
        self, groups: Sequence[RowGroup], leaves: Sequence[int], batch_size: int, threads: bool
    ) -> Iterator[PositionedBatch]:
        """Read leaf columns of some groups; without leaves, batches have rows and no columns."""

    #: Whether `chosen` takes less than reading all rows does.
    skips_rows = False

    def chosen(
        self, group: RowGroup, leaves: Sequence[int], batch_size: int, threads: bool, kept: pa.BooleanArray
    ) -> Iterator[pa.RecordBatch]:
        """Read leaf columns, of which there is at least one, of the rows of a group that a mask keeps."""
        for start, rows, batch in self.batches([group], leaves, batch_size, threads):
            yield batch.filter(kept.slice(start - group.start, rows))

    @abstractmethod
    def compressed_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Return how many bytes the leaves of some groups have in the file."""

    @abstractmethod
    def row_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Estimate how many bytes a row of the leaves has in memory."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""
