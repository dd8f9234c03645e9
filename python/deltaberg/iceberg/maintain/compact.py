"""Compaction: small files are put together, and deleted rows dropped, without any change of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import ConcurrentDeleteDeleteError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.read.task import constant_column
from deltaberg.iceberg.change.moved_rows import MovedRows
from deltaberg.iceberg.manifests.metrics import manifests_of
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.iceberg.rows.row_spec import row_spec
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import as_array
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
from deltaberg.table.read.scan_options import scan_options
from deltaberg.table.read.source import FILE_NUMBER

__all__ = ["compact_table"]


def compact_table(
    begin: Callable[[], Transaction], refresh: Callable[[], object], compaction: Compaction
) -> CompactResult:
    """Put small files of a table together, in groups of which each is one commit.

    Parameters
    ----------
    begin
        What begins a transaction on the newest snapshot that is known. Its commit makes its snapshot known.
    refresh
        What looks for newer snapshots.
    compaction
        What is asked for.

    Raises
    ------
    UnsupportedFeatureError
        Rows have ids that cannot be kept, or the table needs what is not written.
    CommitUnknownError
        It is not known whether the commit of a group took effect. Groups before it are committed, and those after it
        are left.
    """
    transaction = begin()
    source = transaction.source
    packing = replace(compaction.packing, target_size=row_spec(transaction.metadata, compaction.rows).target_size)
    files, packed = _candidates(source, compaction)
    paths = as_array(files.column("path"))

    def commit(number: int, group: Sequence[Sequence[PackedFile]]) -> CommitResult:
        bins = [paths.take(pa.array([file.row for file in one], pa.int64())) for one in group]
        return _rewrite(begin() if number else transaction, bins, packing, compaction)

    return commit_groups(group_bins(pack_files(packed, packing), packing.group_size), commit, refresh)


def _candidates(source: IcebergSource, compaction: Compaction) -> tuple[pa.Table, list[PackedFile]]:
    """Return the files in which rows can match, and what packing knows of them, oldest first.

    Rows of files of different specs are not put together, since they may go to different partitions.
    """
    plan = BoundScan.of(source, filter=compaction.where, options=scan_options(None, {}, compaction.timezone)).plan
    files = plan.files
    keys = partition_keys(source.partition_values(files), source.partition)
    specs = files.column(constant_column("_spec_id")).to_pylist()
    counts, deleted = plan.record_counts.cast(pa.float64()), plan.deleted_counts.cast(pa.float64())
    # Planning does not read delete files. A file that they apply to is rewritten, so that they are needed no more.
    shares = pc.fill_null(pc.divide(deleted, pc.max_element_wise(counts, 1.0)), 1.0).to_pylist()
    sizes = files.column("size").to_pylist()
    order = pc.sort_indices(files, [("row_commit_version", "ascending"), ("path", "ascending")]).to_pylist()
    return files, [PackedFile(row, (specs[row], keys[row]), sizes[row], shares[row]) for row in order]


def _rewrite(
    transaction: Transaction, bins: Sequence[pa.StringArray], packing: Packing, compaction: Compaction
) -> CommitResult:
    """Replace the files of each bin by new ones, in one commit.

    Raises
    ------
    ConcurrentDeleteDeleteError
        A file is not there any more.
    """
    with transaction:
        with transaction.operation("compact") as made:
            source = transaction.source
            known = source.select_files(TRUE).files
            paths = pa.concat_arrays(bins)
            places = pc.index_in(paths, value_set=as_array(known.column("path")))
            if places.null_count:
                raise ConcurrentDeleteDeleteError(
                    "a file that was to be compacted was removed meanwhile",
                    hint="compact again",
                    table=source.table,
                    file=paths.filter(pc.is_null(places))[0].as_py(),
                )
            chosen = rows_of_bins(known.take(places), bins)
            # The sizes of old files tell little of the new one's if another codec is used: it may become larger.
            rows = replace(compaction.rows, target_file_size=2 * packing.target_size)
            moved = MovedRows(transaction, rows)
            new = write_bins(
                chosen,
                compaction,
                lambda files, options, memory: moved.write(files, options, memory=memory),
                lambda files: moved.note(transaction, files),
            )
            made.rows.copied = pc.sum(new.column("record_count")).as_py() or 0
            transaction.add_entries(moved.entries(new))
            numbers = as_array(pa.concat_tables(chosen).column(FILE_NUMBER))
            transaction.pending.keeps_rows = True
            transaction.claims.moved.update(paths.to_pylist())
            transaction.remove_files(paths.to_pylist(), manifests_of(source.manifests, numbers))
        return transaction.commit()
