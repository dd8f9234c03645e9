"""Finding a commit of our own by its token, after it was not known what became of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from deltaberg.delta.actions.log_action import find_actions
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.snapshot.history import commit_info
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.commit_info import OPERATIONS, SEVERAL
from deltaberg.errors import CommitUnknownError, InvalidArgumentError, ObjectNotFoundError
from deltaberg.hints import shown_value
from deltaberg.table.commit.commit import CommitResult
from deltaberg.whole_numbers import whole_number

__all__ = ["find_commit_of", "new_token", "shows_files"]

#: The metrics that count rows.
_METRICS = {
    "inserted": ("numTargetRowsInserted",),
    "updated": ("numUpdatedRows", "numTargetRowsUpdated"),
    "deleted": ("numDeletedRows", "numTargetRowsDeleted"),
    "copied": ("numCopiedRows", "numTargetRowsCopied"),
}
#: What operations never do with rows.
_NEVER = {"DELETE": ("inserted", "updated"), "UPDATE": ("inserted", "deleted"), "WRITE": ("updated",)}
#: What goes to files of another version or table, whose rows nobody compares.
_UNCOUNTED = frozenset({"CLONE", "RESTORE"})


def new_token(first: int) -> str:
    """Return a token for a commit that makes this version or a later one.

    Examples
    --------
    >>> new_token(7).partition("-")[0]
    '7'
    """
    return f"{first}-{uuid.uuid4()}"


def find_commit_of(log: LogDirectory, token: str) -> CommitResult | None:
    """Return the result of the commit with this token; None where there is none.

    Raises
    ------
    InvalidArgumentError
        The text is not a token.
    CommitUnknownError
        The commit is not among those that the log holds, but some that could be it were cleaned up.
    """
    first = whole_number(token.partition("-")[0], 0)
    if first is None or first >= 1 << 63:
        raise InvalidArgumentError(f"{shown_value(token)} is not a token of a commit")
    listed = list(log.entries(first))
    commits = {entry.version: entry for entry in listed if entry.file.kind == "commit"}
    newest = max((entry.version for entry in listed if entry.file.is_checkpoint), default=first - 1)
    newest = max(newest, *commits, first - 1)
    missing = False
    for version in range(newest, first - 1, -1):
        try:
            data = log.read(commits[version]) if version in commits else None
        except ObjectNotFoundError:
            data = None
        if data is None:
            missing = True
        elif token.encode() in data and commit_info(data).get("txnId") == token:
            # Below a hole a late put may have landed that nobody reads.
            return None if missing and not _is_in_history(log, data) else _result(version, token, data)
    if missing:
        raise CommitUnknownError(
            "the log holds no commit with this token, but some that could be it were cleaned up",
            hint="look for its rows",
            table=str(log.root),
            token=token,
        )
    return None


def _is_in_history(log: LogDirectory, data: bytes) -> bool:
    return shows_files(Snapshot.load(log), {members["path"] for _, _, members in find_actions(data, "add")})


def shows_files(snapshot: Snapshot, paths: AbstractSet[str]) -> bool:
    """Return whether a version holds one of these files, as a live one or as one that was removed."""
    return any(
        not paths.isdisjoint(files.column("path").to_pylist()) for files in (snapshot.live.table, snapshot.tombstones)
    )


def _result(version: int, token: str, data: bytes) -> CommitResult:
    info = commit_info(data)
    adds = {members["path"]: members for _, _, members in find_actions(data, "add")}
    removes = {members["path"]: members for _, _, members in find_actions(data, "remove")}
    # A file of which rows were deleted by a vector is both.
    added = [members for path, members in adds.items() if path not in removes]
    removed = [members for path, members in removes.items() if path not in adds]
    metrics = info.get("operationMetrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    counted = {name: count for name, text in metrics.items() if (count := whole_number(str(text), 0)) is not None}
    operation = str(info.get("operation"))
    moves = not any(members.get("dataChange", True) for members in (*adds.values(), *removes.values()))
    parameters = info.get("operationParameters")
    several = operation == SEVERAL or (isinstance(parameters, dict) and OPERATIONS in parameters)
    rows: dict[str, Any] = (
        {} if several else _rows(operation, counted, adds=bool(added), removes=bool(removes), moves=moves)
    )
    if several and (adds or removes):
        # One operation may have taken back what another one did, which the files do not show.
        rows = {f"{name}_rows": None for name in _METRICS}
    return CommitResult(
        version,
        token,
        operation,
        added_files=len(added),
        removed_files=len(removed),
        added_bytes=sum(members["size"] for members in added),
        removed_bytes=sum(members.get("size") or 0 for members in removed),
        added_rows=counted.get("numOutputRows") if added else 0,
        **rows,
        metrics=counted,
    )


def _rows(operation: str, counted: Mapping[str, int], *, adds: bool, removes: bool, moves: bool) -> dict[str, Any]:
    """Return the numbers of rows of a commit of one operation, as far as its files and its metrics tell.

    Parameters
    ----------
    adds, removes
        Whether it adds files, and whether it removes files or some of their rows.
    moves
        Whether it changes no row.
    """
    written = counted.get("numOutputRows")
    if operation in _UNCOUNTED:
        return {f"{name}_rows": None for name in _METRICS} | {"copied_rows": 0}
    counts = {name: next(iter([counted[m] for m in of if m in counted]), None) for name, of in _METRICS.items()}
    if operation == "WRITE" and written is not None:
        counts["inserted"] = written - (counts["copied"] or 0)
    if moves:
        counts["copied"] = written
    elif not removes:
        counts["inserted"] = written
    zero = set(_NEVER.get(operation, ()))
    zero.update(("inserted", "updated", "copied") if not adds else ())
    zero.update(("updated", "deleted", "copied") if not removes else ())
    zero.update(("inserted", "updated", "deleted") if moves else ())
    return {f"{name}_rows": 0 if name in zero else count for name, count in counts.items()}
