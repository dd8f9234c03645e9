"""Files of which every row is deleted, so that they go as a whole."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.files.read.task import BitmapRef
from deltaberg.schema.arrow import as_array
from deltaberg.table.change.match import MatchedRows, count_rows
from deltaberg.table.change.positions import RowPositions, positions_of
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.plan import file_numbers

__all__ = ["VectorUnion", "with_whole_files"]


class VectorUnion:
    """The deletion vectors of files after more rows of them are deleted.

    Parameters
    ----------
    files
        The scan of the files.
    rows
        The rows that are deleted.
    """

    def __init__(self, files: BoundScan, rows: RowPositions) -> None:
        plan = files.plan
        self._plan = plan
        self._rows = rows
        numbers = file_numbers(plan.files).to_pylist()
        vectors = as_array(plan.located.column("deletion_vector")).to_pylist()
        self._old = dict(zip(numbers, vectors, strict=True))

    @cached_property
    def _file_rows(self) -> dict[int, int]:
        """The rows of each file that has a vector; the files tell where metadata does not."""
        known = dict(zip(self._old, self._plan.record_counts.to_pylist(), strict=True))
        missing = {number for number, vector in self._old.items() if vector is not None and known[number] is None}
        return known | count_rows(self._plan, missing)

    def positions(self, number: int) -> pa.UInt64Array:
        """Return the rows of a file that are deleted, those of its old vector included.

        Raises
        ------
        CorruptDeletionVectorError
            The vector is damaged, or has more rows than the file: a few bytes can name billions of them.
        TooLargeError
            The vector has more rows than fit into memory.
        """
        deleted = RowPositions()
        old = self._old[number]
        parts = [self._rows.positions(number)]
        if old is not None:
            vector = BitmapRef(**old)
            bitmap = load_bitmap(vector, self._plan.source.store, True, self._file_rows[number])
            parts.append(positions_of(bitmap, deletion_vector=vector.location or "inline"))
        for part in parts:
            deleted.add(pa.repeat(pa.scalar(number, pa.int64()), len(part)), part.cast(pa.int64()))
        return deleted.positions(number)


def with_whole_files(matched: MatchedRows) -> tuple[MatchedRows, dict[int, int]]:
    """Return rows with files as whole in which every row was found that no deletion vector hides.

    With them come the numbers of rows, deleted ones included, of the files that were looked at because metadata says
    that nothing is left of them.
    """
    plan = matched.of(frozenset(matched.rows.numbers)).plan
    facts = zip(
        file_numbers(plan.files).to_pylist(),
        plan.record_counts.to_pylist(),
        plan.deleted_counts.to_pylist(),
        strict=True,
    )
    # Metadata may be wrong about rows, so it is not believed where it would have a file removed.
    likely = {
        number for number, rows, deleted in facts if rows is None or matched.rows.count(number) + (deleted or 0) >= rows
    }
    if not likely:
        return matched, {}
    counts = count_rows(matched.of(likely).plan, likely)
    union = VectorUnion(matched.of(likely), matched.rows)
    whole = {number for number in likely if len(union.positions(number)) >= counts[number]}
    return matched.with_whole(whole), counts
