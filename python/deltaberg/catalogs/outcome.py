"""Finds the outcome of a change of a catalog whose answer was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltaberg.errors import CommitConflictError, CommitUnknownError, DeltabergError, StorageError

__all__ = ["NotCarriedOutError", "UnsettledError", "carried_out", "unsettled"]


class UnsettledError(StorageError):
    """A request was sent to the database, and it is not known whether it was carried out."""


class NotCarriedOutError(StorageError):
    """The database refused a request because of others, and changed nothing. It may carry out the next one."""


def unsettled(reason: str, **context: Any) -> CommitUnknownError:
    """Return the error of a request that may have been carried out."""
    return CommitUnknownError(
        f"the catalog does not say whether it carried out a request: {reason}",
        hint="look at the catalog before you repeat the operation, and delete nothing until then",
        **context,
    )


def carried_out(
    change: Callable[[], None],
    is_done: Callable[[], bool],
    doubts: tuple[type[DeltabergError], ...] = (CommitUnknownError, CommitConflictError),
) -> None:
    """Send a change, and look at the catalog if it is not known whether it was carried out.

    Parameters
    ----------
    change
        Sends the change, once.
    is_done
        Looks whether the catalog is as it has to be after the change.
    doubts
        What is raised though the change may have been carried out.
    """
    try:
        change()
    except doubts as failure:
        try:
            done = is_done()
        except DeltabergError as error:
            # What is in the way of a change may be the change itself, sent twice on its way.
            if isinstance(failure, CommitConflictError):
                raise unsettled(failure.message, **failure.context) from error
            raise failure from error
        if not done:
            raise
