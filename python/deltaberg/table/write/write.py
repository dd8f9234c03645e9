"""Writing rows to data files: conform, split by partition, roll, and describe what was written."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from deltaberg.errors import StorageError
from deltaberg.files.write import FORMS, DataFile, StatisticsPlan, WrittenFile, written_rows
from deltaberg.schema import count_up
from deltaberg.storage import Storage
from deltaberg.table.read.options import processors
from deltaberg.table.write.encoding import EncodingPool
from deltaberg.table.write.partition import PartitionRows, split_by_partition
from deltaberg.table.write.places import file_place
from deltaberg.table.write.progress import Progress, WriteProgress
from deltaberg.table.write.rolling import PartitionWriter, Sizes
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.spool import Spool
from deltaberg.table.write.stream import open_stream, small_batches

__all__ = ["write_files"]


def write_files(
    data: Any,
    spec: WriteSpec,
    store: Storage,
    root: str,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Write rows to new data files, and return a row for each file.

    Rows of a partition keep their order. If they arrive in the order of their partitions, one file is open at a time.
    Otherwise a bounded number is open, and the rows of further partitions wait on disk.

    Parameters
    ----------
    data
        The rows; see `open_stream`.
    spec
        What the table asks for.
    store
        Where the table is.
    root
        The path of the table in the store.
    threads
        How many files are encoded at a time; None for the number of processors.
    progress
        What is told how far the write has come.

    Returns
    -------
    pyarrow.Table
        A row for each file, as `written_schema` describes them. No rows make no files.

    Raises
    ------
    InvalidArgumentError
        If the data is of a kind that has no rows.
    SchemaError
        If the rows do not fit the columns of the table.
    ConstraintViolationError
        If a column that must not be null has nulls, or a row violates a rule of the table.
    StorageError
        If the store fails. After any exception, the files of this call are deleted as far as the store allows it.

    Examples
    --------
    >>> import tempfile
    >>> from deltaberg.schema import Field, Primitive, Struct
    >>> from deltaberg.storage import open_store, parse_location
    >>> place = parse_location(tempfile.mkdtemp())
    >>> spec = WriteSpec(Struct((Field("x", Primitive("long")),)))
    >>> written = write_files(pa.table({"x": [3, 1, None]}), spec, open_store(place), place.path)
    >>> written.select(["record_count", "lower", "upper", "null_count"]).to_pylist()
    [{'record_count': 3, 'lower': {'0': 1}, 'upper': {'0': 3}, 'null_count': {'0': 1}}]
    """
    write = _Write(spec, store, root, threads or processors())
    try:
        files = write.run(data, progress)
    except BaseException:
        write.discard()
        raise
    return written_rows(files, spec.schema, [part.field for part in spec.partition], footers=spec.footers)


