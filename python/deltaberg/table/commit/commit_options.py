"""The options of a commit, whichever verb makes it, on tables of both formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

from deltaberg.choices import Isolation
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint, at_fault, shown_value
from deltaberg.lists import is_list
from deltaberg.table.arguments import (
    checked_flag,
    checked_note,
    checked_progress,
    checked_properties,
    checked_text,
    fields_given,
    has_attributes,
)
from deltaberg.table.commit.commit import ClockedPolicy, CommitPolicy, checked_policy
from deltaberg.table.commit.stream_batches import StreamBatch

if TYPE_CHECKING:
    from deltaberg.table.rows.progress import Progress

__all__ = ["CommitOptions"]


@dataclass(frozen=True, kw_only=True)
class CommitOptions:
    """How a commit is made, and what it records beside its changes.

    The fields are those of `deltaberg.table.verbs.shared_arguments.RecordedArguments`. What ``commit_properties`` says
    becomes that of the others.

    Parameters
    ----------
    app_transactions
        Applications and the versions of their progress. They are recorded whatever was recorded before.
    batch
        The batch of a stream that ``txn="auto"`` has found. Then ``txn`` is its query and its number.

    Raises
    ------
    InvalidArgumentError
        An argument is not of its type.
    """

    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    properties: Mapping[str, Any] | None = None
    branch: str | None = None
    isolation: str | None = None
    policy: CommitPolicy | None = None
    progress: Progress | bool | None = None
    unsafe_single_writer: bool = False
    commit_properties: Any = None
    post_commithook_properties: Any = None
    app_transactions: tuple[tuple[str, int], ...] | None = None
    batch: StreamBatch | None = None

    def __post_init__(self) -> None:
        checked_flag("unsafe_single_writer", self.unsafe_single_writer)
        checked_policy(self.policy)
        checked_properties(self.properties)
        checked_note("user_metadata", self.user_metadata, "pass a text, such as what json.dumps returns")
        for name, hint in (("branch", "write to the branch that is open"), ("isolation", "have the table decide")):
            if getattr(self, name) is not None:
                checked_text(name, getattr(self, name), f"leave it out to {hint}")
        levels: tuple[str, ...] = get_args(Isolation)
        if self.isolation is not None and self.isolation not in levels:
            raise InvalidArgumentError(
                f"there is no isolation level {shown_value(self.isolation)}", hint=f"known are {', '.join(levels)}"
            )
        if self.txn is not None:
            self._take_progress(self.txn)
        if self.commit_properties is not None:
            self._take(self.commit_properties)

    def _take_progress(self, txn: Any) -> None:
        """Take over what ``txn`` says: an application and a version, or the batch that is run at the moment."""
        if isinstance(txn, str):
            batch = StreamBatch.of(txn)
            object.__setattr__(self, "batch", batch)
            txn = (batch.application, batch.number)
        elif not (isinstance(txn, (tuple, list)) and len(txn) == 2):
            raise InvalidArgumentError(
                at_fault("txn", f"must be the name of an application and a version, not {shown_value(txn)}"),
                hint='pass ⟪txn=("nightly load", 7)⟫',
            )
        object.__setattr__(self, "txn", checked_progress(*txn))

    def _take(self, commit_properties: Any) -> None:
        """Take over what ``commit_properties`` says: a mapping, or an object of deltalake, known by its attributes."""
        properties = commit_properties
        if not isinstance(commit_properties, Mapping):
            if not has_attributes(commit_properties, "custom_metadata", "max_commit_retries", "app_transactions"):
                raise InvalidArgumentError(
                    at_fault("commit_properties", f"is of the type {type(commit_properties).__name__}"),
                    hint="pass a dict of names and values, or CommitProperties of deltalake",
                )
            properties = commit_properties.custom_metadata
            object.__setattr__(self, "app_transactions", _progress_of(commit_properties.app_transactions))
            if self.policy is None and commit_properties.max_commit_retries is not None:
                object.__setattr__(self, "policy", CommitPolicy(retries=commit_properties.max_commit_retries))
        if self.properties is not None and properties is not None:
            raise InvalidArgumentError(
                Hint("⟪commit_properties⟫ and ⟪properties⟫ are the same"), hint="pass one of them"
            )
        object.__setattr__(
            self, "properties", self.properties if properties is None else checked_properties(properties)
        )
        object.__setattr__(self, "commit_properties", None)

    @property
    def clocked(self) -> ClockedPolicy | None:
        """The policy, with the clocks of this machine unless it has others."""
        return checked_policy(self.policy)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> CommitOptions:
        """Return those of some arguments that are about a commit."""
        return cls(**fields_given(cls, arguments))

    @classmethod
    def refuse_in_transaction(cls, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments about a commit of an operation whose transaction commits it."""
        for one in fields(cls):
            given = arguments.get(one.name)
            if given is not None and given is not False:
                raise InvalidArgumentError(
                    Hint(f"⟪{one.name}⟫ is about the commit, which is that of the whole transaction"),
                    hint=f"pass ⟪{one.name}=⟫ to ⟪transaction()⟫ of the table",
                )


def _progress_of(transactions: Any) -> tuple[tuple[str, int], ...] | None:
    """Return what transactions of deltalake, in any iterable, say of applications; None if there are none."""
    if transactions is not None and not is_list(transactions):
        raise InvalidArgumentError(
            at_fault("app_transactions", f"must be a list, not {shown_value(transactions)}"),
            hint="pass a list of Transaction of deltalake",
        )
    parts = [
        (getattr(one, "app_id", None), getattr(one, "version", None))
        for one in (() if transactions is None else transactions)
    ]
    return tuple(checked_progress(*part) for part in parts) or None
