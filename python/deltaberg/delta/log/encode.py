"""Log entries as bytes, and what one entry must not hold (Delta protocol, "Delta Log Entries", "Actions").

An entry is one JSON object per line, whose only member is an action.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from deltaberg.delta.actions.log_action import LogAction
from deltaberg.errors import InvalidArgumentError

__all__ = ["check_action", "check_unique", "encode_lines"]

#: The actions of log entries, and their required members. Checkpoints have further kinds.
_REQUIRED = {
    "add": ("path", "partitionValues", "size", "modificationTime", "dataChange"),
    "remove": ("path", "dataChange"),
    "cdc": ("path", "partitionValues", "size", "dataChange"),
    "metaData": ("id", "format", "schemaString", "partitionColumns", "configuration"),
    "protocol": ("minReaderVersion", "minWriterVersion"),
    "txn": ("appId", "version"),
    "domainMetadata": ("domain", "configuration", "removed"),
    "commitInfo": (),
}
#: What tells apart the actions of which an entry holds at most one of a kind.
_KEYS = {"metaData": None, "protocol": None, "commitInfo": None, "txn": "appId", "domainMetadata": "domain"}


def check_action(action: LogAction) -> None:
    """Refuse an action that a log entry must not hold, or that lacks a required member.

    Raises
    ------
    InvalidArgumentError
        The kind of action does not belong in log entries, or a member is missing.
    """
    if action.name not in _REQUIRED:
        raise InvalidArgumentError(f"the action {action.name} does not belong in a log entry")
    missing = [name for name in _REQUIRED[action.name] if action.members.get(name) is None]
    if missing:
        raise InvalidArgumentError(
            f"the action {action.name} has no {', '.join(missing)}, which the protocol requires",
            path=action.members.get("path"),
        )


def check_unique(actions: Iterable[LogAction]) -> None:
    """Refuse actions about the table of which one entry may hold only one.

    Files are not looked at: a transaction keeps them by path.

    Raises
    ------
    InvalidArgumentError
        There are two ``metaData``, two ``protocol``, two ``txn`` of one application, or two of one domain.
    """
    seen: set[tuple[str, Any]] = set()
    for action in actions:
        if action.name in _KEYS:
            member = _KEYS[action.name]
            key = (action.name, None if member is None else action.members.get(member))
            if key in seen:
                of = "" if key[1] is None else f" of {key[1]}"
                raise InvalidArgumentError(f"a log entry holds at most one action {action.name}{of}")
            seen.add(key)


def encode_lines(lines: Sequence[str]) -> bytes:
    r"""Return a log entry.

    Parameters
    ----------
    lines
        Actions as JSON, one each. Line breaks inside texts are escaped in JSON.

    Examples
    --------
    >>> encode_lines([LogAction("txn", {"appId": "a\n", "version": 1}).to_json()])
    b'{"txn":{"appId":"a\\n","version":1}}\n'
    """
    return ("\n".join(lines) + "\n").encode()
