"""Equality deletes become positions, or deletion vectors (Iceberg spec, "Equality Delete Files").

Every reader compares the keys of equality deletes with all older rows. They are compared here once, by the reader
itself, and the rows that they delete are hidden as a delete by a condition hides them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from deltaberg.iceberg.change.hidden_rows import hide_rows, position_lists, remove_deletes
from deltaberg.iceberg.maintain.rewriting.delete_rewrite import DeleteRewrite
from deltaberg.iceberg.manifests.fields import EQUALITY_DELETES
from deltaberg.iceberg.transaction.pending import DeleteKey
from deltaberg.schema.arrow import with_columns
from deltaberg.table.change.match import search_here
from deltaberg.table.change.matched_rows import scan_of_whole_files
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.read.scan_options import ScanOptions

__all__ = ["EqualityConversion"]

#: How many keys are compared at a time, unless one file has more: their indexes are held in memory.
_KEYS = 4 << 20


class EqualityConversion(DeleteRewrite):
    """Writes the rows that equality deletes delete into position delete files, or into deletion vectors."""

    name = "convert equality deletes"

    @cached_property
    def _equality(self) -> frozenset[int]:
        contents = self.deletes.column("content").to_pylist()
        return frozenset(number for number, content in enumerate(contents) if content == EQUALITY_DELETES)

    @cached_property
    def _all_lists(self) -> list[list[int]]:
        """The equality deletes of each file, newest first."""
        lists = self.files.column("delete_files").to_pylist()
        return [[number for number in found or () if number in self._equality] for found in lists]

    @cached_property
    def lists(self) -> list[list[int]]:
        """The equality deletes of each file that the request is about."""
        chosen = zip(self._all_lists, self.is_chosen.to_pylist(), strict=True)
        return [found if is_chosen else [] for found, is_chosen in chosen]

    @cached_property
    def removed(self) -> frozenset[int]:
        """The equality deletes that apply to nothing once their rows are hidden."""
        return self.settled(self._all_lists, set(self._equality))

    def write(self, keys: list[DeleteKey]) -> RowPositions:
        """Hide the rows, and remove the equality deletes that apply to nothing any more."""
        rows = self._rows()
        hide_rows(self.transaction, rows, self.request.options)
        remove_deletes(self.transaction, self.source, keys)
        return rows

    def _rows(self) -> RowPositions:
        """Return the rows that the equality deletes delete, and nothing else does."""
        rows = RowPositions()
        tasks = self.transaction.row_tasks
        find = search_here if tasks is None else tasks.find
        files = with_columns(self.files, delete_files=_as_lists(position_lists(self.source, self.files)))
        options = ScanOptions(timezone=self.transaction.timezone, memory=self.request.options.reading)
        for numbers in self._portions():
            own = [[number for number in found if number in numbers] for found in self.lists]
            chosen = files.append_column("only_in_delete_files", _as_lists(own)).filter(pa.array(list(map(bool, own))))
            bound = scan_of_whole_files(self.source, chosen, [], options)
            for file_numbers, positions in find(bound.with_addresses(), 0, None):
                rows.add(file_numbers, positions)
                self.transaction.tell(rows=len(positions))
        return rows

    def _portions(self) -> Iterator[set[int]]:
        """Divide the equality deletes of files, newest first, so that the keys of each part fit into memory."""
        counts = self.deletes.column("record_count").to_pylist()
        sequences = self.deletes.column("sequence_number").to_pylist()
        used = {number for found in self.lists for number in found}
        current, held = set[int](), 0
        for number in sorted(used, key=lambda one: (-sequences[one], one)):
            if current and held + counts[number] > _KEYS:
                yield current
                current, held = set(), 0
            current.add(number)
            held += counts[number]
        if current:
            yield current


def _as_lists(lists: list[list[int]]) -> pa.ListArray:
    return pa.array([found or None for found in lists], pa.list_(pa.int32()))
