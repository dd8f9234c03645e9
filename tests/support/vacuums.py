"""Tables to vacuum, and the clock by which a vacuum counts ages."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import deltaberg
from deltaberg import CleanupResult, DeltaTable
from tests.support.rows import ids

__all__ = ["DAY", "FEED", "MANY", "VECTORS", "Clock", "age", "every_kind", "files", "new_table", "paths", "statuses"]

#: Seconds of a day.
DAY = 86_400.0
VECTORS = {"delta.enableDeletionVectors": "true"}
#: So many rows that the vector of every second one is in a file of its own.
MANY = ids(*range(3000))
FEED = {"delta.enableChangeDataFeed": "true"}


class Clock:
    """The clock by which a vacuum counts ages."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self, *_: object) -> int:
        return int((time.time() + self.ahead) * 1000)


def new_table(root: Path, **properties: str) -> DeltaTable:
    """Create a table of ids."""
    made: DeltaTable = deltaberg.create_table(str(root), ids().schema, properties=properties)
    return made


def paths(result: CleanupResult) -> set[str]:
    """Return the paths of the files that a vacuum deleted."""
    return set(result.files.column("path").to_pylist())


def files(root: Path) -> set[str]:
    """Return all files of a table beside those of its log."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith("_delta_log/")}


def age(path: Path, days: float) -> None:
    """Make a file some days old."""
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def every_kind(root: Path) -> DeltaTable:
    """Create a table with files of every kind, of which one is live."""
    table = new_table(root, **VECTORS, **FEED)
    table.append(MANY)
    table.delete("id % 2 = 1", strategy="merge-on-read")
    table.update({"id": "id + 10"}, "id = 2", strategy="copy-on-write")
    table.overwrite(ids(7))
    (root / "orphan.parquet").write_bytes(b"xyz")
    (root / "_hidden").write_bytes(b"")
    return table


def statuses(table: DeltaTable) -> list[tuple[str | None, Any, Any]]:
    """Return the operation, the status and the metrics of the two newest commits."""
    return [
        (commit.operation, commit.info["operationParameters"].get("status"), commit.info.get("operationMetrics"))
        for commit in table.history(2)
    ]
