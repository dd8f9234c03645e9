"""Sets of rows: a bitmap of physical positions for each file, gathered in bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import TooLargeError
from deltaberg.files.read.task import BITMAP

__all__ = ["RowPositions", "bitmap_of", "positions_of"]

_FRAMING = "delta-inline"
_MAGIC_BYTES = 4
#: Bytes of positions that wait to be put into bitmaps.
_WAITING = 64 << 20
#: The most positions of a bitmap that others wrote: few bytes can name billions, and each takes 8 bytes here.
_MOST_POSITIONS = 1 << 27


def bitmap_of(positions: pa.Array) -> bytes:
    """Return a portable bitmap of ascending positions."""
    return kernels.encode_bitmap(positions.cast(pa.uint64()), _FRAMING)[_MAGIC_BYTES:]


def positions_of(bitmap: bytes, most: int = _MOST_POSITIONS, **context: str | None) -> pa.UInt64Array:
    """Return the positions of a portable bitmap, ascending.

    Parameters
    ----------
    context
        What the error names: the file that has the bitmap, or the one that it is about.

    Raises
    ------
    TooLargeError
        If there are more than ``most``.
    """
    try:
        return kernels.bitmap_positions(bitmap, most)
    except TooLargeError as error:
        raise TooLargeError(
            error.message,
            hint="use the strategy copy-on-write, which writes the rows that stay to a new file",
            **context,
        ) from None


class RowPositions:
    """Rows by the number of their file and their physical position in it.

    Rows are added in any order. Positions that were added lately wait as they came; once they need much memory, they
    are put into bitmaps, one for each file.

    Parameters
    ----------
    waiting
        Bytes of positions that wait at most.

    Examples
    --------
    >>> found = RowPositions()
    >>> found.add(pa.array([7, 7, 2]), pa.array([3, 1, 0]))
    >>> found.numbers, found.count(7), found.positions(7).to_pylist()
    ([2, 7], 2, [1, 3])
    >>> found.mask(7, pa.array([0, 1, 2, 3])).to_pylist()
    [False, True, False, True]
    """

    def __init__(self, waiting: int = _WAITING) -> None:
        self._most = waiting
        self._waiting: dict[int, list[pa.Array]] = {}
        self._held = 0
        self._bitmaps: dict[int, bytes] = {}
        self._counts: dict[int, int] = {}

    def add(self, numbers: pa.Int64Array, positions: pa.Int64Array) -> None:
        """Add rows, given the number of the file and the position of each. Rows that are there already do not matter.

        Rows of the same file should be next to each other as far as possible.
        """
        for number, start, count in file_runs(numbers):
            part = positions.slice(start, count)
            self._waiting.setdefault(number, []).append(part)
            self._held += part.nbytes
        if self._held > self._most:
            self._settle()

    @property
    def numbers(self) -> list[int]:
        """The numbers of the files of which there are rows, ascending."""
        return sorted({*self._waiting, *self._bitmaps})

    @property
    def total(self) -> int:
        """The number of rows of all files."""
        return sum(self.count(number) for number in self.numbers)

    def count(self, number: int) -> int:
        """Return the number of rows of a file."""
        self.bitmap(number)
        return self._counts.get(number, 0)

    def bitmap(self, number: int) -> bytes:
        """Return the positions in a file as a portable bitmap."""
        parts = self._waiting.pop(number, [])
        if parts:
            self._held -= sum(part.nbytes for part in parts)
            if number in self._bitmaps:
                parts.append(positions_of(self._bitmaps[number], self._counts[number]))
            joined = _ascending(pa.concat_arrays([part.cast(pa.uint64()) for part in parts]))
            self._bitmaps[number] = bitmap_of(joined)
            self._counts[number] = len(joined)
        return self._bitmaps.get(number) or bitmap_of(pa.array([], pa.uint64()))

    def positions(self, number: int) -> pa.UInt64Array:
        """Return the positions in a file, ascending."""
        return positions_of(self.bitmap(number), self.count(number))

    def of_files(self, numbers: Collection[int]) -> RowPositions:
        """Return the rows of some files, by their numbers."""
        found = RowPositions(self._most)
        for number in set(numbers).intersection(self.numbers):
            found._bitmaps[number] = self.bitmap(number)
            found._counts[number] = self._counts[number]
        return found

    def mask(self, number: int, positions: pa.Array) -> pa.BooleanArray:
        """Return which of some ascending positions in a file are in the set."""
        if not len(positions):
            return pa.array([], pa.bool_())
        first, last = positions[0].as_py(), positions[-1].as_py()
        found = pc.invert(kernels.keep_mask(self.bitmap(number), first, last - first + 1))
        return found if len(found) == len(positions) else found.take(pc.subtract(positions, first))

    def mask_of_files(
        self, numbers: pa.Int64Array, positions: pa.Int64Array, whole: AbstractSet[int] = frozenset()
    ) -> pa.BooleanArray:
        """Return which of some rows are in the set, given their files and positions, which ascend in each file.

        Parameters
        ----------
        whole
            The files all of whose rows count as being in the set.
        """
        parts = [
            pa.repeat(True, count) if number in whole else self.mask(number, positions.slice(start, count))
            for number, start, count in file_runs(numbers)
        ]
        return pa.concat_arrays(parts)

    def references(self, numbers: list[int]) -> pa.StructArray:
        """Return the bitmaps of some files as a reader takes them, null for files without rows (`BITMAP`)."""
        rows: list[dict[str, Any] | None] = []
        known = set(self.numbers)
        for number in numbers:
            if number not in known:
                rows.append(None)
                continue
            framed = kernels.encode_bitmap(self.positions(number), _FRAMING)
            rows.append(
                {
                    "location": None,
                    "offset": None,
                    "size": len(framed),
                    "framing": _FRAMING,
                    "inline": framed,
                    "cardinality": self.count(number),
                }
            )
        return pa.array(rows, BITMAP)

    def _settle(self) -> None:
        for number in list(self._waiting):
            self.bitmap(number)


def file_runs(numbers: pa.Int64Array) -> Iterator[tuple[int, int, int]]:
    """Return the runs of rows of the same file: the number of the file, the first row, and the number of rows.

    Examples
    --------
    >>> list(file_runs(pa.array([7, 7, 2])))
    [(7, 0, 2), (2, 2, 1)]
    """
    runs = pc.run_end_encode(numbers, run_end_type=pa.int64())
    start = 0
    for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield number, start, end - start
        start = end


def _ascending(positions: pa.UInt64Array) -> pa.UInt64Array:
    """Return positions in order, each once."""
    if pc.all(pc.less(positions.slice(0, max(len(positions) - 1, 0)), positions.slice(1)), min_count=0).as_py():
        return positions
    once = pc.unique(positions)
    return once.take(pc.sort_indices(once))
