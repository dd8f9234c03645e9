"""The names of the commands."""

from __future__ import annotations

__all__ = ["COMMANDS"]

#: The module that defines each command under the command's name. It is imported when the command is needed.
COMMANDS = {
    "inspect": "inspect",
    "schema": "inspect",
    "history": "inspect",
    "files": "scan",
    "plan": "scan",
    "count": "scan",
    "head": "scan",
    "changes": "scan",
    "tail": "scan",
    "metadata": "scan",
    "create": "create",
    "append": "change_rows",
    "overwrite": "change_rows",
    "delete": "change_rows",
    "update": "change_rows",
    "upsert": "change_rows",
    "merge": "change_rows",
    "convert": "create",
    "alter": "alter",
    "publish": "refs",
    "cherry-pick": "refs",
    "checkpoint": "maintain",
    "generate": "maintain",
    "compact": "maintain",
    "compact-log": "maintain",
    "reorg": "maintain",
    "rewrite-manifests": "maintain",
    "copy-plan": "clone",
    "stats": "statistics",
    "drop-feature": "maintain",
    "maintain": "maintain",
    "vacuum": "clean_up",
    "expire": "clean_up",
    "orphans": "clean_up",
    "drop-table": "clean_up",
    "rewrite-deletes": "rewrite_deletes",
    "restore": "restore",
    "clone": "clone",
    "verify": "verify",
    "repair": "verify",
}
