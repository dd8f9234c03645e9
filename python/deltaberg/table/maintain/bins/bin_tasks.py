"""Writing the rows of bins by the tasks of an engine, such as Spark's. No row passes the engine.

A bin whose rows stay in their order, or fit into a task, is read and written by one task. The rows of a large bin that
are put into an order take three steps. Tasks read what rows are ordered by, and sample it; the samples tell where the
order is cut into parts. Tasks read the rows, sort what they read, and store it on a stage of the table, part by part.
Tasks read what all others have stored of one part, sort it, and write its files.

A task that is retried, or runs twice, writes files of its own names. Only those that the driver hears of count.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from deltaberg.files.read.reader import ReadSpec, read_task
from deltaberg.files.read.task import pack_tasks, task_schema, tasks_of, unpack_tasks
from deltaberg.schema.arrow import arrow_schema
from deltaberg.storage.location import parse_location
from deltaberg.table.change.changed_rows import RowTasks
from deltaberg.table.maintain.bins.stage import Stage, StagedRows
from deltaberg.table.maintain.bins.write_bins import Bin, BinShape, BinWriter, Note, rows_in
from deltaberg.table.maintain.row_order import BoundOrder, CutOrder
from deltaberg.table.maintain.row_trail import RUNS, RowTrail
from deltaberg.table.read.bound import SPLIT
from deltaberg.table.read.plan import group_tasks, split_files
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.removal import WRITTEN_FILE, discard_files
from deltaberg.table.rows.progress import ProgressSum
from deltaberg.table.sort.row_sample import RowSample
from deltaberg.table.write.sources import TASK_ROAD

__all__ = ["TaskMemory", "write_by_tasks"]

#: Bins of more bytes are divided among tasks if their rows are put into an order, and each task reads so many of them.
_DIVIDED = 512 << 20
#: All bins that are divided are read by about so many tasks at most, and written by as many: this process knows where
#: each of the ones has stored rows for each of the others.
_MOST = 512
#: Bytes of rows in a task: several run on a machine.
_MEMORY = 512 << 20
#: Rows of all samples of a bin together.
_SAMPLED = 400_000
#: More rows than a task reads.
_FAR = 1 << 40


class TaskMemory(NamedTuple):
    """Bytes of rows in a task that are read ahead, that are sorted, and that wait to be written."""

    reading: int
    sorting: int
    writing: int

    @classmethod
    def of(cls, memory: int | None) -> TaskMemory:
        """Return how a task divides its memory; None for the default."""
        half = max((memory or _MEMORY) // 2, 2)
        return cls(half, half // 2, half // 2)

    @property
    def options(self) -> ScanOptions:
        """How a task reads."""
        return ScanOptions(threads=1, memory=self.reading)


class _Written(NamedTuple):
    """What a task wrote: its files, and the runs that tell where their rows came from."""

    files: pa.Table
    paths: list[str]
    runs: list[StagedRows]


def write_by_tasks(
    tasks: RowTasks,
    writer: BinWriter,
    bins: Sequence[Bin],
    trail: RowTrail | None,
    note: Note,
    memory: TaskMemory,
    progress: ProgressSum | None = None,
) -> list[pa.Table]:
    """Write the rows of each bin, and return a row for each new file of it; see `write_files`.

    Parameters
    ----------
    tasks
        The tasks.
    writer
        Writes rows.
    bins
        The bins, whose scans differ in their files alone.
    trail
        Learns where the rows of new files came from.
    note
        Is told of files as soon as they are written.
    memory
        How a task divides its memory.
    progress
        What is told how far the rows of all bins are written together, whenever a job has ended.

    Raises
    ------
    StorageError
        The store fails. Files of tasks that had succeeded may be left behind; no version names them.
    """
    scan = bins[0].scan
    store, root = scan.source.store, parse_location(scan.source.table)
    noted, rows = Stage.of(store, root), Stage.of(store, root)
    if trail is not None:
        # It tells where rows came from until the commit ends.
        trail.resources.callback(noted.clear)
    try:
        return _Job(tasks, writer, bins, trail, note, memory, noted, rows, progress).run()
    finally:
        rows.clear()


@dataclass(frozen=True)
class _Job:
    tasks: RowTasks
    writer: BinWriter
    bins: Sequence[Bin]
    trail: RowTrail | None
    note: Note
    memory: TaskMemory
    #: Where tasks store where rows came from, and the rows of bins that are divided.
    noted: Stage
    staged: Stage
    progress: ProgressSum | None

    def run(self) -> list[pa.Table]:
        """Write all bins."""
        tables_by_bin = [[self.writer.spec.no_files()] for _ in self.bins]
        is_ordered = self.writer.order is not None
        divided = [number for number, one in enumerate(self.bins) if is_ordered and one.size > _DIVIDED]
        whole = [number for number in range(len(self.bins)) if number not in set(divided)]
        items = [(self._packed(self.bins[number], None)[0], self.bins[number].shape) for number in whole]
        for number, written in zip(whole, self._write(_BinTask(self._writing, self._reading), items), strict=True):
            tables_by_bin[number].append(written)
        for number, written in self._write_divided(divided):
            tables_by_bin[number].append(written)
        return [pa.concat_tables(tables) for tables in tables_by_bin]

    @property
    def _reading(self) -> _Reading:
        scan, order = self.bins[0].scan, self.writer.order
        rows = scan.read_spec
        keys = None if order is None else scan.with_columns(order.sources).read_spec
        return _Reading(rows, keys)

    @property
    def _writing(self) -> _Writing:
        return _Writing(self.writer, self.noted, self.memory)

    def _packed(self, one: Bin, size: int | None) -> list[bytes]:
        """Return the packed splits of the files of a bin: all of them, or in groups of about so many bytes."""
        splits = split_files(one.scan.plan, SPLIT, one.scan.constants)
        return [pack_tasks(group) for group in ([splits] if size is None else group_tasks(splits, size, 1))]

    def _write(self, work: _BinTask | _PartTask, items: Sequence[Any]) -> Iterator[pa.Table]:
        """Have tasks write files, and take note of them and of where their rows came from."""
        results = self.tasks.run(work, items, self._discard)
        for written in results:
            self.note(written.files, TASK_ROAD)
        for written in results:
            if self.progress is not None:
                self.progress.add(len(written.files), rows=rows_in(written.files))
            if self.trail is not None:
                self.trail.adopt(written.paths, partial(self.noted.read_rows, written.runs))
            yield written.files

    def _discard(self, written: _Written) -> None:
        _discard(self.writer, [written.files])

    def _write_divided(self, divided: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
        """Write bins that are divided among tasks, and return the files of their parts, in the order of rows."""
        order = self.writer.order
        if order is None or not divided:
            return
        size = max(_DIVIDED, sum(self.bins[number].size for number in divided) // _MOST)
        shares = [(number, packed) for number in divided for packed in self._packed(self.bins[number], size)]
        most = max(_SAMPLED // len(shares), 1000)
        sampled = [(packed, most, place * _FAR) for place, (_, packed) in enumerate(shares)]
        samples: dict[int, RowSample] = {number: order.sample() for number in divided}
        found = self.tasks.run(_SampleTask(self._reading, order), sampled)
        for (number, _), sample in zip(shares, found, strict=True):
            samples[number].merge(sample)
        cuts = {
            number: order.cut(sample, self.bins[number].shape.files, self.writer.schema)
            for number, sample in samples.items()
        }
        files = sum(len(cut.cuts) + 1 for cut in cuts.values() if cut is not None)
        parted = {number: None if cut is None else _Parted(cut, -(-files // _MOST)) for number, cut in cuts.items()}
        stored: dict[tuple[int, int], list[StagedRows]] = {}
        rows = self.tasks.run(_StoreTask(self._reading, self.staged, parted, self.memory.sorting), shares)
        for (number, _), own in zip(shares, rows, strict=True):
            for one in own:
                stored.setdefault((number, one.part), []).append(one)
        parts = sorted(stored)
        # Where the order is cut, a file ends.
        shapes = {number: self.bins[number].shape._replace(most_rows=None) for number in divided}
        items = [(number, part, shapes[number], stored[number, part]) for number, part in parts]
        written = self._write(_PartTask(self._writing, self.staged, parted), items)
        yield from ((number, files) for (number, _), files in zip(parts, written, strict=True))


@dataclass(frozen=True)
class _Reading:
    """Reads packed splits: all columns, or those that an order depends on."""

    rows: ReadSpec
    keys: ReadSpec | None

    def batches(self, packed: bytes, spec: ReadSpec | None) -> Generator[pa.RecordBatch, None, None]:
        """Return the rows of packed splits."""
        if spec is None:
            raise AssertionError("rows that stay in their order have no keys")
        for task in tasks_of(unpack_tasks(packed, task_schema(arrow_schema(self.rows.constants)))):
            yield from read_task(spec, task)


@dataclass(frozen=True)
class _Writing:
    """Writes rows in a task, and stores where they came from."""

    writer: BinWriter
    stage: Stage
    memory: TaskMemory

    def __call__(self, write: Any) -> _Written:
        """Return what a function wrote that takes a trail and what is told of files."""
        address, noted = self.writer.address, list[pa.Table]()
        trail = None if address is None else RowTrail(address)
        try:
            files = write(trail, lambda tables, _: noted.append(tables))
            if trail is None:
                return _Written(files, [], [])
            return _Written(files, trail.paths, self.stage.store_rows([trail.runs()], RUNS))
        except BaseException:
            _discard(self.writer, noted)
            raise
        finally:
            if trail is not None:
                trail.close()


@dataclass(frozen=True)
class _BinTask:
    """Writes a whole bin."""

    writing: _Writing
    reading: _Reading

    def __call__(self, item: tuple[bytes, BinShape]) -> _Written:
        packed, shape = item
        reading = self.reading
        return self.writing(
            lambda trail, note: self.writing.writer.write(
                shape,
                lambda: reading.batches(packed, reading.rows),
                lambda: reading.batches(packed, reading.keys),
                note,
                sorting=self.writing.memory.sorting,
                writing=self.writing.memory.writing,
                threads=1,
                trail=trail,
            )
        )


@dataclass(frozen=True)
class _SampleTask:
    """Samples what rows are ordered by."""

    reading: _Reading
    order: BoundOrder

    def __call__(self, item: tuple[bytes, int, int]) -> RowSample:
        packed, most, first = item
        sample = self.order.sample(most=most, first=first)
        for batch in self.reading.batches(packed, self.reading.keys):
            sample.add(batch)
        return sample


class _Parted(NamedTuple):
    """An order that is cut into files, of which so many are a part: what one task writes."""

    cut: CutOrder
    files: int

    @property
    def parts(self) -> CutOrder:
        """The order cut into parts."""
        return replace(self.cut, cuts=self.cut.cuts[self.files - 1 :: self.files])

    def part(self, number: int) -> CutOrder:
        """Return the order of the rows of a part, cut into files."""
        first = number * self.files
        return replace(self.cut, cuts=self.cut.cuts[first : first + self.files - 1])


@dataclass(frozen=True)
class _StoreTask:
    """Stores rows on the stage, part by part."""

    reading: _Reading
    stage: Stage
    parted: dict[int, _Parted | None]
    sorting: int

    def __call__(self, item: tuple[int, bytes]) -> list[StagedRows]:
        number, packed = item
        parted = self.parted[number]
        if parted is None:
            return []
        cut = parted.parts
        with closing(self.reading.batches(packed, self.reading.rows)) as rows:
            return self.stage.store_rows(cut.parts(cut.placed(rows), self.sorting), cut.stored)


@dataclass(frozen=True)
class _PartTask:
    """Writes one part of a bin."""

    writing: _Writing
    stage: Stage
    parted: dict[int, _Parted | None]

    def __call__(self, item: tuple[int, int, BinShape, list[StagedRows]]) -> _Written:
        number, part, shape, stored = item
        parted = self.parted[number]
        if parted is None:
            raise AssertionError("rows that were stored have an order")
        cut, writer, memory = parted.part(part), self.writing.writer, self.writing.memory

        def write(trail: RowTrail | None, note: Note) -> pa.Table:
            new = [writer.spec.no_files()]
            with closing(cut.parts(self.stage.read_rows(stored), memory.sorting)) as files:
                for rows in files:
                    with closing(cut.bare(rows)) as batches:
                        new.append(
                            writer.write_part(shape, batches, note, writing=memory.writing, threads=1, trail=trail)
                        )
            return pa.concat_tables(new)

        return self.writing(write)


def _discard(writer: BinWriter, tables: Iterable[pa.Table]) -> None:
    paths = (writer.place.join(path).path for table in tables for path in table["path"].to_pylist())
    discard_files(writer.store.open(writer.place), writer.place.path, paths, WRITTEN_FILE)
