"""Avro data files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from deltaberg.errors import TooLargeError
from deltaberg.files.avro.container import AvroFile
from deltaberg.files.avro.schema import arrow_field_of
from deltaberg.files.formats.data_file import DataFile, PositionedBatch, RowGroup, bare_batches
from deltaberg.schema.name_mapping import NameMapping, with_mapped_ids
from deltaberg.schema.projection import tops_of
from deltaberg.storage.base import MOST_WHOLE, check_whole

__all__ = ["AvroSource"]

#: Bytes of blocks that are decoded at a time.
_PIECE = 8 << 20


class AvroSource(DataFile):
    """An open Avro file; a block is a group of rows."""

    def __init__(self, file: pa.NativeFile, path: str) -> None:
        with file:
            check_whole(file.size(), MOST_WHOLE, path)
            self._avro = AvroFile(file.read())
        self._schema = pa.schema([arrow_field_of(child) for child in self._avro.schema.fields])

    def schema_with(self, mapping: NameMapping | None) -> pa.Schema:
        """Return the schema, with ids by name where the file has none."""
        return with_mapped_ids(self._schema, mapping)

    def row_groups(self, start: int, stop: int) -> list[RowGroup]:
        """Return the blocks whose middle lies in bytes ``start`` to ``stop`` of the file."""
        groups = []
        position = 0
        for number, block in enumerate(self._avro.blocks):
            if start <= block.offset + block.size // 2 < stop:
                groups.append(RowGroup(number, position, block.rows))
            position += block.rows
        return groups

    def batches(
        self, groups: Sequence[RowGroup], leaves: Sequence[int], batch_size: int, threads: bool
    ) -> Iterator[PositionedBatch]:
        """Read the top-level columns that contain the leaves."""
        columns = pa.schema([self._schema.field(number) for number in tops_of(leaves, self._schema)])
        for run in self._runs(groups):
            position = run[0].start
            if not leaves:
                yield from bare_batches(position, sum(group.rows for group in run), batch_size)
                continue
            for table in self._tables(run, columns, threads):
                for batch in table.to_batches(max_chunksize=batch_size):
                    yield PositionedBatch(position, batch.num_rows, batch)
                    position += batch.num_rows

    def _tables(self, run: Sequence[RowGroup], columns: pa.Schema, threads: bool) -> Iterator[pa.Table]:
        """Decode blocks together or, if their values are too large for that, in halves."""
        waiting = [run]
        while waiting:
            part = waiting.pop()
            try:
                blocks = [self._avro.blocks[group.number] for group in part]
                table = self._avro.read_by_name(columns, blocks, threads=0 if threads else 1)
            except TooLargeError:
                if len(part) == 1:
                    raise
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
            else:
                yield table

    def compressed_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Return the bytes of some blocks, which contain all columns."""
        return sum(self._avro.blocks[group.number].size for group in groups)

    def row_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Estimate how many bytes a row has in memory."""
        rows = sum(group.rows for group in groups) or 1
        return max(2 * self.compressed_bytes(groups, leaves) // rows, 8 * len(leaves), 1)

    def close(self) -> None:
        """Do nothing: the file was closed once its bytes were read."""

    def _runs(self, groups: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
        """Return runs of adjacent blocks, up to a size beyond which decoding them together gains nothing."""
        run: list[RowGroup] = []
        size = 0
        for group in groups:
            if run and (group.number != run[-1].number + 1 or size >= _PIECE):
                yield run
                run, size = [], 0
            run.append(group)
            size += self._avro.blocks[group.number].size
        if run:
            yield run
