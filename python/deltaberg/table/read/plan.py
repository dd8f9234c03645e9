"""Planning: from a file table and a filter to the splits that must be read.

Even a million files remain columns of one Arrow table, from the log to the tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.bound import Bound, bound_paths
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.read.task import DELETE_FILES, constant_column, task_schema
from deltaberg.kernels import plain_values as pv
from deltaberg.pruning.evaluate import keep_rows, may_match, must_match
from deltaberg.pruning.stats import FileStats, StatsKey, known_values
from deltaberg.schema.arrow import arrow_schema, as_array
from deltaberg.schema.types import Field, Struct
from deltaberg.table.read.source import FILE_NUMBER, PruneStep, ScanSource, total_size

__all__ = [
    "Plan",
    "count_splits",
    "file_formats",
    "file_numbers",
    "group_tasks",
    "make_plan",
    "split_files",
    "split_sizes",
]

#: The end of the last split, so that the whole file is read even where the log has a wrong size.
_TO_THE_END = (1 << 63) - 1
#: The most splits of one file; those of larger files are larger.
_MOST_SPLITS = 1024
#: The cost of opening a file, as the number of bytes that could be read in that time.
_OPEN_COST = 4 << 20


@dataclass
class Plan:
    """The files to read. ``filtered`` tells for each whether the filter must still be applied to its rows."""

    source: ScanSource
    condition: Bound
    files: pa.Table
    filtered: pa.BooleanArray
    steps: list[PruneStep] = field(default_factory=list)
    _record_counts: pa.Array | None = None
    _located: pa.Table | None = None

    @property
    def record_counts(self) -> pa.Array:
        """The number of rows in each file, including deleted ones; null if it is not known."""
        if "record_count" in self.files.column_names:
            return as_array(self.files.column("record_count"))
        if self._record_counts is None:
            stats = self.source.statistics(file_numbers(self.files), ())
            self._record_counts = stats.record_count
        return self._record_counts

    @property
    def deleted_counts(self) -> pa.Array:
        """The number of deleted rows in each file; null if delete files apply, since planning does not read them."""
        vectors = as_array(self.files.column("deletion_vector"))
        if not len(vectors) or vectors.null_count == len(vectors):
            counts = pa.repeat(pv.scalar(0, pa.int64()), len(self.files))
        else:
            counts = pc.fill_null(pc.struct_field(vectors, "cardinality"), pv.ZERO)
        return pc.if_else(self._has_delete_files(), pv.scalar(None, pa.int64()), counts)

    def row_counts(self, with_deleted: bool = False) -> pa.Array:
        """Return the number of rows of each file, with or without deleted ones; null if it is not known."""
        deleted = pa.repeat(pv.scalar(0, pa.int64()), len(self.files)) if with_deleted else self.deleted_counts
        live = pc.subtract(self.record_counts, deleted)
        included = as_array(self.files.column("only_in_vector")).is_valid()
        # Both numbers come from the log, and may be wrong.
        lies = pc.or_(pc.less(deleted, pv.ZERO), pc.greater(deleted, self.record_counts))
        unknown = pc.or_(included, pc.fill_null(pc.or_(lies, pc.less(self.record_counts, pv.ZERO)), fill_value=pv.TRUE))
        return pc.if_else(unknown, pv.scalar(None, pa.int64()), live)

    @property
    def has_deletes(self) -> pa.BooleanArray:
        """Whether each file has a deletion vector, or delete files apply to it."""
        return pc.or_(self._has_delete_files(), as_array(self.files.column("deletion_vector")).is_valid())

    @property
    def deleted_shares(self) -> pa.Array:
        """The share of the rows of each file that are deleted.

        Where rows are deleted, and nobody knows how many or of how many, it is infinite: planning does not read delete
        files, and a log need not count the rows of a file.
        """
        deleted = self.deleted_counts.cast(pa.float64())
        shares = pc.divide(
            deleted, pc.max_element_wise(self.record_counts.cast(pa.float64()), pv.scalar(1.0), skip_nulls=False)
        )
        return pc.coalesce(shares, pc.if_else(self.has_deletes, float("inf"), pv.scalar(0.0)))

    def _has_delete_files(self) -> pa.BooleanArray:
        """Return, for each file, whether delete files apply to it."""
        has_deletes = pa.repeat(pv.FALSE, len(self.files))
        for name in ("delete_files", "only_in_delete_files"):
            if name in self.files.column_names:
                lengths = pc.list_value_length(as_array(self.files.column(name)))
                has_deletes = pc.or_(has_deletes, pc.greater(lengths.fill_null(pv.ZERO), pv.ZERO))
        return has_deletes

    @property
    def located(self) -> pa.Table:
        """Where the files, their deletion vectors and their delete files are."""
        if self._located is None:
            self._located = self.source.locate(self.files)
        return self._located

    def with_only(self, bitmaps: pa.StructArray) -> Plan:
        """Return the plan of the rows that bitmaps name, one for each file; of files without one, of all rows.

        Parameters
        ----------
        bitmaps
            The bitmaps, with the fields of `BITMAP`.
        """
        located = self.located
        index = located.column_names.index("only_in_vector")
        return replace(self, _located=located.set_column(index, located.field(index), bitmaps))

    def chosen(self, mask: pa.BooleanArray) -> Plan:
        """Return the plan of some of the files."""
        files, filtered = self.files.filter(mask), self.filtered.filter(mask)
        return replace(self, files=files, filtered=filtered, _record_counts=None, _located=None)


def make_plan(source: ScanSource, condition: Bound) -> Plan:
    """Find the files in which rows can match, first by constants such as partition values, then by statistics."""
    selection = source.select_files(condition)
    files, steps = selection.files, list(selection.steps)
    if condition == TRUE:
        return Plan(source, condition, files, pa.repeat(pv.FALSE, len(files)), steps)
    proven = selection.proven
    if proven is not None and pc.all(proven, min_count=0).as_py():
        # Every file matches as a whole, so statistics need not be read.
        return Plan(source, condition, files, pc.invert(proven), steps)
    constants = [child for child in source.constants if child.name not in source.layout.stored]
    files, proven = _keep(files, may_match(condition, _constant_stats(files, constants)), proven)
    if len(steps) == 1:
        # Otherwise the source has pruned by partitions, and recorded that step.
        steps.append(PruneStep("partition values", len(files), total_size(files)))
    names = {child.name for child in constants} | source.layout.computed
    columns = [path for path in bound_paths(condition) if path[0].name not in names]
    stats = _constant_stats(files, constants)
    if columns:
        found = source.statistics(file_numbers(files), columns)
        stats = replace(found, values=stats.values)
    may, must = may_match(condition, stats), must_match(condition, stats)
    if proven is not None:
        must = pc.or_(must, proven)
    files, record_counts = _keep(files, may, stats.record_count if columns else None)
    steps.append(PruneStep("statistics", len(files), total_size(files)))
    return Plan(source, condition, files, pc.invert(must.filter(may)), steps, record_counts)


def _constant_stats(files: pa.Table, known: Sequence[Field]) -> FileStats:
    values: dict[StatsKey, pa.Array] = {}
    for child in known:
        values |= known_values(child, _constant(files, child))
    return replace(FileStats.unknown(len(files)), values=values)


def _keep(files: pa.Table, mask: pa.BooleanArray, counts: pa.Array | None = None) -> tuple[pa.Table, pa.Array | None]:
    kept = keep_rows(files, mask)
    return kept, counts if counts is None or kept is files else counts.filter(mask)


def file_numbers(files: pa.Table) -> pa.Int64Array:
    """Return the file numbers of a file table."""
    return as_array(files.column(FILE_NUMBER))


def _constant(files: pa.Table, child: Field) -> pa.Array:
    return as_array(files.column(constant_column(child.name)))


def split_files(plan: Plan, split_size: int, constants: Struct, limits: pa.Array | None = None) -> pa.RecordBatch:
    """Return a task for each split of each file, in the order of the files.

    Parameters
    ----------
    split_size
        The size of a split in bytes. Larger files are read in several splits, at most 1024.
    constants
        The constant columns that reading needs.
    limits
        The most rows that are wanted of each file; null for all. A file with a limit is one split.
    """
    files, located = plan.files, plan.located
    sizes, widths, pieces = _split_widths(files, split_size)
    if limits is not None:
        pieces = pc.if_else(pc.is_valid(limits), pv.scalar(1, pa.int64()), pieces)
    counts = pieces.to_pylist()
    repeated = [index for index, count in enumerate(counts) for _ in range(count)]
    take = pv.array(repeated, pa.int64())
    parts = [
        (width, piece, count) for width, count in zip(widths.to_pylist(), counts, strict=True) for piece in range(count)
    ]
    starts = [piece * width for width, piece, _ in parts]
    stops = [(piece + 1) * width if piece + 1 < count else _TO_THE_END for width, piece, count in parts]
    schema = task_schema(arrow_schema(constants))
    has_deletes = "delete_files" in located.column_names
    no_deletes = pa.nulls(len(files), DELETE_FILES)
    columns = {
        "location": located.column("location"),
        "format": file_formats(files),
        "size": sizes,
        "modified": files.column("modified"),
        "record_count": plan.record_counts if limits is not None else pa.nulls(len(files), pa.int64()),
        "filtered": plan.filtered,
        "deletion_vector": located.column("deletion_vector"),
        "only_in_vector": located.column("only_in_vector"),
        "delete_files": located.column("delete_files") if has_deletes else no_deletes,
        "only_in_delete_files": located.column("only_in_delete_files")
        if "only_in_delete_files" in located.column_names
        else no_deletes,
        "recorded_path": files.column("path") if has_deletes else pa.nulls(len(files), pa.string()),
        "base_row_id": files.column("base_row_id"),
        "row_commit_version": files.column("row_commit_version"),
        "limit": pa.nulls(len(files), pa.int64()) if limits is None else limits,
    }
    for child in constants:
        columns[constant_column(child.name)] = files.column(constant_column(child.name))
    own = {"start": pv.array(starts, pa.int64()), "stop": pv.array(stops, pa.int64())}
    arrays = [own[child.name] if child.name in own else _taken(columns[child.name], take) for child in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def count_splits(plan: Plan, split_size: int) -> int:
    """Return how many tasks `split_files` would return."""
    _, _, pieces = _split_widths(plan.files, split_size)
    return pc.sum(pieces).as_py() or 0


def _split_widths(files: pa.Table, split_size: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the size of each file, the size of its splits, and how many splits it has."""
    sizes = as_array(files.column("size")).fill_null(pv.ZERO)
    before_last = pc.subtract(pc.max_element_wise(sizes, pv.ONE), pv.ONE)
    # The size comes from the log; a wrong one must not lead to a huge number of splits.
    widths = pc.max_element_wise(pc.add(pc.divide(before_last, pv.scalar(_MOST_SPLITS)), pv.ONE), pv.scalar(split_size))
    pieces = pc.add(pc.divide(before_last, widths), pv.ONE)
    # The rows of an ORC file are one group, so all but one of its splits would be empty.
    whole = pc.equal(file_formats(files), pv.scalar("orc"))
    return sizes, pc.if_else(whole, sizes, widths), pc.if_else(whole, pv.ONE, pieces)


