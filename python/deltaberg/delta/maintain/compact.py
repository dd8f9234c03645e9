"""Compaction: small files are put together, and deleted rows dropped, without any change of the rows.

Delta protocol, "Add File and Remove File": files that only rearrange rows have ``dataChange`` false.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.change.row_ids import RowIds
from deltaberg.delta.data.deletion_vectors import unique_ids
from deltaberg.delta.data.partition_values import partition_value_texts
from deltaberg.delta.features import supports
from deltaberg.delta.rows.row_spec import row_spec
from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import ConcurrentDeleteDeleteError, UnsupportedFeatureError
from deltaberg.expressions.given.given import Filter, as_filter
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.read.metadata import METADATA
from deltaberg.schema.arrow import arrow_schema, as_array
from deltaberg.schema.columns import select_columns
from deltaberg.schema.types import Struct
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.compact import (
    Compaction,
    CompactResult,
    PackedFile,
    Packing,
    commit_groups,
    group_bins,
    pack_files,
    rows_of_bins,
    write_bins,
)
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.plan import Plan
from deltaberg.table.read.scan_options import ScanOptions, scan_options
from deltaberg.table.read.source import FILE_NUMBER
from deltaberg.table.write.sources import LOCAL_ROAD
from deltaberg.table.write.write import write_files

__all__ = ["compact_table"]


def compact_table(
    begin: Callable[[], Transaction], refresh: Callable[[], object], compaction: Compaction
) -> CompactResult:
    """Put small files of a table together, in groups of which each is one commit.

    Parameters
    ----------
    begin
        What begins a transaction on the newest version that is known. Its commit makes its version known.
    refresh
        What looks for newer versions.
    compaction
        What is asked for.

    Raises
    ------
    UnsupportedFeatureError
        Rows have ids that cannot be kept, or the table has writer features that are not supported.
    CommitUnknownError
        It is not known whether the commit of a group took effect. Groups before it are committed, and those after it
        are left.
    """
    transaction = begin()
    snapshot = transaction.snapshot
    packing = replace(compaction.packing, target_size=row_spec(snapshot, compaction.rows).target_size)
    groups = group_bins(pack_files(_candidates(snapshot, compaction), packing), packing.group_size)

    def commit(number: int, group: Sequence[Sequence[PackedFile]]) -> CommitResult:
        bins = [_Files.of(snapshot, [file.row for file in files]) for files in group]
        return _Group(begin() if number else transaction, bins, packing, compaction).commit()

    return commit_groups(groups, commit, refresh)


class _Files(NamedTuple):
    """The files of a new file, as they are recognized in any version: recorded paths, and ids of deletion vectors."""

    paths: pa.StringArray
    vectors: pa.StringArray

    @classmethod
    def of(cls, snapshot: Snapshot, numbers: Sequence[int]) -> _Files:
        """Return files by their numbers among the live files of a version."""
        files = snapshot.live.table.take(pa.array(numbers, pa.int64()))
        return cls(as_array(files.column("path")), unique_ids(as_array(files.column("deletionVector"))))


def _candidates(snapshot: Snapshot, compaction: Compaction) -> list[PackedFile]:
    """Return the files in which rows can match, in the order in which they were written, with their partitions."""
    source = SnapshotSource(snapshot, compaction.timezone)
    plan = BoundScan.of(source, filter=compaction.where, options=scan_options(None, {}, compaction.timezone)).plan
    files = plan.files
    fields = snapshot.partition_fields
    partitions = partition_value_texts(source.partition_values(files), fields) if fields else None
    counts, deleted = plan.record_counts.cast(pa.float64()), plan.deleted_counts.cast(pa.float64())
    shares = pc.divide(deleted, pc.max_element_wise(counts, 1.0, skip_nulls=False))
    # A file whose rows nobody counted has deleted rows all the same.
    shares = pc.if_else(pc.is_null(shares), pc.if_else(pc.greater(deleted, 0.0), 1.0, 0.0), shares)
    order = pc.sort_indices(files, [("modified", "ascending"), ("path", "ascending")])
    columns = (
        files.column(FILE_NUMBER),
        pa.nulls(len(files)) if partitions is None else partitions,
        pc.fill_null(files.column("size"), 0),
        shares,
    )
    taken = (column.take(order).to_pylist() for column in columns)
    return [PackedFile(*row) for row in zip(*taken, strict=True)]


class _Group:
    """The work of one commit.

    Parameters
    ----------
    transaction
        A transaction on the newest version that is known, which may be later than the one that was planned on.
    bins
        The files of each new file.
    """

    def __init__(
        self, transaction: Transaction, bins: Sequence[_Files], packing: Packing, compaction: Compaction
    ) -> None:
        self._transaction = transaction
        self._snapshot = transaction.snapshot
        self._source = SnapshotSource(self._snapshot, compaction.timezone)
        self._compaction = compaction
        self._row_ids = RowIds(self._snapshot)
        if "rowTracking" in self._snapshot.active_features and not self._row_ids.are_kept:
            raise UnsupportedFeatureError(
                "row tracking is enabled, but the table does not name the columns that keep the ids of rows that move, "
                f"or has a column {METADATA} that hides them",
                hint="disable row tracking, or enable it anew",
                table=str(self._snapshot.log.root),
                feature="rowTracking",
            )
        self._files = self._source.select_files(TRUE).files
        self._bins = self._find(bins)
        # The sizes of old files tell little of the new one's where another codec is used: it may become larger.
        rows = replace(compaction.rows, target_file_size=2 * packing.target_size)
        self._spec = row_spec(self._snapshot, rows).for_kept_rows(self._row_ids.stored)

    def _find(self, bins: Sequence[_Files]) -> list[pa.Int64Array]:
        """Return the numbers of the files of each bin in the version of the transaction.

        Raises
        ------
        ConcurrentDeleteDeleteError
            One of them is not live any more, or has other deleted rows.
        """
        live = self._snapshot.live.table
        files = _Files(*map(pa.concat_arrays, zip(*bins, strict=True)))
        numbers = pc.index_in(files.paths, value_set=as_array(live.column("path")))
        vectors = unique_ids(as_array(live.column("deletionVector").take(numbers)))
        same = pc.equal(pc.fill_null(vectors, ""), pc.fill_null(files.vectors, ""))
        gone = files.paths.filter(pc.invert(pc.and_(pc.is_valid(numbers), same)))
        if len(gone):
            raise ConcurrentDeleteDeleteError(
                "a file that was to be compacted was removed, or has other deleted rows, meanwhile",
                hint="compact again",
                table=str(self._snapshot.log.root),
                file=gone[0].as_py(),
            )
        return rows_of_bins(numbers.cast(pa.int64()), [one.paths for one in bins])

    def commit(self) -> CommitResult:
        """Rewrite the files, and commit. New files that surely did not become part of the table are deleted."""
        with self._transaction as transaction:
            with transaction.operation("compact") as made:
                old = self._snapshot.live.table.take(pa.concat_arrays(self._bins))
                written = write_bins(self._bins, self._compaction, self._write, self._note)
                transaction.remove_files(old, data_change=False)
                transaction.add_files(written, data_change=False)
                if supports(self._snapshot.protocol, "rowTracking") and not self._row_ids.are_kept:
                    transaction.lose_row_ids()
                made.parameters.update(_parameters(self._compaction.where))
                made.metrics.update(_metrics(old, written))
                made.rows.copied = pc.sum(written.column("record_count")).as_py() or 0
            return transaction.commit()

    def _write(self, rows: pa.Int64Array, options: ScanOptions, memory: int) -> pa.Table:
        """Write the rows of some files to a new one."""
        spec = replace(self._spec, memory=memory)
        files = self._files.take(rows)
        plan = Plan(self._source, TRUE, files, pa.repeat(False, len(files)))
        known = Struct((*self._source.schema, *self._source.hidden))
        columns = select_columns(known, self._row_ids.columns)
        bound = BoundScan(self._source, TRUE, columns, None, options, given=plan)
        log = self._snapshot.log
        with closing(bound.batches()) as batches:  # type: ignore[type-var]
            stored = (self._row_ids.flat(batch) for batch in batches)
            reader = pa.RecordBatchReader.from_batches(arrow_schema(self._row_ids.stored), stored)
            return write_files(reader, spec, log.storage, log.root.path, threads=options.threads)

    def _note(self, written: pa.Table) -> None:
        self._transaction.note_written(written.column("path").to_pylist(), LOCAL_ROAD)


def _parameters(where: Filter | None) -> Mapping[str, str]:
    predicates = [] if where is None else [str(as_filter(where))]
    return {
        "predicate": json.dumps(predicates, ensure_ascii=False),
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": "false",
    }


def _metrics(old: pa.Table, written: pa.Table) -> dict[str, int]:
    """Return what the history records of a rewrite, in the words of the reference implementation."""
    sizes = sorted(written.column("size").to_pylist())
    metrics = {
        "numRemovedFiles": len(old),
        "numRemovedBytes": pc.sum(old.column("size")).as_py() or 0,
        "numAddedFiles": len(sizes),
        "numAddedBytes": sum(sizes),
        "numDeletionVectorsRemoved": len(old) - old.column("deletionVector").null_count,
    }
    if sizes:
        metrics |= {"minFileSize": sizes[0], "maxFileSize": sizes[-1]}
        metrics |= {f"p{share}FileSize": sizes[len(sizes) * share // 100] for share in (25, 50, 75)}
    return metrics
