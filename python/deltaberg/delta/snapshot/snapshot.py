"""A version of a Delta table: its protocol, metadata and files, from a checkpoint and the commits after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.actions.reconciled import TableActions
from deltaberg.delta.actions.table_actions import Transaction
from deltaberg.delta.checkpoint.read import Checkpoint
from deltaberg.delta.features import check_protocol, dropped_protocol, undropped_protocol
from deltaberg.delta.log.commit import cleaned_up, list_newer_commits
from deltaberg.delta.log.directory import LogDirectory, LogEntry
from deltaberg.delta.log.entries import LogBytes
from deltaberg.delta.log.segment import Segment, build_newer, build_segment
from deltaberg.delta.log.version_checksum import VersionChecksum
from deltaberg.delta.snapshot.file_state import FileState, Origin, Role
from deltaberg.delta.snapshot.lazy_value import lazy_value
from deltaberg.delta.snapshot.live_files import LiveFiles
from deltaberg.delta.snapshot.retention import unexpired_transactions
from deltaberg.delta.snapshot.scanned_version import ScannedVersion
from deltaberg.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    CorruptTableError,
    DeltabergError,
    InvalidArgumentError,
    ObjectNotFoundError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    in_context,
)
from deltaberg.schema.arrow import as_array

__all__ = ["NewerCommits", "Snapshot"]

#: How often the log is listed again because it was cleaned up while it was read.
_MOST_ATTEMPTS = 8
#: How many commits a snapshot keeps that came after it was read: then a checkpoint stands in for them, if there is one.
_MOST_ADDED = 1_000

_T = TypeVar("_T")


class NewerCommits(NamedTuple):
    """The commits after a version: versions and bytes, oldest first; and the versions that have a checksum."""

    commits: list[tuple[int, bytes]]
    checksums: frozenset[int]


class Snapshot(ScannedVersion):
    """A version of a table. It does not change; `newer` and `after` return later ones. Threads may share it.

    Checkpoints are read lazily, so that damage may show late. Then an older checkpoint, or the log alone, stands in
    for what was not read yet. What was read stays as it is, together with all that it refers to.

    Raises
    ------
    CorruptLogError
        If the log is not what the protocol allows.
    UnsupportedFeatureError
        If the table needs a feature that this library does not have.
    """

    def __init__(self, log: LogDirectory, segment: Segment, actions: TableActions, files: FileState) -> None:
        self.log = log
        self.segment = segment
        self.version = segment.version
        #: The newest ``txn`` action of each application, by application id, even if it has expired.
        self.transactions = actions.transactions
        #: The configuration of each live metadata domain, by name.
        self.domains = actions.domains
        #: What the version checksum states, where a writer has proven it; None where it is not known.
        self.proven_checksum: VersionChecksum | None = None
        #: The files as far as no damage is known. It is replaced as a whole.
        self._files = files
        #: The log entry of the version as it was last seen to hold the bytes that were read.
        self._commit = segment.commit
        with in_context(table=str(log.root), version=self.version):
            if actions.metadata is None:
                raise CorruptLogError("there is no metaData action in the log")
            if actions.protocol is None:
                raise CorruptLogError("there is no protocol action in the log")
            self.protocol = actions.protocol
            self.metadata = actions.metadata
            check_protocol(self.protocol)
            _ = self.mapping_mode

    @classmethod
    def load(cls, log: LogDirectory, version: int | None = None, damaged: frozenset[str] = frozenset()) -> Snapshot:
        """Load a version.

        A damaged checkpoint is passed over for an older one, as long as the log reaches back to it.

        Parameters
        ----------
        version
            The version; None means the newest.
        damaged
            The names of checkpoints that are known to be damaged.

        Raises
        ------
        TableNotFoundError, VersionNotFoundError
            If there is no such table or version.
        CorruptLogError, UnsupportedFeatureError
            As the constructor does.
        """
        first_error: CorruptCheckpointError | None = None
        failures: list[tuple[Segment, CorruptLogError]] = []
        while True:
            try:
                segment = build_segment(log, version, damaged)
            except DeltabergError as error:
                if isinstance(error, CorruptLogError):
                    _refuse_dropped(log)
                if first_error is not None:
                    raise first_error from None
                raise
            if failures and (failures[-1][0] == segment or len(failures) == _MOST_ATTEMPTS):
                raise failures[-1][1]
            try:
                return cls._from_segment(log, segment, damaged)
            except CorruptCheckpointError as error:
                first_error = first_error or error
                damaged |= {entry.file.name for entry in segment.checkpoint}
            except CorruptLogError as error:
                # Perhaps the log was cleaned up while it was read: then the next listing shows other files.
                failures.append((segment, error))
                # The commits that a damaged compaction holds still exist.
                damaged |= {entry.file.name for entry in segment.commits if entry.file.kind == "compaction"}

    @classmethod
    def load_dropped(cls, log: LogDirectory) -> Snapshot | None:
        """Return what the newest commit tells of a table that is being dropped; None if it is not.

        That commit has all that a drop must know, for the others may be gone.
        """
        entry = max(
            (one for one in log.entries() if one.file.kind == "commit"), key=lambda one: one.version, default=None
        )
        if entry is None:
            return None
        try:
            data = log.read(entry)
        except ObjectNotFoundError:
            return None
        segment = _one_commit(log, entry.version, data)
        replay = _replay(log, segment, [(entry.version, data)])
        actions = _after(TableActions(), replay, log, segment)
        protocol = None if actions.protocol is None else undropped_protocol(actions.protocol)
        if protocol is None:
            return None
        log_bytes = LogBytes(log, segment.commits)
        log_bytes.keep(segment.commits[0], data)
        files = FileState.loaded((), None, replay, log_bytes, frozenset())
        return cls(log, segment, replace(actions, protocol=protocol), files)

    @classmethod
    def _from_segment(cls, log: LogDirectory, segment: Segment, damaged: frozenset[str]) -> Snapshot:
        in_json = [entry for entry in segment.checkpoint if entry.file.name.endswith(".json")]
        log_bytes = LogBytes(log, [*in_json, *segment.commits])
        checkpoint = Checkpoint(log, segment.checkpoint, log_bytes) if segment.checkpoint else None
        if checkpoint is not None:
            checkpoint.check()
        replay = _replay(log, segment, log_bytes.newest_first(segment.commits))
        older = TableActions() if checkpoint is None else checkpoint.table_actions
        files = FileState.loaded(segment.checkpoint, checkpoint, replay, log_bytes, damaged)
        return cls(log, segment, _after(older, replay, log, segment), files)

    def newer(self) -> Snapshot:
        """Return the newest version, reading only what came after this one; it is this one where nothing came.

        Raises
        ------
        TableNotFoundError
            If the log does not exist any more.
        VersionNotFoundError
            If the log is not the one that this version was read from.
        CorruptLogError, UnsupportedFeatureError
            As the constructor does.
        """
        files = self._files
        try:
            commit, segment = build_newer(self.log, self.version)
            self.check_same_commit(commit)
            if not segment.commits:
                return self
            log_bytes = files.log_bytes.extended(segment.commits)
            if log_bytes.added > _MOST_ADDED:
                return self._read_anew()
            replay = _replay(self.log, segment, log_bytes.newest_first(segment.commits))
        except CorruptLogError:
            # Commits in between were cleaned up: only a checkpoint leads past them.
            return self._read_anew()
        return self._next(segment, replay, files.after(replay, log_bytes))

    def _read_anew(self) -> Snapshot:
        """Return the newest version from the newest checkpoint."""
        newest = Snapshot.load(self.log)
        if newest.version < self.version or newest.metadata.id != self.metadata.id:
            raise self._replaced() from None
        return newest

    def after(self, version: int, data: bytes) -> Snapshot:
        """Return the version that a commit to this one makes, without listing or reading the log.

        A writer that has put the log entry of the next version knows all that is in it.

        Parameters
        ----------
        version
            The version that was committed: the one after this one.
        data
            The bytes of its log entry.

        Raises
        ------
        InvalidArgumentError
            If the version does not follow this one.
        CorruptLogError, UnsupportedFeatureError
            As the constructor does.
        """
        if version != self.version + 1:
            raise InvalidArgumentError(
                f"version {version} does not follow version {self.version}", table=str(self.log.root)
            )
        files = self._files
        segment = _one_commit(self.log, version, data)
        log_bytes = files.log_bytes.extended(segment.commits)
        log_bytes.keep(segment.commits[0], data)
        replay = _replay(self.log, segment, [(version, data)])
        return self._next(segment, replay, files.after(replay, log_bytes))

    def alone(self, version: int, data: bytes) -> Snapshot:
        """Return a snapshot of a single later commit: the files that it names and no others.

        Protocol, metadata and the like are this version's where the commit does not change them.

        Raises
        ------
        CorruptLogError, UnsupportedFeatureError
            As the constructor does.
        """
        return _from_commit(self.log, self._actions, version, data)

    @classmethod
    def first(cls, log: LogDirectory, data: bytes) -> Snapshot:
        """Return version 0 of a new table from the bytes of its log entry.

        Raises
        ------
        CorruptLogError, UnsupportedFeatureError
            As the constructor does.
        """
        return _from_commit(log, TableActions(), 0, data)

    def transactions_at(self, at: int) -> dict[str, Transaction]:
        """Return the progress of applications that counts at an instant, in milliseconds since 1970."""
        return unexpired_transactions(self.transactions, self.metadata.configuration, at)

    def has_progress(self, application: str, version: int, at: int) -> bool:
        """Return whether an application has recorded a version, or a later one, that counts at an instant."""
        known = self.transactions_at(at).get(application)
        return known is not None and known.version >= version

    def commit_bytes(self) -> bytes:
        """Return the log entry of the version.

        Raises
        ------
        ObjectNotFoundError
            It was cleaned up.
        """
        entry = self.log.commit_entry(self.version, 0)
        kept = self._files.log_bytes.kept(self.version)
        return self.log.read(entry) if kept is None else kept

    def newer_commits(self) -> NewerCommits:
        """Return the commits after this version, with the bytes of their log entries.

        Raises
        ------
        CommitConflictError
            Some of them were cleaned up.
        TableNotFoundError, VersionNotFoundError
            The log does not exist any more, or is not the one that this version was read from.
        CorruptLogError
            The newest log entry is empty.
        """
        newer = list_newer_commits(self.log, self.version)
        self.check_same_commit(newer.known)
        try:
            newest_first = list(LogBytes(self.log, newer.commits).newest_first(newer.commits))
        except CorruptLogError as error:
            if isinstance(error.__cause__, ObjectNotFoundError):
                raise cleaned_up(self.log, self.version) from error
            raise
        return NewerCommits(newest_first[::-1], newer.checksums)

    def _next(self, segment: Segment, replay: kernels.Replay, files: FileState) -> Snapshot:
        return Snapshot(self.log, segment, _after(self._actions, replay, self.log, segment), files)

    @property
    def _actions(self) -> TableActions:
        return TableActions(self.protocol, self.metadata, self.transactions, self.domains)

    def check_same_commit(self, listed: LogEntry | None) -> None:
        """Refuse a log in which this version is another commit than the one that was read.

        If the listing shows another time or size than was known, as it may for a commit of our own or for a log
        that was copied, the bytes decide. If a checkpoint or a compaction was read in place of the commit, nothing is
        known of its bytes: then what the log holds now decides.

        Raises
        ------
        VersionNotFoundError
            It is another commit.
        """
        read_entry = self._commit
        if listed is None or read_entry is None or listed == read_entry:
            return
        unchanged = self._files.log_bytes.is_unchanged(listed)
        if not (self._is_in_log() if unchanged is None else unchanged):
            raise self._replaced()
        self._commit = listed

    def _is_in_log(self) -> bool:
        """Return whether someone who opens this version now gets the same protocol, metadata and files."""
        try:
            return Snapshot.load(self.log, self.version)._content() == self._content()  # noqa: SLF001
        except (CorruptTableError, TableNotFoundError, VersionNotFoundError, UnsupportedFeatureError):
            return False

    def _content(self) -> tuple[TableActions, pa.Table]:
        # If a damaged checkpoint were passed over here, both sides could come from the log as it is now.
        files = self._files.live.table.select(["path", "size", "modificationTime", "deletionVector"])
        return self._actions, files.take(pc.sort_indices(files.column("path")))

    def _replaced(self) -> VersionNotFoundError:
        return VersionNotFoundError(
            f"version {self.version} is open, but the log holds another commit of that version: it was replaced",
            hint="open the table again",
            table=str(self.log.root),
        )

    @property
    def origin(self) -> Origin | None:
        """The checkpoint and the commits replayed on top of it, where all files come from these."""
        return self._files.origin

    @property
    def live(self) -> LiveFiles:
        """The live files.

        Raises
        ------
        CorruptCheckpointError
            If the checkpoint is damaged, and no older one leads to this version.
        """
        return lazy_value(self, "_live", lambda: self._read_files(lambda files: files.live))

    @property
    def tombstones(self) -> pa.Table:
        """The removed files that are still recorded.

        Raises
        ------
        CorruptCheckpointError
            If the checkpoint is damaged, and no older one leads to this version.
        """
        return lazy_value(self, "_tombstones", lambda: self._read_files(lambda files: files.tombstones))

    def read_keys(self, role: Role, use: Callable[[Iterator[pa.Table]], _T]) -> _T:
        """Return what is made of all live files or tombstones, of which only `ADD_KEYS` and times are read.

        A checkpoint is read as a stream, so that the files need no more memory than what is made of them. If it proves
        to be damaged, they are used again, from an older one.

        Parameters
        ----------
        role
            ``add`` for live files, ``remove`` for tombstones.
        use
            Is called with tables that hold all of them.

        Raises
        ------
        CorruptCheckpointError
            If the checkpoint is damaged, and no older one leads to this version.
        """
        return self._read_files(lambda files: use(files.keys(role)))

    @property
    def checkpoint(self) -> tuple[LogEntry, ...]:
        """The files of the checkpoint that the snapshot was read from; empty where the log alone was read."""
        return self._files.checkpoint

    @property
    def checksum(self) -> VersionChecksum:
        """The facts that a version checksum states."""
        live = self.live.table
        vectors = live.column("deletionVector")
        cardinalities = pc.struct_field(as_array(vectors), "cardinality")
        return VersionChecksum(
            table_size_bytes=pc.sum(live.column("size")).as_py() or 0,
            num_files=len(live),
            num_metadata=1,
            num_protocol=1,
            num_deleted_records=pc.sum(cardinalities).as_py() or 0,
            num_deletion_vectors=len(vectors) - vectors.null_count,
        )

    @property
    def is_live_known(self) -> bool:
        """Whether the live files are known without reading a checkpoint."""
        return self._files.is_live_known

    def _read_files(self, read: Callable[[FileState], _T]) -> _T:
        """Read files, from older checkpoints where the columns of files show that one is damaged."""
        while True:
            files = self._files
            try:
                return read(files)
            except CorruptCheckpointError as error:
                if not files.checkpoint:
                    raise
                try:
                    self._files = Snapshot.load(self.log, self.version, files.used_or_damaged)._files  # noqa: SLF001
                except DeltabergError:
                    raise error from None


def _replay(log: LogDirectory, segment: Segment, commits: Iterable[tuple[int, bytes]]) -> kernels.Replay:
    try:
        return kernels.replay(commits)
    except DeltabergError as error:
        version = error.context.get("version")
        names = {str(entry.version): entry.file.name for entry in segment.commits}
        raise error.with_context(table=str(log.root), file=names.get(str(version))) from None


def _refuse_dropped(log: LogDirectory) -> None:
    """Say of a log with holes that its table is being dropped, if it is."""
    with suppress(CorruptTableError):
        if (dropped := Snapshot.load_dropped(log)) is not None:
            with in_context(table=str(log.root), version=dropped.version):
                check_protocol(dropped_protocol(dropped.protocol))


def _one_commit(log: LogDirectory, version: int, data: bytes) -> Segment:
    entry = log.commit_entry(version, len(data))
    return Segment(version, (), (entry,), entry)


def _from_commit(log: LogDirectory, older: TableActions, version: int, data: bytes) -> Snapshot:
    """Return a snapshot whose files are those of one commit."""
    segment = _one_commit(log, version, data)
    log_bytes = LogBytes(log, segment.commits)
    log_bytes.keep(segment.commits[0], data)
    replay = _replay(log, segment, [(version, data)])
    files = FileState.loaded((), None, replay, log_bytes, frozenset())
    return Snapshot(log, segment, _after(older, replay, log, segment), files)


def _after(older: TableActions, replay: kernels.Replay, log: LogDirectory, segment: Segment) -> TableActions:
    with in_context(table=str(log.root), version=segment.version):
        return older.after(replay)
