"""All exceptions of deltaberg, in one tree.

::

    DeltabergError
     ├─ TableNotFoundError (FileNotFoundError)       no table at the location
     ├─ NamespaceNotFoundError (LookupError)         the catalog has no namespace of this name
     ├─ VersionNotFoundError (LookupError)           a version or time that the table does not have (any more)
     │   └─ ChangesNotRecordedError                  the changes of a version that recorded none
     ├─ UnsupportedFeatureError (NotImplementedError) the table needs a feature that this library lacks
     ├─ CorruptTableError (ValueError)               metadata or data that violates the format
     │   ├─ CorruptLogError                          a log entry, or the set of log files
     │   ├─ CorruptCheckpointError                   a checkpoint
     │   ├─ CorruptMetadataError                     Iceberg table metadata, or the contents of a manifest
     │   ├─ CorruptDeletionVectorError               a deletion vector
     │   │   └─ InvalidZ85Error                      the text of a deletion vector
     │   ├─ CorruptDataFileError                     a data file
     │   │   └─ CorruptAvroError                     an Avro file: a data file, a manifest or a manifest list
     │   └─ InvalidPartitionValueError               a partition value
     ├─ SpecViolationError (ValueError)              what ``validate=True`` found, as a list
     ├─ DataFileNotFoundError (FileNotFoundError)    a live data file was vacuumed, or the table was moved
     ├─ UnsafePathError (PermissionError)            a path that leads outside of what the caller allowed
     ├─ StorageError (OSError)                       the store or the catalog failed, or refused the request
     │   ├─ AuthenticationError (PermissionError)    it does not accept the credentials
     │   └─ ObjectNotFoundError (FileNotFoundError)  it has no such object
     │       └─ NotAFileError                          what has its name is a directory, a named pipe or a device
     ├─ TableExistsError (FileExistsError)           a table is to be created where there is one
     ├─ CommitConflictError (RuntimeError)           another commit came first, and the change does not fit on top of it
     │   ├─ ConcurrentAppendError                    it added files that the change would have had to read
     │   ├─ ConcurrentDeleteReadError                it removed files that the change has read
     │   ├─ ConcurrentDeleteDeleteError              it removed files that the change also removes
     │   ├─ MetadataChangedError                     it changed the schema, the properties or other metadata
     │   ├─ ProtocolChangedError                     it changed the protocol
     │   ├─ ConcurrentTransactionError               it recorded progress of the same application
     │   └─ ConcurrentDomainError                    it changed the same metadata domain
     ├─ CommitUnknownError (RuntimeError)            a change was sent, but it is not known whether it took effect
     ├─ ConstraintViolationError (ValueError)        a change that a rule of the table forbids
     ├─ SchemaError (ValueError)                     a schema that is invalid, or does not match another
     │   └─ ColumnNotFoundError (LookupError)        no such column
     ├─ ExpressionError (ValueError)                 a filter or value that cannot be understood or bound
     │   └─ UnsupportedExpressionError (NotImplementedError) one that this library cannot evaluate exactly
     ├─ EvaluationError (ArithmeticError)            a value that cannot be computed for a row
     ├─ InvalidArgumentError (ValueError)            an argument that is not valid
     │   └─ ArgumentNameError (TypeError)            a call with an argument that there is not, or without a needed one
     ├─ UnknownNameError (AttributeError)            an attribute that there is not; the hint says what to write instead
     ├─ ImportNameError (ImportError)                a name that cannot be imported
     ├─ TooLargeError (OverflowError)                a result beyond a limit of Arrow or of the format
     ├─ MissingDependencyError (ImportError)         an optional package is not installed
     ├─ KernelUnavailableError (ImportError)         the compiled kernels are required, but cannot be imported
     └─ KernelPanicError (RuntimeError)              a bug in the compiled code

Each exception is also of the builtin type in parentheses, as a caller would expect. It has a ``message``, named facts
(``context``: table, version, file, column, feature ...) and, if there is something to be done, a ``hint``. Of what is
very long, the beginning and the end are printed; the attributes keep all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deltaberg.hints import Hint

__all__ = [
    "ArgumentNameError",
    "AuthenticationError",
    "ChangesNotRecordedError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentDomainError",
    "ConcurrentTransactionError",
    "ConstraintViolationError",
    "CorruptAvroError",
    "CorruptCheckpointError",
    "CorruptDataFileError",
    "CorruptDeletionVectorError",
    "CorruptLogError",
    "CorruptMetadataError",
    "CorruptTableError",
    "DataFileNotFoundError",
    "DeltabergError",
    "EvaluationError",
    "ExpressionError",
    "ImportNameError",
    "InvalidArgumentError",
    "InvalidPartitionValueError",
    "InvalidZ85Error",
    "KernelPanicError",
    "KernelUnavailableError",
    "MetadataChangedError",
    "MissingDependencyError",
    "NamespaceNotFoundError",
    "NotAFileError",
    "ObjectNotFoundError",
    "ProtocolChangedError",
    "SchemaError",
    "SpecViolationError",
    "StorageError",
    "TableExistsError",
    "TableNotFoundError",
    "TooLargeError",
    "UnknownNameError",
    "UnsafePathError",
    "UnsupportedExpressionError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "first_line",
    "has_signature",
    "in_context",
    "in_words",
    "masked",
    "without_secrets",
]

#: A user, a password or a token in front of the host of a URL. What looks like a port is none of them.
_USER = re.compile(r"([a-z][a-z0-9+.-]*:/{1,2})([^\s/'\"<>@:]*(?::(?!\d{1,5}/)[^\s'\"<>]*)?@)", re.IGNORECASE)
#: The schemes in which a container stands in front of an @, and is no secret.
_WITH_CONTAINER = ("abfs", "abfss", "adl", "az", "azure", "wasb", "wasbs")
#: Signatures, tokens and keys in the query of a URL or in a connection string.
_SIGNED = re.compile(
    r"((?:[?&;#]|%3f|%26|%3b)(?:sig|signature|(?:x-(?:amz|goog|oss)-)?(?:signature|credential|security-token)|awsaccesskeyid"
    r"|googleaccessid|accountkey|sharedaccesskey|sharedaccesssignature|access_?token|api_?key|token|secret|passw(?:or)?d"
    r"|pwd)(?:=|%3d))[^\s&;'\"<>)]+",
    re.IGNORECASE,
)
#: What stands behind a ? or a # in a location, which may be a part of a signature. Names of objects may have these
#: marks, too, so that nothing is hidden beyond the next slash.
_QUERY = re.compile(
    r"((?:(?:s3[an]?|gcs|gs|az|azure|abfss?|adl|wasbs?)://[^\s?#'\"<>]*[?#]|https?://[^\s?#'\"<>]*[?](?![^\s/'\"<>),]*=)))"
    r"[^\s/'\"<>),]+",
    re.IGNORECASE,
)

#: Control characters, which a terminal would obey. Lines may end.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: The most characters of a message or a hint, and of a fact, that are printed.
_LONGEST, _LONGEST_FACT = 4000, 1000


class DeltabergError(Exception):
    """The base class of all exceptions of this library.

    Parameters
    ----------
    message
        One sentence: what was found, and what was expected. One that names arguments or calls is a `Hint`.
    hint
        What the caller can do about the error, with marks as in a `Hint`.
    context
        Named facts. Those that are None are left out.

    Examples
    --------
    >>> error = DeltabergError("no such thing", hint="look elsewhere", table="/t", version=3)
    >>> print(error)
    no such thing (table: /t, version: 3)
    hint: look elsewhere
    """

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        self.message: str = _shown(message)
        super().__init__(_cut(self.message, _LONGEST))
        self.hint: str | None = None if hint is None else Hint(_printable(masked(getattr(hint, "marked", hint))))
        self.context: dict[str, Any] = {name: _shown(fact) for name, fact in context.items() if fact is not None}

    @property
    def statement(self) -> str:
        """The message and the facts, without the hint, as they are printed."""
        message = _cut(self.message, _LONGEST)
        facts = ", ".join(f"{name}: {_cut(str(fact), _LONGEST_FACT)}" for name, fact in self.context.items())
        return f"{message} ({facts})" if facts else message

    def __str__(self) -> str:
        return f"{self.statement}\nhint: {_cut(self.hint, _LONGEST)}" if self.hint else self.statement

    def __reduce__(self) -> tuple[Callable[..., DeltabergError], tuple[Any, ...]]:
        return _rebuild, (type(self), self.message, self.hint, self.context)

    def with_context(self, **context: Any) -> DeltabergError:
        """Add facts that an inner layer could not know. Facts that it did state are kept."""
        for name, fact in context.items():
            if fact is not None:
                self.context.setdefault(name, _shown(fact))
        return self


@contextmanager
def in_context(**context: Any) -> Iterator[None]:
    """Add facts that inner layers cannot know to the errors of this library that a block raises."""
    try:
        yield
    except DeltabergError as error:
        error.with_context(**context)
        raise


def _cut(text: str, most: int) -> str:
    """Return a text as it is printed: of one that is longer than is of use to a reader, the beginning and the end."""
    if len(text) <= most:
        return _printable(text)
    left_out = len(text) - most
    first = most - most // 3
    return _printable(f"{text[:first]} ... ({left_out:,} characters left out) ... {text[first + left_out :]}")


def _printable(text: str) -> str:
    """Return a text with escapes in place of control characters."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text) if _CONTROL.search(text) else text


