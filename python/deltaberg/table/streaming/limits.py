"""How much one batch of a stream may hold."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ALL", "Admission", "Limits"]


@dataclass(frozen=True)
class Limits:
    """The most that a batch may hold; None for any number. A file that alone is larger is a batch of its own."""

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None


#: No limits: a batch holds all that there is.
ALL = Limits()


class Admission:
    """Counts what a batch holds, and says how many of the next files it may take in addition."""

    def __init__(self, limits: Limits) -> None:
        self._left = {"files": limits.files, "size": limits.bytes, "record_count": limits.rows}
        self._is_empty = True

    @property
    def is_full(self) -> bool:
        """Whether no further file fits, however small it is."""
        return not self._is_empty and any(left is not None and left <= 0 for left in self._left.values())

    def admit(self, files: pa.Table, *, is_whole: bool = False) -> int:
        """Take as many files of a file table as fit, from its beginning, and return how many they are.

        Parameters
        ----------
        files
            The files, with ``size`` in bytes and, if rows are limited, ``record_count``. What is not known counts as
            nothing.
        is_whole
            Whether to take all of them or none.
        """
        count = len(files)
        for name, left in self._left.items():
            if left is not None:
                # Most files of a large snapshot are not for this batch: no column is made for all of them.
                count = min(count, self._fitting(files.slice(0, count), name, left))
        if is_whole and count < len(files):
            count = len(files) if self._is_empty else 0
        elif not count and self._is_empty and len(files):
            count = 1
        for name, left in self._left.items():
            if left is not None and count:
                taken = files.slice(0, count)
                self._left[name] = left - (count if name == "files" else self._sums(taken, name)[-1].as_py())
        self._is_empty = self._is_empty and not count
        return count

    def _fitting(self, files: pa.Table, name: str, left: float) -> int:
        """Return how many files fit, from the beginning."""
        if name == "files":
            return max(int(left), 0)
        return pc.sum(pc.less_equal(self._sums(files, name), left).cast(pa.int64())).as_py() or 0

    @staticmethod
    def _sums(files: pa.Table, name: str) -> pa.Array:
        """Return, for each file, what it and those before it hold together."""
        column = files.column(name).combine_chunks().fill_null(0)
        return pc.cumulative_sum(pc.max_element_wise(column, 0).cast(pa.float64()))
