"""Starts the processes of a race: they fork from one that has imported everything and never used an object store.

Run with a JSON object on standard input. Each process writes a line of JSON to a file of its own for each thing that it
did, at once.

The clock of a race runs faster, so that the log and removed files outlive their retention while it is on: a second of
ours is a day. The store has a clock of its own, which may be ahead or behind.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from deltaberg.errors import CommitConflictError, CommitUnknownError
from deltaberg.storage import atomic, remote
from deltaberg.storage.atomic import sync_file
from deltaberg.storage.local import LocalStorage
from deltaberg.storage.location import parse_location
from deltaberg.storage.remote import RemoteStorage
from tests.crash.targets import Target
from tests.races.kinds import COLUMNS, KINDS, KINDS_OF_ICEBERG, Claim, Racer, Row
from tests.races.upkeep import KINDS_OF_UPKEEP
from tests.support.warm import warm_up

__all__ = ["digest", "main"]

_DAY = 86_400
#: What a race takes for the time at which it began, in milliseconds since 1970.
_BEGIN = 1_750_000_000_000
#: A racer that has not committed enough goes on, at most for so many times its turns.
_MOST_TURNS = 20
#: A racer with Spark has one turn while others have so many.
_SPARK = 8
#: For so many seconds a reader goes back to a version that it has read; the retention is longer.
_BACK = 2.5


#: What this process does, for who asks why a file was deleted.
_doing = [""]


def _start_clocks(ahead: float) -> None:
    """Let time run faster, and give files the times of a store that is so many days ahead of this machine."""
    real, begun = time.time_ns, time.time_ns()
    describe = remote._meta

    def in_race(instant: int) -> int:
        return _BEGIN * 1_000_000 + (instant - begun) * _DAY

    def of_store(instant: int) -> int:
        return in_race(instant) + int(ahead * _DAY * 1e9)

    def stamped(file: Any) -> None:
        sync_file(file)
        os.utime(file.fileno(), ns=(of_store(real()),) * 2)

    def described(item: Any) -> Any:
        found = describe(item)
        return found._replace(modified=of_store(found.modified * 1_000_000) // 1_000_000)

    time.time_ns = lambda: in_race(real())
    atomic.sync_file = stamped
    remote._meta = described


def _watch_deletions(told: dict[str, Any]) -> None:
    """Write down what is deleted and when, and have it linked elsewhere first, where the checker finds it."""
    base, archive = f"{parse_location(told['location']).path}/", told["archive"]

    def watch(kind: Any) -> None:
        delete = kind.delete_many

        def deleting(self: Any, paths: Any, deleted: Any = None) -> Any:
            names = list(paths)
            notes = _Notes(Path(told["notes"], f"deletions-{os.getpid()}.jsonl"))
            for path in (path for path in names if path.startswith(base)):
                notes.write(deleted=path[len(base) :], at=time.time_ns() // 1_000_000, by=_doing[0])
                if archive:
                    _link(path, Path(archive, path[len(base) :]))
            return delete(self, names, deleted)

        kind.delete_many = deleting

    for kind in (LocalStorage, RemoteStorage):
        watch(kind)


def _link(path: str, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, place)
    except (FileNotFoundError, FileExistsError):
        # Another process was faster.
        return


class _Notes:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, **members: Any) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(members) + "\n")


def digest(rows: Any) -> str:
    """Return what tells rows from others."""
    text = "\n".join(f"{one} {value} {part}" for one, value, part in sorted(rows))
    return hashlib.sha256(text.encode()).hexdigest()


def _target(told: dict[str, Any]) -> Target:
    return Target(told["location"], told["options"], told["kind"], told["uri"])


class _Start:
    """Holds every racer until all are ready: a session of Spark takes seconds to start."""

    def __init__(self) -> None:
        self._ready, self._told_ready = os.pipe()
        self._go, self._told_go = os.pipe()

    def wait(self) -> None:
        """Say that this racer is ready, and wait for the others."""
        os.close(self._told_go)
        os.write(self._told_ready, b".")
        os.close(self._told_ready)
        os.read(self._go, 1)

    def give(self, count: int) -> None:
        """Wait until so many racers are ready or have ended, and let them go."""
        os.close(self._told_ready)
        while count > 0:
            found = len(os.read(self._ready, count))
            count = count - found if found else 0
        os.close(self._told_go)


def _on_spark(racer: Racer) -> Any:
    """Have tasks of Spark write for a racer, and return the session."""
    from deltaberg.spark.write import row_tasks
    from tests.support.spark_session import start_session

    spark = start_session()
    row_tasks._LEAST_BYTES = 0
    racer.table = racer.table.on_spark(spark)

    def frame(rows: list[Row]) -> Any:
        return spark.createDataFrame(rows, "id bigint, value bigint, part string")

    racer.data = frame
    return spark


def _note_results(notes: _Notes, name: str, result: Any, racer: Racer) -> int:
    """Write down what was committed, and return how many commits there were."""
    results = [] if result is None else result if isinstance(result, list) else [result]
    for one in results:
        if one.committed:
            notes.write(
                kind=name,
                token=one.token,
                version=one.version,
                **({} if one.snapshot_id is None else {"snapshot": one.snapshot_id}),
                aside=one.snapshot_id in racer.aside,
                retries=one.retries,
                warnings=one.warnings,
                claim=racer.claim.to_json(),
            )
    if not results:
        notes.write(kind=name, moved_to=sorted(racer.moved_to))
        racer.moved_to.clear()
    return sum(one.committed for one in results)


def _race(told: dict[str, Any], number: int, notes: _Notes) -> None:
    racer = Racer(_target(told).open(), number + 1, told["seed"] + number)
    racer.options, racer.ahead, racer.archive = told["options"], told["ahead"], Path(told["archive"])
    spark = _on_spark(racer) if number < told["sparks"] else None
    if told["sparks"]:
        told["start"].wait()
    turns = told["turns"] if spark is None else max(1, told["turns"] // _SPARK)
    kinds = {**KINDS, **KINDS_OF_UPKEEP} if told["kind"] == "delta" else KINDS_OF_ICEBERG
    names = [name for name in kinds if name not in told["without"]]
    weights = [told["weights"].get(name, kinds[name].weight) for name in names]
    committed = turn = 0
    begun = time.monotonic()
    # On a busy machine, most of the commits may be conflicts.
    while turn < turns or (committed < told["least"] and turn < _MOST_TURNS * turns):
        turn += 1
        time.sleep(max(0.0, begun + turn * told["pace"] - time.monotonic()))
        name = _doing[0] = racer.generator.choices(names, weights)[0]
        racer.claim = Claim()
        racer.report = partial(_note_results, notes, name, racer=racer)
        if racer.generator.random() < 0.5:
            racer.table.refresh()
        try:
            result = kinds[name].run(racer)
        except CommitConflictError as error:
            notes.write(kind=name, refused=type(error).__name__)
            racer.table.refresh()
        except CommitUnknownError as error:
            notes.write(kind=name, unknown=error.context["token"], claim=racer.claim.to_json())
        except Exception as error:  # noqa: BLE001 - whatever fails is a finding
            notes.write(kind=name, error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        else:
            committed += _note_results(notes, name, result, racer)
    if spark is not None:
        spark.stop()


def _read(told: dict[str, Any], number: int, notes: _Notes) -> None:
    """Read until the race is over: the newest version, one that was read before, and by old table objects.

    It is also over when the process that began it has been killed.
    """
    generator = random.Random(told["seed"] - number)
    at = _target(told)
    stop = Path(told["stop"])
    seen: list[tuple[float, Any]] = []
    slow = at.open()
    turn, pack = 0, os.getppid()
    while not stop.exists() and os.getppid() == pack:
        turn += 1
        begun, how = time.monotonic(), "the newest"
        try:
            seen = [one for one in seen if begun - one[0] < _BACK]
            table = None
            if turn % 4 == 3 and seen and told["kind"] == "delta":
                how = "changes"
                _read_changes(at, generator.choice(seen)[1], notes)
                continue
            if turn % 3 == 0 and seen:
                how, table = "a held table", generator.choice(seen)[1]
            elif turn % 3 == 1 and seen:
                how = "time travel"
                table = _past(at, generator.choice(seen)[1])
            elif turn % 20 == 2:
                how, table = "a refresh after a while", slow.refresh()
            if table is None:
                table = at.open()
                seen.append((begun, table))
            rows = table.scan(columns=COLUMNS.names).to_arrow().to_pylist()
            notes.write(how=how, read=_moment(table), digest=digest(tuple(row.values()) for row in rows))
        except Exception as error:  # noqa: BLE001 - whatever fails is a finding
            # A process that was held up for so long may be beyond the retention itself.
            if time.monotonic() - begun > _BACK:
                notes.write(late=how)
                continue
            notes.write(how=how, error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        time.sleep(0.01)


def _read_changes(at: Target, table: Any, notes: _Notes) -> None:
    """Read the changes of the version of a table: what remains of them where rows came and went."""
    version = table.version
    if version == 0:
        return
    net = Counter[Row]()
    for row in at.open().changes(version, version, derived=True).to_arrow().to_pylist():
        one = (row["id"], row["value"], row["part"])
        net[one] += 1 if row["_change_type"] in ("insert", "update_postimage") else -1
    rows = [(one, f"{value} {count}", part) for (one, value, part), count in net.items() if count]
    notes.write(changes=version, digest=digest(rows))


def _moment(table: Any) -> int:
    """Return the version of a table, or its snapshot; 0 if it has none."""
    return int(table.version) if hasattr(table, "version") else table.snapshot_id or 0


def _past(at: Target, table: Any) -> Any:
    """Open the version or the snapshot of a table once more."""
    if hasattr(table, "version"):
        return at.open(version=table.version)
    return at.open(snapshot_id=table.snapshot_id) if table.snapshot_id else table


def _fork(work: Callable[[dict[str, Any], int, _Notes], None], told: dict[str, Any], number: int) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(told, number, _Notes(Path(told["notes"], f"{work.__name__}-{number}.jsonl")))
            code = 0
        except BaseException:  # noqa: BLE001 - the end of a process says what it was
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def main() -> int:
    """Run the processes, and end the readers when the racers are done."""
    told: dict[str, Any] = json.load(sys.stdin)
    warm_up()
    if told["kind"] != "rest":
        # The server of the catalog has a clock of its own.
        _start_clocks(told["ahead"])
    if told["kind"] == "delta":
        _watch_deletions(told)
    readers = [_fork(_read, told, number) for number in range(told["readers"])]
    # Racers wait for the end of a pipe, which readers would hold open.
    told["start"] = _Start()
    racers = [_fork(_race, told, number) for number in range(told["processes"])]
    if told["sparks"]:
        told["start"].give(len(racers))
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in racers]
    Path(told["stop"]).touch()
    codes += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in readers]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
