"""The meaning of obstore's answers: which exception is ours, and the outcome of a conditional put."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn, TypeVar

from deltaberg.errors import (
    AuthenticationError,
    DeltabergError,
    InvalidArgumentError,
    MissingDependencyError,
    ObjectNotFoundError,
    StorageError,
    UnsupportedFeatureError,
    first_line,
)
from deltaberg.storage.base import PutOutcome, PutResult

__all__ = ["conditional_put", "translated", "written"]

_T = TypeVar("_T")

#: How obstore says which status a server answered with. What follows is the body, which anybody may have written.
_STATUS = re.compile(r"Server returned non-2xx status code: ([0-9]{3})")
#: How it says that no connection was made, so that nothing was sent.
_NOT_SENT = re.compile(r"HttpError \{\s*kind: Connect,")
#: Azure's word for an object that is there; other conflicts have other words, and S3's is of no account.
_AZURE_EXISTS = "<Code>BlobAlreadyExists</Code>"
#: The words of S3, Google and Azure for a bucket that is not there. Azure's batches of deletions have their own, and an
#: answer to HEAD has no body to say it.
_NO_BUCKET = re.compile(
    '<Code>(NoSuchBucket|ContainerNotFound)</Code>|reason: "The specified container does not exist[.]"'
)
#: How long to wait before a put is sent again that surely was not carried out, in seconds.
_PAUSES = (0.1, 0.5, 2.0)
#: Statuses below 500 after which a request may have taken effect all the same, or may be sent again by a gateway.
_UNSETTLED = frozenset({408, 409, 425, 429, 499})

# Tests put their own in place of it.
_wait = time.sleep


def _status_of(error: Exception) -> int | None:
    """Return the HTTP status in an exception of obstore, if there was one."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def translated(work: Callable[[], _T], path: str) -> _T:
    """Run a call of obstore; its exceptions become ours."""
    try:
        from obstore import exceptions
    except ImportError as error:  # pragma: no cover - obstore is a dependency
        raise MissingDependencyError("object stores need obstore", hint="pip install obstore") from error
    try:
        return work()
    except DeltabergError:
        raise
    except (FileNotFoundError, exceptions.NotFoundError) as error:
        if _NO_BUCKET.search(str(error)):
            raise _without_bucket(path) from error
        raise ObjectNotFoundError("there is no such object", path=path) from error
    except exceptions.UnknownConfigurationKeyError as error:
        raise InvalidArgumentError(f"a storage option is not known: {first_line(error)}", path=path) from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise AuthenticationError(
            f"the store denies access: {first_line(error)}", hint="check the credentials", path=path
        ) from error
    except (exceptions.BaseError, OSError, ValueError, OverflowError) as error:
        raise StorageError(f"the store failed: {first_line(error)}", path=path) from error


def written(work: Callable[[], object], path: str) -> None:
    """Run a call of obstore that writes an object. What such a call does not find is the bucket."""
    try:
        translated(work, path)
    except ObjectNotFoundError as error:
        raise _without_bucket(path) from error


def conditional_put(work: Callable[[], object], path: str) -> PutResult:
    """Run a conditional put, and return its outcome.

    ``work`` sends one request and never repeats it. It is called again only if the request surely was not carried
    out: no connection was made, or the store is too busy for it (429).

    Raises
    ------
    StorageError, UnsupportedFeatureError
        If the store surely is as it was: it refuses the request, or cannot be reached.
    """
    for pause in _PAUSES:
        try:
            return _put_once(work, path)
        except _NotNowError:
            _wait(pause)
    try:
        return _put_once(work, path)
    except _NotNowError as error:
        return translated(partial(_reraise, error.cause), path)


class _NotNowError(Exception):
    """A put was surely not carried out, for a reason that may pass."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _put_once(work: Callable[[], object], path: str) -> PutResult:
    from obstore import exceptions

    try:
        work()
    except exceptions.AlreadyExistsError as error:
        if _status_of(error) == 409 and _AZURE_EXISTS not in str(error):
            return _unknown(error, path)
        return PutResult(PutOutcome.EXISTS)
    except (exceptions.NotSupportedError, NotImplementedError) as error:
        raise _without_conditions(path) from error
    except (FileNotFoundError, exceptions.NotFoundError) as error:
        raise _without_bucket(path) from error
    except (exceptions.InvalidPathError, ValueError) as error:
        raise StorageError(f"the store cannot hold an object of this name: {first_line(error)}", path=path) from error
    except (exceptions.BaseError, OSError) as error:
        status = _status_of(error)
        if status == 501:
            raise _without_conditions(path) from error
        if status == 429 or (status is None and _NOT_SENT.search(str(error))):
            raise _NotNowError(error) from error
        if status is not None and 400 <= status < 500 and status not in _UNSETTLED:
            return translated(partial(_reraise, error), path)
        return _unknown(error, path)
    return PutResult(PutOutcome.WRITTEN)


def _reraise(error: Exception) -> NoReturn:
    raise error


def _without_bucket(path: str) -> StorageError:
    return StorageError("there is no such bucket or container", path=path)


def _without_conditions(path: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "the store has no conditional put, without which two writers can overwrite one another",
        hint="check the option conditional_put, if you set it",
        path=path,
    )


def _unknown(error: Exception, path: str) -> PutResult:
    cause = StorageError(f"the store does not say whether the object was written: {first_line(error)}", path=path)
    cause.__cause__ = error
    return PutResult(PutOutcome.UNKNOWN, cause)
