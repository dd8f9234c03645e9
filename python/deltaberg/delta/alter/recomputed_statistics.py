"""Statistics of data files that are there already, computed from their rows (Delta protocol, "Per-file Statistics").

Files that other writers added may have none, or none of columns that have become worth it since. The files are added
again by a commit, and nothing else of their actions changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat

import pyarrow as pa

from deltaberg import kernels
from deltaberg.delta.data.parsed_statistics import ParsedStatistics
from deltaberg.delta.data.recorded_statistics import recorded_statistics
from deltaberg.delta.data.statistics_text import loosened_statistics, statistics_texts
from deltaberg.delta.features import supports
from deltaberg.delta.rows.row_spec import RowOptions, row_spec
from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.delta.snapshot.recorded_adds import recorded_adds
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.expressions.build.filters import Filter, as_filter
from deltaberg.files.read.task import FileTask, tasks_of
from deltaberg.files.write.statistics import StatisticsPlan
from deltaberg.files.write.written import WrittenFile, written_rows
from deltaberg.lossless_json import read_json
from deltaberg.schema.types import Struct
from deltaberg.table.change.conditions import file_condition
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.plan import file_numbers, split_files
from deltaberg.table.read.scan_options import processors, scan_options
from deltaberg.table.write.footers import row_statistics
from deltaberg.workers import in_chunks, map_in_order

__all__ = ["recompute_statistics"]

#: A file is read as a whole.
_WHOLE = (1 << 63) - 1
#: How many files are read before their statistics become text.
_AT_ONCE = 256


def recompute_statistics(transaction: Transaction, where: Filter | None, timezone: str | None) -> CommitResult:
    """Compute the statistics of files from their rows, and commit those that differ from what is recorded.

    Parameters
    ----------
    transaction
        What has not changed anything yet.
    where
        Only files in which rows can match this condition; None for all.
    timezone
        The zone of literals in the condition; None for that of the transaction.

    Raises
    ------
    CorruptDataFileError, DataFileNotFoundError
        A data file is damaged, or gone. Nothing was committed.
    CommitConflictError
        Another commit has removed one of the files, or deleted rows of it.
    """
    with transaction:
        snapshot = transaction.snapshot
        zone = timezone or transaction.timezone
        transaction.read(where, zone)
        source = SnapshotSource(snapshot, transaction.timezone)
        condition = file_condition(source, where, zone)
        bound = BoundScan.of(source, filter=condition, options=scan_options(None, {}, zone))
        numbers = file_numbers(bound.plan.files)
        actions = []
        statistics = ParsedStatistics.of(
            snapshot.schema, snapshot.partition_fields, snapshot.metadata.configuration, snapshot.protocol
        )
        read = _statistics(snapshot, bound.without_filter())
        recorded = zip(recorded_adds(snapshot.live, numbers), _typed(snapshot, numbers, statistics), strict=True)
        for (action, typed), (rows, whole) in zip(recorded, read, strict=True):
            transaction.tell(1, rows=rows)
            # Bounds of all rows hold for those that are left.
            text = whole if action.members.get("deletionVector") is None else loosened_statistics(whole, rows)
            if typed is None:
                is_right = _parsed(action.members.get("stats")) == _parsed(text)
            else:
                found = statistics.assemble(kernels.parse_stats(pa.array([text], pa.string()), statistics.leaves))
                is_right = found[0].equals(typed)
            if not is_right:
                actions.append(action.with_members({"stats": text, "dataChange": False}))
        if actions:
            transaction.add_actions(actions)
        parameters = {"predicate": json.dumps([] if where is None else [str(as_filter(where))], ensure_ascii=False)}
        metrics = {"numFilesRead": len(numbers), "numFilesUpdated": len(actions)}
        return transaction.commit("COMPUTE STATS", parameters, metrics=metrics)


def _statistics(snapshot: Snapshot, bound: BoundScan) -> Iterator[tuple[int, str]]:
    """Yield the number of rows and the statistics of each planned file, deleted rows included."""
    spec = row_spec(snapshot, RowOptions())
    partition = {field.name for field in snapshot.partition_fields}
    stored = frozenset(field.name for field in snapshot.schema if field.name not in partition)
    plan = StatisticsPlan(snapshot.schema, stored, spec.statistics, spec.cut)
    wanted = {path[0].name for path in plan.leaves.values()}
    # The number of rows is counted by those of a column.
    output = tuple(field for field in snapshot.schema if field.name in wanted) or snapshot.schema.fields[:1]
    read_spec = replace(bound, output=Struct(output)).read_spec
    tasks = (
        replace(task, deletion_vector=None) for task in tasks_of(split_files(bound.plan, _WHOLE, read_spec.constants))
    )

    def described(task: FileTask) -> WrittenFile:
        rows, known = row_statistics(read_spec, task, plan, lambda _: None)
        return WrittenFile(task.location, task.size, rows, task.modified or 0, {}, *known)

    tight = supports(snapshot.protocol, "deletionVectors")
    for some in in_chunks(tasks, _AT_ONCE):
        files = map_in_order(processors(), described, some)
        texts = statistics_texts(written_rows(files, snapshot.schema), snapshot.schema, tight=tight).to_pylist()
        yield from zip((file.record_count for file in files), texts, strict=True)


def _typed(
    snapshot: Snapshot, numbers: pa.Int64Array, statistics: ParsedStatistics
) -> Iterator[pa.StructScalar | None]:
    """Yield the statistics of each file of which a checkpoint has only typed columns, and None for other files."""
    live = snapshot.live
    batches = recorded_statistics(
        live.table.take(numbers), live.parts, live.log_bytes, statistics, typed=True, rows=_AT_ONCE
    )
    for found in batches:
        if found.parsed is None or found.made is None:
            yield from repeat(None, len(found.texts))
        else:
            yield from (one if made.as_py() else None for one, made in zip(found.parsed, found.made, strict=True))


def _parsed(text: object) -> object:
    try:
        return read_json(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
