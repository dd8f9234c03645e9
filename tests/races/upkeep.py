"""What the processes of the races do to keep a Delta table in order, and restores, which bring removed files back."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from deltaberg import CleanupResult
from deltaberg.errors import CommitConflictError, DataFileNotFoundError, InvalidArgumentError, VersionNotFoundError
from tests.races.kinds import COLUMNS, Claim, Kind, Racer
from tests.support.serial_log import read_folder

__all__ = ["EARLY", "KINDS_OF_UPKEEP", "OFTEN", "RETENTION"]

_DAY = 86_400_000
#: For how many days the table keeps removed files, and a vacuum that is asked to take them earlier. Readers go back for
#: less than half of either.
RETENTION, EARLY = 8, 6
#: For how many days a restore goes back at most.
_BACK = 1
#: In so many hours all writers commit what they have written, however busy the machine is.
_WRITING = 24 * 200


def _vacuum(racer: Racer, **more: Any) -> None:
    _check(racer.table.vacuum(dry_run=False, untracked_hours=_WRITING, logging=True, **more))


def _check(result: CleanupResult) -> None:
    if result.failed or result.warnings:
        raise AssertionError(f"a vacuum was not whole: {result.failed}, {result.warnings}")


def _vacuum_by_log(racer: Racer) -> None:
    try:
        _vacuum(racer, full=False)
    except VersionNotFoundError:
        # A clean-up of the log was faster.
        return


def _vacuum_early(racer: Racer) -> None:
    _vacuum(racer, retention_hours=24 * EARLY, enforce_retention_duration=False)


def _vacuum_keeping(racer: Racer) -> None:
    """Vacuum, and see that a version that is to be kept can be read as before, if it could be."""
    version = max(0, racer.table.refresh().version - racer.generator.randrange(40))
    try:
        before = _rows_of(racer, version)
        _vacuum(racer, keep_versions=[version])
        after = _rows_of(racer, version)
    except (VersionNotFoundError, DataFileNotFoundError):
        # A clean-up of the log was faster, or another vacuum.
        return
    if before != after:
        raise AssertionError(f"version {version} was to be kept, and has other rows")


def _rows_of(racer: Racer, version: int) -> list[tuple[Any, ...]]:
    rows = type(racer.table)(racer.table.location, version=version, storage_options=racer.options)
    return sorted(tuple(row.values()) for row in rows.scan(columns=COLUMNS.names).to_arrow().to_pylist())


def _vacuum_killed(racer: Racer) -> None:
    """Vacuum in a process of its own, which is killed at some point."""
    child = os.fork()
    if child == 0:
        try:
            _vacuum(racer)
        finally:
            os._exit(0)
    time.sleep(racer.generator.random() * 0.2)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _repair(racer: Racer) -> None:
    """Look for lost files: there are none."""
    result = racer.table.refresh().repair()
    if result.files:
        raise AssertionError(f"files are lost: {result.files}")


def _drop_feature(racer: Racer) -> Any:
    """Take deletion vectors out of a table that allows them, and allow them again."""
    if "deletionVectors" not in racer.table.refresh().features:
        return None
    racer.claim = Claim()
    try:
        racer.report(list(racer.table.drop_feature("deletionVectors").commits))
    except InvalidArgumentError as error:
        if "does not support the feature" not in error.message:
            raise
        # Another process was faster.
        return None
    return racer.table.alter().set({"delta.enableDeletionVectors": "true"}).commit()


def _restore(racer: Racer) -> Any:
    """Go back to a version within the retention, by an engine of a few lines that reads and writes the log alone."""
    commits = _commits(racer)
    if len(commits) < 3:
        return None
    actions = {version: [json.loads(line) for line in data.splitlines()] for version, data in commits.items()}
    newest = max(commits)
    target = _target(racer, newest)
    if any("protocol" in action for version in range(target + 1, newest + 1) for action in actions[version]):
        # What the files need, the protocol may lack.
        return None
    live, target_files = (_live(actions, version) for version in (newest, target))
    now, token = time.time_ns() // 1_000_000, uuid.uuid4().hex
    last = actions[newest][0].get("commitInfo", {}).get("inCommitTimestamp")
    info = {"timestamp": now, "operation": "RESTORE", "operationParameters": {"version": str(target)}, "txnId": token}
    if last is not None:
        info["inCommitTimestamp"] = max(now, last + 1)
    gone = [{"remove": _removed(add, now)} for key, add in live.items() if key not in target_files]
    back = [{"add": {**add, "dataChange": True}} for key, add in target_files.items() if key not in live]
    racer.claim = Claim(restores=target)
    entry = "\n".join(map(json.dumps, [{"commitInfo": info}, *gone, *back])).encode()
    own = _entry(racer, newest + 1).with_name(f".{token}")
    own.write_bytes(entry)
    _stamp(racer, own)
    try:
        os.link(own, _entry(racer, newest + 1))
    except FileExistsError as error:
        raise CommitConflictError("another commit was faster") from error
    finally:
        own.unlink()
    return _Restored(newest + 1, token)


def _restore_by_deltalake(racer: Racer) -> Any:
    """Go back to a version within the retention."""
    hooks = deltalake.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
    # It gives up where another commit is faster.
    for _ in range(20):
        try:
            table = deltalake.DeltaTable(racer.table.location)
            if table.version() < 2:
                return None
            target = _target(racer, table.version())
            racer.claim = Claim(restores=target)
            token = uuid.uuid4().hex
            properties = deltalake.CommitProperties(custom_metadata={"txnId": token})
            table.restore(target, commit_properties=properties, post_commithook_properties=hooks)
            _stamp(racer, _entry(racer, table.version()))
            return _Restored(table.version(), token)
        except CommitFailedError:
            continue
        except DeltaError as error:
            # It reads a checkpoint by the size that it had listed, and others may have written it anew since.
            if "Arrow error" not in str(error):
                raise
    return None


class _Restored(SimpleNamespace):
    """The result of a restore, as far as the notes need it."""

    def __init__(self, version: int, token: str) -> None:
        super().__init__(version=version, token=token, committed=True, snapshot_id=None, retries=0, warnings=())


def _entry(racer: Racer, version: int) -> Path:
    return Path(racer.table.location, "_delta_log", f"{version:020}.json")


def _stamp(racer: Racer, path: Path) -> None:
    """Give a file the time that the store would have given it."""
    then = time.time_ns() + int(racer.ahead * _DAY) * 1_000_000
    os.utime(path, ns=(then, then))


def _commits(racer: Racer) -> dict[int, bytes]:
    """Return all log entries, also those that clean-ups move meanwhile."""
    while True:
        with suppress(FileNotFoundError):
            found = {**read_folder(Path(racer.table.location)), **read_folder(racer.archive)}
            if sorted(found) == list(range(len(found))):
                return found


def _target(racer: Racer, newest: int) -> int:
    """Return a version that was the newest one not long ago."""
    since = time.time_ns() / 1e6 + (racer.ahead - _BACK) * _DAY
    target = newest - 1
    for version in range(newest, max(newest - 30, 1), -1):
        entry = _entry(racer, version)
        if not entry.exists() or entry.stat().st_mtime_ns / 1e6 < since:
            break
        target = version - 1
    return racer.generator.randrange(target, newest)


_Key = tuple[str, str]


def _live(actions: Mapping[int, list[dict[str, Any]]], version: int) -> dict[_Key, dict[str, Any]]:
    """Return the live files of a version by their paths and vectors."""
    live: dict[_Key, dict[str, Any]] = {}
    for number in sorted(number for number in actions if number <= version):
        for remove in (action["remove"] for action in actions[number] if "remove" in action):
            live.pop(_key(remove), None)
        for add in (action["add"] for action in actions[number] if "add" in action):
            live[_key(add)] = add
    return live


def _key(body: Mapping[str, Any]) -> _Key:
    return body["path"], json.dumps(body.get("deletionVector"), sort_keys=True)


def _removed(add: Mapping[str, Any], now: int) -> dict[str, Any]:
    kept = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion")
    more = {"deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
    return {**{name: add[name] for name in kept if name in add}, **more}


_ALL = [
    Kind("vacuum", 2, _vacuum),
    Kind("vacuum by the log", 2, _vacuum_by_log),
    Kind("vacuum early", 2, _vacuum_early),
    Kind("vacuum keeping a version", 2, _vacuum_keeping),
    Kind("repair", 1, _repair),
    Kind("drop a feature", 1, _drop_feature),
    # Of tables on this machine only.
    Kind("vacuum that is killed", 0, _vacuum_killed),
    Kind("restore", 0, _restore),
    # Of tables without features only.
    Kind("restore by deltalake", 0, _restore_by_deltalake),
]
#: How often vacuums run in races about them.
OFTEN = {
    "vacuum": 12,
    "vacuum by the log": 12,
    "vacuum early": 8,
    "vacuum keeping a version": 8,
    "vacuum that is killed": 6,
    "repair": 3,
}
#: Each kind by its name.
KINDS_OF_UPKEEP: dict[str, Kind] = {kind.name: kind for kind in _ALL}
