"""How one transaction becomes a version: checked against what others committed, encoded, put, and settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from deltaberg.delta.after_commit.log_cleanup import LOG_FILE
from deltaberg.delta.log.commit import look_for_entry, put_entry
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.log.names import commit_name
from deltaberg.delta.snapshot.history import IN_COMMIT_TIMESTAMPS, commit_info
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.commit_info import Attempt, Provenance
from deltaberg.delta.transaction.conflict import Claims, Winner, check_conflicts
from deltaberg.delta.transaction.entry import Changes, Entry, build_entry, check_growing, version_made
from deltaberg.delta.transaction.find import shows_files
from deltaberg.delta.transaction.isolation import IsolationLevel
from deltaberg.delta.transaction.writable import check_writable
from deltaberg.errors import (
    CommitConflictError,
    CorruptLogError,
    ObjectNotFoundError,
    TableExistsError,
    VersionNotFoundError,
)
from deltaberg.storage.base import PutResult
from deltaberg.table.commit.commit import Fate
from deltaberg.table.removal import discard_files

__all__ = ["LogChange"]

#: A put that took longer than this many milliseconds since the log was listed may have landed in a hole.
_SUSPICIOUS = 10_000


@dataclass
class LogChange:
    """A change of a Delta table, as the commit loop sees it.

    Parameters
    ----------
    log
        The log of the table.
    state
        The newest version that is known; None where the table is created. It moves on while others commit.
    changes, claims, isolation, provenance
        What is changed, what it relies on, how much it tolerates, and where it comes from. The changes, and what the
        provenance says of them, are made anew for each attempt where the claims have a `Rebase`.
    token
        What tells the commit from all others.
    once
        The application and version whose progress makes the change superfluous where it is recorded already.
    now
        What gives the time in milliseconds since 1970.
    even_if_empty
        Make a version, even where the newest one is the same with the changes as without.
    """

    log: LogDirectory
    state: Snapshot | None
    changes: Changes
    claims: Claims
    isolation: IsolationLevel
    provenance: Provenance
    token: str
    once: tuple[str, int] | None
    now: Callable[[], int]
    even_if_empty: bool = False
    entry: Entry | None = field(default=None, init=False)
    #: The version that the log entry makes.
    after: Snapshot | None = field(default=None, init=False)
    #: Whether the version before the next one has a version checksum.
    follows_checksum: bool = field(default=False, init=False)
    #: Whether the log entry was sent, so that it may be part of the history.
    is_sent: bool = field(default=False, init=False)
    #: Whether an earlier call has made the very commit, so that there is nothing left to do.
    was_made: bool = field(default=False, init=False)
    _read_version: int | None = field(default=None, init=False)
    _listed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._planned = self.changes, self.provenance
        self._read_version = None if self.state is None else self.state.version

    @property
    def creates(self) -> bool:
        """Whether it creates the table."""
        return self._read_version is None

    def prepare(self) -> bool:
        """Check the change against newer commits, and build the log entry of the next version."""
        self.entry = self.after = None
        self.is_sent = False
        self._listed = self.now()
        if self.state is None:
            if self._was_created():
                return False
        elif self._is_done(self.state) or not self._catch_up(self.state):
            return False
        if self.state is not None:
            if not self.even_if_empty and self.changes.leave_as_it_is(self.state):
                return False
            check_writable(self.state)
            for check in self.claims.checks:
                check(self.state)
            self._rebase(self.state)
        check_growing(self.changes, self.state)
        attempt = Attempt(
            self.now(),
            self.token,
            self._parent_time(),
            self._read_version,
            self.isolation.value,
            self.is_blind_append,
        )
        entry = build_entry(self.changes, self.state, self.provenance, attempt)
        self.after = version_made(self.log, self.state, entry)
        self.entry = entry
        return True

    def _rebase(self, state: Snapshot) -> None:
        """Have the changes follow deletes of rows that they move."""
        if self.claims.rebase is not None:
            changes, made = self._planned
            self.changes, said = self.claims.rebase(changes, state)
            self.provenance = replace(made, metrics={**made.metrics, **said})

    def _parent_time(self) -> int | None:
        """Return the time that an in-commit timestamp must be later than; None where there is none.

        The first one must be later than the file of the commit before (Delta protocol, "In-Commit Timestamps").
        """
        state, metadata = self.state, self.changes.metadata
        if state is None or state.is_enabled(IN_COMMIT_TIMESTAMPS):
            return None if state is None else _in_commit_time(state)
        if metadata is None or not metadata.is_enabled(IN_COMMIT_TIMESTAMPS):
            return None
        try:
            return self.log.storage.head(self.log.commit_entry(state.version, 0).meta.path).modified
        except ObjectNotFoundError:
            # It was cleaned up.
            return None

    @property
    def is_blind_append(self) -> bool:
        """Whether the change only adds files, and has read none."""
        changes = self.changes
        return (
            bool(changes.adds) and self.claims.reads_nothing and changes.metadata is None and changes.protocol is None
        )

    def _was_created(self) -> bool:
        """Return whether an earlier call has created the table by this very change; refuse a table of others."""
        entries = [entry for entry in self.log.entries() if entry.file.kind == "commit" or entry.file.is_checkpoint]
        first = next((entry for entry in entries if entry.version == 0 and entry.file.kind == "commit"), None)
        if first is not None and self._is_own(self.log.read(first)):
            self.state, self.was_made = Snapshot.load(self.log), True
            return True
        if entries:
            raise TableExistsError("there is a table already")
        return False

    def _is_own(self, data: bytes) -> bool:
        """Return whether a commit is this very change."""
        return self.token.encode() in data and commit_info(data).get("txnId") == self.token

    def _is_done(self, state: Snapshot) -> bool:
        return self.once is not None and state.has_progress(*self.once, self.now())

    def _catch_up(self, state: Snapshot) -> bool:
        """Move on to the newest version; return False where one of its commits makes the change superfluous."""
        newer = state.newer_commits()
        for version, data in newer.commits:
            winner = Winner(state, version, data)
            after = state.after(version, data)
            self.was_made = self._is_own(data)
            if self.was_made or self._is_done(after):
                self.state = after
                return False
            check_conflicts(self.claims, winner, self.isolation)
            self.state = state = after
        self.follows_checksum = state.version in newer.checksums
        return True

    def _built(self) -> Entry:
        if self.entry is None:
            raise AssertionError("prepare comes first")
        return self.entry

    def send(self) -> PutResult:
        """Put the log entry, unless there is one of this version."""
        entry = self._built()
        self.is_sent = True
        return put_entry(self.log, entry.version, entry.data)

    def confirm(self) -> Fate:
        """Return whether a log entry that was written is part of the history.

        A gateway can say that it has written what it has not, so that the entry is read back from a store of objects.
        It is the last object of a commit, so that a store that kept it has also kept the data files before it.
        """
        return self._in_history() if self.log.root.scheme == "file" else self.look()

    def _in_history(self) -> Fate:
        """Return whether a log entry that is there is part of the history.

        If others committed and cleaned up between our listing and our put, the put went into a hole. If they dropped
        the table, it went into an empty log, or into that of a table which they made in its place. That takes long, so
        only a put that took long is looked at again, or one to a disk, which is soon asked.
        """
        version = self._built().version
        if self._is_followed() if self.log.root.scheme == "file" else self.now() - self._listed < _SUSPICIOUS:
            return Fate.OURS
        entries = list(self.log.entries(max(version - 1, 0)))
        commits = {entry.version: entry for entry in entries if entry.file.kind == "commit"}
        checkpoints = {entry.version for entry in entries if entry.file.is_checkpoint}
        is_newest = max(commits.keys() | checkpoints, default=version) <= version
        try:
            if self.state is not None:
                self.state.check_same_commit(commits.get(version - 1))
        except VersionNotFoundError:
            if not is_newest:
                # Others have gone on from there, so that it cannot be withdrawn.
                raise
        else:
            if not version or version - 1 in commits.keys() | checkpoints or version in checkpoints:
                return Fate.OURS
            if not is_newest:
                return self._look_in_newest()
        # The newest version stays while there is a table. Another table in its place needs the name.
        path = f"{self.log.path}/{commit_name(version)}"
        discard_files(self.log.storage, self.log.path, [path], LOG_FILE)
        return Fate.LOST

    def _is_followed(self) -> bool:
        """Return whether the log has the commit that this one follows."""
        if self.state is None:
            return True
        entry = self.log.commit_entry(self.state.version, 0)
        try:
            self.state.check_same_commit(replace(entry, meta=self.log.storage.head(entry.meta.path)))
        except (ObjectNotFoundError, CorruptLogError, VersionNotFoundError):
            return False
        return True

    def look(self) -> Fate:
        """Return the outcome of the log entry, by reading it back."""
        entry = self._built()
        fate = look_for_entry(self.log, entry.version, entry.data)
        if fate is Fate.HIDDEN:
            return self._look_in_newest()
        return self._in_history() if fate is Fate.OURS else fate

    def _look_in_newest(self) -> Fate:
        """Return what became of the change where its version was cleaned up: the newest version may hold its files."""
        if self.state is None:
            return Fate.HIDDEN
        fresh = self.changes.adds.keys() - set(self.state.live.table.column("path").to_pylist())
        if not fresh:
            return Fate.HIDDEN
        if shows_files(Snapshot.load(self.log), fresh):
            return Fate.OURS
        # The version was committed, or there would be no later one, and it was committed by somebody else.
        raise CommitConflictError(
            f"version {self._built().version} was committed and cleaned up by others meanwhile",
            hint="open the table again, and repeat the operation",
        )


def _in_commit_time(state: Snapshot) -> int:
    """Return the in-commit timestamp of a version; they must be enabled."""
    try:
        timestamp = commit_info(state.commit_bytes()).get("inCommitTimestamp")
    except ObjectNotFoundError:
        timestamp = None
    if type(timestamp) is not int:
        raise CorruptLogError(
            "in-commit timestamps are enabled, but the time of the newest commit is not recorded", version=state.version
        )
    return timestamp
