"""Where rows came from that were written to other files, so that deletes of them can follow.

Others may delete rows of a file while its rows are written to a new one. Then the same rows are deleted in the new one.
Whatever became of their order, a `RowTrail` has seen each row on its way to a file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.schema.arrow import as_array, count_up
from deltaberg.schema.types import Struct
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.merge.stored_rows import StoredRows
from deltaberg.table.read.bound import RowAddress

__all__ = ["RUNS", "RowTrail"]

#: Rows that follow each other in an old file and in a new one are one run.
RUNS = pa.schema(
    [
        ("new", pa.int64()),
        ("start", pa.int64()),
        ("file", pa.int64()),
        ("position", pa.int64()),
        ("length", pa.int64()),
    ]
)
#: Bytes of runs in memory; beyond that, all are on disk, where most of their bytes are zeros that a codec saves.
_MEMORY = 32 << 20
#: Rows that are looked through, and rows that are looked for, at once.
_ROWS, _WANTED = 1 << 20, 1 << 20


class RowTrail:
    """Where the rows of new files came from. Files may be written by several threads.

    Parameters
    ----------
    address
        The columns of row addresses, which rows have on their way.
    memory
        Bytes of what is known that are kept in memory.

    Examples
    --------
    >>> from deltaberg.schema.types import Field, Primitive
    >>> trail = RowTrail(RowAddress(Field("f", Primitive("long")), Field("p", Primitive("long"))))
    >>> trail.note("a.parquet", pa.table({"f": [7, 7, 7, 2], "p": [0, 1, 3, 0]}))
    >>> trail.note("b.parquet", pa.table({"f": [2, 2], "p": [5, 4]}))
    >>> gone = RowPositions()
    >>> gone.add(pa.array([7, 2]), pa.array([3, 4]))
    >>> {path: rows.to_pylist() for path, rows in trail.find(gone)}
    {'a.parquet': [2], 'b.parquet': [1]}
    """

    def __init__(self, address: RowAddress, memory: int = _MEMORY) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._runs = StoredRows(RUNS, memory, compression="lz4")
        #: Runs that other processes have noted: their files have numbers from this one on.
        self._adopted: list[tuple[int, Callable[[], Iterator[pa.RecordBatch]]]] = []
        #: What is closed with the trail.
        self.resources = ExitStack()
        #: The numbers of the new files, and of the rows in them.
        self._numbers: dict[str, int] = {}
        self._rows: dict[str, int] = {}

    @property
    def columns(self) -> Struct:
        """The columns of row addresses."""
        return Struct(tuple(self._address))

    def close(self) -> None:
        """Forget the rows."""
        self._runs.close()
        self.resources.close()

    @property
    def paths(self) -> list[str]:
        """The new files."""
        return list(self._numbers)

    def runs(self) -> Iterator[pa.RecordBatch]:
        """Return what is known, as `RUNS` describes it: files have the numbers of their places in `paths`."""
        yield from self._runs.batches()
        for first, batches in self._adopted:
            for runs in batches():
                yield runs.set_column(0, RUNS.field(0), pc.add(runs.column(0), first))

    def adopt(self, paths: Sequence[str], runs: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """Take note of what another process knows of other files.

        Parameters
        ----------
        paths
            The files.
        runs
            Reads its `runs`, whenever it is asked.
        """
        self._adopted.append((len(self._numbers), runs))
        for path in paths:
            self._numbers[path] = len(self._numbers)

    def note(self, path: str, rows: pa.Table) -> None:
        """Take note of the next rows of a file.

        Raises
        ------
        StorageError
            What is known does not fit on the disk.
        """
        for start in range(0, rows.num_rows, _ROWS):
            part = rows.slice(start, _ROWS)
            files, positions = (as_array(part.column(child.name)) for child in self._address)
            self._add(path, _runs(files, positions), part.num_rows)

    def _add(self, path: str, runs: list[pa.Array], rows: int) -> None:
        with self._lock:
            number = self._numbers.setdefault(path, len(self._numbers))
            before = self._rows.get(path, 0)
            self._rows[path] = before + rows
            starts, *others = runs
            columns = [pa.repeat(pa.scalar(number), len(starts)), pc.add(starts, before), *others]
            self._runs.add(pa.RecordBatch.from_arrays(columns, schema=RUNS))

    def find(self, rows: RowPositions) -> Iterator[tuple[str, pa.UInt64Array]]:
        """Return where rows of old files are now: the path of each new file that has some, and their positions in it.

        Nothing can be noted after that. Rows that went to no file are left out.

        Parameters
        ----------
        rows
            The rows, by the numbers of the old files.
        """
        moved = RowPositions()
        for keys in _keys(rows):
            index = kernels.index_keys(keys)
            files = pc.unique(keys.column(0))
            for runs in self.runs():
                old = runs.filter(pc.is_in(runs.column("file"), value_set=files))
                if old.num_rows:
                    addresses, numbers, places = _each_row(old)
                    is_wanted = kernels.contains_keys(index, addresses)
                    moved.add(numbers.filter(is_wanted), places.filter(is_wanted))
        paths = list(self._numbers)
        for number in moved.numbers:
            yield paths[number], moved.positions(number)


def _runs(files: pa.Int64Array, positions: pa.Int64Array) -> list[pa.Array]:
    """Return the runs of rows: the first row, the file, the first position, and the number of rows of each."""
    last = max(len(files) - 1, 0)
    goes_on = pc.and_(
        pc.equal(files.slice(1), files.slice(0, last)),
        pc.equal(positions.slice(1), pc.add(positions.slice(0, last), 1)),
    )
    following = pc.add(pc.indices_nonzero(pc.invert(goes_on)).cast(pa.int64()), 1)
    starts = pa.concat_arrays([pa.array([0], pa.int64()), following])
    ends = pa.concat_arrays([following, pa.array([len(files)], pa.int64())])
    return [starts, files.take(starts), positions.take(starts), pc.subtract(ends, starts)]


def _each_row(runs: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Int64Array, pa.Int64Array]:
    """Return the old address of each row of some runs, the number of its new file, and its position there."""
    ends = pc.cumulative_sum(runs.column("length"))
    before = pc.subtract(ends, runs.column("length"))
    count = ends[-1].as_py()
    at = count_up(0, count)
    # Run-end encoded arrays can only be made of arrays since pyarrow 17.
    borders = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    run = pc.list_parent_indices(pa.LargeListArray.from_arrays(borders, pa.nulls(count)))
    files, numbers = runs.column("file").take(run), runs.column("new").take(run)
    positions = pc.add(pc.subtract(runs.column("position"), before).take(run), at)
    places = pc.add(pc.subtract(runs.column("start"), before).take(run), at)
    return pa.RecordBatch.from_arrays([files, positions], names=["file", "position"]), numbers, places


def _keys(rows: RowPositions) -> Iterator[pa.RecordBatch]:
    """Return the addresses of rows, some at a time."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for number in rows.numbers:
        positions = rows.positions(number).cast(pa.int64())
        for start in range(0, len(positions), _WANTED):
            part = positions.slice(start, _WANTED)
            columns = [pa.repeat(pa.scalar(number, pa.int64()), len(part)), part]
            waiting.append(pa.RecordBatch.from_arrays(columns, names=["file", "position"]))
            held += len(part)
            if held >= _WANTED:
                yield _together(waiting)
                waiting, held = [], 0
    if waiting:
        yield _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole
