"""What deltalake's ``CommitProperties`` and ``PostCommitHookProperties`` say of a commit.

The objects are recognized by their attributes, so that deltalake need not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.table import ClockedPolicy

__all__ = ["CommitWords"]

#: Members of ``commitInfo`` that only the library itself records.
_RESERVED = frozenset(
    {
        *("inCommitTimestamp", "timestamp", "operation", "operationParameters", "readVersion", "isolationLevel"),
        *("isBlindAppend", "operationMetrics", "engineInfo", "txnId", "tags"),
    }
)
_USER_METADATA = "userMetadata"
#: Members that delta-spark knows: it cannot read a commit that has another type in their place.
_TYPES: dict[str, tuple[type, str]] = {
    **dict.fromkeys((_USER_METADATA, "userId", "userName", "clusterId"), (str, "text")),
    **dict.fromkeys(("job", "notebook"), (dict, "an object")),
    "version": (int, "a whole number"),
}


@dataclass(frozen=True)
class CommitWords:
    """What a commit records beside its changes, and how often it is tried.

    Parameters
    ----------
    custom
        Further members of ``commitInfo``.
    retries
        How often the commit is prepared again after others; None for the default.
    progress
        Applications and the versions of their progress. They are recorded whatever was recorded before.
    """

    custom: Mapping[str, Any] = field(default_factory=dict)
    retries: int | None = None
    progress: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, commit: Any = None, hooks: Any = None, properties: Mapping[str, Any] | None = None) -> CommitWords:
        """Return what objects of deltalake say, and further members; None stands for the defaults.

        Raises
        ------
        InvalidArgumentError
            An object is of another kind, or holds what cannot be recorded.
        UnsupportedFeatureError
            The steps after the commit are to be left out.
        """
        if hooks is not None:
            _check_hooks(hooks)
        names = ("custom_metadata", "max_commit_retries", "app_transactions")
        if commit is not None and not all(hasattr(commit, name) for name in names):
            raise InvalidArgumentError(
                f"commit_properties is of the type {type(commit).__name__}",
                hint="pass CommitProperties of deltalake, or txn and user_metadata",
            )
        custom = {**(getattr(commit, "custom_metadata", None) or {}), **(properties or {})}
        taken = sorted(_RESERVED & custom.keys())
        if taken:
            raise InvalidArgumentError(
                f"{taken[0]} is recorded by the library itself", hint="choose another name for it"
            )
        try:
            json.dumps(custom, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"the custom metadata is not JSON: {error}", hint="pass plain values") from error
        for name, (kind, what) in _TYPES.items():
            if name in custom and (not isinstance(custom[name], kind) or isinstance(custom[name], bool)):
                raise InvalidArgumentError(f"{name} is not {what}", hint=f"pass {what}, or choose another name")
        progress = tuple((one.app_id, one.version) for one in getattr(commit, "app_transactions", None) or ())
        return cls(custom, getattr(commit, "max_commit_retries", None), progress)

    @property
    def policy(self) -> ClockedPolicy | None:
        """How long the commit is tried; None for the default."""
        return None if self.retries is None else ClockedPolicy(retries=self.retries)

    def user_metadata(self, given: str | None) -> str | None:
        """Return the text that the history keeps: what the caller passes, else that of the properties."""
        return given if given is not None else self.custom.get(_USER_METADATA)


def _check_hooks(hooks: Any) -> None:
    if not all(hasattr(hooks, name) for name in ("create_checkpoint", "cleanup_expired_logs")):
        raise InvalidArgumentError(
            f"post_commithook_properties is of the type {type(hooks).__name__}",
            hint="pass PostCommitHookProperties of deltalake, or leave it out",
        )
    if not hooks.create_checkpoint or hooks.cleanup_expired_logs is not None:
        raise UnsupportedFeatureError(
            "what follows a commit is chosen by properties of the table alone",
            hint="set delta.checkpointInterval and delta.enableExpiredLogCleanup",
        )