def masked(text: str) -> str:
    """Return a text without the passwords, tokens and signatures that URLs in it contain.

    Every exception of this library says its message, hint and facts by this function, whoever wrote the URL.

    Examples
    --------
    >>> masked("cannot reach http://me:hush@host:9000/b, nor https://a.net/c?sv=1&sig=hush")
    'cannot reach http://***@host:9000/b, nor https://a.net/c?sv=1&sig=***'
    >>> masked("abfss://container@account.dfs.core.windows.net/t")
    'abfss://container@account.dfs.core.windows.net/t'
    """
    if "@" in text and ":/" in text:
        text = _USER.sub(_without_user, text)
    # Signatures hold slashes, so that they go before what stands behind a ? up to the next slash.
    if "=" in text or "%3" in text:
        text = _SIGNED.sub(r"\1***", text)
    return _QUERY.sub(r"\1***", text) if "://" in text and ("?" in text or "#" in text) else text


def has_signature(text: str) -> bool:
    """Return whether a URL contains a signature or a token."""
    return _SIGNED.search(text) is not None


def _without_user(found: re.Match[str]) -> str:
    is_container = found[1].partition(":")[0].lower() in _WITH_CONTAINER and ":" not in found[2]
    return found[0] if is_container else f"{found[1]}***@"


