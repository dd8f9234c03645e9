"""A table through simulated days of streaming and maintenance: ``python -m tests.support.simulated_days TABLE …``.

Clocks of the process run ahead by the days that have passed, and files get the times at which they would have been
written. Prints a JSON document for each day.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaberg import DeltaTable, create_table
from deltaberg.delta.after_commit import log_cleanup
from deltaberg.delta.maintain.cleaning import vacuum_candidates
from tests.support.memory import peak_memory

__all__: list[str] = []

_DAY = 86_400
_REAL = time.time_ns
_COLUMNS = pa.schema([("id", pa.int64()), ("text", pa.string())])


class _Days:
    """The days that have passed."""

    def __init__(self) -> None:
        self.count = 0
        self._begun = _REAL()

    def now(self) -> int:
        """Return the simulated time in nanoseconds since 1970."""
        return _REAL() + self.count * _DAY * 10**9

    def date(self, root: Path) -> None:
        """Give the files of the day that ends its times."""
        for path in root.rglob("*"):
            found = path.stat().st_mtime_ns
            # Those of earlier days are ahead of the real clock already.
            if path.is_file() and found <= _REAL():
                os.utime(path, ns=(found + self.count * _DAY * 10**9,) * 2)
        self.count += 1


def _live(root: Path, days: int, commits: int, log_days: int, file_days: int) -> None:
    passed = _Days()
    time.time_ns = passed.now
    for module in (log_cleanup, vacuum_candidates):
        module.earlier_clock = lambda *_: passed.now() // 10**6  # type: ignore[attr-defined]
    properties = {
        "delta.logRetentionDuration": f"interval {log_days} days",
        "delta.deletedFileRetentionDuration": f"interval {file_days} days",
        "delta.enableDeletionVectors": "true",
    }
    table: Any = create_table(root, _COLUMNS, properties=properties)
    for day in range(days):
        first = day * commits
        for number in range(first, first + commits - 1):
            table.append(pa.table({"id": [number], "text": [f"event {number}"]}), txn=("stream", number))
        # One row of the day goes.
        table.delete(f"id = {first}")
        done = table.maintain(dry_run=False)
        passed.date(root)
        begun = time.perf_counter()
        opened = DeltaTable(root)
        rows, least = opened.scan().count(), opened.scan(limit=1).to_arrow()["id"].to_pylist()
        seconds = time.perf_counter() - begun
        log = list((root / "_delta_log").glob("*.json"))
        said = {
            "rows": rows,
            "is_read": bool(least),
            "open_seconds": seconds,
            "log_files": len(log),
            "checkpoints": len(list((root / "_delta_log").glob("*.checkpoint*"))),
            "checkpoint_bytes": 0 if opened.base_checkpoint is None else opened.base_checkpoint.size,
            "live_files": len(opened.live_files),
            "data_files": len(list(root.glob("*.parquet"))),
            "memory": peak_memory(),
            "progress": opened.transactions["stream"].version,
            "due": [one.step for one in done.steps if one.is_due],
        }
        print(json.dumps(said), flush=True)
    ids = DeltaTable(root).scan().to_arrow()["id"].to_pylist()
    wanted = [number for number in range(days * commits) if number % commits not in (0, commits - 1)]
    assert sorted(ids) == wanted
    assert not DeltaTable(root).verify().findings


if __name__ == "__main__":
    _live(Path(sys.argv[1]), *map(int, sys.argv[2:]))
