"""Actions as the log records them, including members that this library does not understand.

Delta protocol, "Actions". A log entry is one JSON object per line, whose only member is the action.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.delta.actions.member_types import check_members
from deltaberg.errors import CorruptLogError
from deltaberg.lossless_json import read_json, write_json

__all__ = ["LogAction", "find_actions", "read_actions"]


@dataclass(frozen=True)
class LogAction:
    """An action that can be written again without loss.

    Parameters
    ----------
    name
        The kind of action, such as ``add``.
    members
        Its members, as `read_json` gives them.
    line
        The number of its line in the log entry that it was read from, from 1.

    Examples
    --------
    >>> (action,) = read_actions(b'{"add":{"path":"a.parquet","size":10,"fresh":1.50,"tags":{"k":null}}}')
    >>> action.with_members({"size": 12}).to_json()
    '{"add":{"path":"a.parquet","size":12,"fresh":1.50,"tags":{"k":null}}}'
    """

    name: str
    members: Mapping[str, Any]
    line: int | None = field(default=None, compare=False)

    def with_members(self, changes: Mapping[str, Any]) -> LogAction:
        """Return the action with other values for some members; None removes a member."""
        changed = {
            name: value for name, value in {**self.members, **changes}.items() if changes.get(name, ...) is not None
        }
        return LogAction(self.name, changed)

    def to_json(self) -> str:
        """Return the action as a line of a log entry."""
        return write_json({self.name: self.members})


def read_actions(data: bytes, *names: str) -> Iterator[LogAction]:
    """Read the actions of a log entry in the order of its lines.

    Parameters
    ----------
    names
        The kinds of actions that are wanted; by default all of them.

    Raises
    ------
    CorruptLogError
        A line is not a JSON object, or an action is not one.
    """
    for number, name, members in find_actions(data, *names, decode=read_json):
        if not isinstance(members, dict):
            raise CorruptLogError(f"{name} is not a JSON object", line=number)
        yield LogAction(name, members, number)


def find_actions(data: bytes, *names: str, decode: Callable[[str], Any] = json.loads) -> Iterator[tuple[int, str, Any]]:
    r"""Find actions in a log entry: the number of the line, the kind, and the value.

    Parameters
    ----------
    names
        The kinds of actions that are wanted; by default all of them.
    decode
        What reads a line of JSON.

    Raises
    ------
    CorruptLogError
        A line is not a JSON object, or an action that the protocol describes has a member of another type.

    Examples
    --------
    >>> list(find_actions(b'{"txn":{"appId":"a"}}\n{"add":{}}', "txn"))
    [(1, 'txn', {'appId': 'a'})]
    """
    marks = [f'"{name}"'.encode() for name in names]
    for number, line in enumerate(data.split(b"\n"), start=1):
        # A name may also be spelled with escapes.
        if not line.strip() or (marks and not any(mark in line for mark in (*marks, b"\\u"))):
            continue
        try:
            actions = decode(line.decode())
        except (ValueError, RecursionError) as error:
            raise CorruptLogError(f"a line is not JSON: {error}", line=number) from None
        if not isinstance(actions, dict):
            raise CorruptLogError("a line is not a JSON object", line=number)
        for name, value in actions.items():
            if value is not None and (not names or name in names):
                check_members(name, value, number)
                yield number, name, value
