"""The error of a location without a table."""

from __future__ import annotations

import re
from contextlib import suppress

from deltaberg.errors import ObjectNotFoundError, StorageError, TableNotFoundError
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.tables_there import MARKS, SHOWN_FORMATS

__all__ = ["table_not_found"]

#: What the connectors for Spark take as a part of a path, and what is written here.
_IN_PATHS = (
    (re.compile(r"@v(\d+)$"), r"open it with ⟪version=\1⟫"),
    (
        re.compile(r"@(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})$"),
        r'open it with ⟪timestamp="\1-\2-\3 \4:\5:\6.\7"⟫',
    ),
    (re.compile(r"#snapshot_id_(\d+)$"), r"open it with ⟪snapshot_id=\1⟫"),
    (re.compile(r"#(?:branch|tag)_(\w+)$"), r'open it with ⟪ref="\1"⟫'),
    (re.compile(r"#at_timestamp_(\d+)$"), "open it as of that time"),
    (re.compile(r"#(\w+)$"), r'read it by ⟪inspect("\1")⟫'),
)
#: What a Delta table has in the place of the metadata tables of Iceberg.
_OF_DELTA = "call ⟪history()⟫ for its versions, or ⟪scan().files()⟫ for its files"


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
        other = [known for known in MARKS if known not in message.lower() and _has(location, MARKS[known], store)]
        if other:
            hint = f'the directory looks like that of {SHOWN_FORMATS[other[0]]}: use ⟪format="{other[0]}"⟫'
    for pattern, words in _IN_PATHS:
        found = pattern.search(location.path)
        if found is not None:
            hint = f"leave {found[0]} out of the location, and {found.expand(words)}"
            if found[0][0] == "#" and _is_delta(location._replace(path=location.path[: found.start()]), store):
                hint = f"leave {found[0]} out of the location, and {_OF_DELTA}: Delta tables have no metadata tables"
            break
    return TableNotFoundError(f"{message}: {reason or lacks}", hint=hint, table=str(location))


def _is_delta(location: Location, store: StoreSpec) -> bool:
    with suppress(StorageError):
        return _has(location, MARKS["delta"], store)
    return False


def _has(location: Location, mark: str, store: StoreSpec) -> bool:
    return store.open(location).has_objects(location.join(mark).path)


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
