"""A checker of races that shares no code with the writer: it replays the log, and reads the data files by pyarrow.

What each commit claims to have done is done to rows in plain Python, version by version. That must be what its files
hold: so the history is serial, and each acknowledged change is in it exactly once.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyroaring import BitMap64

from tests.races.pack import digest
from tests.support.serial_log import check_history
from tests.support.tally import Tally
from tests.support.vectors import z85_bytes

__all__ = ["check_race"]

_Row = tuple[int, int, str]
_Rows = dict[int, tuple[int, str]]


class _Files:
    """The rows of data files, as the log names them."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._known: dict[str, list[_Row]] = {}

    def rows(self, add: Mapping[str, Any]) -> list[_Row]:
        """Return the rows of a live file, without those that its vector deletes."""
        path = add["path"]
        if path not in self._known:
            table = pq.ParquetFile(io.BytesIO(self._read(unquote(path)))).read()
            names = table.column_names
            part = add["partitionValues"].get("part")
            parts = table.column("part").to_pylist() if "part" in names else [part] * len(table)
            ids, values = table.column("id").to_pylist(), table.column("value").to_pylist()
            self._known[path] = list(zip(ids, values, parts, strict=True))
        rows = self._known[path]
        vector = add.get("deletionVector")
        if vector is None:
            return rows
        deleted = self._positions(vector)
        return [row for position, row in enumerate(rows) if position not in deleted]

    def _positions(self, vector: Mapping[str, Any]) -> BitMap64:
        kind, text = vector["storageType"], vector["pathOrInlineDv"]
        if kind == "i":
            data = z85_bytes(text)[: vector["sizeInBytes"]]
        else:
            name = f"deletion_vector_{uuid.UUID(bytes=z85_bytes(text[-20:]))}.bin"
            prefix = text[:-20]
            offset = vector["offset"]
            whole = self._read(f"{prefix}/{name}" if prefix else name)
            (size,) = struct.unpack_from(">i", whole, offset)
            data = whole[offset + 4 : offset + 4 + size]
        return BitMap64.deserialize(data[4:])


def check_race(
    tally: Tally, commits: Mapping[int, bytes], notes: Sequence[Mapping[str, Any]], read: Callable[[str], bytes]
) -> None:
    """Compare what processes say with what the log and the files hold.

    Parameters
    ----------
    tally
        Where findings go.
    commits
        The log entries by version, all of them.
    notes
        What the processes say.
    read
        Reads a file by its path below the table.
    """
    told = {note["token"]: note for note in notes if "token" in note}
    doubtful = {note["unknown"]: note for note in notes if "unknown" in note}
    for note in notes:
        if "error" in note:
            who = f"a reader of {note['how']}" if "how" in note else note["kind"]
            tally.wrong.append(f"{who} failed: {note['error']}")
        tally.wrong += [f"{note['kind']} warned: {sentence}" for sentence in note.get("warnings", ())]
    history = check_history(commits)
    for fault in history.faults:
        (tally.doubled if "twice" in fault or "more than once" in fault else tally.wrong).append(fault)
    found = set(history.tokens)
    tally.lost += [
        f"{told[token]['kind']} of version {told[token]['version']} is gone" for token in told if token not in found
    ]
    digests = {}
    claimed = {**told, **doubtful}
    for version, info, before, after in _replay(commits, _Files(read), tally):
        digests[version] = digest((one, *values) for one, values in after.items())
        if version == 0:
            continue
        note = claimed.get(info.get("txnId"), {})
        if not note:
            tally.wrong.append(f"version {version}, {info.get('operation')}, was committed by nobody")
            continue
        if note.get("version", version) != version:
            tally.wrong.append(f"version {version} was acknowledged as {note['version']}")
        _compare(tally, f"version {version}, {note['kind']}", _applied(before, note["claim"]), after)
    for note in notes:
        if "read" in note and digests.get(note["read"]) != note["digest"]:
            tally.wrong.append(f"a reader of {note['how']} saw other rows in version {note['read']}")


def _replay(
    commits: Mapping[int, bytes], files: _Files, tally: Tally
) -> Iterator[tuple[int, Mapping[str, Any], _Rows, _Rows]]:
    """Yield each version with its provenance, and the rows before and after it."""
    live: dict[str, list[_Row]] = {}
    before: _Rows = {}
    for version in sorted(commits):
        actions = [json.loads(line) for line in commits[version].splitlines()]
        info: Any = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        after = dict(before)
        for body in (action["remove"] for action in actions if "remove" in action):
            for one, *_ in live.pop(body["path"], []):
                after.pop(one, None)
        for body in (action["add"] for action in actions if "add" in action):
            live[body["path"]] = files.rows(body)
            counted = json.loads(body["stats"])["numRecords"]
            deleted = (body.get("deletionVector") or {}).get("cardinality", 0)
            if counted - deleted != len(live[body["path"]]):
                tally.wrong.append(f"version {version} counts {counted} rows in {body['path']}")
            for one, value, part in live[body["path"]]:
                if one in after:
                    tally.doubled.append(f"version {version} adds the row {one} again")
                after[one] = (value, part)
        yield version, info, before, after
        before = after


def _applied(rows: _Rows, claim: Mapping[str, Any]) -> _Rows:
    removes, changes = claim["removes"], claim["changes"]
    parts, ids = set(removes.get("parts", ())), set(removes.get("ids", ()))
    raises = claim.get("raises", {})
    left = {
        one: (changes.get(str(one), value) + (raises["by"] if part == raises.get("part") else 0), part)
        for one, (value, part) in rows.items()
        if not (removes.get("all") or part in parts or one in ids)
        and not (part == removes.get("part") and value < removes["below"])
    }
    return {**left, **{one: (value, part) for one, value, part in claim["adds"]}}


def _compare(tally: Tally, what: str, expected: _Rows, found: _Rows) -> None:
    missing = expected.keys() - found.keys()
    if missing:
        tally.lost.append(f"{what}: {len(missing)} rows are missing, such as {min(missing)}")
    more = found.keys() - expected.keys()
    if more:
        tally.doubled.append(f"{what}: {len(more)} rows are there that must not be, such as {min(more)}")
    other = [one for one in expected.keys() & found.keys() if expected[one] != found[one]]
    if other:
        tally.wrong.append(f"{what}: {len(other)} rows have other values, such as {min(other)}")
