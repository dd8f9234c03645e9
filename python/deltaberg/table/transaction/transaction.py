"""A transaction of any format: operations of which each succeeds or changes nothing, and one commit, or none."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from deltaberg.errors import InvalidArgumentError, in_context
from deltaberg.storage.local import nearest_directory
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.change.changed_rows import RowTasks
from deltaberg.table.commit.commit import ClockedPolicy, CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.rows.progress import Progress, ProgressSum
from deltaberg.table.transaction.operation import Operation, row_sums
from deltaberg.table.transaction.own_files import OwnFiles

__all__ = ["Transaction"]

_logger = logging.getLogger("deltaberg.commit")
_Own = TypeVar("_Own", bound="Transaction")


class Transaction(ABC):
    """Changes of a table that become visible together.

    As a context manager it commits at the end, unless an exception ends the block, or nothing was changed. If it ends
    without a commit, the files that were written for it are deleted.

    Parameters
    ----------
    root, store
        Where the table is, and what opens the stores of its files.
    options
        How the commit is made, and what it records.
    timezone
        The zone of timestamps without one in conditions.
    """

    def __init__(self, root: Location, store: StoreSpec, options: CommitOptions, timezone: str) -> None:
        self.root = root
        self.store = store
        self.timezone = timezone
        #: What reads and writes files of the table to change rows; None for this machine.
        self.row_tasks: RowTasks | None = None
        #: What finds the commit later, whatever became of it.
        self.token = ""
        #: What the commit did; None before it.
        self.result: CommitResult | None = None
        self._now = (options.clocked or ClockedPolicy()).now
        self._progress = None if options.progress is None else ProgressSum(options.progress)
        is_local = root.scheme == "file"
        self._files = OwnFiles(store, root._replace(path=nearest_directory(root.path)) if is_local else root)
        #: The operations that succeeded, in their order.
        self._operations: list[Operation] = []
        self._is_ended = False
        #: Whether files were written by others, who may have committed them already where there is nothing to do.
        self.has_foreign_files = False
        self._is_late = False
        #: What does more after a commit that changes data. It gets the recorded paths of the files written for
        #: it, and returns a sentence for each part that failed.
        self.follow: Callable[[Any, Collection[str]], list[str]] | None = None
        #: Whether a transaction of several tables commits this one.
        self.is_member = False
        self._batch, self._batch_branch = options.batch, options.branch
        if self._batch is not None:
            self._batch.begin(root, options.branch)

    def stand_for(self, token: str, *, was_tried: bool, is_late: bool = False) -> None:
        """Have the commit be the one with this token, whose files others have written. It comes before all changes.

        Parameters
        ----------
        was_tried
            Whether it was sent before, and may have landed.
        is_late
            Whether the transaction is not on the state of the table that the files were planned on, so that another one
            with this token may have committed them before.
        """
        self._is_late = is_late
        self.token, self.has_foreign_files, self._files.are_kept = token, True, was_tried

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the transaction changes nothing so far."""

    @property
    def is_done(self) -> bool:
        """Whether all that the transaction is for was committed before."""
        return False

    @property
    def is_done_for_good(self) -> bool:
        """Whether it is done, and was so for every transaction with its token."""
        return self.is_done and not self._is_late

    @property
    def progress(self) -> Progress | None:
        """The receiver of the progress of the next write; None if there is none."""
        return None if self._progress is None else self._progress.next_write()

    def tell(self, files: int = 0, *, rows: int = 0) -> None:
        """Tell whoever asked how far the transaction is that so many more files and rows are done."""
        if self._progress is not None:
            self._progress.add(files, rows=rows)

    @property
    def numbers(self) -> tuple[int | None, int | None, int | None, int | None, int, int]:
        """The rows inserted, updated, deleted and copied so far, and the data files added and removed."""
        return (*row_sums(self._operations), *self._file_numbers())

    @abstractmethod
    def _file_numbers(self) -> tuple[int, int]:
        """How many data files are added and removed so far."""

    @abstractmethod
    def _mark(self) -> Callable[[], object]:
        """Return what takes back all changes from now on, but for the files that were written."""

    @abstractmethod
    def _check_ready(self) -> None:
        """Refuse an operation before it writes a file, where its commit would be refused."""

    @abstractmethod
    def _check_operation(self) -> None:
        """Refuse operations that cannot share a commit."""

    @contextmanager
    def operation(
        self, name: str, *, writes_files: bool = True, again: Callable[[], object] | None = None
    ) -> Iterator[Operation]:
        """Run one of the operations that the transaction consists of. If it fails, it has changed nothing.

        Parameters
        ----------
        name
            The operation.
        writes_files
            Whether it may write files.
        again
            What runs it again, as `Operation` says.
        """
        with in_context(table=str(self.root)):
            self._check_open()
            if writes_files:
                self._check_ready()
            take_back, files, operation = self._mark(), len(self._files), Operation(name, again=again)
            try:
                yield operation
                self._check_operation()
            except BaseException:
                take_back()
                self._files.delete_since(files)
                raise
            self._operations.append(operation)
            _logger.debug("%s: %s has done %s", self.root, name, operation.rows)

    def _check_open(self) -> None:
        if self._is_ended:
            state = "not committed" if self.result is None else "committed already"
            raise InvalidArgumentError(f"the transaction is {state}, and has ended", hint="begin another one")

    @abstractmethod
    def commit(self) -> CommitResult:
        """Commit the changes. If they surely are not committed, the files that were written for them are deleted.

        Raises
        ------
        CommitConflictError
            Another commit came first, and the changes do not fit on top of it. Nothing was committed.
        CommitUnknownError
            The commit was sent, but it is not known whether it took effect.
        """

    def _committed_as(self, result: CommitResult) -> CommitResult:
        """Keep what the commit did, and return it."""
        self.result = result
        self._end_progress()
        _logger.info("%s: %s", self.root, result)
        if self._batch is not None:
            self._batch.end(self.root, self._batch_branch)
        return result

    def _end_progress(self) -> None:
        if self._progress is not None:
            self._progress.close()

    def _delete_all(self) -> None:
        """Delete all files that were written, because there is surely no commit."""
        self._files.delete_since(0)

    def abort(self) -> None:
        """End the transaction without a commit, and delete its files. After a commit was tried this does nothing."""
        if not self._is_ended:
            self._is_ended = True
            _logger.info("%s: the transaction ends without a commit", self.root)
            self._delete_all()
        self._end_progress()

    def __enter__(self: _Own) -> _Own:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.is_member:
            return
        if kind is None and not self._is_ended:
            self.commit()
        self.abort()
