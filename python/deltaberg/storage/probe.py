"""Probes of a store: whether it honours the condition of a put, and which time it has."""

from __future__ import annotations

import contextlib
import uuid

from deltaberg.errors import DeltabergError, StorageError, UnsupportedFeatureError
from deltaberg.storage.base import PutOutcome, Storage

__all__ = ["conditional_put_works", "time_of_store"]

#: How many new names are tried where the store does not answer.
_ATTEMPTS = 3


def conditional_put_works(store: Storage, directory: str) -> bool:
    """Put one new object twice, and return whether the store refused the second.

    The name begins with a dot, so that readers of tables take the object for hidden, and is a new one each time, so
    that probes of other processes do not meddle.

    Raises
    ------
    StorageError
        If the store refuses both, or does not answer in several attempts.
    """
    cause: DeltabergError | None = None
    for _ in range(_ATTEMPTS):
        path = _new_path(directory)
        try:
            results = [store.put(path, data, if_absent=True) for data in (b"first", b"second")]
        except UnsupportedFeatureError:
            return False
        finally:
            # A store may allow writing and not deleting. An object that stays is hidden, and harmless.
            with contextlib.suppress(StorageError):
                store.delete(path)
        outcomes = [result.outcome for result in results]
        # Only we know the name, so the object that a put ran into is our own.
        if PutOutcome.EXISTS in outcomes:
            return True
        if outcomes == [PutOutcome.WRITTEN, PutOutcome.WRITTEN]:
            return False
        cause = next((result.cause for result in results if result.cause is not None), cause)
    raise StorageError(
        "the store does not say whether it honours conditional puts",
        hint="try again when it answers",
        path=directory,
    ) from cause


def time_of_store(store: Storage, directory: str) -> int:
    """Return the time that a store gives a new object, in milliseconds since 1970. The object is deleted at once.

    Raises
    ------
    StorageError
        If the store fails, or does not permit the writing.
    """
    path = _new_path(directory)
    try:
        store.put(path, b"what time is it?")
        return store.head(path).modified
    finally:
        with contextlib.suppress(StorageError):
            store.delete(path)


def _new_path(directory: str) -> str:
    name = f".deltaberg-probe-{uuid.uuid4().hex}"
    return f"{directory.rstrip('/')}/{name}" if directory else name
