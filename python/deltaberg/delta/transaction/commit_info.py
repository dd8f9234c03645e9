"""The provenance of a commit (Delta protocol, "Commit Provenance Information")."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltaberg._version import __version__
from deltaberg.delta.actions.log_action import LogAction

__all__ = ["OPERATIONS", "SEVERAL", "Attempt", "Provenance", "together"]

#: Operations as the history names them that no single name fits.
_NONE, SEVERAL = "Manual Update", "TRANSACTION"
#: The parameter that lists the operations of a commit of several ones.
OPERATIONS = "operations"


@dataclass(frozen=True)
class Attempt:
    """The circumstances of one attempt to commit.

    Parameters
    ----------
    now
        The time in milliseconds since 1970.
    parent_time
        The in-commit timestamp of the newest version; None where it has none.
    read_version
        The version that the change was planned on; None for a new table.
    isolation
        The isolation level by its name.
    is_blind_append
        Whether the change only adds files, and has read none.
    token
        What tells the commit from all others.
    """

    now: int
    token: str
    parent_time: int | None = None
    read_version: int | None = None
    isolation: str = "Serializable"
    is_blind_append: bool = False


@dataclass(frozen=True)
class Provenance:
    """Which operation a commit comes from.

    Parameters
    ----------
    operation
        The operation by the name that the reference implementation gives it, such as ``WRITE``.
    parameters
        Its parameters. Values that are not text are recorded as JSON text, as other engines do.
    metrics
        What it did, in numbers.
    user_metadata
        Text of the user.
    custom
        Further members, which never take the place of those that the library itself records.
    """

    operation: str
    parameters: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    custom: Mapping[str, Any] = field(default_factory=dict)

    def action(self, attempt: Attempt, in_commit_timestamp: int | None, tags: Mapping[str, str]) -> LogAction:
        """Return the ``commitInfo`` action.

        Parameters
        ----------
        in_commit_timestamp
            The time that counts where the table has in-commit timestamps, in milliseconds since 1970.
        """
        members: dict[str, Any] = {
            "inCommitTimestamp": in_commit_timestamp,
            "timestamp": attempt.now if in_commit_timestamp is None else in_commit_timestamp,
            "operation": self.operation,
            "operationParameters": dict(self.parameters),
            "readVersion": attempt.read_version,
            "isolationLevel": attempt.isolation,
            "isBlindAppend": attempt.is_blind_append,
            "operationMetrics": {name: str(value) for name, value in self.metrics.items()},
            "engineInfo": f"deltaberg/{__version__}",
            "txnId": attempt.token,
            "userMetadata": self.user_metadata,
            "tags": dict(tags) or None,
        }
        known = {name: value for name, value in members.items() if value is not None}
        return LogAction(
            "commitInfo", {**{name: self.custom[name] for name in self.custom if name not in members}, **known}
        )


def together(operations: Sequence[Provenance]) -> Provenance:
    """Return the provenance of several operations that become one commit.

    Examples
    --------
    >>> together([Provenance("WRITE", {"mode": "Append"})]).parameters
    {'mode': 'Append'}
    >>> together([Provenance("WRITE"), Provenance("DELETE", {"predicate": "id = 1"})]).parameters["operations"]
    '[{"operation": "WRITE"}, {"operation": "DELETE", "predicate": "id = 1"}]'
    """
    if len(operations) == 1:
        return operations[0]
    names = {one.operation for one in operations}
    metrics: Counter[str] = Counter()
    for one in operations:
        metrics.update(one.metrics)
    if not operations:
        return Provenance(_NONE)
    listed = [{"operation": one.operation, **one.parameters} for one in operations]
    text = json.dumps(listed, ensure_ascii=False)
    return Provenance(names.pop() if len(names) == 1 else SEVERAL, {OPERATIONS: text}, dict(metrics))
