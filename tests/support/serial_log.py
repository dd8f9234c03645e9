"""A checker of histories that shares no code with the writer.

It reads a log as the protocol says, and believes nothing. It replays the JSON of all commits from version 0, oldest
first, and says what is live, which commits there are, and what is wrong with them.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["History", "check_history", "read_folder", "read_objects"]

_COMMIT = re.compile(r"(\d{20})\.json")
_VECTORS = re.compile(r"(?:.*/)?deletion_vector_[0-9a-f-]{36}\.bin")


@dataclass
class History:
    """What a log says.

    Parameters
    ----------
    tokens
        The ``txnId`` of each commit that has one, in the order of versions.
    live
        The paths of live files.
    added
        How often each path was added, over all versions.
    row_ids
        The ranges (first, behind the last) of row ids of live files.
    faults
        What is wrong, a sentence each.
    """

    tokens: list[str] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    added: dict[str, int] = field(default_factory=dict)
    row_ids: dict[str, tuple[int, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def read_folder(root: Path, log: str = "_delta_log") -> dict[int, bytes]:
    """Read the commits of a table in a local folder."""
    found = ((_COMMIT.fullmatch(path.name), path) for path in (root / log).iterdir())
    return {int(match[1]): path.read_bytes() for match, path in found if match}


def read_objects(names: Mapping[str, Callable[[], bytes]]) -> dict[int, bytes]:
    """Read the commits among objects, given by name as what reads them."""
    found = ((_COMMIT.fullmatch(name.rpartition("/")[2]), read) for name, read in names.items())
    return {int(match[1]): read() for match, read in found if match}


def check_history(commits: Mapping[int, bytes]) -> History:
    """Replay a log."""
    history = History()
    if sorted(commits) != list(range(len(commits))):
        history.faults.append(f"the versions are {sorted(commits)}")
    last_time = -1
    for version in sorted(commits):
        actions = [json.loads(line) for line in commits[version].splitlines()]
        if any(len(action) != 1 for action in actions):
            history.faults.append(f"version {version} has a line that is not one action")
        _check_commit(history, version, [next(iter(action.items())) for action in actions])
        info: Any = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        if "txnId" in info:
            history.tokens.append(info["txnId"])
        if "readVersion" in info and info["readVersion"] >= version:
            history.faults.append(f"version {version} says that it read version {info['readVersion']}")
        time = info.get("inCommitTimestamp", last_time + 1)
        if time <= last_time:
            history.faults.append(f"version {version} is not later than the one before")
        last_time = time
    repeated = {token for token in history.tokens if history.tokens.count(token) > 1}
    history.faults += [f"the commit {token} is there more than once" for token in sorted(repeated)]
    _check_row_ids(history)
    return history


def _check_commit(history: History, version: int, actions: list[tuple[str, Any]]) -> None:
    adds = [body for name, body in actions if name == "add"]
    removes = [body for name, body in actions if name == "remove"]
    for kind, bodies in (("added", adds), ("removed", removes)):
        paths = [body["path"] for body in bodies]
        history.faults += [f"version {version} has {kind} {path} twice" for path in set(paths) if paths.count(path) > 1]
    for body in removes:
        # Whoever drops deletion vectors has a remove name their files, so that other clients' vacuum keeps them.
        names_vectors = body.get("dataChange") is False and _VECTORS.fullmatch(body["path"]) is not None
        if body["path"] not in history.live and not names_vectors:
            history.faults.append(f"version {version} removes {body['path']}, which is not live")
        history.live.discard(body["path"])
        history.row_ids.pop(body["path"], None)
    for body in adds:
        history.live.add(body["path"])
        history.added[body["path"]] = history.added.get(body["path"], 0) + 1
        if body.get("baseRowId") is not None:
            rows = json.loads(body["stats"])["numRecords"]
            history.row_ids[body["path"]] = (body["baseRowId"], body["baseRowId"] + rows)


def _check_row_ids(history: History) -> None:
    ranges = sorted(history.row_ids.values())
    for (_, end), (begin, _) in itertools.pairwise(ranges):
        if begin < end:
            history.faults.append(f"row id {begin} is given twice")