def file_formats(files: pa.Table) -> pa.Array:
    """Return the formats of files."""
    if "format" not in files.column_names:
        return pa.repeat(pv.scalar("parquet"), len(files))
    return as_array(files.column("format")).fill_null(pv.scalar("parquet"))


def _taken(column: pa.Array | pa.ChunkedArray, take: pa.Array) -> pa.Array:
    whole = as_array(column)
    return whole if len(whole) == len(take) else whole.take(take)


def split_sizes(tasks: pa.RecordBatch) -> pa.Int64Array:
    """Return the size of each split in bytes."""
    stops = pc.min_element_wise(tasks.column("stop"), tasks.column("size"))
    return pc.max_element_wise(pc.subtract(stops, tasks.column("start")), pv.ZERO)


def group_tasks(tasks: pa.RecordBatch, target: int, least: int, share: float = 1) -> list[pa.RecordBatch]:
    """Pack splits into groups of equal size, with at most ``target`` bytes as far as single splits allow.

    ``share`` is the part of the bytes that is in columns to be read. The number of groups is rounded up to a multiple
    of ``least``, so that all tasks that run at a time end together; there are fewer where there are fewer splits.
    Adjacent splits stay together: each group is a slice, and nothing is copied.
    """
    if not tasks.num_rows:
        return []
    costs = pc.add(pc.multiply(split_sizes(tasks), share), float(_OPEN_COST))
    ends = pc.cumulative_sum(costs)
    total = ends[-1].as_py()
    wanted = max(least, 1) * math.ceil(total / target / max(least, 1))
    # A split belongs to the group whose range of bytes contains the middle of the split.
    middles = pc.subtract(ends, pc.divide(costs, pv.scalar(2.0)))
    groups = pc.floor(pc.multiply(middles, wanted / total)).cast(pa.int64())
    lengths = pc.run_end_encode(groups).run_ends.to_pylist()
    return [tasks.slice(start, stop - start) for start, stop in zip([0, *lengths], lengths, strict=False)]
