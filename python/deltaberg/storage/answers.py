"""The meaning of obstore's answers: which exception is ours, and the outcome of a conditional put."""

from __future__ import annotations

import hashlib
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
    without_secrets,
)
from deltaberg.storage.base import PutOutcome, PutResult

__all__ = ["conditional_put", "is_outage", "is_receipt", "lacks_credentials", "translated", "written"]

_T = TypeVar("_T")

#: How obstore says which status a server answered with. What follows is the body, which anybody may have written.
_STATUS = re.compile(r"Server returned non-2xx status code: ([0-9]{3})")
#: How it says that no connection was made, so that nothing was sent.
_NOT_SENT = re.compile(r"HttpError \{\s*kind: Connect,")
#: How it says that S3 refused to delete one of many objects. The answer to the request is a success.
_DELETION_DENIED = re.compile(r'DeleteFailed \{.*?code: "AccessDenied"', re.DOTALL)
#: How it says that there was no answer, or that it broke off.
_NO_ANSWER = re.compile(r"HttpError \{")
#: Azure's word for an object that is there; other conflicts have other words, and S3's is of no account.
_AZURE_EXISTS = "<Code>BlobAlreadyExists</Code>"
#: A tag of Azure: the time of the change, in hexadecimal.
_AZURE_TAG = re.compile('"?0x[0-9A-F]{14,16}"?')
#: The words of S3, Google and Azure for a bucket that is not there. Azure's batches of deletions have their own, and an
#: answer to HEAD has no body to say it.
_NO_BUCKET = re.compile(
    '<Code>(NoSuchBucket|ContainerNotFound)</Code>|reason: "The specified container does not exist[.]"'
)
#: What obstore says where it was given no credentials: it asks the machine, which has none, or it lacks a part of them.
_NO_CREDENTIALS = re.compile(
    "/latest/(?:api/token|meta-data/iam/)|/computeMetadata/v1/instance/service-accounts/|/metadata/identity/oauth2/token"
    "|Missing (?:SecretAccessKey|AccessKeyId)|Account must be specified"
)
#: How credentials are passed, by the scheme of a location.
_PASSED = {
    "s3": (
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as storage options or in the environment, or the storage option"
        " AWS_PROFILE; AWS_SKIP_SIGNATURE=true reads a public bucket without any"
    ),
    "gs": (
        "the path of a file of credentials as GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS, as a storage"
        " option or in the environment; GOOGLE_SKIP_SIGNATURE=true reads a public bucket without any"
    ),
    "az": (
        "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, as storage options or in"
        " the environment; AZURE_SKIP_SIGNATURE=true reads a public container without any"
    ),
}
_PASSED["abfs"] = _PASSED["az"]
#: How obstore names a key that it cannot use.
_UNNAMED = re.compile(r'Path "(.*?)"(?: contained|: Encountered illegal)', re.DOTALL)
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
        return work()
    except DeltabergError:
        raise
    except BaseException as error:
        ours = _translation(error, path)
        if ours is None:
            raise
        raise ours from without_secrets(error)


def _translation(error: BaseException, path: str) -> DeltabergError | None:
    """Return our exception for one of obstore; None if it is of another kind, such as an interrupt."""
    try:
        from obstore import exceptions
    except ImportError:  # pragma: no cover - obstore is a dependency
        return MissingDependencyError("object stores need obstore", hint="pip install obstore")
    if isinstance(error, (FileNotFoundError, exceptions.NotFoundError)):
        if _NO_BUCKET.search(str(error)):
            return _without_bucket(path)
        return ObjectNotFoundError("there is no such object", path=path)
    if isinstance(error, exceptions.UnknownConfigurationKeyError):
        return InvalidArgumentError(f"a storage option is not known: {first_line(error)}", path=path)
    is_denied = isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError))
    if is_denied or (isinstance(error, exceptions.GenericError) and _DELETION_DENIED.search(str(error))):
        message = f"the store denies access: {first_line(error)}"
        return AuthenticationError(message, hint=f"check the credentials: {_passed(path)}", path=path)
    if isinstance(error, (exceptions.BaseError, OSError, ValueError, OverflowError)):
        if lacks_credentials(error):
            message = f"no credentials for the store were found: {first_line(error)}"
            return AuthenticationError(message, hint=f"pass {_passed(path)}", path=path)
        return StorageError(f"the store failed: {first_line(error)}", path=path)
    return _panicked(error, path) if _is_panic(error) else None


