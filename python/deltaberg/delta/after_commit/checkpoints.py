"""Checkpoints of snapshots, written (Delta protocol, "Checkpoints").

A checkpoint holds what a replay of the log up to its version leaves: protocol, metadata, live files, unexpired
tombstones, transactions and metadata domains. It becomes visible whole, after all that it refers to.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.log_action import LogAction
from deltaberg.delta.after_commit.checkpoint_content import CheckpointContent
from deltaberg.delta.after_commit.log_cleanup import LOG_FILE
from deltaberg.delta.checkpoint.layout import FILES_PER_SIDECAR, CheckpointLayout, check_layout, new_names
from deltaberg.delta.checkpoint.part_numbers import part_numbers
from deltaberg.delta.checkpoint.unknown_members import with_unknown_members
from deltaberg.delta.checkpoint.write_checkpoint import ActionFile, table_columns
from deltaberg.delta.data.deletion_vectors import unique_ids
from deltaberg.delta.features import check_known_writers, supports
from deltaberg.delta.log.checkpoint_files import CheckpointInfo
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.log.encode import encode_lines
from deltaberg.delta.log.last_checkpoint import encode_last_checkpoint
from deltaberg.delta.log.names import LAST_CHECKPOINT, SIDECAR_DIRECTORY
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import (
    CorruptCheckpointError,
    DeltabergError,
    ObjectNotFoundError,
    VersionNotFoundError,
    in_context,
)
from deltaberg.table.removal import WRITTEN_FILE, discard_files, drop_directory
from deltaberg.table.rows.progress import Told, untold

__all__ = ["layout_by_policy", "write_checkpoint"]

_POLICY = "delta.checkpointPolicy"
#: Of so many checkpoints that follow each other, at least one has the classic name, which old clients find.
_CLASSIC_EVERY = 10


def layout_by_policy(snapshot: Snapshot) -> CheckpointLayout:
    """Return the form that the table's property ``delta.checkpointPolicy`` asks for: ``classic`` or ``v2``.

    With ``v2`` checkpoints are named by UUID and have sidecars, and every tenth has the classic name: clients that do
    not know such checkpoints find the protocol in it, and say what they lack.
    """
    policy = snapshot.metadata.configuration.get(_POLICY, "classic").strip().lower()
    if policy != "v2" or not supports(snapshot.protocol, "v2Checkpoint"):
        return CheckpointLayout()
    named: dict[int, str] = {}
    for entry in snapshot.log.entries():
        if entry.file.is_checkpoint:
            named[entry.version] = "classic" if "classic" in (entry.file.kind, named.get(entry.version)) else "uuid"
    newest = [named[version] for version in sorted(named)][-(_CLASSIC_EVERY - 1) :]
    due = len(newest) == _CLASSIC_EVERY - 1 and "classic" not in newest
    return CheckpointLayout(spec=2, naming="classic" if due else "uuid", files_per_sidecar=FILES_PER_SIDECAR)


def write_checkpoint(
    snapshot: Snapshot, layout: CheckpointLayout | None = None, *, at: int | None = None, told: Told = untold
) -> CheckpointInfo:
    """Write a checkpoint of a version, and let ``_last_checkpoint`` point to it unless it points to a later one.

    A checkpoint of the same name is replaced by an equal one. Readers see the old file or the new one, never a part.

    Parameters
    ----------
    layout
        The form of the checkpoint; by default the one that the table's properties ask for.
    at
        The time by which tombstones have expired, in milliseconds since 1970; now by default.
    told
        What is told of how many files the checkpoint has the actions.

    Raises
    ------
    VersionNotFoundError
        If the log entry of the version does not exist: delta-spark refuses a table whose newest checkpoint lacks it.
    InvalidArgumentError
        If the table's protocol does not allow the form.
    UnsupportedFeatureError
        If the table needs a writer feature that this library does not know.
    CorruptTableError
        If the log or the checkpoint that the snapshot was read from is damaged.
    StorageError
        If the store fails.
    """
    with in_context(table=str(snapshot.log.root), version=snapshot.version):
        check_known_writers(snapshot.protocol)
        chosen = layout_by_policy(snapshot) if layout is None else layout
        check_layout(chosen, snapshot.protocol)
        _check_committed(snapshot)
        now = time.time_ns() // 1_000_000 if at is None else at
        try:
            written = _Writer(snapshot, chosen, now, told).write()
        except CorruptCheckpointError as error:
            written = _Writer(_without_damaged(snapshot, error), chosen, now, told).write()
        _point_to(snapshot, written)
    return CheckpointInfo(snapshot.version, chosen.naming, tuple(written.names), written.size)


def _without_damaged(snapshot: Snapshot, error: CorruptCheckpointError) -> Snapshot:
    """Return the same version without the checkpoint that it was read from, if the log still leads to it."""
    try:
        return Snapshot.load(
            snapshot.log, snapshot.version, frozenset(entry.file.name for entry in snapshot.checkpoint)
        )
    except DeltabergError:
        raise error from None


def _check_committed(snapshot: Snapshot) -> None:
    """Refuse a version whose log entry does not exist (any more)."""
    log = snapshot.log
    try:
        log.storage.head(log.commit_entry(snapshot.version, 0).meta.path)
    except ObjectNotFoundError:
        raise VersionNotFoundError(
            "the log entry of the version does not exist, so no checkpoint can be made of it",
            hint="make a checkpoint of a newer version",
        ) from None


class _Written(NamedTuple):
    """The main file or the parts that were written: names, total size, and what ``_last_checkpoint`` says."""

    names: list[str]
    size: int
    pointer: dict[str, Any]


def _point_to(snapshot: Snapshot, written: _Written) -> None:
    """Write ``_last_checkpoint``, unless it names a later version already."""
    log = snapshot.log
    pointer = log.last_checkpoint()
    if pointer is None:
        try:
            _check_committed(snapshot)
        except VersionNotFoundError:
            # The table was dropped meanwhile, and would be there again by this checkpoint, without its files.
            discard_files(log.storage, log.path, (f"{log.path}/{name}" for name in written.names), LOG_FILE)
            drop_directory(log.root)
            raise
    if pointer is None or pointer.version <= snapshot.version:
        members = {"version": snapshot.version, **written.pointer}
        log.storage.put(f"{log.path}/{LAST_CHECKPOINT}", encode_last_checkpoint(members))


class _Writer:
    """Writes the files of one checkpoint."""

    def __init__(self, snapshot: Snapshot, layout: CheckpointLayout, now: int, told: Told) -> None:
        self._snapshot = snapshot
        self._log: LogDirectory = snapshot.log
        self._layout = layout
        self._told = told
        self._content = CheckpointContent(snapshot, now)
        self._names = new_names(layout, snapshot.version)
        self._adds = self._removes = 0

    def write(self) -> _Written:
        if self._layout.naming == "multipart":
            actions = self._content.table_actions()
            size = self._write_parts(actions)
            return self._result(size, len(actions), {"parts": self._layout.parts})
        sidecars = self._write_sidecars() if self._layout.files_per_sidecar is not None else []
        actions = self._content.table_actions()
        if self._layout.spec > 1:
            actions = [self._about_checkpoint(sidecars), *actions, *sidecars]
        write_main = self._write_json if self._layout.format == "json" else self._write_parquet
        size = write_main(actions)
        more = self._embedded(actions) if self._layout.naming == "uuid" else {}
        return self._result(size, len(actions), more)

    def _result(self, size: int, actions: int, more: dict[str, Any]) -> _Written:
        count = actions + self._adds + self._removes
        return _Written(self._names, size, {"size": count, "sizeInBytes": size, "numOfAddFiles": self._adds, **more})

    def _path(self, name: str) -> str:
        return f"{self._log.path}/{name}"

    def _counted(self) -> Iterator[tuple[str, pa.StructArray]]:
        """Return the file actions in batches, and count them."""
        for kind, actions in self._content.file_actions():
            self._count(kind, len(actions))
            yield kind, actions

    def _count(self, kind: str, actions: int) -> None:
        self._told(actions)
        if kind == "add":
            self._adds += actions
        else:
            self._removes += actions

    def _write_parquet(self, actions: list[LogAction]) -> int:
        # Both columns of file actions exist even where all of them are in sidecars: delta-spark wants to see them.
        columns = self._columns(actions)
        with ActionFile(self._log.storage, self._path(self._names[0]), columns) as file:
            file.write_actions(actions)
            if self._layout.files_per_sidecar is None:
                for kind, rows in self._counted():
                    file.write(kind, rows)
        return file.size

    def _columns(self, actions: list[LogAction]) -> list[pa.Field]:
        columns = with_unknown_members(table_columns(self._layout.spec), actions)
        return [*columns, *self._content.file_columns]

    def _write_json(self, actions: list[LogAction]) -> int:
        lines = [action.to_json() for action in actions]
        if self._layout.files_per_sidecar is None:
            for action in self._content.file_lines():
                self._count(action.name, 1)
                lines.append(action.to_json())
        data = encode_lines(lines)
        self._log.storage.put(self._path(self._names[0]), data)
        return len(data)

    def _write_parts(self, actions: list[LogAction]) -> int:
        columns = self._columns(actions)
        with contextlib.ExitStack() as stack:
            files = [
                stack.enter_context(ActionFile(self._log.storage, self._path(name), columns)) for name in self._names
            ]
            files[0].write_actions(actions)
            for kind, rows in self._counted():
                keys = [rows.field("path")]
                if supports(self._snapshot.protocol, "deletionVectors"):
                    keys.append(unique_ids(rows.field("deletionVector")))
                numbers = part_numbers(keys, len(files))
                for number, file in enumerate(files):
                    file.write(kind, rows.filter(pc.equal(numbers, number)))
        return sum(file.size for file in files)

    def _write_sidecars(self) -> list[LogAction]:
        """Write the file actions into sidecars, and return the actions that name these."""
        names: list[str] = []
        try:
            for pieces in _divided(self._counted(), self._layout.files_per_sidecar or FILES_PER_SIDECAR):
                names.append(f"{uuid.uuid4()}.parquet")
                path = self._path(f"{SIDECAR_DIRECTORY}/{names[-1]}")
                with ActionFile(self._log.storage, path, self._content.file_columns) as file:
                    for kind, rows in pieces:
                        file.write(kind, rows)
            return [self._sidecar(name) for name in names]
        except BaseException:
            # No checkpoint names them yet. Later they must stay, since a put that failed may still arrive.
            folder = self._path(SIDECAR_DIRECTORY)
            discard_files(self._log.storage, folder, (f"{folder}/{name}" for name in names), WRITTEN_FILE)
            raise

    def _sidecar(self, name: str) -> LogAction:
        meta = self._log.storage.head(self._path(f"{SIDECAR_DIRECTORY}/{name}"))
        return LogAction("sidecar", {"path": name, "sizeInBytes": meta.size, "modificationTime": meta.modified})

    def _about_checkpoint(self, sidecars: list[LogAction]) -> LogAction:
        members: dict[str, Any] = {"version": self._snapshot.version}
        if sidecars:
            members["tags"] = {
                "sidecarNumActions": str(self._adds + self._removes),
                "sidecarSizeInBytes": str(sum(sidecar.members["sizeInBytes"] for sidecar in sidecars)),
                "numOfAddFiles": str(self._adds),
            }
        return LogAction("checkpointMetadata", members)

    def _embedded(self, actions: list[LogAction]) -> dict[str, Any]:
        """Return what ``_last_checkpoint`` says about a main file that is named by UUID."""
        meta = self._log.storage.head(self._path(self._names[0]))
        about: dict[str, Any] = {
            "path": self._names[0],
            "sizeInBytes": meta.size,
            "modificationTime": meta.modified,
        }
        if self._layout.embed:
            about["nonFileActions"] = [{one.name: one.members} for one in actions if one.name != "sidecar"]
            about["sidecarFiles"] = [one.members for one in actions if one.name == "sidecar"]
        return {"v2Checkpoint": about}


def _divided(batches: Iterator[tuple[str, pa.StructArray]], most: int) -> Iterator[list[tuple[str, pa.StructArray]]]:
    """Divide batches of file actions into groups of so many actions; the last group may have fewer."""
    group: list[tuple[str, pa.StructArray]] = []
    room = most
    for kind, actions in batches:
        start = 0
        while start < len(actions):
            piece = actions.slice(start, room)
            group.append((kind, piece))
            start += len(piece)
            room -= len(piece)
            if not room:
                yield group
                group, room = [], most
    if group:
        yield group
