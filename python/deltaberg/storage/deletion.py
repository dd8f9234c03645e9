"""Deleting many objects: what happens to each of them, and when to give up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
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


def delete_each(paths: Iterable[str], delete: Callable[[str], None]) -> list[DeletionFailure]:
    """Delete objects one after the other, and return those that are still there."""
    return _delete_some(paths, delete, _Attempts(_is_never))


def delete_batches(
    paths: Iterable[str],
    size: int,
    delete_batch: Callable[[list[str]], None],
    delete: Callable[[str], None],
    is_outage: Callable[[StorageError], bool],
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
    """
    attempts = _Attempts(is_outage)

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

    batches = in_chunks(paths, size)
    first = list(islice(batches, 2))
    if len(first) < 2:
        return [failure for batch in first for failure in settle(batch)]
    failures: list[DeletionFailure] = []
    under_way: deque[Outcome[list[DeletionFailure]]] = deque()
    with Workers(_THREADS) as workers:
        for batch in chain(first, batches):
            if len(under_way) == _THREADS:
                failures += under_way.popleft().result()
            under_way.append(workers.submit(settle, batch))
        while under_way:
            failures += under_way.popleft().result()
    return failures


def _delete_some(paths: Iterable[str], delete: Callable[[str], None], attempts: _Attempts) -> list[DeletionFailure]:
    failures = []
    for path in paths:
        if attempts.given_up is not None:
            failures.append(DeletionFailure(path, attempts.given_up))
            continue
        try:
            delete(path)
        except StorageError as error:
            failures.append(DeletionFailure(path, error))
            attempts.failed(error)
        else:
            attempts.succeeded()
    return failures


def _is_never(error: StorageError) -> bool:
    del error
    return False
