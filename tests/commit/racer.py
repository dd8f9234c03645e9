"""A process of the races: it appends, replaces its own files and records progress, and says what was acknowledged.

Run with a JSON object on standard input. Each acknowledged commit is a line of JSON on standard output, at once, so
that it counts even where the process is killed afterwards.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from deltaberg import CommitPolicy, DeltaTable
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.errors import CommitConflictError

__all__ = ["main"]


def _add(name: str, rows: int) -> LogAction:
    members = {
        "path": name,
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows}),
    }
    return LogAction("add", members)


def main() -> None:
    """Commit as often as told."""
    told: dict[str, Any] = json.load(sys.stdin)
    generator = random.Random(told["seed"])
    table = DeltaTable(told["location"], storage_options=told["options"])
    mine: list[str] = []
    for number in range(told["commits"]):
        kind = generator.choice(["append", "append", "replace", "progress"])
        name = f"{told['name']}-{number}.parquet"
        transaction = table.transaction(policy=CommitPolicy(pause=0.002, longest_pause=0.1))
        transaction.add_actions([_add(name, generator.randrange(1, 9))])
        removed = generator.choice(mine) if kind == "replace" and mine else None
        if removed is not None:
            live = transaction.snapshot.live.table
            transaction.remove_files(live.take([live.column("path").to_pylist().index(removed)]))
        if kind == "progress":
            transaction.set_transaction(told["name"], number)
        try:
            result = transaction.commit(kind.upper())
        except CommitConflictError as error:
            # Nobody else touches these files, this application or the metadata.
            print(json.dumps({"error": str(error)}), flush=True)
            return
        mine.append(name)
        if removed is not None:
            mine.remove(removed)
        acknowledged = {"token": result.token, "version": result.version, "add": name, "retries": result.retries}
        print(json.dumps(acknowledged), flush=True)


if __name__ == "__main__":
    main()
