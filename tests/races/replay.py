"""A checker of races that shares no code with the writer: it replays the history, and reads the data files by pyarrow.

What each commit claims to have done is done to rows in plain Python, version by version. That must be what its files
hold: so the history is serial, and each acknowledged change is in it exactly once.
"""

from __future__ import annotations

import io
import json
import posixpath
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyroaring import BitMap64

from tests.races.kinds import COLUMNS, Claim
from tests.races.pack import digest
from tests.support.serial_log import check_history
from tests.support.snapshot_log import Replay, check_snapshots
from tests.support.tally import Tally
from tests.support.vectors import vector_file, z85_bytes

__all__ = ["check_race", "check_snapshot_race"]

_Row = tuple[int, int, str]
_Rows = dict[int, tuple[int, str]]
#: What vacuums commit, and drops of features that are refused in the end, of which nobody knows the token.
_WITHOUT_CHANGES = ("VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "REORG", "Empty Commit")


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
            of_file: dict[str, Any] = dict(add["partitionValues"])
            if (value := of_file.get("value")) is not None:
                of_file["value"] = int(value)
            there = set(table.column_names)
            columns = (
                table.column(name).to_pylist() if name in there else [of_file.get(name)] * len(table)
                for name in COLUMNS.names
            )
            self._known[path] = list(zip(*columns, strict=True))
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
            offset = vector["offset"]
            whole = self._read(vector_file(vector))
            (size,) = struct.unpack_from(">i", whole, offset)
            data = whole[offset + 4 : offset + 4 + size]
        return BitMap64.deserialize(data[4:])


class _Step(NamedTuple):
    """A commit: its version or snapshot, its token and operation, and the rows before and after it."""

    moment: int
    token: str | None
    operation: str | None
    before: _Rows
    after: _Rows


def check_race(
    tally: Tally, commits: Mapping[int, bytes], notes: Sequence[Mapping[str, Any]], read: Callable[[str], bytes]
) -> None:
    """Compare what processes say with what the log and the files of a Delta table hold.

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
    history = check_history(commits)
    _check_notes(tally, notes, history.faults, set(history.tokens))
    digests = _check_steps(tally, notes, _replay(commits, _Files(read), tally))
    _check_reads(tally, notes, digests)


def check_snapshot_race(
    tally: Tally,
    metadata: Mapping[str, Any],
    notes: Sequence[Mapping[str, Any]],
    files: Mapping[str, Callable[[], bytes]],
) -> None:
    """Compare what processes say with what the newest metadata and the files of an Iceberg table hold.

    Parameters
    ----------
    metadata
        The newest metadata, of which no snapshot was expired.
    files
        What reads the files of the table.
    """
    replay = check_snapshots(metadata, files)
    tokens = {str(number) for number in replay.live}
    properties = metadata["properties"]
    tokens |= {note["token"] for note in notes if note.get("claim", {}).get("sets") in properties and "token" in note}
    _check_notes(tally, notes, replay.faults, tokens)
    _check_main(tally, metadata, notes, replay)
    # A table without snapshots has no rows.
    digests = {0: digest(()), **_check_steps(tally, notes, _replay_snapshots(metadata, replay, files, tally))}
    _check_reads(tally, notes, digests)


def _check_main(tally: Tally, metadata: Mapping[str, Any], notes: Sequence[Mapping[str, Any]], replay: Replay) -> None:
    """Check that main has what was committed to it, and what was published, picked, or made its newest snapshot."""
    main, at = set(), metadata.get("current-snapshot-id")
    while at in replay.parents:
        main.add(at)
        at = replay.parents[at]
    for note in notes:
        of_main = [] if note.get("aside", True) or note["token"] != str(note.get("snapshot")) else [note["snapshot"]]
        for snapshot in {*of_main, *note.get("moved_to", ())} - main:
            tally.lost.append(f"{note['kind']}: main does not lead to the snapshot {snapshot}")


def _check_notes(tally: Tally, notes: Sequence[Mapping[str, Any]], faults: Sequence[str], tokens: set[str]) -> None:
    for note in notes:
        if "error" in note:
            who = f"a reader of {note['how']}" if "how" in note else note["kind"]
            tally.wrong.append(f"{who} failed: {note['error']}")
        tally.wrong += [f"{note['kind']} warned: {sentence}" for sentence in note.get("warnings", ())]
        if "token" in note and note["token"] not in tokens:
            tally.lost.append(f"{note['kind']} of version {note['version']} is gone")
    for fault in faults:
        (tally.doubled if "twice" in fault or "more than once" in fault else tally.wrong).append(fault)


def _check_steps(tally: Tally, notes: Sequence[Mapping[str, Any]], steps: Iterable[_Step]) -> dict[int, str]:
    """Compare what each commit claims with what it did; return what tells the rows of each moment from others."""
    told = {note["token"]: note for note in notes if "token" in note}
    doubtful = {note["unknown"]: note for note in notes if "unknown" in note}
    claimed = {**told, **doubtful}
    digests = {}
    states: dict[int, _Rows] = {}
    for step in steps:
        digests[step.moment] = digest((one, *values) for one, values in step.after.items())
        states[step.moment] = step.after
        if step.moment == 0:
            continue
        note = claimed.get(step.token, {})
        what = f"version {step.moment}"
        if step.operation in _WITHOUT_CHANGES:
            note = note or {"kind": step.operation, "claim": Claim().to_json()}
        if not note:
            tally.wrong.append(f"{what}, {step.operation}, was committed by nobody")
            continue
        if "version" in note and note.get("snapshot", note["version"]) != step.moment:
            tally.wrong.append(f"{what} was acknowledged as {note['version']}")
        restored = note["claim"].get("restores")
        expected = _applied(step.before, note["claim"]) if restored is None else states[restored]
        _compare(tally, f"{what}, {note['kind']}", expected, step.after)
    _check_changes(tally, notes, states)
    return digests


def _check_changes(tally: Tally, notes: Sequence[Mapping[str, Any]], known: Mapping[int, _Rows]) -> None:
    """Compare the changes of versions that readers saw with the rows before and after."""
    for note in (note for note in notes if "changes" in note):
        before, after = (known[note["changes"] - number].items() for number in (1, 0))
        net = [
            (one, f"{value} {1 if (one, (value, part)) in after else -1}", part)
            for one, (value, part) in before ^ after
        ]
        if digest(net) != note["digest"]:
            tally.wrong.append(f"a reader saw other changes of version {note['changes']}")


def _check_reads(tally: Tally, notes: Sequence[Mapping[str, Any]], digests: Mapping[int, str]) -> None:
    for note in notes:
        if "read" in note and digests.get(note["read"]) != note["digest"]:
            tally.wrong.append(f"a reader of {note['how']} saw other rows in version {note['read']}")


def _replay_snapshots(
    metadata: Mapping[str, Any], replay: Replay, files: Mapping[str, Callable[[], bytes]], tally: Tally
) -> Iterator[_Step]:
    """Yield each snapshot with the rows before and after it."""
    read = {posixpath.basename(name): found for name, found in files.items()}
    rows_of: dict[str, list[_Row]] = {}
    rows: dict[int | None, _Rows] = {None: {}}
    operations = {one["snapshot-id"]: one["summary"]["operation"] for one in metadata["snapshots"]}
    for number, live in replay.live.items():
        after: _Rows = {}
        for path in live:
            if path not in rows_of:
                table = pq.ParquetFile(io.BytesIO(read[posixpath.basename(path)]())).read(["id", "value", "part"])
                rows_of[path] = [tuple(row.values()) for row in table.to_pylist()]
            deleted = replay.deleted[number][path]
            for position, (one, value, part) in enumerate(rows_of[path]):
                if position in deleted:
                    continue
                if one in after:
                    tally.doubled.append(f"snapshot {number} holds the row {one} twice")
                after[one] = (value, part)
        rows[number] = after
        yield _Step(number, str(number), operations[number], rows[replay.parents[number]], after)


def _replay(commits: Mapping[int, bytes], files: _Files, tally: Tally) -> Iterator[_Step]:
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
        yield _Step(version, info.get("txnId"), info.get("operation"), before, after)
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


def _compare(tally: Tally, what: str, expected: _Rows, actual: _Rows) -> None:
    missing = expected.keys() - actual.keys()
    if missing:
        tally.lost.append(f"{what}: {len(missing)} rows are missing, such as {min(missing)}")
    more = actual.keys() - expected.keys()
    if more:
        tally.doubled.append(f"{what}: {len(more)} rows are there that must not be, such as {min(more)}")
    other = [one for one in expected.keys() & actual.keys() if expected[one] != actual[one]]
    if other:
        tally.wrong.append(f"{what}: {len(other)} rows have other values, such as {min(other)}")
