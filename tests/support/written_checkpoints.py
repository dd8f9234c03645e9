"""What checkpoints hold that the package wrote, read with pyarrow and the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["actions_in", "forget_before", "of_kind", "state_of"]

#: Members that are maps, which pyarrow gives as pairs.
_MAPS = ("partitionValues", "tags", "configuration", "options")


def actions_in(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the actions of a checkpoint or sidecar: for each row its only column that is not null, and its members.

    A row with no action, or with more than one, fails.
    """
    if path.suffix == ".json":
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    else:
        rows = pq.ParquetFile(path).read().to_pylist()
    actions = []
    for row in rows:
        present = {name: members for name, members in row.items() if members is not None}
        assert len(present) == 1, f"{path.name} has a row with {sorted(present)}"
        ((name, members),) = present.items()
        actions.append((name, _without_nulls(members)))
    return actions


def _without_nulls(members: dict[str, Any]) -> dict[str, Any]:
    return {
        name: dict(value)
        if name in _MAPS and isinstance(value, list)
        else _without_nulls(value)
        if isinstance(value, dict)
        else value
        for name, value in members.items()
        if value is not None
    }


def of_kind(actions: Iterable[tuple[str, dict[str, Any]]], kind: str) -> list[dict[str, Any]]:
    """Return the members of all actions of one kind."""
    return [members for name, members in actions if name == kind]


def forget_before(log: Path, version: int, *keep: str) -> None:
    """Delete every log entry, checkpoint and compaction that ends before a version, except the files named."""
    for path in log.iterdir():
        if path.is_file() and path.name[:1].isdigit() and path.name not in keep and int(path.name[:20]) < version:
            path.unlink()


def state_of(table: Any) -> dict[str, Any]:
    """Return all that a table's log says about its newest version, in a form that can be compared."""
    return {
        "version": table.version,
        "protocol": table.protocol,
        "metadata": table.metadata,
        "transactions": table.transactions,
        "domains": table.domain_metadata,
        "files": sorted(map(repr, table.live_files.to_pylist())),
    }
