"""Disturbs the requests of an operation on S3, one after the other, and looks at what is left.

A crash ends a writer; here the network or the store misbehaves, and the writer has to find out what became of its
requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from deltaberg.errors import CommitUnknownError, StorageError
from tests.crash.aftermath import local_files, look_after
from tests.crash.formats import Files, State
from tests.crash.operations import Operation
from tests.crash.starts import STARTS
from tests.crash.states import Verdict
from tests.crash.targets import Target
from tests.support import moto_s3
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen, conditional_put
from tests.support.tally import Budget, Tally
from tests.support.versioned_bucket import VersionedBucket

__all__ = ["disturb_everywhere"]

#: How long a client waits for an answer, and how long a request is held back that is given up before, in seconds.
_TIMEOUT, _LATE = 2, 3.0
_LEAST = 4
_PATIENT = {"s3.request-timeout": str(_TIMEOUT), "max_retries": "3"}


class _Trouble(NamedTuple):
    """What happens to a request, and to all after it where the store is gone for good."""

    fault: Fault
    fits: Callable[[Seen], bool]
    for_good: bool = False


def _any(_: Seen) -> bool:
    return True


def _writes(seen: Seen) -> bool:
    return seen.method in ("PUT", "POST", "DELETE")


def _reads(seen: Seen) -> bool:
    return not _writes(seen)


def _puts(seen: Seen) -> bool:
    return seen.method == "PUT"


_TROUBLES = {
    "the answer is lost": _Trouble(Fault(answer="none"), _any),
    "the request is lost": _Trouble(Fault(forwards=0, answer="none"), _any),
    "the answer is cut": _Trouble(Fault(answer="cut"), _any),
    "503 comes": _Trouble(Fault(forwards=0, answer=503), _any),
    "500 hides a success": _Trouble(Fault(answer=500), _writes),
    "the request is sent twice": _Trouble(Fault(forwards=2), _puts),
    "the request is late": _Trouble(Fault(before=_LATE), conditional_put),
    **{f"{status} hides a success": _Trouble(Fault(answer=status), conditional_put) for status in (408, 409, 412)},
    "access is denied": _Trouble(Fault(forwards=0, answer=403), _writes, for_good=True),
    "nothing may be read": _Trouble(Fault(forwards=0, answer=403), _reads, for_good=True),
    "the store is gone": _Trouble(Fault(forwards=0, answer="none"), _any, for_good=True),
}


class _Requests:
    """Counts the requests of an operation, and disturbs one of them."""

    def __init__(self, number: int | None = None, trouble: _Trouble | None = None) -> None:
        self.seen: list[Seen] = []
        self._number, self._trouble = number, trouble

    def __call__(self, seen: Seen) -> Fault | None:
        number = len(self.seen)
        self.seen.append(seen)
        if self._number is None or self._trouble is None:
            return None
        hit = number == self._number or (self._trouble.for_good and number > self._number)
        return replace(self._trouble.fault) if hit and self._trouble.fits(seen) else None


def disturb_everywhere(
    operation: Operation,
    proxy: FaultyProxy,
    bucket: VersionedBucket,
    folder: Path,
    seconds: float | None,
    generator: random.Random,
) -> Tally:
    """Disturb an operation at each of its requests in each way, and say what was found.

    Parameters
    ----------
    proxy
        The gateway before the bucket.
    bucket
        Where the tables are.
    folder
        A folder for what is uploaded.
    seconds
        How long; None tries everything.
    generator
        Chooses the order.
    """
    tally = Tally(operation.name, "faults")
    place = _Place(operation, proxy, bucket, folder / "original")
    requests = _Requests()
    whole = place.copy()

    def run() -> None:
        proxy.trouble = requests
        operation.run(place.through_gateway(whole))
        proxy.trouble = None

    verdict = Verdict.of(operation, whole, run)
    trials = [
        (number, name)
        for number, seen in enumerate(requests.seen)
        for name, trouble in _TROUBLES.items()
        if trouble.fits(seen)
    ]
    generator.shuffle(trials)
    # Conditional puts decide.
    trials.sort(key=lambda trial: not conditional_put(requests.seen[trial[0]]))
    tally.planned = len(trials)
    failed = 0
    budget = Budget(seconds)
    for number, name in trials:
        if budget.is_spent and tally.tried >= _LEAST:
            break
        seen = requests.seen[number]
        where = f"{name} at request {number}, {seen.method} {seen.target.partition('?')[0].rpartition('/')[2]}"
        try:
            failed += place.try_one(tally, verdict, number, name, where)
        except Exception as error:  # noqa: BLE001 - whatever fails is a finding
            tally.wrong.append(f"{where}: {type(error).__name__}: {error}")
        finally:
            proxy.trouble = None
        tally.tried += 1
    tally.note = f"{failed} ended with an error"
    tally.seconds = budget.passed
    return tally


class _Place:
    """Copies of one table in a bucket, seen directly and through the gateway."""

    def __init__(self, operation: Operation, proxy: FaultyProxy, bucket: VersionedBucket, folder: Path) -> None:
        self._operation, self._proxy, self._bucket = operation, proxy, bucket
        self._copies = 0
        self._direct = moto_s3.options(proxy.upstream)
        self._troubled = {**moto_s3.options(proxy.endpoint), **_PATIENT}
        #: What every copy holds.
        self._original: dict[str, bytes] = {}
        # Tables of Iceberg record where they are, so all copies are at one place, one after the other.
        self._is_moved = operation.kind == "delta"
        start = Target(str(folder)) if self._is_moved else self._at(0)
        STARTS[operation.start](start)
        found = local_files(folder) if self._is_moved else self.files(start)
        self._original = {name: read() for name, read in found.items()}

    def _at(self, number: int) -> Target:
        prefix = "".join(one if one.isalnum() else "-" for one in self._operation.name)
        return Target(f"s3://{self._bucket.name}/{prefix}-{number}", self._direct, self._operation.kind)

    def through_gateway(self, at: Target) -> Target:
        """Return the same table behind the gateway."""
        return Target(at.location, self._troubled, at.kind)

    def copy(self) -> Target:
        """Return a new copy of the table."""
        self._copies += 1
        at = self._at(self._copies if self._is_moved else 0)
        prefix = at.location.rpartition("/")[2]
        self._bucket.clear(prefix)
        for name, data in self._original.items():
            self._bucket.put(f"{prefix}/{name}", data)
        return at

    def try_one(self, tally: Tally, verdict: Verdict, number: int, name: str, where: str) -> bool:
        """Disturb one request, and return whether the operation ended with an error."""
        at = self.copy()
        trouble = _TROUBLES[name]
        self._proxy.trouble = _Requests(number, trouble)
        error: Exception | None = None
        try:
            self._operation.run(self.through_gateway(at))
        except Exception as caught:  # noqa: BLE001 - what it may be is checked below
            error = caught
        # A request that was given up may arrive only now.
        self._proxy.settle()
        self._proxy.trouble = None
        if error is not None and not isinstance(error, (StorageError, CommitUnknownError)):
            tally.wrong.append(f"{where}: {type(error).__name__}: {error}")
        state = look_after(tally, verdict, where, at, partial(self.files, at), acknowledged=error is None)
        if isinstance(error, CommitUnknownError) and state is not None:
            tally.wrong += [f"{where}: {sentence}" for sentence in self._unknown(verdict, state, at, error)]
        return error is not None

    def _unknown(self, verdict: Verdict, state: State, at: Target, error: CommitUnknownError) -> list[str]:
        """The token tells what became of the commit."""
        found = at.find_commit(error.context["token"])
        if (found is not None) != (state in verdict.ways):
            return [f"find_commit says {found}, and version {state.version} is there"]
        return []

    def files(self, at: Target) -> Files:
        """Return what reads the objects of a copy."""
        return self._bucket.files(at.location.rpartition("/")[2])
