"""Parquet files: which row groups to read, and batches with the physical position of their first row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.files.formats.data_file import DataFile, PositionedBatch, RowGroup, bare_batches
from deltaberg.files.formats.encryption import encrypted_file, has_encrypted_columns
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.formats.parquet_chunks import ParquetChunks
from deltaberg.kernels import plain_values as pv
from deltaberg.kernels.decimals import exact_decimal
from deltaberg.pruning.evaluate import may_match
from deltaberg.pruning.stats import ColumnStats, FileStats, StatsKey, stats_key
from deltaberg.schema.convert import convert_leaf, is_promotable
from deltaberg.schema.name_mapping import NameMapping, with_mapped_ids
from deltaberg.schema.projection import Leaf, find_leaf
from deltaberg.schema.types import Field

__all__ = ["LEAST_ROWS", "ParquetSource"]

#: Fewer rows than these pyarrow decodes, since what a call of the kernel costs is more than it saves then.
LEAST_ROWS = 4096
#: Memory that a text takes while it is read, as a multiple of its bytes: Arrow copies full buffers of texts into ones
#: twice as large.
_GROWING = 4


class ParquetSource(DataFile):
    """An open Parquet file.

    Parameters
    ----------
    buffered
        How many bytes of a column are read at a time; 0 reads each column chunk whole, which is faster and takes as
        much memory as the chunk has bytes.

    Raises
    ------
    UnsupportedFeatureError
        If columns of the file are encrypted.
    """

    def __init__(self, file: pa.NativeFile, buffered: int = 0, prefetch: bool = False) -> None:
        self._size: int = file.size()
        # The twin of the kernel is pyarrow, which needs no chunks to be handed to it; and it fetches those of a bucket.
        is_direct = kernels.report().backend == "native" and not (
            buffered or prefetch or isinstance(file, pa.PythonFile)
        )
        self.skips_rows = is_direct
        self._parquet = pq.ParquetFile(
            file, coerce_int96_timestamp_unit="us", buffer_size=buffered, pre_buffer=prefetch and not buffered
        )
        self._chunks = ParquetChunks(file, self._parquet) if is_direct else None
        self.metadata = self._parquet.metadata
        if has_encrypted_columns(file, self.metadata.serialized_size):
            raise encrypted_file("a column of the file")
        self.schema: pa.Schema = self._parquet.schema_arrow

    def schema_with(self, mapping: NameMapping | None) -> pa.Schema:
        """Return the schema, with ids by name where the file has none."""
        self.schema = with_mapped_ids(self.schema, mapping)
        return self.schema

    def close(self) -> None:
        """Close the file."""
        self._parquet.close(force=True)

    def row_groups(self, start: int, stop: int) -> list[RowGroup]:
        """Return the row groups whose middle lies in bytes ``start`` to ``stop`` of the file.

        For a whole file the metadata of columns is not looked at: pyarrow crashes the process on some kinds of damage
        there, while reading the columns reports them.
        """
        groups = []
        position = 0
        is_whole = start <= 0 and stop > self._size
        for index in range(self.metadata.num_row_groups):
            group = self.metadata.row_group(index)
            if is_whole or start <= _middle(group) < stop:
                groups.append(RowGroup(index, position, group.num_rows))
            position += group.num_rows
        return groups

    def prune(
        self, groups: Sequence[RowGroup], condition: Bound, constants: Mapping[StatsKey, pa.Scalar], layout: FileLayout
    ) -> list[RowGroup]:
        """Return the row groups whose statistics do not rule out a matching row.

        ``constants`` holds the columns that have one value in the whole file, whatever the file itself stores. Nothing
        is known about computed columns.
        """
        if not groups:
            return []
        stats = self._group_stats(groups, condition, constants, layout)
        keep = may_match(condition, stats).to_pylist()
        return [group for group, kept in zip(groups, keep, strict=True) if kept]

    def split_offsets(self) -> list[int]:
        """Return where row groups begin, in ascending order."""
        groups = (self.metadata.row_group(number) for number in range(self.metadata.num_row_groups))
        return sorted(_begin(group) for group in groups if group.num_columns)

    def group_statistics(self, groups: Sequence[RowGroup], path: tuple[Field, ...]) -> ColumnStats:
        """Return the statistics of a column in some row groups, as far as their footer tells them, found by name."""
        counts = pv.array([group.rows for group in groups], pa.int64())
        return self._column_stats(groups, path, counts, by_id=False)

    def batches(
        self, groups: Sequence[RowGroup], leaves: Sequence[int], batch_size: int, threads: bool
    ) -> Iterator[PositionedBatch]:
        """Read leaf columns of some row groups; without leaves, batches have rows and no columns."""
        for run in _runs(groups):
            position = run[0].start
            if not leaves:
                yield from bare_batches(position, sum(group.rows for group in run), batch_size)
                continue
            for batch in self._decoded(run, leaves, batch_size, threads):
                yield PositionedBatch(position, batch.num_rows, batch)
                position += batch.num_rows

    def chosen(
        self, group: RowGroup, leaves: Sequence[int], batch_size: int, threads: bool, kept: pa.BooleanArray
    ) -> Iterator[pa.RecordBatch]:
        """Read leaf columns, of which there is at least one, of the rows of a group that a mask keeps."""
        return self._decoded([group], leaves, batch_size, threads, kept)

    def _decoded(
        self,
        run: Sequence[RowGroup],
        leaves: Sequence[int],
        batch_size: int,
        threads: bool,
        kept: pa.BooleanArray | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Decode adjacent row groups by the kernel, and by pyarrow the rows that it left."""
        done = 0
        if self._chunks is not None and sum(group.rows for group in run) >= LEAST_ROWS:
            for batch in self._chunks.batches(run, leaves, batch_size, threads, kept):
                yield batch
                done += batch.num_rows
            if done == (sum(group.rows for group in run) if kept is None else kept.true_count):
                return
        reader = self._parquet.reader.iter_batches(
            batch_size, row_groups=[group.number for group in run], column_indices=list(leaves), use_threads=threads
        )
        start = 0
        for batch in reader:
            rows = batch if kept is None else batch.filter(kept.slice(start, batch.num_rows))
            start += batch.num_rows
            repeated = min(done, rows.num_rows)
            done -= repeated
            if repeated < rows.num_rows:
                yield rows.slice(repeated)

    def compressed_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Return how many bytes the leaves of some row groups have in the file."""
        return sum(
            self.metadata.row_group(group.number).column(leaf).total_compressed_size
            for group in groups
            for leaf in leaves
        )

    def row_bytes(self, groups: Sequence[RowGroup], leaves: Sequence[int]) -> int:
        """Estimate how many bytes a row of the leaves has in memory."""
        rows = sum(group.rows for group in groups) or 1
        chunks = (self.metadata.row_group(group.number).column(leaf) for group in groups for leaf in leaves)
        total: int = sum(
            chunk.total_uncompressed_size * (_GROWING if chunk.physical_type == "BYTE_ARRAY" else 1) for chunk in chunks
        )
        # Dictionaries and runs make pages smaller than the values that they encode.
        return max(total // rows, 8 * len(leaves), 1)

    def _group_stats(
        self, groups: Sequence[RowGroup], condition: Bound, constants: Mapping[StatsKey, pa.Scalar], layout: FileLayout
    ) -> FileStats:
        counts = pv.array([group.rows for group in groups], pa.int64())
        columns: dict[StatsKey, ColumnStats] = {}
        for path in bound_paths(condition):
            key = stats_key(path)
            if key not in columns and key not in constants and path[0].name not in layout.computed:
                columns[key] = self._column_stats(groups, path, counts, layout.by_id)
        values = {key: pa.repeat(value, len(groups)) for key, value in constants.items()}
        return FileStats(len(groups), counts, columns, values)

    def _column_stats(
        self, groups: Sequence[RowGroup], path: tuple[Field, ...], counts: pa.Array, by_id: bool
    ) -> ColumnStats:
        leaf = find_leaf(path, self.schema, by_id)
        if leaf is None:
            # The file lacks the column, so every row reads as null unless the column has a default.
            has_default = any(part.default is not None for part in path)
            return ColumnStats() if has_default else ColumnStats(null_count=counts)
        if not leaf.is_leaf:
            return ColumnStats()
        found = [self.metadata.row_group(group.number).column(leaf.number).statistics for group in groups]
        nulls = [None if stats is None or not stats.has_null_count else stats.null_count for stats in found]
        lower = [None if stats is None or not stats.has_min_max else stats.min_raw for stats in found]
        upper = [None if stats is None or not stats.has_min_max else stats.max_raw for stats in found]
        return ColumnStats(_bounds(lower, leaf, path[-1]), _bounds(upper, leaf, path[-1]), pv.array(nulls, pa.int64()))


def _middle(group: Any) -> int:
    """Return the byte in the middle of a row group, which decides to which split of the file the group belongs."""
    if not group.num_columns:
        return 0
    size: int = sum(group.column(index).total_compressed_size for index in range(group.num_columns))
    return _begin(group) + size // 2


def _begin(group: Any) -> int:
    """Return the byte at which the first column of a row group begins."""
    first = group.column(0)
    begin = int(first.data_page_offset)
    if first.has_dictionary_page and first.dictionary_page_offset is not None:
        return min(begin, int(first.dictionary_page_offset)) or begin
    return begin


def _runs(groups: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
    """Return runs of adjacent row groups, within which positions have no gap."""
    run: list[RowGroup] = []
    for group in groups:
        if run and group.number != run[-1].number + 1:
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _bounds(raw: list[Any], leaf: Leaf, field: Field) -> pa.Array | None:
    """Convert bounds from the footer to the column's type; None if that is not possible."""
    found = leaf.type
    if not is_promotable(found, field.type) or pt.is_unsigned_integer(found):
        return None
    try:
        return convert_leaf(_physical(raw, found), field.type)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError, OverflowError):
        return None


def _physical(raw: list[Any], file_type: pa.DataType) -> pa.Array:
    """Return an array of a file's type from values of its physical type."""
    if pt.is_decimal(file_type):
        return pv.array([_decimal(value, file_type.scale) for value in raw], file_type)
    if pt.is_date32(file_type):
        return pv.array(raw, pa.int32()).view(file_type)
    if pt.is_timestamp(file_type):
        return pv.array(raw, pa.int64()).view(file_type)
    if pt.is_string(file_type) or pt.is_large_string(file_type):
        return pv.array([None if value is None else value.decode() for value in raw], file_type)
    return pv.array(raw, file_type)


def _decimal(value: Any, scale: int) -> PyDecimal | None:
    if value is None:
        return None
    unscaled = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else int(value)
    return exact_decimal(unscaled, scale)
