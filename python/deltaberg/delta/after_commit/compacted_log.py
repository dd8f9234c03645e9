"""Compaction of the log of an open version, as callers ask for it (Delta protocol, "Log Compaction Files")."""

from __future__ import annotations

from typing import Any

from deltaberg.delta.features import check_known_writers
from deltaberg.delta.log.compaction import compact_commits
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import VersionNotFoundError
from deltaberg.table.arguments import checked_number

__all__ = ["compact_log"]


def compact_log(snapshot: Snapshot, first: Any, last: Any) -> str:
    """Write the compaction of a range of commits, both ends included, and return its name in the log.

    Raises
    ------
    VersionNotFoundError
        The range ends after the version that is open.
    UnsupportedFeatureError
        The table has a writer feature that is not known. The other errors are those of `compact_commits`.
    """
    check_known_writers(snapshot.protocol)
    hint = "pass two versions, the earlier one first"
    first, last = checked_number("first", first, 0, hint), checked_number("last", last, 0, hint)
    if last > snapshot.version:
        raise VersionNotFoundError(
            f"version {snapshot.version} is open, so that no later one can be compacted",
            hint="pass no later version as ⟪last⟫⟦, or open the newest one by ⟪refresh()⟫⟧",
            version=last,
        )
    return compact_commits(snapshot.log, first, last)
