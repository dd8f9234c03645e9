"""What is said of a location without a table."""

from __future__ import annotations

from contextlib import suppress

from deltaberg.errors import ObjectNotFoundError, StorageError, TableNotFoundError
from deltaberg.storage import Location, StoreSpec

__all__ = ["table_not_found"]


def table_not_found(
    message: str, lacks: str, location: Location, store: StoreSpec, hint: str = "check the location"
) -> TableNotFoundError:
    """Return the error of a location without a table, which says what is there instead.

    Parameters
    ----------
    message
        What was not found, such as "there is no Delta table".
    lacks
        What the directory lacks, which is said if it exists, or if the store does not tell.
    location
        Where the table was expected.
    store
        How its store is opened.
    hint
        What helps the caller.
    """
    reason = None
    # The error that was found is not replaced by one about what is there.
    with suppress(StorageError):
        reason = _absence(location, store)
    return TableNotFoundError(f"{message}: {reason or lacks}", hint=hint, table=str(location))


def _absence(location: Location, store: StoreSpec) -> str | None:
    """Return why a location is no directory; None if it is one."""
    storage = store.open(location)
    with suppress(ObjectNotFoundError):
        storage.directories(location.path)
        return None
    with suppress(ObjectNotFoundError):
        storage.head(location.path)
        return "this is a file, not a directory"
    return "the directory does not exist" if location.scheme == "file" else "the store has nothing at this location"
