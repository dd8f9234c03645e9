"""Committing updates: made for the newest metadata, sent, and made again where another commit came first."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError, TableExistsError, TableNotFoundError, in_context
from deltaberg.hints import shown_value
from deltaberg.iceberg.location.committer import Attempt, Committer, Proposal, Trace, file_digest
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.updates.requirements import (
    AssertCreate,
    AssertTableUUID,
    Requirement,
    check_requirements,
    requirements_of,
)
from deltaberg.iceberg.updates.updates import Update
from deltaberg.storage.base import PutResult
from deltaberg.table.commit.commit import ClockedPolicy, Fate, commit_change
from deltaberg.table.property_values import number_of
from deltaberg.whole_numbers import whole_number

__all__ = ["Committed", "Make", "TableChange", "commit_policy", "find_commit"]

#: Makes the changes that fit on top of metadata, with what must still hold; None if nothing is left to do. Without
#: requirements, those of the reference implementation are derived from the changes.
Make: TypeAlias = "Callable[[TableMetadata], tuple[Sequence[Update], Sequence[Requirement] | None] | None]"

#: Properties of a table, and the defaults that the specification's reference gives them.
#: The greatest number of properties, which readers keep in 32 bits.
_MOST = (1 << 31) - 1
_RETRIES = ("commit.retry.num-retries", 4)
_FIRST_WAIT = ("commit.retry.min-wait-ms", 100)
_LONGEST_WAIT = ("commit.retry.max-wait-ms", 60_000)
_TIMEOUT = ("commit.retry.total-timeout-ms", 1_800_000)


@dataclass(frozen=True)
class Committed:
    """The effect of a commit.

    Parameters
    ----------
    loaded
        The table as it was committed; where nothing was to be done, the newest one.
    committed
        Whether there is a new commit.
    token
        What finds the commit later: its snapshot, or else its metadata file. It is empty for a commit without a
        snapshot to a catalog that names its metadata files by itself.
    retries, seconds
        How often the change was made again, and how long it took.
    warnings
        What failed after the commit, a sentence each. The commit stands all the same.
    """

    loaded: LoadedTable
    committed: bool
    token: str
    retries: int
    seconds: float
    warnings: tuple[str, ...]


def commit_policy(properties: Mapping[str, str]) -> ClockedPolicy:
    """Return how long a commit to a table is tried.

    Raises
    ------
    InvalidArgumentError
        If a property is not a whole number.
    """
    first, longest = _number(properties, *_FIRST_WAIT) / 1000, _number(properties, *_LONGEST_WAIT) / 1000
    return ClockedPolicy(
        retries=_number(properties, *_RETRIES),
        pause=first,
        longest_pause=max(first, longest),
        timeout=_number(properties, *_TIMEOUT) / 1000,
    )


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    return number_of(properties, name, default, 0, _MOST)


@dataclass
class TableChange:
    """A change of a table, as the commit loop sees it.

    Parameters
    ----------
    committer
        What commits to the table.
    make
        Makes the changes for metadata. It is called for every attempt, with the newest metadata, and has to raise
        `CommitConflictError` if the change does not fit on top of that.
    snapshot_id
        The snapshot that the changes add. It has to be the same one in every attempt: by it, an attempt that landed
        without an answer is told from the commits of others.
    staged
        A table that is to be created, as `Committer.stage` returned it; ``make`` is called with its metadata.
    planned
        The metadata that the caller has, which may still be the newest.
    """

    committer: Committer
    make: Make
    snapshot_id: int | None = None
    staged: LoadedTable | None = None
    planned: LoadedTable | None = None
    now: Callable[[], int] = field(default=ClockedPolicy().now, init=False)
    token: str = field(default="", init=False)
    is_committed: bool = field(default=False, init=False)
    #: Whether an attempt was sent that may be part of the table.
    is_sent: bool = field(default=False, init=False)
    _known: LoadedTable | None = field(default=None, init=False)
    _attempt: Attempt | None = field(default=None, init=False)
    _traces: list[Trace] = field(default_factory=list, init=False)

    def commit(self, policy: ClockedPolicy | None = None) -> Committed:
        """Commit the change, or create the table.

        Parameters
        ----------
        policy
            How long the commit is tried; by default, as the properties of the table say.

        Raises
        ------
        CommitConflictError
            What landed meanwhile does not allow the change, or other writers were faster every time.
        CommitUnknownError
            It cannot be settled whether the change landed. ``context["token"]`` finds the commit later.
        TableExistsError
            If a table is to be created where there is one.
        TableNotFoundError
            If there is no table.
        """
        started = time.monotonic()
        base = self.staged or self.newest()
        chosen = policy or commit_policy(base.metadata.properties)
        self.now = chosen.now
        with in_context(table=str(base.root)):
            retries = commit_change(self, chosen, str(base.root))
        loaded, warnings = self.finish()
        return Committed(loaded, self.is_committed, self.token, retries, time.monotonic() - started, tuple(warnings))

    def newest(self) -> LoadedTable:
        """Return the newest metadata, which the first attempt uses."""
        found = self.committer.load(self.planned)
        if found is None:
            raise self._not_found()
        self._known = found
        return found

    @property
    def base(self) -> LoadedTable:
        """The state that the change is made for."""
        if self._known is None:
            raise AssertionError("nothing was loaded yet")
        return self._known

    def _not_found(self) -> TableNotFoundError:
        table = None if self.planned is None else str(self.planned.root)
        return TableNotFoundError(
            "the table does not exist any more under its name", hint="it was dropped or renamed", table=table
        )

    def prepare(self) -> bool:
        """Make the change for the newest metadata, unless an earlier attempt turns out to have landed."""
        # What was sent before is lost, or there would be no further attempt.
        self._attempt, self.is_sent = None, False
        base = self._base()
        if base is None:
            return False
        made = self.make(base.metadata)
        if made is None or (not made[0] and self.staged is None):
            return False
        updates, given = made
        if self.staged is not None:
            requirements: list[Requirement] = [AssertCreate()]
        else:
            requirements = requirements_of(base.metadata, updates) if given is None else list(given)
            check_requirements(base.metadata, requirements)
        is_new = self.staged is not None
        proposal = Proposal(base, tuple(updates), tuple(requirements), self.snapshot_id, is_new, self.now())
        self._attempt = self.committer.attempt(proposal)
        trace = self._attempt.trace
        self._traces.append(trace)
        # A file of a directory has a name that files of others can have, even in the same millisecond.
        digest = "" if trace.digest is None else f"@{trace.digest}"
        by_file = "" if trace.file is None else f"{trace.file}@{trace.updated_ms}{digest}"
        self.token = by_file if self.snapshot_id is None else str(self.snapshot_id)
        return True

    def _base(self) -> LoadedTable | None:
        """Return what to build on; None if an earlier attempt has landed."""
        known = self._known if not self._traces else None
        loaded = known or self.committer.load()
        self._known = loaded
        if self.staged is None:
            if loaded is None:
                raise self._not_found()
        elif loaded is None:
            return self.staged
        elif self._was_made_before(loaded):
            return None
        elif loaded.metadata.table_uuid != self.staged.metadata.table_uuid:
            raise TableExistsError("there is a table already")
        elif self.snapshot_id is None or any(trace.is_in(loaded.metadata) for trace in self._traces):
            # Nobody else creates a table with this id.
            self.is_committed = True
            return None
        else:
            raise TableExistsError(
                "the catalog has made the table without its rows, though it was asked to prepare it only",
                hint="drop it, or append the rows to it",
            )
        if self.planned is not None and self.planned.metadata.table_uuid is not None:
            # Another table may be at the place of this one, with other columns and files.
            AssertTableUUID(self.planned.metadata.table_uuid).check(loaded.metadata)
        if any(trace.is_in(loaded.metadata) for trace in self._traces):
            self.is_committed = True
            return None
        return None if self._was_made_before(loaded) else loaded

    def _was_made_before(self, found: LoadedTable) -> bool:
        """Return whether the table has the snapshot though this change was not sent: it was, by an earlier call."""
        return not self._traces and Trace(self.snapshot_id, None, None).is_in(found.metadata)

    @property
    def creates(self) -> bool:
        """Whether it creates the table."""
        return self.staged is not None

    @property
    def was_sent(self) -> bool:
        """Whether any attempt was made that may have been sent."""
        return bool(self._traces)

    @property
    def attempt(self) -> Attempt:
        """The attempt that was prepared."""
        if self._attempt is None:
            raise AssertionError("prepare comes first")
        return self._attempt

    def send(self) -> PutResult:
        """Send what was prepared."""
        self.is_sent = True
        return self.attempt.send()

    def confirm(self) -> Fate:
        """Return what became of a change that was accepted."""
        return self.settle(self.attempt.confirm())

    def look(self) -> Fate:
        """Return what became of a change for which there was another answer, or none."""
        return self.settle(self.attempt.look())

    def is_missing(self) -> bool:
        """Return whether the newest metadata is such that what was prepared could still become part of it.

        Raises
        ------
        DeltabergError
            If the table cannot be loaded.
        """
        return self.look() in (Fate.ABSENT, Fate.LOST)

    def settle(self, fate: Fate) -> Fate:
        """Record the outcome of the commit request."""
        # Where several tables are committed together, nothing may have been to be done for this one.
        self.is_committed = fate is Fate.OURS and bool(self._traces)
        if fate is Fate.LOST:
            self.attempt.discard()
        return fate

    def finish(self) -> tuple[LoadedTable, list[str]]:
        """Return the table after the commit, and what failed after it."""
        if self.is_committed and self._attempt is not None:
            return self._attempt.finish()
        return self._known or self.newest(), []


#: The name of a metadata file, its time, and in directories the digest of its bytes.
_FILE_TOKEN = re.compile(r"(.+?)@([0-9]{1,18})(?:@([0-9a-f]+))?")


def _digest_of(loaded: LoadedTable, name: str) -> str | None:
    """Return the digest of a metadata file; None if it was cleaned up."""
    path = f"{loaded.file.path.rpartition('/')[0]}/{name}"
    try:
        return file_digest(loaded.store.open(loaded.file).get(path))
    except ObjectNotFoundError:
        return None


def find_commit(committer: Committer, token: str) -> LoadedTable | None:
    """Return the table if its newest metadata shows a commit; None if it does not.

    A commit is shown as long as its snapshot is not expired and rolled back, or its metadata file is in the log.

    Parameters
    ----------
    token
        What `CommitUnknownError` or `Committed` named.
    """
    loaded = committer.load()
    if loaded is None:
        return None
    of_file = _FILE_TOKEN.fullmatch(token)
    if of_file is not None:
        name, millis = of_file[1], int(of_file[2])
        trace = Trace(None, name, millis, is_own_name=True)
        is_ours = (loaded.file.path.rpartition("/")[2], loaded.metadata.last_updated_ms) == (name, millis)
        if of_file[3] is not None and _digest_of(loaded, name) not in (None, of_file[3]):
            return None
    elif (snapshot_id := whole_number(token, 0)) is not None:
        trace, is_ours = Trace(snapshot_id, None, None), False
    else:
        raise InvalidArgumentError(f"{shown_value(token)} is not the token of a commit to an Iceberg table")
    return loaded if is_ours or trace.is_in(loaded.metadata) else None