def unnamed_key(error: StorageError) -> str | None:
    """Return the key for which a listing failed, since the client cannot name it; None if it failed for another reason.

    The names that it was asked for are never of that kind.
    """
    from obstore.exceptions import InvalidPathError

    cause = error.__cause__
    found = _UNNAMED.search(str(cause)) if isinstance(cause, InvalidPathError) else None
    return None if found is None else found[1]


def is_outage(error: StorageError) -> bool:
    """Return whether a call failed for a reason that any other call will meet, too, whatever the object.

    There was no answer, or the server fails or is too busy, or there are no credentials or no such bucket.
    """
    cause = error.__cause__
    if not isinstance(cause, Exception):
        return False
    status = _status_of(cause)
    if status is not None:
        return status >= 500 or status in (408, 429) or _NO_BUCKET.search(str(cause)) is not None
    return _NO_ANSWER.search(str(cause)) is not None or lacks_credentials(cause)


def lacks_credentials(error: BaseException) -> bool:
    """Return whether an exception of obstore is about credentials that nobody gave it."""
    return _NO_CREDENTIALS.search(str(error)) is not None


def _passed(path: str) -> str:
    return _PASSED.get(path.partition("://")[0], "the options of the store")


def _is_panic(error: BaseException) -> bool:
    """Return whether obstore panicked. Every extension has its own class of this name, which cannot be imported."""
    return type(error).__name__ == "PanicException"


def _panicked(error: BaseException, path: str) -> StorageError:
    return StorageError(
        f"the client of the store panicked: {first_line(error)}",
        hint="check the options of the store, and its variables in the environment",
        path=path,
    )


def is_receipt(tag: str | None, data: bytes) -> bool:
    """Return whether the tag in the answer to a put shows that it comes from the store.

    S3 and Google answer with the MD5 digest of the bytes, unless the bucket encrypts them by keys of its own, and Azure
    with a tag of a form that no web server gives.
    """
    if tag is None:
        return False
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return tag.strip('"') == digest or _AZURE_TAG.fullmatch(tag) is not None


def written(work: Callable[[], _T], path: str) -> _T:
    """Run a call of obstore that writes an object. What such a call does not find is the bucket."""
    try:
        return translated(work, path)
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
        raise _without_conditions(path) from without_secrets(error)
    except (FileNotFoundError, exceptions.NotFoundError) as error:
        raise _without_bucket(path) from without_secrets(error)
    except (exceptions.InvalidPathError, ValueError) as error:
        message = f"the store cannot hold an object of this name: {first_line(error)}"
        raise StorageError(message, path=path) from without_secrets(error)
    except (exceptions.BaseError, OSError) as error:
        return _failed_put(error, path)
    except BaseException as error:
        if not _is_panic(error):
            raise
        return PutResult(PutOutcome.UNKNOWN, _panicked(error, path))
    return PutResult(PutOutcome.WRITTEN)


def _failed_put(error: Exception, path: str) -> PutResult:
    """Return that the outcome of a put is unknown, or raise what makes it known."""
    status = _status_of(error)
    if status == 501:
        raise _without_conditions(path) from without_secrets(error)
    if status == 429 or (status is None and _NOT_SENT.search(str(error))):
        raise _NotNowError(error) from error
    if status is not None and 400 <= status < 500 and status not in _UNSETTLED:
        return translated(partial(_reraise, error), path)
    return _unknown(error, path)


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
    cause.__cause__ = without_secrets(error)
    return PutResult(PutOutcome.UNKNOWN, cause)
