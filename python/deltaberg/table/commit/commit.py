"""Commits of every format: a change is sent, and what became of it is settled before anything else happens.

A store answers a put in one of three ways: written, refused because something is there, or not at all. So a change
that was sent is *ours* (it is part of the table), *lost* (another one took its place for good), *absent* (it is not
there, so that the very same bytes can be sent again), or *hidden* (nothing tells any more).
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Protocol

from deltaberg.errors import CommitConflictError, CommitUnknownError, DeltabergError, StorageError
from deltaberg.signatures import public
from deltaberg.storage.base import PutOutcome, PutResult
from deltaberg.table.arguments import checked_kind, checked_number, checked_seconds
from deltaberg.telemetry import Span, span
from deltaberg.whole_numbers import counted

__all__ = ["Change", "ClockedPolicy", "CommitPolicy", "CommitResult", "Fate", "checked_policy", "commit_change"]


class Fate(Enum):
    """The outcome of a change that was sent."""

    #: It is part of the table.
    OURS = "ours"
    #: Another change took its place, and this attempt can never land.
    LOST = "lost"
    #: It is not part of the table, but may become so later. It can be sent again as it is.
    ABSENT = "absent"
    #: It was part of the table or never will be: what would tell was cleaned up.
    HIDDEN = "hidden"


class Change(Protocol):
    """One change of a table, which its format prepares and sends."""

    #: What finds the commit later.
    token: str

    def prepare(self) -> bool:
        """Make the change fit on top of the newest state, and build what is sent; False if nothing is left to do.

        Raises
        ------
        CommitConflictError
            What landed meanwhile does not allow the change.
        """

    def send(self) -> PutResult:
        """Send what `prepare` built. Repeated calls send the same bytes."""

    def confirm(self) -> Fate:
        """Return the outcome of a change that the store says it has written."""

    def look(self) -> Fate:
        """Return the outcome of a change for which the store gave another answer, or none."""


@public
@dataclass(frozen=True)
class CommitPolicy:
    """How long a commit is tried.

    Parameters
    ----------
    retries
        How often a change that was lost to another one, or surely refused, is prepared and sent again.
    sends
        How often the same bytes are sent while it is unknown whether they arrived.
    pause, longest_pause
        The first and the longest waiting time between attempts, in seconds; it doubles from one attempt to the next,
        and a random part of it is waited.
    timeout
        Seconds after which no further attempt is made; None for no limit.
    """

    retries: int = 1000
    sends: int = 6
    pause: float = 0.01
    longest_pause: float = 2.0
    timeout: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("retries", 0), ("sends", 1)):
            object.__setattr__(self, name, checked_number(name, getattr(self, name), least, "pass a number of times"))
        for name in ("pause", "longest_pause"):
            object.__setattr__(self, name, checked_seconds(name, getattr(self, name)))
        if self.timeout is not None:
            object.__setattr__(self, "timeout", checked_seconds("timeout", self.timeout))


@dataclass(frozen=True)
class ClockedPolicy(CommitPolicy):
    """A policy with its clocks.

    Parameters
    ----------
    wait
        What waits for a number of seconds.
    now
        What gives the time in milliseconds since 1970.
    ready
        What is called before a change is sent for the first time. An exception of it ends the commit, and nothing is
        sent.
    """

    wait: Callable[[float], object] = time.sleep
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ready: Callable[[Change], object] = lambda _: None

    def back_off(self, attempt: int) -> None:
        """Wait after an attempt, which is counted from 0."""
        longest = min(self.longest_pause, self.pause * 2 ** min(attempt, 30))
        self.wait(random.uniform(longest / 2, longest))  # noqa: S311 - it protects nothing


@dataclass(frozen=True, repr=False)
class CommitResult:
    """The effect of a commit. Its ``repr`` leaves out whatever is zero or empty.

    Parameters
    ----------
    version
        The version of the Delta table that was committed. If nothing was to be done, the version that is current. Of an
        Iceberg table, the number of its metadata file.
    token
        What `deltaberg.find_commit` finds the commit by.
    operation
        The operation as the history of the table records it.
    committed
        Whether there is a new commit. There is none where the same progress of an application was recorded before, or
        where the change is empty.
    added_files, removed_files
        The number of data files that were added and removed.
    added_bytes, removed_bytes
        Their sizes in bytes, with those of the delete files of Iceberg tables.
    added_rows
        The number of rows in the added files; None where a file does not tell.
    inserted_rows, updated_rows, deleted_rows, copied_rows
        How many rows are new, have new values, are gone, and were written anew as they were, because their files were;
        None where nobody counted them. A file of which all rows go is not read, so that nobody knows how many position
        delete files or equality delete files had left. Of a restore and of a branch that moves, rows that are there
        again are new, and metadata alone is asked: the log of a Delta table, as long as rows either come or go, and the
        summaries of Iceberg snapshots, as long as these appended, rewrote or deleted.
    retries
        How often the change was prepared again because another commit came first.
    seconds
        How long the commit took, without writing data files.
    warnings
        What failed after the commit, a sentence each. The commit stands all the same.
    metrics
        What the commit says that the operation did, in numbers.
    snapshot_id
        The snapshot of the Iceberg table that was committed, or is current; None if it has none, and for Delta tables.
    ignored_files
        How many files of a converted directory are no part of the table, because of their names.
    road
        How rows came into data files: ``local``, or by Spark ``native``, ``arrow`` or ``fused``. Empty if the commit
        wrote no rows.
    why_not_native
        Why Spark's own writer did not write the rows of a DataFrame. Empty if it did, or if there was none.
    """

    version: int
    token: str
    operation: str
    committed: bool = True
    added_files: int = 0
    removed_files: int = 0
    added_bytes: int = 0
    removed_bytes: int = 0
    added_rows: int | None = 0
    inserted_rows: int | None = 0
    updated_rows: int | None = 0
    deleted_rows: int | None = 0
    copied_rows: int | None = 0
    retries: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    road: str = ""
    why_not_native: str = ""
    snapshot_id: int | None = None
    ignored_files: int = 0

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What was done, as labels and text for people."""
        facts = [("operation", self.operation)]
        for what in ("inserted", "updated", "deleted", "copied"):
            count = getattr(self, f"{what}_rows")
            if count is None:
                facts.append((what, "an unknown number of rows"))
            elif count:
                facts.append((what, counted(count, "row")))
        for what in ("added", "removed"):
            counts = {unit: getattr(self, f"{what}_{unit}s", None) for unit in ("file", "row", "byte")}
            deletes = {
                "delete file": self._metric("DeleteFiles", what),
                "deletion vector": self._metric("DeletionVectors", what),
            }
            counts = {**deletes, **counts}
            if any(counts.values()):
                facts.append((what, ", ".join(counted(count, unit) for unit, count in counts.items() if count)))
        if self.ignored_files:
            facts.append(("ignored", counted(self.ignored_files, "file")))
        if self.retries:
            facts.append(("retries", str(self.retries)))
        facts.extend(("warning", text) for text in self.warnings)
        return facts

    def _metric(self, things: str, what: str) -> int:
        """Return how many files or vectors were added or removed, as merges and as other operations call it."""
        return max(self.metrics.get(f"num{of}{things}{what.title()}", 0) for of in ("", "Target"))

    def __repr__(self) -> str:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        shown = {name: round(value, 3) if isinstance(value, float) else value for name, value in values.items()}
        kept = {one.name: shown[one.name] for one in fields(self) if values[one.name] != one.default}
        if not self.metrics:
            kept.pop("metrics", None)
        return f"CommitResult({', '.join(f'{name}={value!r}' for name, value in kept.items())})"

    def __str__(self) -> str:
        """Return what was done as one line.

        Examples
        --------
        >>> str(CommitResult(3, "3-token", "WRITE", added_files=1, added_rows=2, added_bytes=600))
        'version 3: operation WRITE; added 1 file, 2 rows, 600 bytes'
        """
        state = "" if self.committed else " (unchanged: there was nothing to do)"
        place = f"version {self.version}" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        return f"{place}{state}: {'; '.join(f'{name} {text}' for name, text in self.facts)}"


