"""What log entries of Delta tables hold, read with the standard library alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["actions_at", "named_actions"]


def actions_at(root: Path, version: int) -> list[dict[str, Any]]:
    """Return the actions of a version, each with its name as the only key."""
    text = (root / "_delta_log" / f"{version:020d}.json").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def named_actions(root: Path, version: int, name: str) -> list[dict[str, Any]]:
    """Return the members of all actions of a version that have a name."""
    return [action[name] for action in actions_at(root, version) if name in action]
