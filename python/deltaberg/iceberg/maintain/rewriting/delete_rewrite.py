"""Rewriting delete files by one commit, which is planned anew where others got in its way.

Whoever removes a delete file that may be about several data files relies on knowing all of these. Each attempt to
commit looks at those that others have added meanwhile. A delete file may apply to some of them, since files that are
rewritten keep sequence numbers (Iceberg spec, "Sequence Numbers").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CommitConflictError, InvalidArgumentError
from deltaberg.expressions.build.filters import Filter
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.hints import Hint
from deltaberg.iceberg.maintain.rewriting.rewritten import RewriteDeletesResult
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.versions import VECTORS_SINCE
from deltaberg.iceberg.rows.file_options import delete_file_options
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.transaction.pending import DeleteKey
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.table.change.conditions import file_condition
from deltaberg.table.change.match import scan_of_rows
from deltaberg.table.change.positions import RowPositions
from deltaberg.table.commit.commit import CommitPolicy
from deltaberg.table.read.plan import file_numbers
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.verbs.shared_arguments import FileArguments

__all__ = ["DeleteRewrite", "DeletesRequest", "rewrite_deletes"]

#: How often a rewrite is planned at most.
_MOST_PLANS = 10


@dataclass(frozen=True)
class DeletesRequest:
    """Which delete files are rewritten.

    Parameters
    ----------
    where
        Only deletes of rows of data files in which rows can match this filter; None for all.
    min_files
        How many small position delete files of a partition are joined at least.
    rewrite_all
        Whether position delete files are rewritten whatever their number and size.
    options
        How new delete files are written, and the zone of timestamps without one in the filter.
    """

    where: Filter | None = None
    min_files: int = 5
    rewrite_all: bool = False
    options: RowOptions = field(default_factory=RowOptions)


class DeleteRewrite(ABC):
    """A rewrite of some delete files of the snapshot that a transaction is planned on.

    Parameters
    ----------
    transaction
        The transaction, which has no changes yet.
    request
        The request.
    """

    #: What the operation is called.
    name: str

    def __init__(self, transaction: Transaction, request: DeletesRequest) -> None:
        self.transaction = transaction
        self.request = request
        self.source: IcebergSource = transaction.source
        zone = request.options.timezone or transaction.timezone
        # What is wrong with a filter or an option is refused even if there are no deletes.
        where = file_condition(self.source, request.where, zone)
        self._matching = scan_of_rows(self.source, where, zone)
        _check_options(transaction.metadata, request.options)

    @property
    @abstractmethod
    def removed(self) -> frozenset[int]:
        """The numbers of the delete files that go."""

    @property
    @abstractmethod
    def lists(self) -> list[list[int]]:
        """The numbers of the delete files whose deletes are looked up, for each of `files`."""

    @abstractmethod
    def write(self, keys: list[DeleteKey]) -> RowPositions:
        """Write what takes the place of the delete files, have these removed, and return the rows that are written."""

    @cached_property
    def deletes(self) -> pa.Table:
        """All delete files, in the order of their numbers."""
        return self.source.deletes.table

    @cached_property
    def files(self) -> pa.Table:
        """The file table of the whole table."""
        return self.source.select_files(TRUE).files

    @cached_property
    def is_chosen(self) -> pa.BooleanArray:
        """Which of the files the request is about."""
        if self.request.where is None:
            return pa.repeat(True, len(self.files))
        return pc.is_in(file_numbers(self.files), value_set=file_numbers(self._matching.plan.files))

    def settled(self, lists: list[list[int]], numbers: set[int]) -> frozenset[int]:
        """Return which of some delete files apply to no other data files than those that the request is about.

        Parameters
        ----------
        lists
            The delete files of each of `files`, by their numbers.
        """
        others = zip(lists, self.is_chosen.to_pylist(), strict=True)
        return frozenset(numbers.difference(number for found, chosen in others if not chosen for number in found))

    def bytes_of(self, numbers: frozenset[int]) -> int:
        """Return the bytes of delete files."""
        return _bytes(self.deletes.take(pa.array(sorted(numbers), pa.int64())))

    def keys_of(self, numbers: frozenset[int]) -> list[DeleteKey]:
        """Return what tells delete files apart."""
        found = self.deletes.take(pa.array(sorted(numbers), pa.int64()))
        columns = (found.column(name).to_pylist() for name in ("file_path", "content_offset"))
        return list(zip(*columns, strict=True))


def rewrite_deletes(
    begin: Callable[[], Transaction],
    refresh: Callable[[], object],
    make: Callable[[Transaction], DeleteRewrite],
    *,
    dry_run: bool = False,
    policy: CommitPolicy | None = None,
) -> RewriteDeletesResult:
    """Rewrite delete files, and plan that anew on top of what others have committed meanwhile if it does not fit.

    Parameters
    ----------
    begin
        What begins a transaction on the newest state that is known.
    refresh
        What looks for newer states.
    make
        Plans the rewrite of a transaction.
    dry_run
        Only plan it.
    policy
        How the commit is tried, which bounds how often it is planned anew.

    Raises
    ------
    CommitConflictError
        Others got in the way every time. Nothing was committed.
    """
    left = _MOST_PLANS if policy is None else min(policy.retries, _MOST_PLANS)
    while True:
        try:
            return _rewrite(begin(), make, dry_run=dry_run)
        except CommitConflictError as error:
            # That of no particular kind was raised after the last attempt, or a rollback; after an expiry it has one.
            if not left or type(error) is CommitConflictError:
                raise
        left -= 1
        refresh()


def _rewrite(
    transaction: Transaction, make: Callable[[Transaction], DeleteRewrite], *, dry_run: bool
) -> RewriteDeletesResult:
    with transaction:
        work = make(transaction)
        if not len(work.source.deletes):
            transaction.abort()
            return RewriteDeletesResult(dry_run=dry_run)
        affected = sum(map(bool, work.lists))
        if dry_run or not (affected or work.removed):
            transaction.abort()
            removed = work.removed if dry_run else frozenset[int]()
            return RewriteDeletesResult(None, dry_run, len(removed), work.bytes_of(removed), data_files=affected)
        with transaction.operation(work.name):
            rows = work.write(work.keys_of(work.removed))
            transaction.pending.keeps_rows = True
        pending = transaction.pending
        if pending.is_empty:
            transaction.abort()
            return RewriteDeletesResult()
        added = [files.entries for files in pending.added]
        gone = set(pending.removed_deletes)
        commit = transaction.commit()
    keys = zip(*(work.deletes.column(name).to_pylist() for name in ("file_path", "content_offset")), strict=True)
    removed = frozenset(number for number, key in enumerate(keys) if key in gone)
    return RewriteDeletesResult(
        commit,
        False,
        len(removed),
        work.bytes_of(removed),
        sum(map(len, added)),
        sum(map(_bytes, added)),
        len(rows.numbers),
    )


def _check_options(metadata: TableMetadata, options: RowOptions) -> None:
    """Refuse options of delete files that the table does not get, or that are not valid."""
    if metadata.format_version < VECTORS_SINCE:
        delete_file_options(metadata, options)
        return
    named = (one for one in FileArguments.__annotations__ if getattr(options, one) is not None)
    name = next(named, None)
    if name is not None:
        raise InvalidArgumentError(
            Hint(f"⟪{name}⟫ is about delete files, in place of which tables get deletion vectors from version 3 on"),
            hint="leave it out",
        )


def _bytes(entries: pa.Table) -> int:
    sizes = pc.coalesce(entries.column("content_size_in_bytes"), entries.column("file_size_in_bytes"))
    total: int | None = pc.sum(sizes).as_py()
    return total or 0
