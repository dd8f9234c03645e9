"""``_last_vacuum_info``: up to which version the files that commits removed are gone."""

from __future__ import annotations

import json

from deltaberg.delta.log.directory import LogDirectory
from deltaberg.errors import ObjectNotFoundError, TooLargeError
from deltaberg.table.arguments import integer_of

__all__ = ["read_mark", "write_mark"]

_NAME = "_last_vacuum_info"
#: The member that delta-spark reads and writes.
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_MOST_BYTES = 1 << 16


def read_mark(log: LogDirectory) -> int | None:
    """Return the mark of the last vacuum; None where there is none, or it says nothing.

    A full vacuum of delta-spark writes an empty one.
    """
    try:
        found = json.loads(log.storage.get(f"{log.path}/{_NAME}", _MOST_BYTES))
    except (ObjectNotFoundError, TooLargeError, ValueError, RecursionError):
        return None
    version = integer_of(found.get(_VERSION)) if isinstance(found, dict) else None
    return version if version is not None and version >= 0 else None


def write_mark(log: LogDirectory, version: int) -> None:
    """Record that no file is left that a commit up to a version removed."""
    log.storage.put(f"{log.path}/{_NAME}", json.dumps({_VERSION: version}).encode())
