"""Writing rows by partition, with a bound on the rows that wait in memory and on the files that are open."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import pyarrow as pa

from deltaberg.schema.arrow import copied
from deltaberg.table.write.partition import PartitionRows, split_by_partition
from deltaberg.table.write.rolling import PartitionWriter, Sizes, copied_together
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.spool import Spool

__all__ = ["PartitionedRows"]

#: Bytes that the objects around a slice of rows take, approximately.
_SLICE = 4096


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


class PartitionedRows:
    """Gives rows to the writers of their partitions.

    As long as no partition comes back, a file is finished when the next partition begins; partitions that are too small
    for a row group wait in memory, so that a stream in random order is noticed before it has made many small files.
    After that, the rows of all partitions wait in memory. If these become too many, the partitions that have most are
    written as their rows come, and the rows of all others wait on disk.

    Parameters
    ----------
    spec
        What the table asks for.
    sizes
        What the writers know of sizes. Their rows wait in memory until they have ``sizes.most`` bytes.
    spool
        Where rows wait on disk.
    new_writer
        Makes the writer of a partition from its values.
    close
        Finishes a writer.
    """

    def __init__(
        self,
        spec: WriteSpec,
        sizes: Sizes,
        spool: Spool,
        new_writer: Callable[[Mapping[str, pa.Scalar]], PartitionWriter],
        close: Callable[[PartitionWriter], None],
    ) -> None:
        self._fields = spec.partition
        self._open_files = spec.open_files
        self._sizes = sizes
        self._spooled = _Spooled(spool)
        self._new_writer = new_writer
        self._close = close
        self._writers: dict[Hashable, PartitionWriter] = {}
        self._is_ordered = True
        self._seen: set[Hashable] = set()
        self._last: Hashable | None = None
        self._is_bounded = False
        #: Bytes of the batches that slices keep in memory since rows have come in no order.
        self._kept = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch, or let them wait."""
        parts, together = split_by_partition(batch, self._fields)
        if self._is_ordered and not (together and self._seen.isdisjoint(self._new_keys(parts))):
            self._is_ordered, self._kept = False, self._sizes.held
        if self._is_ordered:
            self._write_in_order(parts)
        elif self._is_bounded:
            self._write_bounded(parts)
        else:
            self._gather(parts, batch.nbytes)

    def close(self) -> None:
        """Write the rows that wait, and finish all files."""
        for writer in self._writers.values():
            self._close(writer)
        self._writers.clear()
        for values, waiting in self._spooled.partitions():
            writer = self._new_writer(values)
            for rows in waiting:
                writer.write(rows)
            self._close(writer)

    def _new_keys(self, parts: Sequence[PartitionRows]) -> set[Hashable]:
        """Return the keys of partitions that begin in a batch, of which the first may continue the batch before."""
        return {part.key for part in parts} - ({self._last} if self._seen and parts[0].key == self._last else set())

    def _write_in_order(self, parts: Sequence[PartitionRows]) -> None:
        for part in parts:
            if self._seen and part.key != self._last and self._writers[self._last].is_begun:
                # If all of its rows still wait in memory, the partition may come back.
                self._close(self._writers.pop(self._last))
            self._last = part.key
            self._seen.add(part.key)
            self._writer_of(part).write(part.rows)
        # Partitions are finished in the order in which they began.
        while self._sizes.held > self._sizes.most and len(self._writers) > 1:
            self._close(self._writers.pop(next(iter(self._writers))))

    def _gather(self, parts: Sequence[PartitionRows], size: int) -> None:
        """Let rows wait in memory, unless they fill a row group."""
        for part in parts:
            self._writer_of(part).write(part.rows)
        # Slices keep all rows of a batch in memory, also those that have been written.
        self._kept += size + len(parts) * _SLICE
        begun = sum(writer.is_begun for writer in self._writers.values())
        if self._kept > self._sizes.most or begun > self._open_files:
            self._is_bounded = True
            self._spool_excess()

    def _write_bounded(self, parts: Sequence[PartitionRows]) -> None:
        for part in parts:
            if part.key in self._writers or (part.key not in self._spooled and len(self._writers) < self._open_files):
                self._writer_of(part).write(copied(part.rows))
            else:
                self._spooled.add(part)
        # The partitions that hold most are written.
        while self._sizes.held > self._sizes.most:
            max(self._writers.values(), key=lambda writer: writer.held).flush()

    def _writer_of(self, part: PartitionRows) -> PartitionWriter:
        if part.key not in self._writers:
            self._writers[part.key] = self._new_writer(part.values)
        return self._writers[part.key]

    def _spool_excess(self) -> None:
        """Put the partitions on disk that there are too many of to be open, without those that have most rows."""
        by_rows = sorted(self._writers, key=lambda key: (self._writers[key].is_begun, self._writers[key].held))
        excess = {key for key in by_rows[: -self._open_files] if not self._writers[key].is_begun}
        for key in [key for key in self._writers if key in excess]:
            writer = self._writers.pop(key)
            for rows in copied_together(writer.take_waiting()):
                self._spooled.add(PartitionRows(key, writer.values, rows))
        for writer in self._writers.values():
            writer.copy_waiting()
