"""Compaction of tables of every format: small files are put together, and deleted rows dropped.

Which files that are is up to `packing`. A format says how it looks at them (`Rewrite`), and what its commits record.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Literal, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CommitConflictError, ConcurrentDeleteDeleteError, DataFileNotFoundError, DeltabergError
from deltaberg.expressions.build.filters import Filter
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.schema.arrow import as_array
from deltaberg.schema.columns import ColumnName
from deltaberg.schema.types import Field, Struct
from deltaberg.table.arguments import (
    SPEC_HINT,
    checked_choice,
    checked_flag,
    checked_integer,
    checked_number,
)
from deltaberg.table.change.changed_rows import NewFiles, RowIdentity
from deltaberg.table.change.conditions import file_condition
from deltaberg.table.change.matched_rows import scan_of_whole_files
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.bins.bin_tasks import TaskMemory, write_by_tasks
from deltaberg.table.maintain.bins.write_bins import SLACK, Bin, BinWriter, check_rows, rows_in
from deltaberg.table.maintain.compact_result import CompactedGroup, CompactResult, committed_groups, expected_group
from deltaberg.table.maintain.packing import PackedFile, Packing, group_bins, pack_files
from deltaberg.table.maintain.purge import Purge, purged_files
from deltaberg.table.maintain.row_order import BoundOrder, RowOrder, order_terms
from deltaberg.table.maintain.row_trail import RowTrail
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.plan import Plan, file_numbers
from deltaberg.table.read.scan_options import ScanOptions, processors, scan_options
from deltaberg.table.read.source import ScanSource
from deltaberg.table.rows.progress import ProgressSum
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.sort.order import OrderTerm
from deltaberg.table.transaction.operation import Operation
from deltaberg.table.transaction.transaction import Transaction
from deltaberg.workers import map_in_order

__all__ = ["Compaction", "MovedFiles", "Rewrite", "compact_table"]

#: Bytes of rows in memory, in all bins together: two thirds wait to be written, and others are read ahead or sorted.
_MEMORY = 384 << 20
#: How often a group is rewritten at most, where the state that it was planned on is gone.
_MOST_ATTEMPTS = 3

_Transaction = TypeVar("_Transaction", bound=Transaction)


@dataclass(frozen=True)
class Compaction:
    """The request for a compaction.

    Parameters
    ----------
    where
        Only files in which rows can match this filter are rewritten; None for all.
    packing
        Which files are put together. Its target size is that of ``rows``, else what the table says.
    rows
        How rows are written, and the zone of timestamps without one in the filter. Its memory is that of all bins
        together, or of each task where there are any.
    concurrency
        How many bins are written at a time; None for the number of processors.
    order
        What the rows of a bin are put into; None leaves them in the order in which they were written.
    dry_run
        Say what would be done, and write nothing.
    cluster
        Whether the table is clustered; None if it has clustering columns. With ``full``, files are clustered anew that
        were clustered by other columns.
    progress
        What is told how far the rows of all groups are written together; None if nobody asks.
    purge
        What files must hold to be rewritten, all of them whatever their size; None for small files.
    seconds
        No group but the first is begun after so many seconds; None for no limit.
    is_gradual
        Whether what is clustered stays where new files would add little to it, since the next run is soon.
    chosen
        The numbers of the files that may be rewritten, where a commit is followed by the compaction; None for all.
    spec_id
        The partition spec whose files are rewritten, of an Iceberg table; None for all.
    """

    where: Filter | None = None
    packing: Packing = field(default_factory=lambda: Packing(1))
    rows: RowOptions = field(default_factory=RowOptions)
    concurrency: int | None = None
    order: RowOrder | None = None
    dry_run: bool = False
    cluster: bool | Literal["full"] | None = None
    progress: ProgressSum | None = None
    purge: Purge | None = None
    seconds: float | None = None
    is_gradual: bool = False
    chosen: pa.Int64Array | None = None
    spec_id: int | None = None

    def __post_init__(self) -> None:
        checked_flag("dry_run", self.dry_run)
        if not isinstance(self.cluster, bool | None):
            hint = "pass True, False or full, or leave it out to cluster what has clustering columns"
            checked_choice("cluster", self.cluster, ("full",), hint)
        if self.concurrency is not None:
            number = checked_number("max_concurrent", self.concurrency, 1, "leave it out for the number of processors")
            object.__setattr__(self, "concurrency", number)
        object.__setattr__(self, "spec_id", checked_integer("spec_id", self.spec_id, SPEC_HINT))


class MovedFiles(NamedTuple):
    """The files of a bin, and those that their rows have moved to.

    Parameters
    ----------
    old
        Rows of the file table, in the order in which they were read.
    new
        A row for each new file; see `write_files`.
    """

    old: pa.Table
    new: pa.Table


class Rewrite(ABC, Generic[_Transaction]):
    """The part of a format in one commit of a compaction, on the newest known state of the table.

    Parameters
    ----------
    transaction
        The transaction, which has no changes yet.
    compaction
        The request.
    """

    #: The columns of the file table that tell which files are older.
    age: Sequence[str]
    #: What fails a group where others have taken away the state that it was planned on, but perhaps none of its files.
    forgotten: tuple[type[DeltabergError], ...] = (DataFileNotFoundError,)
    #: Whether the counts of rows that the format records of files are to be relied on.
    counts_rows = False

    def __init__(self, transaction: _Transaction, compaction: Compaction) -> None:
        self.transaction = transaction
        self.compaction = compaction

    @property
    @abstractmethod
    def source(self) -> ScanSource:
        """The rows of the table."""

    @property
    @abstractmethod
    def target_size(self) -> int:
        """Bytes of a new file, as the request or the table says."""

    @property
    @abstractmethod
    def identity(self) -> RowIdentity:
        """The columns of rows that move.

        Raises
        ------
        UnsupportedFeatureError
            Rows have ids that cannot be kept.
        """

    @property
    @abstractmethod
    def stored(self) -> Struct:
        """What files may hold: the columns of the table, and those in which files keep the ids of rows."""

    @property
    @abstractmethod
    def new_files(self) -> NewFiles:
        """The files that rows move to."""

    @abstractmethod
    def partitions(self, files: pa.Table) -> Sequence[Hashable]:
        """Return what is equal for files of the file table that may be put together."""

    @property
    @abstractmethod
    def follows_deletes(self) -> bool:
        """Whether rows of the files may be deleted by others while the rows move."""

    @abstractmethod
    def record(self, made: Operation, moved: Sequence[MovedFiles], trail: RowTrail | None) -> None:
        """Have the transaction replace files by new ones.

        Parameters
        ----------
        trail
            Where the rows of the new files came from, if `follows_deletes`. It is there until the commit ends.
        """

    @abstractmethod
    def has_statistics(self, path: tuple[Field, ...]) -> bool:
        """Return whether new files have bounds of a column, by the path of its fields."""

    def order_terms(self, names: Sequence[ColumnName]) -> tuple[OrderTerm, ...]:
        """Return what rows are sorted by, from what the request names."""
        return order_terms(self.source.schema, names)

    @property
    def wanted_order(self) -> RowOrder | None:
        """The order that the request, or the table, asks for.

        Raises
        ------
        DeltabergError
            The table does not have the order that is asked for.
        """
        return self.compaction.order

    def deleted_shares(self, plan: Plan) -> pa.Array:
        """Return the share of the rows of each file that are deleted; infinite where nobody knows it."""
        return plan.deleted_shares

    def stale(self, plan: Plan, purge: Purge) -> pa.BooleanArray:
        """Return which of the planned files hold what is to be purged."""
        return purged_files(plan, self.stored, purge)

    def choose(self, files: pa.Table, packed: list[PackedFile]) -> list[PackedFile]:
        """Return those of the files of the file table that may be rewritten; the numbers of both are the same."""
        return packed

    @cached_property
    def order(self) -> BoundOrder | None:
        """The order of the rows of a bin; None if they stay in the order in which they were written.

        Raises
        ------
        DeltabergError
            The rows cannot be put into the order that is asked for.
        """
        wanted = self.wanted_order
        if wanted is None:
            return None
        return wanted.bind(self.source.schema, self.new_files.spec.partition, self.has_statistics, self.order_terms)

    @cached_property
    def files(self) -> pa.Table:
        """The file table of the whole table."""
        return self.source.select_files(TRUE).files

    def candidates(self) -> tuple[pa.StringArray, list[PackedFile]]:
        """Return the paths of the files in which rows can match, and what packing knows of these files, oldest first.

        Packing knows them by the numbers of their paths.
        """
        options = scan_options(None, {}, self.compaction.rows.timezone or self.transaction.timezone)
        where = file_condition(self.source, self.compaction.where, options.timezone)
        plan = BoundScan.of(self.source, filter=where, options=options).without_filter().plan
        files = plan.files
        order = pc.sort_indices(files, [(name, "ascending") for name in self.age])
        if self.compaction.chosen is not None:
            order = order.filter(pc.is_in(file_numbers(files), value_set=self.compaction.chosen).take(order))
        ordered = files.take(order)
        columns = (order, pc.fill_null(ordered.column("size"), 0), self.deleted_shares(plan).take(order))
        rows, sizes, shares = (column.to_pylist() for column in columns)
        packed = list(map(PackedFile, rows, self.partitions(ordered), sizes, shares))
        if self.compaction.purge:
            stale = self.stale(plan, self.compaction.purge).to_pylist()
            packed = [file for file in packed if stale[file.row]]
        return as_array(files.column("path")), self.choose(files, packed)

    def find(self, paths: pa.StringArray) -> pa.Table:
        """Return the rows of the file table of some files that were live when the compaction was planned.

        Raises
        ------
        ConcurrentDeleteDeleteError
            One of them is not live any more.
        """
        places = pc.index_in(paths, value_set=as_array(self.files.column("path")))
        if places.null_count:
            raise ConcurrentDeleteDeleteError(
                "a file that was to be compacted was removed meanwhile",
                hint="compact again",
                table=self.source.table,
                file=paths.filter(pc.is_null(places))[0].as_py(),
            )
        return self.files.take(places)

    def needs_file_of(self, error: DeltabergError) -> bool:
        """Return whether the table has the file that an error says is gone, so that it is really lost."""
        located = self.source.locate(self.files)
        places = {
            "file": located["location"],
            "deletion_vector": pc.struct_field(located["deletion_vector"], "location"),
        }
        if "delete_files" in located.column_names:
            places["delete_file"] = pc.struct_field(pc.list_flatten(located["delete_files"]), "location")
        return any(name in error.context and error.context[name] in found.to_pylist() for name, found in places.items())

    def trail(self) -> RowTrail:
        """Return what notes where the rows of new files came from."""
        bound = scan_of_whole_files(self.source, self.files.slice(0, 0), self.identity.columns, ScanOptions())
        address = bound.with_addresses().address
        if address is None:
            raise AssertionError("the scan has addresses")
        return RowTrail(address)


def compact_table(
    begin: Callable[[], _Transaction],
    refresh: Callable[[], object],
    compaction: Compaction,
    rewrite: Callable[[_Transaction, Compaction], Rewrite[_Transaction]],
) -> CompactResult:
    """Put small files of a table together, in groups of which each is one commit.

    Parameters
    ----------
    begin
        What begins a transaction on the newest state that is known. Its commit makes its state known.
    refresh
        What looks for newer states.
    compaction
        What is asked for.
    rewrite
        What the format does in a transaction.

    Raises
    ------
    UnsupportedFeatureError
        Rows have ids that cannot be kept, or the table needs what is not written.
    DeltabergError
        Something else than a conflict went wrong in a group. Groups before it are committed, as the fact ``committed``
        says, and those after it are left. After a `CommitUnknownError` it is not known whether the group is committed.
    """

    def renew() -> Rewrite[_Transaction]:
        refresh()
        return rewrite(begin(), compaction)

    work = rewrite(begin(), compaction)
    packing = replace(compaction.packing, target_size=work.target_size, is_whole=work.order is not None)
    packing.check_sizes()
    paths, packed = work.candidates()
    groups = group_bins(pack_files(packed, packing), packing.group_size)
    outcomes: list[CompactedGroup] = []
    begun = time.monotonic()
    for number, group in enumerate(groups):
        if number and compaction.seconds is not None and time.monotonic() - begun > compaction.seconds:
            break
        outcome = expected_group(group, packing)
        outcomes.append(outcome)
        if compaction.dry_run:
            continue
        try:
            bins = [paths.take(pa.array([file.row for file in one], pa.int64())) for one in group]
            limits = [packing.target_size * (1 if packing.is_cut(one) else SLACK) for one in group]
            work = rewrite(begin(), compaction) if number else work
            outcomes[-1] = replace(outcome, commit=_commit_anew(work, renew, bins, limits))
        except CommitConflictError as error:
            outcomes[-1] = replace(outcome, conflict=error)
            try:
                refresh()
            except DeltabergError as failure:
                failure.with_context(committed=committed_groups(outcomes, len(groups)))
                raise
        except DeltabergError as error:
            error.with_context(committed=committed_groups(outcomes, len(groups)))
            raise
    if compaction.dry_run:
        work.transaction.abort()
    return CompactResult(tuple(outcomes), compaction.dry_run)


def _commit_anew(
    work: Rewrite[_Transaction],
    renew: Callable[[], Rewrite[_Transaction]],
    bins: Sequence[pa.StringArray],
    limits: Sequence[int],
) -> CommitResult:
    """Commit a group, as `_commit` does; anew where the state is gone meanwhile that it was planned on."""
    left = _MOST_ATTEMPTS
    while True:
        left -= 1
        try:
            return _commit(work, bins, limits)
        except work.forgotten as error:
            known, work = work.source.description, renew()
            is_known = work.source.description == known
            is_lost = is_known or work.needs_file_of(error)
            if is_lost or not left:
                work.transaction.abort()
            if is_lost:
                raise
            if not left:
                what = "the state that the group was planned on was removed meanwhile, every time"
                raise CommitConflictError(what, hint="compact again", table=work.source.table) from error


def _commit(work: Rewrite[_Transaction], bins: Sequence[pa.StringArray], limits: Sequence[int]) -> CommitResult:
    """Rewrite each bin to files of so many bytes, and commit. New files that are surely no part of the table go."""
    transaction = work.transaction
    with transaction, ExitStack() as resources:
        with transaction.operation("reorg" if work.compaction.purge else "compact") as operation:
            files = work.find(pa.concat_arrays(bins))
            ends = pc.cumulative_sum(pa.array(map(len, bins), pa.int64())).to_pylist()
            old = [files.slice(end - len(one), len(one)) for one, end in zip(bins, ends, strict=True)]
            trail = resources.enter_context(closing(work.trail())) if work.follows_deletes else None
            moved = _write(work, old, limits, trail)
            operation.rows.copied = sum(rows_in(one.new) for one in moved)
            if work.counts_rows:
                counts = scan_of_whole_files(work.source, files, work.identity.columns, ScanOptions()).plan.row_counts()
                # Without counts of the rows that are deleted, it is up to the reading to count.
                check_rows(operation.rows.copied, None if counts.null_count else pc.sum(counts).as_py() or 0)
            work.record(operation, moved, trail)
        return transaction.commit()


def _write(
    work: Rewrite[_Transaction], bins: Sequence[pa.Table], limits: Sequence[int], trail: RowTrail | None
) -> list[MovedFiles]:
    """Write the rows of each bin to new files, by tasks if there are any and much is to be read."""
    sizes = pc.sum(pa.chunked_array([chunk for one in bins for chunk in one.column("size").chunks], pa.int64()))
    tasks = work.transaction.row_tasks
    if tasks is not None and tasks.takes(work.source.table, sizes.as_py() or 0):
        memory = TaskMemory.of(work.compaction.rows.memory)
        writer, found = _prepared(work, bins, limits, trail, memory.options)
        new = write_by_tasks(tasks, writer, found, trail, work.new_files.note, memory, work.compaction.progress)
    else:
        new = _write_here(work, bins, limits, trail)
    return [MovedFiles(*pair) for pair in zip(bins, new, strict=True)]


def _write_here(
    work: Rewrite[_Transaction], bins: Sequence[pa.Table], limits: Sequence[int], trail: RowTrail | None
) -> list[pa.Table]:
    """Write the rows of each bin to new files, several bins at a time."""
    target, together = work.new_files, min(work.compaction.concurrency or processors(), len(bins))
    threads = max(processors() // together, 1)
    memory = (work.compaction.rows.memory or _MEMORY) // together
    reading = max(memory // 6, 1)
    writer, ready_bins = _prepared(work, bins, limits, trail, ScanOptions(threads=threads, memory=reading))
    written = []

    def write_one(one: Bin) -> pa.Table:
        return writer.write(
            one.shape,
            one.scan.batches,
            lambda: one.scan.with_columns([] if writer.order is None else writer.order.sources).batches(),
            lambda *noted: written.append(noted),
            sorting=reading,
            writing=max(memory // 3 * 2, 1),
            threads=threads,
            trail=trail,
            progress=work.compaction.progress,
        )

    try:
        return map_in_order(together, write_one, ready_bins)
    finally:
        # Whether or not all of them could be written.
        for noted in written:
            target.note(*noted)


def _prepared(
    work: Rewrite[_Transaction],
    bins: Sequence[pa.Table],
    limits: Sequence[int],
    trail: RowTrail | None,
    options: ScanOptions,
) -> tuple[BinWriter, list[Bin]]:
    """Return what writes rows, and the bins whose rows it writes."""
    target, order = work.new_files, work.order
    options = replace(options, timezone=work.transaction.timezone)
    scans = [scan_of_whole_files(work.source, files, work.identity.columns, options) for files in bins]
    if trail is not None:
        scans = [scan.with_addresses() for scan in scans]
    first = scans[0]
    writer = BinWriter(work.identity, target.spec, target.store, target.place, order, first.output, first.address)
    return writer, [Bin.of(scan, limit, order) for scan, limit in zip(scans, limits, strict=True)]