def _shown(fact: Any) -> Any:
    if isinstance(fact, str):
        return Hint(masked(fact.marked)) if isinstance(fact, Hint) else masked(fact)
    return [_shown(part) for part in fact] if isinstance(fact, list) else fact


def without_secrets(error: BaseException) -> BaseException:
    """Return an error of another library, or one of ours in its place if its text contains a secret.

    What is raised from it is shown with it, by tracebacks and logs.
    """
    text = str(error)
    hidden = masked(text)
    return error if hidden == text else StorageError(f"{type(error).__name__}: {hidden}")


def _rebuild(kind: type[DeltabergError], message: str, hint: str | None, context: dict[str, Any]) -> DeltabergError:
    return kind(message, hint=hint, **context)


class TableNotFoundError(DeltabergError, FileNotFoundError):
    """There is no table at the location."""


class NamespaceNotFoundError(DeltabergError, LookupError):
    """The catalog has no namespace of this name."""


class VersionNotFoundError(DeltabergError, LookupError):
    """The table does not have the requested version or time, or does not have it any more."""


class ChangesNotRecordedError(VersionNotFoundError):
    """The table kept no change data feed in a version whose changes are asked for."""


class UnsupportedFeatureError(DeltabergError, NotImplementedError):
    """The table needs a feature that this library does not support."""


class CorruptTableError(DeltabergError, ValueError):
    """Metadata or data of the table violates its format."""


class CorruptLogError(CorruptTableError):
    """A log entry, or the set of log files, violates the Delta protocol."""


class CorruptCheckpointError(CorruptTableError):
    """A checkpoint is damaged or incomplete."""


class CorruptMetadataError(CorruptTableError):
    """The metadata of an Iceberg table, or a manifest, violates the format."""


class CorruptDeletionVectorError(CorruptTableError):
    """A deletion vector is damaged, or its format is unknown."""


class InvalidZ85Error(CorruptDeletionVectorError):
    """Text is not valid Z85."""


class CorruptDataFileError(CorruptTableError):
    """A data file cannot be decoded."""


class CorruptAvroError(CorruptDataFileError):
    """An Avro file cannot be decoded: a data file, a manifest or a manifest list."""


class InvalidPartitionValueError(CorruptTableError):
    """A partition value cannot be read as its column's type."""


class SpecViolationError(DeltabergError, ValueError):
    """``validate=True`` found violations of the format's specification.

    ``context["violations"]`` lists them, a sentence each.
    """


class DataFileNotFoundError(DeltabergError, FileNotFoundError):
    """A live data file does not exist: it was vacuumed during the read, or the table was moved."""


class UnsafePathError(DeltabergError, PermissionError):
    """A path in the metadata leads outside of what the caller allowed."""


class StorageError(DeltabergError, OSError):
    """The store or the catalog failed, or refused the request."""


class AuthenticationError(StorageError, PermissionError):
    """The store or the catalog does not accept the credentials, or they do not permit the request."""


class ObjectNotFoundError(StorageError, FileNotFoundError):
    """The store has no object of this name."""


class NotAFileError(ObjectNotFoundError):
    """An object with the name of a file is no file, such as a directory, a named pipe or a device."""


