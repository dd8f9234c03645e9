"""The commit loop of all formats: what a change that was sent may be said to have become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from deltaberg.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptMetadataError,
    DeltabergError,
    StorageError,
    UnsupportedFeatureError,
)
from deltaberg.storage.base import PutOutcome, PutResult
from deltaberg.table.commit.commit import ClockedPolicy, Fate, commit_change

pytestmark = pytest.mark.one_backend

_LOST = PutResult(PutOutcome.UNKNOWN, StorageError("the answer is lost"))
_WRITTEN = PutResult(PutOutcome.WRITTEN)
_REFUSED = PutResult(PutOutcome.EXISTS, CommitConflictError("the branch has moved"))


@dataclass
class _Change:
    """A change whose requests and looks end as told; the last of each stays."""

    sends: list[PutResult | DeltabergError]
    looks: list[Fate | DeltabergError] = field(default_factory=list)
    token: str = "7"
    calls: list[str] = field(default_factory=list)

    def prepare(self) -> bool:
        self.calls.append("prepare")
        return True

    def send(self) -> PutResult:
        self.calls.append("send")
        found: PutResult = _next(self.sends)
        return found

    def confirm(self) -> Fate:
        return Fate.OURS

    def look(self) -> Fate:
        self.calls.append("look")
        found: Fate = _next(self.looks)
        return found


def _next(script: list[Any]) -> Any:
    found = script.pop(0) if len(script) > 1 else script[0]
    if isinstance(found, DeltabergError):
        raise found
    return found


def _commit(change: _Change, retries: int = 2) -> int:
    return commit_change(change, ClockedPolicy(retries=retries, sends=3, wait=lambda _: None))


_FAILURES: list[Callable[[], DeltabergError]] = [
    lambda: StorageError("the disk is full"),
    lambda: CorruptMetadataError("the disk is full"),
    lambda: UnsupportedFeatureError("the disk is full"),
]


@pytest.mark.parametrize("failure", _FAILURES)
@pytest.mark.parametrize("token", ["7", ""])
def test_whatever_keeps_us_from_looking(token: str, failure: Callable[[], DeltabergError]) -> None:
    """Nobody knows, and the error says why; a token is named only where there is one."""
    with pytest.raises(CommitUnknownError, match="took effect: the disk is full") as caught:
        _commit(_Change([_LOST], [failure()], token))
    assert caught.value.context.get("token") == (token or None)
    assert ("find_commit" in str(caught.value.hint)) == bool(token)
    change = _Change([_LOST], [failure(), Fate.OURS])
    assert (_commit(change), change.calls) == (0, ["prepare", "send", "look", "look"])


@pytest.mark.parametrize("failure", _FAILURES)
def test_a_refusal_is_final_only_for_the_first_request(failure: Callable[[], DeltabergError]) -> None:
    first = failure()
    change = _Change([first])
    with pytest.raises(type(first), match="the disk is full"):
        _commit(change)
    assert change.calls == ["prepare", "send"]
    # A request before it may still arrive, and has arrived by the time of the second look.
    change = _Change([_LOST, failure()], [Fate.ABSENT, Fate.OURS])
    assert (_commit(change), change.calls) == (0, ["prepare", "send", "look", "send", "look"])
    with pytest.raises(CommitUnknownError, match="took effect: the disk is full"):
        _commit(_Change([_LOST, failure()], [Fate.ABSENT]))


def test_refusals_end_with_their_reason() -> None:
    change = _Change([_REFUSED], [Fate.LOST])
    with pytest.raises(CommitConflictError, match="was refused 3 times in a row: the branch has moved"):
        _commit(change)
    assert change.calls == ["prepare", "send", "look"] * 3
    with pytest.raises(CommitConflictError, match="was refused: the branch has moved"):
        _commit(_Change([_REFUSED], [Fate.LOST]), retries=0)
    assert _commit(_Change([_REFUSED, _WRITTEN], [Fate.LOST])) == 1
    # Without a refusal, somebody else's commit is in the place of ours.
    with pytest.raises(CommitConflictError, match="other writers committed first 3 times in a row"):
        _commit(_Change([_LOST], [Fate.LOST]))


@pytest.mark.parametrize("error", [CommitConflictError("theirs is there"), CommitUnknownError("two files")])
def test_what_a_look_finds_out_is_final(error: DeltabergError) -> None:
    change = _Change([_LOST], [error])
    with pytest.raises(type(error), match=error.message):
        _commit(change)
    assert change.calls == ["prepare", "send", "look"]