def checked_policy(policy: CommitPolicy | None) -> ClockedPolicy | None:
    """Refuse what is neither a policy nor None, and give a policy the clocks of this machine, unless it has others."""
    if policy is None or isinstance(policy, ClockedPolicy):
        return policy
    return ClockedPolicy(**vars(checked_kind("policy", policy, CommitPolicy, "pass CommitPolicy(retries=10)")))


_logger = logging.getLogger("deltaberg.commit")


def commit_change(change: Change, policy: ClockedPolicy, table: str | None = None) -> int:
    """Commit a change, and return how often it had to be prepared again.

    Parameters
    ----------
    table
        Where the table is; None if there are several.

    Raises
    ------
    CommitConflictError
        What landed meanwhile does not allow the change, or it was refused every time.
    CommitUnknownError
        It cannot be settled whether the change landed. ``context["token"]`` finds the commit later.
    StorageError
        The store failed, and the change surely did not land.
    """
    with span("commit", table=table, attempts=0, conflicts=0) as told:
        return _committed(change, policy, told)


def _committed(change: Change, policy: ClockedPolicy, told: Span) -> int:
    started, retry = time.monotonic(), 0
    refusal: DeltabergError | None = None
    for retry in range(policy.retries + 1):
        if not change.prepare():
            return retry
        if not retry:
            policy.ready(change)
        told.set(attempts=retry + 1)
        fate, refusal = _settled(change, policy)
        if fate is Fate.OURS:
            return retry
        told.set(conflicts=retry + 1)
        _logger.info("attempt %d of a commit was lost: %s", retry + 1, refusal or "another commit came first")
        if policy.timeout is not None and time.monotonic() - started >= policy.timeout:
            break
        policy.back_off(retry)
    often = f" {retry + 1} times in a row" if retry else ""
    raise CommitConflictError(
        f"other writers committed first{often}"
        if refusal is None
        else f"the commit was refused{often}: {refusal.message}",
        hint="try again when fewer writers are busy",
    ) from refusal


