"""Finding a commit of our own by its token, after it was not known what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.metadata.write_metadata import version_of
from deltaberg.iceberg.transaction.summary import CLONED_FROM
from deltaberg.iceberg.transaction.table_commit import find_commit
from deltaberg.table.commit.commit import CommitResult
from deltaberg.whole_numbers import whole_number

__all__ = ["find_commit_of"]

#: What summaries call the numbers of a result.
_COUNTS = {
    "added_files": "added-data-files",
    "removed_files": "deleted-data-files",
    "added_bytes": "added-files-size",
    "removed_bytes": "removed-files-size",
    "added_rows": "added-records",
}


def find_commit_of(committer: Committer, token: str) -> CommitResult | None:
    """Return the result of the commit with this token; None where the newest metadata does not show it.

    Raises
    ------
    InvalidArgumentError
        The text is not a token.
    """
    loaded = find_commit(committer, token)
    if loaded is None:
        return None
    snapshot = loaded.metadata.snapshots.get(whole_number(token) or 0)
    summary = {} if snapshot is None else dict(snapshot.summary or {})
    counts: dict[str, Any] = {
        name: count for name, key in _COUNTS.items() if (count := whole_number(summary.get(key, ""), 0)) is not None
    }
    return CommitResult(
        version_of(loaded.file.path.rpartition("/")[2]) or 0,
        token,
        summary.get("operation", "commit"),
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        **_rows(summary, counts, is_first=snapshot is not None and snapshot.parent_snapshot_id is None),
        **counts,
    )


def _rows(summary: Mapping[str, str], counts: Mapping[str, Any], *, is_first: bool) -> dict[str, Any]:
    """Return the numbers of rows of a commit, as far as the summary of its snapshot tells.

    It counts the rows of files, and not which of them are new, changed, or written anew as they were. Of a commit
    without a snapshot of its own nobody knows whether it moved a branch. Only the first snapshot of a table is that of
    a clone, whatever other writers have later ones say.
    """
    operation, added = summary.get("operation"), counts.get("added_rows")
    rows: dict[str, Any] = dict.fromkeys(("inserted_rows", "updated_rows", "deleted_rows", "copied_rows"))
    known = {"append": "inserted_rows", "replace": "copied_rows"}.get(operation or "")
    is_clone = is_first and CLONED_FROM in summary
    return rows if known is None or is_clone else {**dict.fromkeys(rows, 0), known: added}
