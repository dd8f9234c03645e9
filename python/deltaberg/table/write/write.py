"""Writing rows to data files: conform, split by partition, roll, and describe what was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from deltaberg.files.write.forms import FORMS
from deltaberg.files.write.statistics import StatisticsPlan
from deltaberg.files.write.write_parquet import DataFile
from deltaberg.files.write.written import WrittenFile, written_rows
from deltaberg.storage.base import Storage
from deltaberg.table.read.scan_options import processors
from deltaberg.table.removal import WRITTEN_FILE, discard_files
from deltaberg.table.rows.progress import Progress, WriteProgress
from deltaberg.table.rows.stream import open_stream, small_batches
from deltaberg.table.write.encoding import EncodingPool, Job
from deltaberg.table.write.partitioned import PartitionedRows
from deltaberg.table.write.places import file_place
from deltaberg.table.write.rolling import PartitionWriter, Sizes, Trail
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.spool import Spool

__all__ = ["write_files"]


def write_files(
    data: Any,
    spec: WriteSpec,
    store: Storage,
    root: str,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    trail: Trail | None = None,
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
    trail
        What is told which rows go to which file. The rows have its columns behind those of the table.

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
    >>> from deltaberg.schema.types import Field, Primitive, Struct
    >>> from deltaberg.storage.stores import open_store
    >>> from deltaberg.storage.location import parse_location
    >>> place = parse_location(tempfile.mkdtemp())
    >>> spec = WriteSpec(Struct((Field("x", Primitive("long")),)))
    >>> written = write_files(pa.table({"x": [3, 1, None]}), spec, open_store(place), place.path)
    >>> written.select(["record_count", "lower", "upper", "null_count"]).to_pylist()
    [{'record_count': 3, 'lower': {'0': 1}, 'upper': {'0': 3}, 'null_count': {'0': 1}}]
    """
    write = _Write(spec, store, root, threads or processors(), trail)
    try:
        files = write.run(data, progress)
        return written_rows(files, spec.schema, [part.field for part in spec.partition], footers=spec.footers)
    except BaseException:
        write.discard()
        raise


class _Write:
    """One call, and its files."""

    def __init__(self, spec: WriteSpec, store: Storage, root: str, threads: int, trail: Trail | None) -> None:
        self._spec = spec
        self._trail = trail
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
        self._files: list[DataFile] = []
        self._written: list[Job[WrittenFile]] = []
        self._numbers = count()

    def run(self, data: Any, progress: Progress | None) -> list[WrittenFile]:
        """Write all rows."""
        reader = open_stream(data)
        conformer = self._spec.conformer(reader.schema, None if self._trail is None else self._trail.columns)
        batches = (conformer.apply(batch) for batch in self._watched(small_batches(reader), progress))
        rules, given = self._spec.rules, conformer.given
        if rules:
            batches = (rules.apply(batch, given) for batch in batches)
        if self._spec.partition:
            with Spool(conformer.schema, self._gathered // 2, self._spec.spool_directory) as spool:
                rows = PartitionedRows(self._spec, self._sizes, spool, self._writer, self._close)
                for batch in batches:
                    rows.write(batch)
                rows.close()
        else:
            writer = self._writer({})
            for batch in batches:
                writer.write(batch)
            self._close(writer)
        files = [job.result() for job in self._written]
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
        begun = (file.target for file in self._files if file.is_begun)
        discard_files(self._store, self._root, begun, WRITTEN_FILE)

    def _writer(self, values: Mapping[str, pa.Scalar]) -> PartitionWriter:
        new_file, sort = partial(self._new_file, values), self._spec.sort
        return PartitionWriter(self._pool, self._sizes, values, new_file, sort, self._trail, self._spec.most_rows)

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