def _settled(change: Change, policy: ClockedPolicy) -> tuple[Fate, DeltabergError | None]:
    """Send a prepared change until it is known to be ours or lost; return that, and the reason of a refusal."""
    cause: DeltabergError | None = None
    result: PutResult | None = None
    for attempt in range(policy.sends):
        if attempt:
            policy.back_off(attempt)
        # It is sent again only once it is known to be absent.
        _logger.debug("sending a commit, attempt %d", attempt + 1)
        result = result or _sent(change, may_arrive=cause is not None)
        cause = result.cause or cause or StorageError("the store does not show what it says it has")
        try:
            fate = change.confirm() if result.outcome is PutOutcome.WRITTEN else change.look()
        except (CommitConflictError, CommitUnknownError):
            raise
        except DeltabergError as error:
            # Whatever keeps us from looking, the change was sent, and may be there.
            cause = error
            continue
        if fate is Fate.HIDDEN:
            raise _unknown(change, "the table shows neither it nor what took its place") from cause
        if fate is not Fate.ABSENT:
            return fate, result.cause if result.outcome is PutOutcome.EXISTS else None
        result = None
    raise _unknown(change, "the store does not answer" if cause is None else cause.message) from cause


def _sent(change: Change, *, may_arrive: bool) -> PutResult:
    """Send a change. A refusal is final only if no request before it may still arrive."""
    try:
        return change.send()
    except DeltabergError as error:
        if not may_arrive:
            raise
        return PutResult(PutOutcome.UNKNOWN, error)


def _unknown(change: Change, reason: str) -> CommitUnknownError:
    found = "ask ⟪deltaberg.find_commit(…)⟫ with the token later" if change.token else "look at the table later"
    return CommitUnknownError(
        f"the commit was sent, but it is not known whether it took effect: {reason}",
        hint=f"{found}; delete no file of this operation until then",
        token=change.token or None,
    )
