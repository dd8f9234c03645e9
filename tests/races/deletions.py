"""Checks that nothing was deleted that a version needed which is younger than the retention."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from tests.races.upkeep import EARLY, RETENTION
from tests.support.tally import Tally
from tests.support.vectors import vector_file

__all__ = ["check_deletions", "needed_files"]

_DAY = 86_400_000


def check_deletions(
    tally: Tally, commits: Mapping[int, bytes], times: Mapping[int, int], notes: Sequence[Mapping[str, Any]]
) -> int:
    """Compare when files were deleted with when versions ceased to need them; return how many vacuums have taken.

    Parameters
    ----------
    commits
        The log entries by version, all of them.
    times
        When each was committed, by the clock of this machine.
    notes
        What was written down of deletions.
    """
    ends = _ends(commits, times)
    deleted = set()
    for note in notes:
        path = note.get("deleted", "_delta_log/")
        if path.startswith("_delta_log/"):
            continue
        retention = (EARLY if note["by"] == "vacuum early" else RETENTION) * _DAY
        for end in ends.get(path, ()):
            if end is None or end + retention > note["at"]:
                age = "and is live" if end is None else f"{(note['at'] - end) / _DAY:.2f} days after the last version"
                tally.lost.append(f"{note['by']} deleted {path}, {age}")
        if "vacuum" in note["by"]:
            deleted.add(path)
    return len(deleted)


def needed_files(commits: Mapping[int, bytes]) -> set[str]:
    """Return the paths of the files of the newest version."""
    return {path for path, ends in _ends(commits, {}).items() if None in ends}


def _ends(commits: Mapping[int, bytes], times: Mapping[int, int]) -> dict[str, list[int | None]]:
    """Return when versions ceased to need each file, each time it was added; None where the newest one needs it."""
    ends: dict[str, list[int | None]] = {}
    live: dict[str, list[tuple[str, int]]] = {}
    for version in sorted(commits):
        at = times.get(version, 0)
        bodies = [next(iter(json.loads(line).items())) for line in commits[version].splitlines()]
        for body in (body for kind, body in bodies if kind == "remove"):
            for path, number in live.pop(body["path"], ()):
                ends[path][number] = at
        for body in (body for kind, body in bodies if kind == "add"):
            live[body["path"]] = list(_begin(ends, body))
        for body in (body for kind, body in bodies if kind == "cdc"):
            ends.setdefault(unquote(body["path"]), []).append(at)
    return ends


def _begin(ends: dict[str, list[int | None]], add: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Note that versions need the files of an action, and yield them with their numbers there."""
    vector = add.get("deletionVector") or {}
    for path in (unquote(add["path"]), *([vector_file(vector)] if vector.get("storageType") == "u" else [])):
        ends.setdefault(path, []).append(None)
        yield path, len(ends[path]) - 1