class _Spooled:
    """The partitions whose rows wait on disk, numbered in the order in which they came."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._numbers: dict[Hashable, int] = {}
        self._values: list[Mapping[str, pa.Scalar]] = []

    def __contains__(self, key: Hashable) -> bool:
        return key in self._numbers

    def add(self, part: PartitionRows) -> None:
        """Add rows of a partition."""
        if part.key not in self._numbers:
            self._numbers[part.key] = len(self._values)
            self._values.append(part.values)
        self._spool.add(self._numbers[part.key], part.rows)

    def partitions(self) -> Iterator[tuple[Mapping[str, pa.Scalar], Iterator[pa.RecordBatch]]]:
        """Return the values and the rows of each partition."""
        for number, rows in self._spool.partitions():
            yield self._values[number], rows


def _new_keys(parts: Sequence[PartitionRows], last: PartitionRows | None) -> set[Hashable]:
    """Return the keys of partitions that begin in a batch, of which the first may continue the batch before."""
    return {part.key for part in parts} - ({last.key} if last is not None and parts[0].key == last.key else set())


class _Write:
    """One call: its files, and the writers of the partitions that are open."""

    def __init__(self, spec: WriteSpec, store: Storage, root: str, threads: int) -> None:
        self._spec = spec
        self._store = store
        self._root = root.rstrip("/")
        stored = spec.stored
        plan = StatisticsPlan(spec.schema, frozenset(stored.names), spec.statistics, spec.cut)
        numbered_as = spec.schema if spec.footers else None
        form = partial(
            FORMS[spec.format],
            options=spec.parquet,
            statistics=plan,
            required=spec.required,
            own=spec.own_types,
            numbered_as=numbered_as,
        )
        self._form = form(stored)
        #: The form of files whose directories do not show their partition values.
        self._whole_form = form(replace(spec, stores_partition_columns=True).stored)
        # Of the rows in memory, a third is gathered, and the rest is being encoded.
        self._gathered = max(spec.memory // 3, 1)
        self._sizes = Sizes(spec.target_size, spec.parquet.row_group_size, self._gathered)
        self._pool = EncodingPool(threads, spec.memory - self._gathered)
        self._writers: dict[Hashable, PartitionWriter] = {}
        self._files: list[DataFile] = []
        self._written: list[Future[WrittenFile]] = []
        self._numbers = count()

    def run(self, data: Any, progress: Progress | None) -> list[WrittenFile]:
        """Write all rows."""
        reader = open_stream(data)
        conformer = self._spec.conformer(reader.schema)
        batches = (conformer.apply(batch) for batch in self._watched(small_batches(reader), progress))
        rules, given = self._spec.rules, conformer.given
        if rules:
            batches = (rules.apply(batch, given) for batch in batches)
        if self._spec.partition:
            self._partitioned(batches, conformer.schema)
        else:
            writer = self._writer({})
            for batch in batches:
                writer.write(batch)
            self._close(writer)
        files = [future.result() for future in self._written]
        self._pool.stop()
        return files

    def _watched(self, batches: Iterator[pa.RecordBatch], progress: Progress | None) -> Iterator[pa.RecordBatch]:
        """Return the same batches, and tell after each of them how far the write has come."""
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if progress is not None:
                progress(WriteProgress(rows, len(self._files)))

    def discard(self) -> None:
        """Remove the files of this call, as far as the store allows it."""
        self._pool.stop()
        for file in self._files:
            with suppress(Exception):
                file.abort()
        with suppress(StorageError):
            self._store.delete_many(file.target for file in self._files if file.is_begun)

    def _partitioned(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        """Write rows by partition.

        As long as no partition comes back, a file is finished when the next partition begins; partitions that are too
        small for a row group wait in memory, so that a stream in random order is noticed before it has made many small
        files. After that, some partitions are written as their rows come, and the rows of all others wait on disk.
        """
        with Spool(schema, self._gathered // 2, self._spec.spool_directory) as spool:
            spooled = _Spooled(spool)
            is_ordered = True
            last: PartitionRows | None = None
            seen: set[Hashable] = set()
            for batch in batches:
                parts, together = split_by_partition(batch, self._spec.partition)
                if is_ordered and not (together and seen.isdisjoint(_new_keys(parts, last))):
                    is_ordered = False
                    self._spool_excess(spooled)
                for part in parts:
                    if is_ordered and last is not None and part.key != last.key:
                        self._close_begun(last.key)
                    last = part
                    seen.add(part.key)
                    if is_ordered:
                        self._writer_of(part).write(part.rows)
                    elif self._has_room(part.key, spooled):
                        # A slice would keep the whole batch in memory for as long as it waits.
                        rows = part.rows.take(count_up(0, part.rows.num_rows)) if together else part.rows
                        self._writer_of(part).write(rows)
                    else:
                        spooled.add(part)
                if is_ordered:
                    self._close_oldest()
                else:
                    self._flush_largest()
            self._close_all()
            for values, waiting in spooled.partitions():
                writer = self._writer(values)
                for rows in waiting:
                    writer.write(rows)
                self._close(writer)

    def _has_room(self, key: Hashable, spooled: _Spooled) -> bool:
        """Return whether a partition has a writer, or may get one."""
        return key in self._writers or (key not in spooled and len(self._writers) < self._spec.open_files)

    def _writer_of(self, part: PartitionRows) -> PartitionWriter:
        if part.key not in self._writers:
            self._writers[part.key] = self._writer(part.values)
        return self._writers[part.key]

    def _close_begun(self, key: Hashable) -> None:
        """Finish the files of a partition, unless all of its rows still wait in memory."""
        if self._writers[key].is_begun:
            self._close(self._writers.pop(key))

    def _close_oldest(self) -> None:
        """Finish partitions in the order in which they began, until what waits in memory is within its bound."""
        while self._sizes.held > self._gathered and len(self._writers) > 1:
            self._close(self._writers.pop(next(iter(self._writers))))

    def _spool_excess(self, spooled: _Spooled) -> None:
        """Put the partitions on disk that there are too many of to be open."""
        for key in list(self._writers)[self._spec.open_files :]:
            writer = self._writers[key]
            if not writer.is_begun:
                del self._writers[key]
                for rows in writer.take_waiting():
                    spooled.add(PartitionRows(key, writer.values, rows))

    def _flush_largest(self) -> None:
        """Encode the rows of the partitions that hold most, until what is gathered in memory is within its bound."""
        while self._sizes.held > self._gathered:
            max(self._writers.values(), key=lambda writer: writer.held).flush()

    def _writer(self, values: Mapping[str, pa.Scalar]) -> PartitionWriter:
        return PartitionWriter(self._pool, self._sizes, values, partial(self._new_file, values), self._spec.sort)

    def _new_file(self, values: Mapping[str, pa.Scalar]) -> DataFile:
        fields = [(part.field, values[part.field.name]) for part in self._spec.partition]
        path, shows_values = file_place(self._spec, fields, next(self._numbers))
        target = f"{self._root}/{path}" if self._root else path
        file = DataFile(self._store, target, path, self._form if shows_values else self._whole_form, values)
        self._files.append(file)
        return file

    def _close(self, writer: PartitionWriter) -> None:
        writer.close()
        self._written.extend(writer.written)

    def _close_all(self) -> None:
        for writer in self._writers.values():
            self._close(writer)
        self._writers.clear()
