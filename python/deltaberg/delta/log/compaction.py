"""Log compaction: one file that stands in for a range of commits (Delta protocol, "Log Compaction Files").

It holds what action reconciliation leaves of the commits, line by line as they were written, with tombstones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deltaberg.delta.actions.log_action import LogAction, read_actions
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.log.encode import encode_lines
from deltaberg.delta.log.names import compaction_name
from deltaberg.delta.log.segment import entry_not_found
from deltaberg.errors import CorruptLogError, InvalidArgumentError, ObjectNotFoundError
from deltaberg.kernels.canonical import canonical_path
from deltaberg.lossless_json import integer_of

__all__ = ["compact_commits", "reconcile_commits"]

#: What tells actions of one kind apart; the newest of each is kept. Other kinds say what a commit did, and go.
_KEYS = {"protocol": None, "metaData": None, "txn": "appId", "domainMetadata": "domain"}


def compact_commits(log: LogDirectory, first: int, last: int) -> str:
    """Write the compaction of a range of commits, both ends included, and return its name in the log.

    Commits are read newest first and dropped one by one. Another writer's file of the same range says the same.

    Raises
    ------
    InvalidArgumentError
        If the range holds fewer than two commits.
    VersionNotFoundError
        If the log does not hold one of the commits.
    CorruptLogError
        If a commit cannot be read, or is missing between others.
    StorageError
        If the store fails.
    """
    if not 0 <= first < last:
        raise InvalidArgumentError(
            f"a compacted file stands in for two commits or more, and versions {first} to {last} have not so many",
            hint="pass two versions as ⟪first⟫ and ⟪last⟫, the earlier one first",
            table=str(log.root),
        )
    name = compaction_name(first, last)
    actions = reconcile_commits(_actions(log, version) for version in range(last, first - 1, -1))
    log.storage.put(f"{log.path}/{name}", encode_lines([action.to_json() for action in actions]))
    return name


def _actions(log: LogDirectory, version: int) -> list[LogAction]:
    entry = log.commit_entry(version, 0)
    try:
        return list(read_actions(log.read(entry)))
    except ObjectNotFoundError:
        raise entry_not_found(log, version) from None
    except CorruptLogError as error:
        raise error.with_context(table=str(log.root), version=version) from None


def reconcile_commits(commits: Iterable[list[LogAction]]) -> list[LogAction]:
    r"""Return the reconciled actions of commits, given newest first (Delta protocol, "Action Reconciliation").

    Examples
    --------
    >>> newer = b'{"remove":{"path":"f1","dataChange":true}}\n{"add":{"path":"f3","size":1}}'
    >>> older = b'{"add":{"path":"f1","size":1}}\n{"add":{"path":"f2","size":1}}\n{"commitInfo":{}}'
    >>> commits = (list(read_actions(data)) for data in (newer, older))
    >>> [(action.name, action.members["path"]) for action in reconcile_commits(commits)]
    [('add', 'f2'), ('add', 'f3'), ('remove', 'f1')]
    """
    table: dict[tuple[str, Any], LogAction] = {}
    files: dict[tuple[Any, ...], LogAction] = {}
    added: set[Any] = set()
    for actions in commits:
        for action in reversed(actions):
            if action.name in _KEYS:
                member = _KEYS[action.name]
                table.setdefault((action.name, None if member is None else action.members.get(member)), action)
        # An add beats a remove of the same file in one commit, and the newest add of a path beats older ones.
        fresh: set[Any] = set()
        for action in reversed(actions):
            if action.name == "add":
                path = _path_key(action)
                if path not in added:
                    fresh.add(path)
                    files.setdefault(_file_key(action), action)
        for action in reversed(actions):
            if action.name == "remove":
                files.setdefault(_file_key(action), action)
        added |= fresh
    # Each of these was found newest first.
    kept = [*reversed(table.values()), *reversed(files.values())]
    order = {"add": 1, "remove": 2}
    return sorted(kept, key=lambda action: order.get(action.name, 0))


def _file_key(action: LogAction) -> tuple[Any, ...]:
    """Return the path of a file and what identifies its deletion vector."""
    vector = action.members.get("deletionVector") or {}
    place = (vector.get("storageType"), vector.get("pathOrInlineDv"), integer_of(vector.get("offset")))
    return (_path_key(action), *place)


def _path_key(action: LogAction) -> Any:
    path = action.members.get("path")
    return canonical_path(path) if isinstance(path, str) else path
