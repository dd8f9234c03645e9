"""Planning a scan for Spark: a DataFrame of its tasks, which are planned here or on the executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from deltaberg.files.read.task import pack_tasks
from deltaberg.spark.read.read_tasks import SLOT_COLUMN, PlanTask, ReadTask
from deltaberg.spark.read.task_frames import (
    TASK_SCHEMA,
    UNKNOWN_SIZE,
    fit_in_function,
    partition_keys,
    task_numbers,
    task_rows,
    with_expected_size,
)
from deltaberg.spark.session import SessionFacts
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.sharing import estimated_bytes, grouped_tasks, share_planning

__all__ = ["PlannedTasks", "plan_tasks", "planned_tasks"]

#: If executors plan, the tasks that they find are read in a partition for so many bytes of metadata, within limits
#: for each task that runs at a time: a session may not tell how many do.
_METADATA_SHARE = 64 << 10
_LEAST_SHARES, _MOST_SHARES = 4, 64


class PlannedTasks(NamedTuple):
    """A DataFrame of packed tasks, or of the numbers of tasks that are ``carried`` by the function that reads them.

    ``limit`` is the limit that the only task must keep.
    """

    tasks: DataFrame
    limit: int | None = None
    carried: tuple[bytes, ...] | None = None

    def reading(self, scan: BoundScan) -> ReadTask:
        """Return the function that reads the tasks."""
        return ReadTask(scan.read_spec, self.limit, self.carried)


def plan_tasks(
    scan: BoundScan, facts: SessionFacts, pieces: pa.Table | None, result_schema: st.StructType
) -> PlannedTasks | None:
    """Plan a scan here, or let the executors plan pieces of its metadata; None if nothing is to be read.

    ``result_schema`` has the columns that are made of the tasks.
    """
    slots = facts.parallelism
    if pieces is None:
        tasks = grouped_tasks(scan, slots)
        return _planned_here(scan, facts, tasks, result_schema) if tasks else None
    if not len(pieces):
        return None
    metadata = pc.sum(pieces.column("length")).as_py() or 0
    count = min(max(metadata // _METADATA_SHARE, _LEAST_SHARES * slots), _MOST_SHARES * slots)
    packed = [_packed(part) for part in share_planning(pieces, slots)]
    # The key of a part is also the number of the slot from which on its groups are dealt out.
    parts = task_rows(facts, packed, partition_keys(len(packed)))
    groups = parts.mapInArrow(PlanTask(scan, tuple(partition_keys(count))), TASK_SCHEMA)
    return PlannedTasks(with_expected_size(facts, groups.repartition(count, SLOT_COLUMN), UNKNOWN_SIZE, result_schema))


def _planned_here(
    scan: BoundScan, facts: SessionFacts, tasks: Sequence[pa.RecordBatch], made: st.StructType
) -> PlannedTasks:
    packed = tuple(pack_tasks(group) for group in tasks)
    return planned_tasks(facts, packed, estimated_bytes(scan, tasks), made, _open_limit(scan, tasks))


def planned_tasks(
    facts: SessionFacts, packed: tuple[bytes, ...], size: int, result_schema: st.StructType, limit: int | None = None
) -> PlannedTasks:
    """Return a DataFrame of packed groups of tasks, each in a partition of its own.

    Parameters
    ----------
    size
        How many bytes Spark is to expect of what the tasks read.
    result_schema
        The columns that are made of the tasks.
    limit
        The limit that the only task must keep.
    """
    if fit_in_function(packed):
        return PlannedTasks(task_numbers(facts, len(packed), size, result_schema), limit, packed)
    rows = task_rows(facts, packed, partition_keys(len(packed)))
    return PlannedTasks(with_expected_size(facts, rows, size, result_schema), limit)


def _packed(pieces: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pieces.schema) as writer:
        writer.write_table(pieces)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _open_limit(scan: BoundScan, tasks: Sequence[pa.RecordBatch]) -> int | None:
    """Return the limit that the only task must keep; None if the limit was shared out among files."""
    shared = all(batch.column("limit").null_count == 0 for batch in tasks)
    return None if shared else scan.limit
