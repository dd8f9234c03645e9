"""Deleting many objects: what happens to each of them, and when to give up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, islice

from deltaberg.errors import StorageError
from deltaberg.storage.base import DeletionFailure
from deltaberg.workers import Outcome, Workers, in_chunks

__all__ = ["delete_batches", "delete_each"]

#: How many batches are under way at a time.
_THREADS = 8
#: Deleting ends after so many failures with no success between them.
_MOST_FAILURES = 1000
#: A failure that the next path will meet as well, such as a server that does not answer, counts for so many: a client
#: tries each request again for minutes.
_WEIGHT_OF_OUTAGE = 64


class _Attempts:
    """Counts failures in a row, of all threads, and ends deleting after too many of them.

    Parameters
    ----------
    is_outage
        Returns whether a failure is none of the path's own.
    """

    def __init__(self, is_outage: Callable[[StorageError], bool]) -> None:
        self._is_outage = is_outage
        self._failures = 0
        #: Why nothing more is tried.
        self.given_up: StorageError | None = None

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, error: StorageError) -> None:
        self._failures += _WEIGHT_OF_OUTAGE if self._is_outage(error) else 1
        if self._failures >= _MOST_FAILURES and self.given_up is None:
            self.given_up = StorageError(
                f"it was not tried, since all deletions had failed for a while: {error.message}",
                hint=error.hint,
                failed=error.context.get("path"),
            )
            self.given_up.__cause__ = error


def delete_each(
    paths: Iterable[str], delete: Callable[[str], bool], deleted: Callable[[str], object] | None = None
) -> list[DeletionFailure]:
    """Delete objects one after the other, and return those that are still there.

    Parameters
    ----------
    delete
        Deletes one object; it returns False if there was none.
    deleted
        Is told of each that was there.
    """
    return _delete_some(paths, delete, _Attempts(_is_never), deleted)


def delete_batches(
    paths: Iterable[str],
    size: int,
    delete_batch: Callable[[list[str]], None],
    delete: Callable[[str], bool],
    is_outage: Callable[[StorageError], bool],
    deleted: Callable[[str], object] | None = None,
) -> list[DeletionFailure]:
    """Delete objects in batches, several at a time, and return those that are still there, in the order of the paths.

    Parameters
    ----------
    paths
        Is read as far ahead as batches are under way.
    size
        How many make a batch.
    delete_batch
        Deletes a batch. Where it fails, some paths of the batch may be gone, and nothing tells which.
    delete
        Deletes one object, or finds none. What a failed batch holds is settled by it.
    is_outage
        Returns whether a failure is none of the path's own.
    deleted
        Is told of each path that is gone, also of one that a batch did not find: a batch that failed may have deleted
        it before.
    """
    attempts = _Attempts(is_outage)
    failures: list[DeletionFailure] = []

    def settle(batch: list[str]) -> list[DeletionFailure]:
        if attempts.given_up is None:
            try:
                delete_batch(batch)
            except StorageError as error:
                if is_outage(error):
                    attempts.failed(error)
            else:
                attempts.succeeded()
                return []
        return _delete_some(batch, delete, attempts)

    def add(batch: list[str], failed: list[DeletionFailure]) -> None:
        failures.extend(failed)
        if deleted is not None:
            _tell_gone(deleted, batch, failed)

    batches = in_chunks(paths, size)
    first = list(islice(batches, 2))
    if len(first) < 2:
        for batch in first:
            add(batch, settle(batch))
    else:
        _settle_together(chain(first, batches), settle, add)
    return failures


def _tell_gone(deleted: Callable[[str], object], batch: list[str], failed: list[DeletionFailure]) -> None:
    left = {failure.path for failure in failed}
    for path in batch:
        if path not in left:
            deleted(path)


def _settle_together(
    batches: Iterable[list[str]],
    settle: Callable[[list[str]], list[DeletionFailure]],
    add: Callable[[list[str], list[DeletionFailure]], None],
) -> None:
    under_way: deque[tuple[list[str], Outcome[list[DeletionFailure]]]] = deque()

    def add_next() -> None:
        batch, outcome = under_way[0]
        failed = outcome.result()
        under_way.popleft()
        add(batch, failed)

    try:
        with Workers(_THREADS) as workers:
            for batch in batches:
                if len(under_way) == _THREADS:
                    add_next()
                under_way.append((batch, workers.submit(settle, batch)))
            while under_way:
                add_next()
    except BaseException:
        # What was under way has run to its end, or never began.
        for batch, outcome in under_way:
            with suppress(Exception):
                add(batch, outcome.result())
        raise


def _delete_some(
    paths: Iterable[str],
    delete: Callable[[str], bool],
    attempts: _Attempts,
    deleted: Callable[[str], object] | None = None,
) -> list[DeletionFailure]:
    failures = []
    for path in paths:
        if attempts.given_up is not None:
            failures.append(DeletionFailure(path, attempts.given_up))
            continue
        try:
            was_there = delete(path)
        except StorageError as error:
            failures.append(DeletionFailure(path, error))
            attempts.failed(error)
        else:
            attempts.succeeded()
            if was_there and deleted is not None:
                deleted(path)
    return failures


def _is_never(error: StorageError) -> bool:
    del error
    return False
