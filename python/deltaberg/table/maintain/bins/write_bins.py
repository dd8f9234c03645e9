"""Writing the rows of bins to new files, the same in this process and in the tasks of an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CorruptDataFileError
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import Struct
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.change.changed_rows import NewFiles, RowIdentity
from deltaberg.table.change.gather import gathered
from deltaberg.table.maintain.row_order import BoundOrder
from deltaberg.table.maintain.row_trail import RowTrail
from deltaberg.table.read.bound import BoundScan, RowAddress
from deltaberg.table.rows.progress import Progress, ProgressSum
from deltaberg.table.write.sources import WriteRoad
from deltaberg.table.write.spec import WriteSpec

__all__ = ["SLACK", "Bin", "BinShape", "BinWriter", "check_rows", "rows_in"]

#: The sizes of old files tell little of the new one's where another codec is used: it may become so much larger. Where
#: rows are in order, files that are a little larger than others are no reason for another one.
SLACK = 2

#: Is told of files as soon as they are written.
Note = Callable[[pa.Table, WriteRoad], None]


class BinShape(NamedTuple):
    """What the new files of a bin are like.

    Parameters
    ----------
    limit
        Bytes of a file at most, approximately.
    files
        How many files rows go to that are put into an order.
    most_rows
        How many of these rows go to a file at most, where their order leaves that open.
    """

    limit: int
    files: int = 1
    most_rows: int | None = None


@dataclass(frozen=True)
class Bin:
    """A bin whose rows are written to new files.

    Parameters
    ----------
    scan
        All rows of its files.
    shape
        What the new files are like.
    """

    scan: BoundScan
    shape: BinShape

    @classmethod
    def of(cls, scan: BoundScan, limit: int, order: BoundOrder | None) -> Bin:
        """Return a bin whose new files have so many bytes at most."""
        if order is None:
            return cls(scan, BinShape(limit))
        plan = scan.plan
        counts = plan.row_counts()
        shares = pc.divide(counts.cast(pa.float64()), pc.max_element_wise(plan.record_counts.cast(pa.float64()), 1.0))
        sizes = pc.fill_null(plan.files.column("size"), 0).cast(pa.float64())
        size = pc.sum(pc.multiply(sizes, pc.fill_null(shares, 1.0))).as_py() or 0.0
        count = max(math.ceil(size / limit), 1)
        # A log may say that files have no rows which have some.
        known: int = 0 if counts.null_count else pc.sum(counts).as_py() or 0
        is_open = order.curve is None and known > 0
        return cls(scan, BinShape(limit, count, math.ceil(known / count) if is_open else None))

    @property
    def size(self) -> int:
        """The bytes of the files."""
        found: int = pc.sum(self.scan.plan.files.column("size")).as_py() or 0
        return found


@dataclass(frozen=True)
class BinWriter:
    """Writes the rows of bins to new files. It pickles.

    Parameters
    ----------
    identity
        The columns of rows that move.
    spec
        What the table asks of files.
    store
        Opens the store of the table.
    place
        The directory that files are written below.
    order
        What the rows of a bin are put into; None leaves them in the order in which they were written.
    columns
        The columns of the rows. Those of addresses are behind the others.
    address
        The columns of row addresses, where it is noted which rows go to which file.
    """

    identity: RowIdentity
    spec: WriteSpec
    store: StoreSpec
    place: Location
    order: BoundOrder | None
    columns: Struct
    address: RowAddress | None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return arrow_schema(self.columns)

    def write(
        self,
        shape: BinShape,
        rows: Callable[[], Iterator[pa.RecordBatch]],
        keys: Callable[[], Iterator[pa.RecordBatch]],
        note: Note,
        *,
        sorting: int,
        writing: int,
        threads: int,
        trail: RowTrail | None,
        progress: ProgressSum | None = None,
    ) -> pa.Table:
        """Write the rows of a bin, and return a row for each new file; see `write_files`.

        Parameters
        ----------
        shape
            What the files are like.
        rows
            Reads the rows.
        keys
            Reads the columns of the same rows that their order depends on.
        note
            Is told of files as soon as they are written.
        sorting, writing
            Bytes of rows that are sorted, and that wait to be written.
        threads
            How many files are encoded at a time.
        trail
            What is told which rows go to which file.
        progress
            What is told how far the rows of all bins are written together.
        """
        parts: Iterator[Iterator[pa.RecordBatch]] = iter([rows()])
        if self.order is not None:
            parts = self.order.parts(rows, keys, self.schema, shape.files, sorting)
        new = [self.spec.no_files()]
        for part in parts:
            told = None if progress is None else progress.next_write()
            with closing(part) as batches:  # type: ignore[type-var]
                new.append(
                    self.write_part(shape, batches, note, writing=writing, threads=threads, trail=trail, progress=told)
                )
        return pa.concat_tables(new)

    def write_part(
        self,
        shape: BinShape,
        batches: Iterator[pa.RecordBatch],
        note: Note,
        *,
        writing: int,
        threads: int,
        trail: RowTrail | None,
        progress: Progress | None = None,
    ) -> pa.Table:
        """Write rows that are in their order already; see `write`."""
        spec = replace(self.spec, memory=writing, target_size=shape.limit)
        if self.order is not None:
            # Rows are not sorted again, file by file, in the order of the table.
            spec = replace(spec, sort=None, target_size=SLACK * shape.limit, most_rows=shape.most_rows)
        flat = self.identity.flat if self.address is None else partial(_with_address, self.identity, self.address)
        files = NewFiles(spec, self.store, self.place, note, progress)
        read = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal read
            for batch in gathered(batches):
                read += batch.num_rows
                yield flat(batch)

        new = files.write(counted(), threads=threads, trail=trail)
        check_rows(rows_in(new), read)
        return new


def _with_address(identity: RowIdentity, address: RowAddress, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as files store them, with the columns of their addresses, which are the last ones."""
    flat = identity.flat(batch)
    own: Sequence[pa.Array] = batch.columns[-len(address) :]
    schema = pa.schema([*flat.schema, *(batch.schema.field(child.name) for child in address)])
    return pa.RecordBatch.from_arrays([*flat.columns, *own], schema=schema)


def rows_in(new: pa.Table) -> int:
    """Return how many rows new files have."""
    return pc.sum(new.column("record_count")).as_py() or 0


def check_rows(written: int, expected: int | None) -> None:
    """Refuse to commit other rows than there were.

    Raises
    ------
    CorruptDataFileError
        New files have another number of rows than those that they were to replace.
    """
    if expected is not None and written != expected:
        raise CorruptDataFileError(
            f"the new files of a compaction have {written} rows, and those that they were to replace {expected}",
            hint="nothing of the group was committed; look for damaged files, and compact again",
        )
