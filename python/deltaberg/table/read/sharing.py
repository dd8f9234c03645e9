"""Divides a scan, and its planning, among the tasks of an engine such as Spark."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.expressions.compute.bound import bound_paths
from deltaberg.schema.widths import typical_width
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.plan import group_tasks, split_files, split_sizes
from deltaberg.table.read.source import DividedSource

__all__ = [
    "estimated_bytes",
    "file_tasks",
    "grouped_tasks",
    "planning_pieces",
    "scan_part",
    "share_planning",
]

_SPLIT = 128 << 20
#: By what factor a task may be larger where it reads few of the columns of large files.
_MOST_WIDENED = 4
#: Bytes of metadata from which on planning is divided among tasks, and how many parts each task slot gets.
_MUCH_METADATA = 256 << 20
_PLANNING_SHARES = 4
#: More bytes than a file has.
_WHOLE = 1 << 62


def grouped_tasks(scan: BoundScan, parallelism: int) -> list[pa.RecordBatch]:
    """Return groups of splits, one for each task of the engine.

    Large files are split and small ones packed, so that each group has about as many bytes of the wanted columns. A
    limit holds for all groups together: where the number of rows in each file is known, it is divided among the files;
    otherwise one group contains everything.
    """
    limits = _limits(scan)
    tasks = split_files(scan.plan, scan.options.split_size or _SPLIT, scan.constants, limits)
    if scan.limit is not None and limits is None:
        return [tasks] if tasks.num_rows else []
    if limits is not None:
        tasks = tasks.filter(pc.greater(tasks.column("limit"), 0))
    return group_tasks(tasks, _SPLIT, parallelism, 1 if _has_rows(tasks) else _share(scan))


def estimated_bytes(scan: BoundScan, groups: Iterable[pa.RecordBatch]) -> int:
    """Estimate how many bytes of groups of tasks are in the columns to be read."""
    share = _share(scan)
    return int(sum((pc.sum(split_sizes(tasks)).as_py() or 0) * (1 if _has_rows(tasks) else share) for tasks in groups))


def file_tasks(scan: BoundScan) -> pa.RecordBatch:
    """Return one task for each planned file, without the limit."""
    return split_files(scan.plan, _WHOLE, scan.constants)


def planning_pieces(scan: BoundScan) -> pa.Table | None:
    """Return the pieces of metadata that tasks are to plan, a row for each.

    None if the driver plans the scan or has already planned it.

    Raises
    ------
    InvalidArgumentError
        If the caller wants the executors to plan the scan, and they cannot.
    """
    source, mode = scan.source, scan.options.planning
    if scan.given is not None or mode == "driver" or (mode == "auto" and scan.limit is not None):
        return None
    pieces = None
    if scan.limit is None and isinstance(source, DividedSource):
        pieces = source.divide(scan.condition)
    if pieces is None:
        if mode == "auto":
            return None
        why = "it has a limit" if scan.limit is not None else "its metadata is read as a whole"
        raise InvalidArgumentError(
            f"the scan cannot be planned on executors: {why}", hint="pass ⟪planning='driver'⟫", table=source.table
        )
    if mode == "auto" and (pc.sum(pieces.column("length")).as_py() or 0) < _MUCH_METADATA:
        return None
    return pieces


def share_planning(pieces: pa.Table, parallelism: int) -> list[pa.Table]:
    """Divide pieces of metadata among the tasks of the engine, each of which plans its part by `scan_part`."""
    size = max(1, math.ceil(len(pieces) / (_PLANNING_SHARES * parallelism)))
    return [pieces.slice(start, size) for start in range(0, len(pieces), size)]


def scan_part(scan: BoundScan, pieces: pa.Table) -> BoundScan:
    """Return the scan of the files that pieces of metadata list."""
    if not isinstance(scan.source, DividedSource):
        raise InvalidArgumentError("the metadata of the table is read as a whole", table=scan.source.table)
    return replace(scan, source=scan.source.part(pieces), given=None)


def _limits(scan: BoundScan) -> pa.Array | None:
    """Divide the limit among files whose numbers of rows are known; None if one is not."""
    if scan.limit is None:
        return None
    counts = scan.plan.row_counts(scan.gives_deleted)
    if counts.null_count or pc.any(scan.plan.filtered, min_count=0).as_py():
        return None
    before = pc.subtract(pc.cumulative_sum(counts), counts)
    left = pc.max_element_wise(pc.subtract(scan.limit, before), 0)
    return pc.min_element_wise(left, counts)


def _share(scan: BoundScan) -> float:
    """Estimate which share of the bytes of columnar files is in the columns that the output or the filter needs."""
    whole = sum(typical_width(child.type) for child in scan.source.schema)
    # The output may have nested columns in part.
    filtered = {path[0].name: path[-1] for path in bound_paths(scan.condition)}
    read = {**filtered, **{child.name: child for child in scan.output}}
    wanted = sum(typical_width(child.type) for child in read.values())
    return min(max(wanted / max(whole, 1), 1 / _MOST_WIDENED), 1)


def _has_rows(tasks: pa.RecordBatch) -> bool:
    """Return whether any task reads a row-oriented file, whose columns cannot be read apart."""
    return bool(pc.any(pc.equal(tasks.column("format"), "avro"), min_count=0).as_py())
