"""Commits to several tables of a REST catalog at once (Iceberg REST Open API specification, "commitTransaction").

The server carries out all changes or none. What became of a request is found as for one table: the snapshots that it
was to add are in their tables, or they are not. The answer itself does not tell, since it is empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from deltaberg.catalogs.names import Identifier, Levels, identifier_levels
from deltaberg.catalogs.rest.rest_commit import RestAttempt, key_of_request, send_changes
from deltaberg.catalogs.rest.rest_door import RestDoor
from deltaberg.errors import CommitUnknownError, DeltabergError, InvalidArgumentError, in_context
from deltaberg.hints import Hint
from deltaberg.iceberg.table import IcebergTable
from deltaberg.iceberg.table_transaction import IcebergTransaction
from deltaberg.iceberg.transaction.table_commit import Committed, TableChange, commit_policy
from deltaberg.signatures import public, takes
from deltaberg.storage.base import PutOutcome, PutResult
from deltaberg.table.commit.commit import CommitPolicy, CommitResult, Fate, checked_policy, commit_change
from deltaberg.table.verbs.shared_arguments import RecordedArguments
from deltaberg.table.verbs.table import operations_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["SeveralTables"]

_Own = TypeVar("_Own", bound="SeveralTables")


@dataclass
class _Changes:
    """Changes of several tables, as the commit loop sees them: one change."""

    door: RestDoor
    path: str
    parts: Mapping[Levels, TableChange]
    #: What finds the commit later: the snapshot that it adds to one of the tables.
    token: str = field(default="", init=False)
    _sent: list[TableChange] = field(default_factory=list, init=False)
    _headers: Mapping[str, str] = field(default_factory=dict, init=False)

    @property
    def _witnesses(self) -> list[TableChange]:
        """The changes that add snapshots: whether these are there tells what became of the commit."""
        return [part for part in self.parts.values() if part.snapshot_id is not None]

    @property
    def _attempts(self) -> list[RestAttempt]:
        return [part.attempt for part in self._sent if isinstance(part.attempt, RestAttempt)]

    def prepare(self) -> bool:
        """Make the changes for the newest metadata of the tables, unless an earlier attempt has landed."""
        self._sent = []
        for levels, part in self.parts.items():
            with in_context(table=".".join(levels)):
                if part.prepare():
                    self._sent.append(part)
        try:
            is_there = self._is_there()
        except CommitUnknownError:
            raise
        except DeltabergError as error:
            raise CommitUnknownError(
                f"one of the tables shows the commit, and another one cannot be loaded: {error.message}",
                hint="look at the tables; delete no file of this operation",
                token=self.token,
            ) from error
        if is_there:
            self._settle(Fate.OURS)
            return False
        self.token = next((part.token for part in self._witnesses), "")
        self._headers = key_of_request(self.door)
        return bool(self._sent)

    def _is_there(self) -> bool:
        """Return whether the tables show the commit.

        The server carries out all changes or none. Tables that do not show it were loaded before it landed, or were
        dropped or rolled back since, or the server does what the protocol forbids.

        Raises
        ------
        CommitUnknownError
            If some of the tables show it, and others as they were before.
        """
        if not any(part.is_committed for part in self._witnesses):
            return False
        absent = [part for part in self._witnesses if not part.is_committed and part.is_missing()]
        if absent:
            there = [".".join(levels) for levels, part in self.parts.items() if part.is_committed]
            raise CommitUnknownError(
                f"the catalog shows the commit in {', '.join(there)}, but not in the other tables",
                hint="look at the tables; delete no file of this operation",
                token=self.token,
            )
        return True

    def send(self) -> PutResult:
        """Send what was prepared."""
        for part in self._sent:
            part.is_sent = True
        body = {"table-changes": [attempt.body for attempt in self._attempts]}
        # The protocol has no other success: it is an empty answer that tells nothing of the tables.
        result = send_changes(self.door, self.path, body, self._headers, lambda answer: answer.status == 204)
        for attempt in self._attempts:
            attempt.note(result.outcome)
        return result

    def confirm(self) -> Fate:
        """Return whether the tables show what the answer confirms, which does not hold them.

        Where they cannot be loaded, or have no snapshot that would tell, the answer counts.
        """
        if not self._witnesses:
            return self._settle(Fate.OURS)
        for attempt in self._attempts:
            attempt.note(PutOutcome.UNKNOWN)
        try:
            return self.look()
        except CommitUnknownError:
            raise
        except DeltabergError:
            return self._settle(Fate.OURS)

    def look(self) -> Fate:
        """Return the outcome of the changes, by loading the tables."""
        fates = [part.look() for part in self._sent]
        if self._is_there():
            return self._settle(Fate.OURS)
        if Fate.HIDDEN in fates:
            return Fate.HIDDEN
        # Changes without a snapshot may be there because others made the same ones.
        telling = [fate for part, fate in zip(self._sent, fates, strict=True) if part.snapshot_id is not None] or fates
        if set(telling) == {Fate.OURS}:
            return self._settle(Fate.OURS)
        may_arrive = any(attempt.may_arrive for attempt in self._attempts)
        # A request that is still on its way cannot take effect any more once a snapshot of others is in its place.
        is_lost = Fate.LOST in (telling if may_arrive else fates)
        return Fate.LOST if is_lost or (telling is fates and set(fates) != {Fate.ABSENT}) else Fate.ABSENT

    def _settle(self, fate: Fate) -> Fate:
        for part in self.parts.values():
            part.settle(fate)
        return fate


@public
class SeveralTables:
    """A transaction of several tables of a REST catalog, whose changes become visible together, or not at all.

    `Catalog.transaction` returns one. As a context manager it commits at the end, unless an exception ends the block.

    Parameters
    ----------
    door
        The way to the catalog.
    load
        Opens a table of the catalog.
    path
        Where the server takes the changes.
    policy
        How long the commit is tried; by default, as the properties of the first table say.
    """

    def __init__(
        self, door: RestDoor, load: Callable[[Identifier], IcebergTable], path: str, policy: CommitPolicy | None = None
    ) -> None:
        self._door = door
        self._load = load
        self._path = path
        self._policy = checked_policy(policy)
        self._members: dict[Levels, IcebergTransaction] = {}
        self._is_ended = False
        #: What the commit did, by the levels of the names of the tables; empty before it.
        self.results: dict[Levels, CommitResult] = {}

    @takes(RecordedArguments)
    def table(self, identifier: Identifier, **commit: Unpack[RecordedArguments]) -> IcebergTransaction:
        """Return the transaction of a table, whose operations become a part of the commit.

        Parameters
        ----------
        identifier
            The table. If it is named again, the transaction is the same one.
        **commit
            As for `IcebergTable.transaction`, but for the policy, which is that of the commit of all tables.

        Raises
        ------
        InvalidArgumentError
            If the transaction has ended, or the table is named again with arguments.
        """
        self._check_open()
        levels = identifier_levels(identifier)
        if commit.get("policy") is not None:
            raise InvalidArgumentError(
                Hint("⟪policy⟫ is about the commit of all tables"),
                hint="pass ⟪policy=⟫ to ⟪transaction()⟫ of the catalog",
            )
        if levels in self._members:
            if any(value is not None for value in commit.values()):
                raise InvalidArgumentError(
                    "the table is a part of the transaction already",
                    hint=f"pass {', '.join(f'⟪{name}=⟫' for name in commit)} the first time",
                    table=".".join(levels),
                )
            return self._members[levels]
        member = self._load(levels).transaction(**commit)
        operations_of(member).transaction.is_member = True
        return self._members.setdefault(levels, member)

    def _check_open(self) -> None:
        if self._is_ended:
            raise InvalidArgumentError("the transaction has ended", hint="begin another one")

    def commit(self) -> dict[Levels, CommitResult]:
        """Commit the changes of all tables, and return what was done, by the levels of their names.

        Raises
        ------
        CommitConflictError
            Another commit to one of the tables came first, and the changes do not fit on top of it. Nothing was
            committed.
        CommitUnknownError
            The commit was sent, but it is not known whether it took effect.
        """
        self._check_open()
        self._is_ended = True
        members = {levels: operations_of(member).transaction for levels, member in self._members.items()}
        try:
            handed = {levels: member.hand_over() for levels, member in members.items()}
            parts = {levels: change for levels, change in handed.items() if change is not None}
            committed = self._committed(parts) if parts else {}
        except BaseException as error:
            for member in members.values():
                member.end_failed(error)
            raise
        self.results = {levels: member.end_committed(committed.get(levels)) for levels, member in members.items()}
        for levels, done in committed.items():
            members[levels].check_returned(done)
        return self.results

    def _committed(self, parts: Mapping[Levels, TableChange]) -> dict[Levels, Committed]:
        """Commit the changes, and return what became of each table."""
        started = time.monotonic()
        bases = [change.newest() for change in parts.values()]
        policy = self._policy or commit_policy(bases[0].metadata.properties)
        for change in parts.values():
            change.now = policy.now
        retries = commit_change(_Changes(self._door, self._path, parts), policy)
        seconds = time.monotonic() - started
        made = {}
        for levels, change in parts.items():
            loaded, warnings = change.finish()
            made[levels] = Committed(loaded, change.is_committed, change.token, retries, seconds, tuple(warnings))
        return made

    def _abort(self) -> None:
        self._is_ended = True
        for member in self._members.values():
            member.abort()

    def __enter__(self: _Own) -> _Own:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_ended:
            return
        if kind is None:
            self.commit()
        else:
            self._abort()
