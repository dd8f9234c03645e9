"""Members of ``commitInfo`` that callers choose, and what deltalake's ``PostCommitHookProperties`` say of a commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.hints import at_fault
from deltaberg.table.arguments import has_attributes, refuse_recorded

__all__ = ["USER_METADATA", "check_hooks", "checked_members"]

#: Members of ``commitInfo`` that only the library itself records.
_RESERVED = frozenset(
    {
        *("inCommitTimestamp", "timestamp", "operation", "operationParameters", "readVersion", "isolationLevel"),
        *("isBlindAppend", "operationMetrics", "engineInfo", "txnId", "tags"),
    }
)
#: The member that keeps text of the user.
USER_METADATA = "userMetadata"
#: Members that delta-spark knows: it cannot read a commit that has another type in their place.
_TYPES: dict[str, tuple[type, str]] = {
    **dict.fromkeys((USER_METADATA, "userId", "userName", "clusterId"), (str, "text")),
    **dict.fromkeys(("job", "notebook"), (dict, "an object")),
    "version": (int, "a whole number"),
}


def checked_members(properties: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return further members of ``commitInfo``; None stands for none.

    Raises
    ------
    InvalidArgumentError
        One cannot be recorded.
    """
    members = properties or {}
    refuse_recorded(_RESERVED & members.keys())
    try:
        json.dumps(members, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the custom metadata is not JSON: {error}", hint="pass plain values") from error
    for name, (kind, what) in _TYPES.items():
        if name in members and (not isinstance(members[name], kind) or isinstance(members[name], bool)):
            raise InvalidArgumentError(f"{name} is not {what}", hint=f"pass {what}, or choose another name")
    return members


def check_hooks(hooks: Any) -> None:
    """Refuse steps after a commit that are chosen for it alone.

    Raises
    ------
    InvalidArgumentError
        The object is of another kind. It is known by its attributes, so that deltalake need not be installed.
    UnsupportedFeatureError
        The steps are not those that follow every commit.
    """
    if hooks is None:
        return
    if not has_attributes(hooks, "create_checkpoint", "cleanup_expired_logs"):
        raise InvalidArgumentError(
            at_fault("post_commithook_properties", f"is of the type {type(hooks).__name__}"),
            hint="pass PostCommitHookProperties of deltalake, or leave it out",
        )
    if not hooks.create_checkpoint or hooks.cleanup_expired_logs is not None:
        raise UnsupportedFeatureError(
            "what follows a commit is chosen by properties of the table alone",
            hint="set delta.checkpointInterval and delta.enableExpiredLogCleanup",
        )