class TableExistsError(DeltabergError, FileExistsError):
    """A table is to be created where there is one already."""


class CommitConflictError(DeltabergError, RuntimeError):
    """Another writer committed first, and the change does not fit on top of that commit; nothing was committed.

    ``context`` names the version that won and its operation. The operation can be run again on the newest version.
    """


class ConcurrentAppendError(CommitConflictError):
    """Another commit added files that the change would have had to read."""


class ConcurrentDeleteReadError(CommitConflictError):
    """Another commit removed files that the change has read."""


class ConcurrentDeleteDeleteError(CommitConflictError):
    """Another commit removed files that the change also removes."""


class MetadataChangedError(CommitConflictError):
    """Another commit changed the metadata of the table: its schema, partitioning or properties."""


class ProtocolChangedError(CommitConflictError):
    """Another commit changed the protocol of the table."""


class ConcurrentTransactionError(CommitConflictError):
    """Another commit recorded progress of the same application."""


class ConcurrentDomainError(CommitConflictError):
    """Another commit changed the same metadata domain."""


class CommitUnknownError(DeltabergError, RuntimeError):
    """A change was sent, but it is not known whether it took effect; it may also do so later.

    ``context["token"]``, where there is one, finds the commit later with `deltaberg.find_commit`. Files that the change
    refers to must not be deleted. This is not a `StorageError`, so that code that cleans up after one of those does not
    run.
    """


class ConstraintViolationError(DeltabergError, ValueError):
    """A change violates a rule of the table, such as a column that must not be null, or a table that only grows."""


class SchemaError(DeltabergError, ValueError):
    """A schema is invalid, or two schemas do not match."""


class ColumnNotFoundError(SchemaError, LookupError):
    """No column has this name."""


class ExpressionError(DeltabergError, ValueError):
    """A filter cannot be parsed, or does not match the schema."""


class UnsupportedExpressionError(ExpressionError, NotImplementedError):
    """The filter or value is valid in Spark, but this library cannot evaluate it exactly as Spark does."""


class EvaluationError(DeltabergError, ArithmeticError):
    """A value cannot be computed for a row: a number overflows, a divisor is zero, a text is not a number."""


class InvalidArgumentError(DeltabergError, ValueError):
    """An argument has a value that is not valid."""


class ArgumentNameError(InvalidArgumentError, TypeError):
    """A call has an argument that there is not, too many of them, or not all that are needed.

    A property that is called raises it, too, and a table that is taken for a list or a frame, as by ``table["id"]``.
    """


class UnknownNameError(DeltabergError, AttributeError):
    """A module or an object of the library has no such attribute; the hint says what to write instead."""


class ImportNameError(DeltabergError, ImportError):
    """The library has no such name to import; the hint says what to write instead."""


class TooLargeError(DeltabergError, OverflowError):
    """A result, or what is read for it, would exceed a limit: of Arrow, of the table format, or of memory."""


class MissingDependencyError(DeltabergError, ImportError):
    """A package that this call needs is not installed."""


class KernelUnavailableError(DeltabergError, ImportError):
    """``DELTABERG_KERNELS`` is ``native``, but the compiled module cannot be used."""


class KernelPanicError(DeltabergError, RuntimeError):
    """Compiled code panicked. This is a bug in deltaberg: please report it."""


def first_line(error: BaseException) -> str:
    r"""Return the first line of another library's error, or the name of its class if it has no text.

    Examples
    --------
    >>> first_line(ValueError("bad input\nat line 3")), first_line(TimeoutError())
    ('bad input', 'TimeoutError')
    """
    text = str(error).strip()
    return text.splitlines()[0].strip() if text else type(error).__name__


def in_words(error: DeltabergError, word: Callable[[str], str | None], where: str | None = None) -> None:
    """Have an error say its arguments and calls in the words of those who do not call this library themselves.

    Parameters
    ----------
    word
        What returns the word for an argument or a call, as it stands between the marks of a `Hint`; None if there is
        none.
    where
        Where that belongs for which there is no word; None to leave it to another caller. See `Hint.said`.

    Examples
    --------
    >>> error = DeltabergError(Hint("⟪txn⟫ applies only to Delta tables"))
    >>> in_words(error, {"txn": "--txn"}.get)
    >>> print(error)
    --txn applies only to Delta tables
    """

    def said(fact: Any) -> Any:
        return fact.said(word, where) if isinstance(fact, Hint) else fact

    error.message = said(error.message)
    error.args = (_cut(error.message, _LONGEST),)
    error.hint = said(error.hint)
    error.context = {name: said(fact) for name, fact in error.context.items()}
