"""Where the requests of an operation are disturbed: a bucket of S3, or a REST catalog, behind a bad gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import open_store
from tests.crash.aftermath import local_files
from tests.crash.formats import Files
from tests.crash.operations import Operation
from tests.crash.servers import serving
from tests.crash.starts import STARTS, restore
from tests.crash.targets import Target
from tests.support import faulty_proxy, moto_s3
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen, conditional_put
from tests.support.versioned_bucket import VersionedBucket

__all__ = ["InBucket", "InCatalog", "Place", "Trouble", "catalog_behind_gateway"]

#: How long a client waits for an answer, and how long a request is held back that is given up before, in seconds.
_TIMEOUT, _LATE = 2, 3.0


_PAGE = b"<html><title>Sign in</title></html>"
_CONFLICT = b'{"error": {"message": "someone was first", "type": "CommitFailedException", "code": 409}}'
_FAILURE = b'{"error": {"message": "the disk is full", "type": "ServerError", "code": 500}}'


class Trouble(NamedTuple):
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


def _troubles(
    repeats: Callable[[Seen], bool], decides: Callable[[Seen], bool], hiding: tuple[int, ...]
) -> dict[str, Trouble]:
    """Return what happens to requests.

    Parameters
    ----------
    repeats
        Which requests a gateway sends twice.
    decides
        Which requests make a commit.
    hiding
        What is answered to those though they were carried out.
    """
    return {
        "the answer is lost": Trouble(Fault(answer="none"), _any),
        "the request is lost": Trouble(Fault(forwards=0, answer="none"), _any),
        "the answer is cut": Trouble(Fault(answer="cut"), _any),
        "503 comes": Trouble(Fault(forwards=0, answer=503), _any),
        "500 hides a success": Trouble(Fault(answer=500), _writes),
        "the request is sent twice": Trouble(Fault(forwards=2), repeats),
        "the request is late": Trouble(Fault(before=_LATE), decides),
        **{f"{status} hides a success": Trouble(Fault(answer=status), decides) for status in hiding},
        "access is denied": Trouble(Fault(forwards=0, answer=403), _writes, for_good=True),
        "nothing may be read": Trouble(Fault(forwards=0, answer=403), _reads, for_good=True),
        "the store is gone": Trouble(Fault(forwards=0, answer="none"), _any, for_good=True),
    }


class Place(Protocol):
    """Where the table of an operation is, seen directly and through the gateway."""

    proxy: FaultyProxy
    #: What happens to its requests, by name.
    troubles: Mapping[str, Trouble]

    def decides(self, seen: Seen) -> bool:
        """Return whether a request makes a commit."""
        ...

    def through_gateway(self, at: Target) -> Target:
        """Return the same table behind the gateway."""
        ...

    def copy(self) -> Target:
        """Return a new copy of the table."""
        ...

    def files(self, at: Target) -> Files:
        """Return what reads the files of a copy."""
        ...


class InBucket:
    """Copies of one table in a bucket.

    Parameters
    ----------
    operation
        What starts from the table.
    proxy
        The gateway before the bucket.
    bucket
        Where the copies are.
    folder
        A folder for what is uploaded.
    """

    troubles: Mapping[str, Trouble] = {
        **_troubles(_puts, conditional_put, (408, 409, 412)),
        "a page comes": Trouble(Fault(forwards=0, answer=200, body=_PAGE, kind="text/html"), _puts),
    }

    def __init__(self, operation: Operation, proxy: FaultyProxy, bucket: VersionedBucket, folder: Path) -> None:
        self.proxy = proxy
        self._operation, self._bucket = operation, bucket
        self._copies = 0
        self._direct = moto_s3.options(proxy.upstream)
        patient = {"s3.request-timeout": str(_TIMEOUT), "max_retries": "3"}
        self._troubled = {**moto_s3.options(proxy.endpoint), **patient}
        #: What every copy holds.
        self._original: dict[str, bytes] = {}
        # Tables of Iceberg record where they are, so all copies are at one place, one after the other.
        self._is_moved = operation.kind == "delta"
        start = Target(str(folder)) if self._is_moved else self._at(0)
        # A bucket is probed once, not in each run: the requests that follow would have other numbers in the first one.
        place = parse_location(f"s3://{bucket.name}/probe")
        open_store(place, self._troubled).probe_conditional_put(place.path)
        STARTS[operation.start](start)
        found = local_files(folder) if self._is_moved else self.files(start)
        self._original = {name: read() for name, read in found.items()}

    def _at(self, number: int) -> Target:
        prefix = "".join(one if one.isalnum() else "-" for one in self._operation.name)
        return Target(f"s3://{self._bucket.name}/{prefix}-{number}", self._direct, self._operation.kind)

    def decides(self, seen: Seen) -> bool:
        """Return whether a request makes a commit."""
        return conditional_put(seen)

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

    def files(self, at: Target) -> Files:
        """Return what reads the objects of a copy."""
        return self._bucket.files(at.location.rpartition("/")[2])


def _changes(seen: Seen) -> bool:
    """Return whether a request changes what a catalog knows; only to prepare a new table is to change nothing."""
    return _writes(seen) and not seen.target.endswith("/tables")


def _no_answers() -> dict[str, Trouble]:
    """Return successes that a catalog has not said, of requests that are lost and of those that it carries out."""
    bodies = {"a page": _PAGE, "an empty object": b"{}", "an array": b"[]", "no body": b""}
    troubles = {}
    for name, body in bodies.items():
        kind = "text/html" if body is _PAGE else "application/json"
        fault = Fault(forwards=0, answer=200, body=body, kind=kind)
        troubles[f"{name} comes"] = Trouble(fault, _any)
        troubles[f"{name} hides a success"] = Trouble(replace(fault, forwards=1), _changes)
        troubles[f"{name} comes, and to all after it"] = Trouble(fault, _any, for_good=True)
    return troubles


class InCatalog:
    """A table of a REST catalog, on this machine, which is put back before each copy.

    Parameters
    ----------
    operation
        What starts from the table.
    proxy
        The gateway before the catalog.
    root
        The directory of which the catalog is.
    """

    troubles: Mapping[str, Trouble] = {
        **_troubles(_changes, _changes, (408, 409, 502, 504)),
        **_no_answers(),
        "a refusal comes": Trouble(Fault(forwards=0, answer=409, body=_CONFLICT), _changes),
        "each is refused": Trouble(Fault(forwards=0, answer=409, body=_CONFLICT), _changes, for_good=True),
        "a failure with a reason comes": Trouble(Fault(forwards=0, answer=500, body=_FAILURE), _any),
        "the answer is short": Trouble(Fault(answer="short"), _any),
    }

    def __init__(self, operation: Operation, proxy: FaultyProxy, root: Path) -> None:
        self.proxy = proxy
        self._operation = operation
        self._direct = partial(Target, str(root), kind=operation.kind)

    def decides(self, seen: Seen) -> bool:
        """Return whether a request makes a commit."""
        return _changes(seen)

    def through_gateway(self, at: Target) -> Target:
        """Return the same table behind the gateway."""
        patient = {"rest.client.socket-timeout-ms": str(_TIMEOUT * 1000), "rest.client.max-retries": "1"}
        return Target(at.location, patient, at.kind, self.proxy.endpoint)

    def copy(self) -> Target:
        """Return a new copy of the table."""
        at = self._direct(uri=self.proxy.upstream)
        restore(self._operation.start, at)
        return at

    def files(self, at: Target) -> Files:
        """Return what reads the files of the table."""
        return local_files(Path(at.location))


@contextmanager
def catalog_behind_gateway(root: Path) -> Iterator[FaultyProxy]:
    """Serve a REST catalog of a directory, and yield the gateway before it."""
    with serving("rest", str(root)) as uri, faulty_proxy.running(uri) as proxy:
        yield proxy
