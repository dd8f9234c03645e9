"""A version of a Delta table: its protocol, metadata and files, from a checkpoint and the commits since."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.actions import Metadata, Protocol, Transaction, read_metadata, read_protocol
from deltaberg.delta.checkpoint import Checkpoint, CheckpointPart
from deltaberg.delta.features import check_protocol
from deltaberg.delta.log_bytes import LogBytes
from deltaberg.delta.segment import LogDirectory, LogEntry, Segment, build_newer, build_segment
from deltaberg.delta.state import FileState
from deltaberg.delta.table_state import TableState
from deltaberg.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    DeltabergError,
    VersionNotFoundError,
)

__all__ = ["Snapshot"]

#: How often a log is listed anew because it was cleaned up while it was read.
_MOST_ATTEMPTS = 8


class Snapshot(TableState):
    """A version of a table. It does not change; `newer` makes the next one out of it.

    Raises
    ------
    TableNotFoundError, VersionNotFoundError
        Where there is no such version.
    CorruptLogError
        Where the log is not what the protocol allows.
    UnsupportedFeatureError
        Where the table needs what this library cannot do.
    """

    def __init__(
        self,
        log: LogDirectory,
        segment: Segment,
        replay: kernels.Replay,
        older: Checkpoint | Snapshot | None,
        log_bytes: LogBytes,
    ) -> None:
        self.log = log
        self.segment = segment
        self.version = segment.version
        self.log_bytes = log_bytes
        #: The checkpoint that the snapshot stands on, or nothing.
        self.checkpoint: tuple[LogEntry, ...] = older.checkpoint if isinstance(older, Snapshot) else segment.checkpoint
        #: The names of its files, and of those checkpoints that proved to be damaged.
        self.checkpoint_names = _checkpoint_names(older)
        self.files: FileState = FileState(replay, older.files if isinstance(older, Snapshot) else older)
        try:
            self._read_table_actions(replay, older)
            check_protocol(self.protocol)
            self.check_mapping_mode()
        except DeltabergError as error:
            raise error.with_context(table=str(log.root), version=self.version) from None

    @classmethod
    def load(cls, log: LogDirectory, version: int | None = None, damaged: frozenset[str] = frozenset()) -> Snapshot:
        """Load a version; None is the newest.

        A damaged checkpoint is passed over for an older one, as long as the log reaches back to it; ``damaged``
        names some that are known.
        """
        first_error: CorruptCheckpointError | None = None
        failures: list[tuple[Segment, CorruptLogError]] = []
        while True:
            try:
                segment = build_segment(log, version, damaged)
            except DeltabergError:
                if first_error is not None:
                    raise first_error from None
                raise
            if failures and (failures[-1][0] == segment or len(failures) == _MOST_ATTEMPTS):
                raise failures[-1][1]
            checkpoint = Checkpoint(log, segment.checkpoint) if segment.checkpoint else None
            try:
                if checkpoint is not None:
                    checkpoint.check()
                return cls._from_segment(log, segment, checkpoint)
            except CorruptCheckpointError as error:
                first_error = first_error or error
                damaged |= _checkpoint_names(checkpoint)
            except CorruptLogError as error:
                # Perhaps the log was cleaned up while it was read: then the next listing gives other files.
                failures.append((segment, error))
                # The commits in place of a damaged compaction are there.
                damaged |= {entry.file.name for entry in segment.commits if entry.file.kind == "compaction"}

    @classmethod
    def _from_segment(cls, log: LogDirectory, segment: Segment, checkpoint: Checkpoint | None) -> Snapshot:
        log_bytes = LogBytes(log)
        if segment.checkpoint and segment.checkpoint[0].file.name.endswith(".json"):
            log_bytes.add(segment.checkpoint)
        return cls(log, segment, _replay(log, log_bytes, segment), checkpoint, log_bytes)

    def newer(self) -> Snapshot:
        """Give the newest version, reading only what came after this one.

        Raises
        ------
        TableNotFoundError
            Where there is no log any more.
        VersionNotFoundError
            Where it is not the log that this version was read from.
        """
        try:
            commit, segment = build_newer(self.log, self.version)
            self._check_same_commit(commit)
            if not segment.commits:
                return self
            replay = _replay(self.log, self.log_bytes, segment)
        except CorruptLogError:
            # Commits in between were cleaned up: only a checkpoint leads past them.
            newest = Snapshot.load(self.log)
            if newest.version < self.version or newest.metadata.id != self.metadata.id:
                raise self._replaced() from None
            return newest
        return Snapshot(self.log, segment, replay, self, self.log_bytes)

    def _check_same_commit(self, found: LogEntry | None) -> None:
        """Refuse a log in which this version is another commit than the one that was read."""
        known = self.segment.commit
        if found is None or known is None or found == known or self.log_bytes.holds(found):
            return
        raise self._replaced()

    def _replaced(self) -> VersionNotFoundError:
        return VersionNotFoundError(
            f"version {self.version} is open, and the log has another one now: it was written anew",
            hint="open the table again",
            table=str(self.log.root),
        )

    def _read_table_actions(self, replay: kernels.Replay, older: Checkpoint | Snapshot | None) -> None:
        before = older.table_actions if isinstance(older, Checkpoint) else older
        protocol = _read_action(replay.protocol, read_protocol) or (before.protocol if before else None)
        metadata = _read_action(replay.metadata, read_metadata) or (before.metadata if before else None)
        if metadata is None:
            raise CorruptLogError("there is no metaData action in the log")
        if protocol is None:
            raise CorruptLogError("there is no protocol action in the log")
        self.protocol: Protocol = protocol
        self.metadata: Metadata = metadata
        #: The progress of applications, by their id.
        self.transactions: dict[str, Transaction] = dict(before.transactions) if before else {}
        for app_id, version, updated in zip(
            *(column.to_pylist() for column in replay.transactions.columns), strict=True
        ):
            self.transactions[app_id] = Transaction(app_id, version, updated)
        #: The configuration of live metadata domains, by name, also of domains that nobody here understands.
        self.domains: dict[str, str] = dict(before.domains) if before else {}
        for domain, configuration, removed in zip(
            *(column.to_pylist() for column in replay.domains.columns), strict=True
        ):
            self.domains[domain] = configuration
            if removed:
                del self.domains[domain]

    @cached_property
    def live(self) -> pa.Table:
        """The live files."""
        return self._of_files(lambda files: files.live)

    @cached_property
    def tombstones(self) -> pa.Table:
        """The removed files that are still recorded."""
        return self._of_files(lambda files: files.tombstones)

    def _of_files(self, wanted: Callable[[FileState], pa.Table]) -> pa.Table:
        """Give a table of files, from older checkpoints where the columns of files prove that one is damaged.

        Raises
        ------
        CorruptCheckpointError
            Where no older checkpoint and no commits lead to this version.
        """
        while True:
            try:
                return wanted(self.files)
            except CorruptCheckpointError as error:
                if not self.checkpoint_names:
                    raise
                try:
                    other = Snapshot.load(self.log, self.version, self.checkpoint_names)
                except DeltabergError:
                    raise error from None
                self.files, self.log_bytes, self.checkpoint = other.files, other.log_bytes, other.checkpoint
                # Without a name it was read from the log alone, where no checkpoint can be damaged.
                self.checkpoint_names = other.checkpoint_names and self.checkpoint_names | other.checkpoint_names

    @property
    def parts(self) -> list[CheckpointPart]:
        """The parts of the checkpoint that live files name."""
        return self.files.parts

    @property
    def file_count(self) -> int:
        """How many files are live."""
        return len(self.live)

    @property
    def size_in_bytes(self) -> int:
        """How many bytes the live files have."""
        return pc.sum(self.live.column("size")).as_py() or 0


def _checkpoint_names(older: Checkpoint | Snapshot | None) -> frozenset[str]:
    if isinstance(older, Checkpoint):
        return older.names
    return older.checkpoint_names if older is not None else frozenset()


def _replay(log: LogDirectory, log_bytes: LogBytes, segment: Segment) -> kernels.Replay:
    log_bytes.add(segment.commits)
    try:
        return kernels.replay(log_bytes.newest_first(segment.commits))
    except DeltabergError as error:
        version = error.context.get("version")
        names = {str(entry.version): entry.file.name for entry in segment.commits}
        raise error.with_context(table=str(log.root), file=names.get(str(version))) from None


_Action = TypeVar("_Action")


def _read_action(found: tuple[int, str] | None, read: Callable[[str], _Action]) -> _Action | None:
    if found is None:
        return None
    version, text = found
    try:
        return read(text)
    except DeltabergError as error:
        raise error.with_context(commit=version) from None
