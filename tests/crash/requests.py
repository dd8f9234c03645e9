"""Disturbs the requests of an operation to its store or its catalog, one after the other, and looks at what is left.

A crash ends a writer; here the network or the store misbehaves, and the writer has to find out what became of its
requests.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from deltaberg.errors import CommitConflictError, CommitUnknownError, StorageError, TableExistsError, TableNotFoundError
from tests.crash.aftermath import look_after
from tests.crash.formats import State
from tests.crash.operations import Operation
from tests.crash.places import Place, Trouble
from tests.crash.states import Verdict
from tests.crash.targets import Target
from tests.support.faulty_proxy import Fault, Seen
from tests.support.tally import Tally, sample

__all__ = ["disturb_everywhere"]

#: What an operation may raise.
_RAISED = (StorageError, CommitUnknownError)
#: What it may raise, too, if it drops or names a table: a request that is carried out twice finds that it was.
_RAISED_IN_CATALOG = (*_RAISED, TableNotFoundError, TableExistsError, CommitConflictError)


class _Requests:
    """Counts the requests of an operation, and disturbs one of them."""

    def __init__(self, number: int | None = None, trouble: Trouble | None = None) -> None:
        self.seen: list[Seen] = []
        self._number, self._trouble = number, trouble

    def __call__(self, seen: Seen) -> Fault | None:
        number = len(self.seen)
        self.seen.append(seen)
        if self._number is None or self._trouble is None:
            return None
        hit = number == self._number or (self._trouble.for_good and number > self._number)
        return replace(self._trouble.fault) if hit and self._trouble.fits(seen) else None


def disturb_everywhere(operation: Operation, place: Place, most: int | None, generator: random.Random) -> Tally:
    """Disturb an operation at each of its requests in each way, and say what was found.

    Parameters
    ----------
    place
        Where the table is.
    most
        How many of them; None tries everything.
    generator
        Chooses them.
    """
    tally = Tally(operation.name, "faults")
    with tally.timed():
        _disturb_everywhere(tally, operation, place, most, generator)
    return tally


def _disturb_everywhere(
    tally: Tally, operation: Operation, place: Place, most: int | None, generator: random.Random
) -> None:
    requests = _Requests()
    whole = place.copy()

    def run() -> None:
        place.proxy.trouble = requests
        operation.run(place.through_gateway(whole))
        place.proxy.trouble = None

    verdict = Verdict.of(operation, whole, run)
    trials = [
        (number, name)
        for number, seen in enumerate(requests.seen)
        for name, trouble in place.troubles.items()
        if trouble.fits(seen)
    ]
    tally.planned = len(trials)
    failed = 0
    for number, name in sample(trials, most, generator, lambda trial: place.decides(requests.seen[trial[0]])):
        seen = requests.seen[number]
        where = f"{name} at request {number}, {seen.method} {seen.target.partition('?')[0].rpartition('/')[2]}"
        try:
            failed += _try_one(tally, verdict, place, number, name, where)
        except Exception as error:  # noqa: BLE001 - whatever fails is a finding
            tally.wrong.append(f"{where}: {type(error).__name__}: {error}")
        finally:
            place.proxy.trouble = None
        tally.tried += 1
    tally.note = f"{failed} ended with an error"


def _try_one(tally: Tally, verdict: Verdict, place: Place, number: int, name: str, where: str) -> bool:
    """Disturb one request, and return whether the operation ended with an error."""
    at = place.copy()
    place.proxy.trouble = _Requests(number, place.troubles[name])
    operation, error, result = verdict.operation, None, None
    try:
        result = operation.run(place.through_gateway(at))
    except Exception as caught:  # noqa: BLE001 - what it may be is checked below
        error = caught
    # A request that was given up may arrive only now.
    place.proxy.settle()
    place.proxy.trouble = None
    trouble = place.troubles[name]
    is_refused = trouble.for_good and trouble.fault.answer == 409
    allowed = _RAISED_IN_CATALOG if operation.in_catalog or is_refused else _RAISED
    if error is not None and not isinstance(error, allowed):
        tally.wrong.append(f"{where}: {type(error).__name__}: {error}")
    # The result of a compaction names the groups that were refused.
    acknowledged = error is None and not getattr(result, "conflicts", None)
    state = look_after(tally, verdict, where, at, partial(place.files, at), acknowledged=acknowledged)
    if isinstance(error, CommitUnknownError) and state is not None:
        tally.wrong += [f"{where}: {sentence}" for sentence in _unknown(verdict, state, at, error)]
    return error is not None


def _unknown(verdict: Verdict, state: State, at: Target, error: CommitUnknownError) -> list[str]:
    """The token tells what became of the commit, if it made a version or a snapshot."""
    token = error.context.get("token")
    if not token:
        return []
    found = at.find_commit(token)
    # Where an operation commits more than once, it may be any of its commits.
    if state not in verdict.ways if found is not None else state == verdict.done:
        return [f"find_commit says {found}, and version {state.version} is there"]
    return []
