"""What a commit says about itself (Delta protocol, "Commit Provenance Information")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg._version import __version__
from deltaberg.delta.actions.log_action import LogAction

__all__ = ["Attempt", "Provenance"]


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
        Its parameters. Values that are no text are recorded as JSON text, as other engines do.
    metrics
        What it did, in numbers.
    user_metadata
        Text of the user.
    """

    operation: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None

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
        return LogAction("commitInfo", {name: value for name, value in members.items() if value is not None})
