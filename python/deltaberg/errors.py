"""Every exception of deltaberg, in one tree.

::

    DeltabergError
     ├─ TableNotFoundError (FileNotFoundError)       no table at the location
     ├─ NamespaceNotFoundError (LookupError)         no namespace of this name in the catalog
     ├─ VersionNotFoundError (LookupError)           a version or time that the table does not hold (any more)
     ├─ UnsupportedFeatureError (NotImplementedError) the table needs what this library cannot do
     ├─ CorruptTableError (ValueError)               metadata or data that the format does not allow
     │   ├─ CorruptLogError                          a log entry, or the set of log files
     │   ├─ CorruptCheckpointError                   a checkpoint
     │   ├─ CorruptMetadataError                     table metadata of Iceberg, or what a manifest says
     │   ├─ CorruptDeletionVectorError               a deletion vector
     │   │   └─ InvalidZ85Error                      its text
     │   ├─ CorruptDataFileError                     a data file
     │   │   └─ CorruptAvroError                     an Avro file: a data file, a manifest or a manifest list
     │   └─ InvalidPartitionValueError               a partition value
     ├─ SpecViolationError (ValueError)              found by ``validate=True``: lists all of them
     ├─ DataFileNotFoundError (FileNotFoundError)    a live file is gone: vacuumed, or the table was moved
     ├─ UnsafePathError (PermissionError)            a path that leads where the caller did not allow
     ├─ StorageError (OSError)                       the store or the catalog failed, or refused
     │   ├─ AuthenticationError (PermissionError)    it does not take the credentials
     │   └─ ObjectNotFoundError (FileNotFoundError)  it has no such object
     ├─ SchemaError (ValueError)                     a schema that does not fit
     │   └─ ColumnNotFoundError (LookupError)        no such column
     ├─ ExpressionError (ValueError)                 a filter that cannot be understood or bound
     ├─ InvalidArgumentError (ValueError)            an argument that is not taken
     ├─ TooLargeError (OverflowError)                a result past a limit of Arrow or of the format
     ├─ MissingDependencyError (ImportError)         an optional package is not installed
     ├─ KernelUnavailableError (ImportError)         the compiled kernels were asked for and are not there
     └─ KernelPanicError (RuntimeError)              a defect of ours in compiled code

Each leaf is also the builtin exception that a caller would expect. An exception holds a sentence, named
facts (``context``: table, version, file, column, feature ...) and, where something helps, a ``hint``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "AuthenticationError",
    "ColumnNotFoundError",
    "CorruptAvroError",
    "CorruptCheckpointError",
    "CorruptDataFileError",
    "CorruptDeletionVectorError",
    "CorruptLogError",
    "CorruptMetadataError",
    "CorruptTableError",
    "DataFileNotFoundError",
    "DeltabergError",
    "ExpressionError",
    "InvalidArgumentError",
    "InvalidPartitionValueError",
    "InvalidZ85Error",
    "KernelPanicError",
    "KernelUnavailableError",
    "MissingDependencyError",
    "NamespaceNotFoundError",
    "ObjectNotFoundError",
    "SchemaError",
    "SpecViolationError",
    "StorageError",
    "TableNotFoundError",
    "TooLargeError",
    "UnsafePathError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
]


class DeltabergError(Exception):
    """The base of all exceptions of this library.

    Parameters
    ----------
    message
        One sentence: what was found, and what was expected.
    hint
        What the caller can do about it.
    context
        Named facts. Facts that are None are left out.

    Examples
    --------
    >>> error = DeltabergError("no such thing", hint="look elsewhere", table="/t", version=3)
    >>> print(error)
    no such thing (table: /t, version: 3)
    hint: look elsewhere
    """

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context: dict[str, Any] = {name: fact for name, fact in context.items() if fact is not None}

    @property
    def statement(self) -> str:
        """The message with the facts, without the hint."""
        facts = ", ".join(f"{name}: {fact}" for name, fact in self.context.items())
        return f"{self.message} ({facts})" if facts else self.message

    def __str__(self) -> str:
        return f"{self.statement}\nhint: {self.hint}" if self.hint else self.statement

    def __reduce__(self) -> tuple[Callable[..., DeltabergError], tuple[Any, ...]]:
        return _rebuild, (type(self), self.message, self.hint, self.context)

    def with_context(self, **context: Any) -> DeltabergError:
        """Add facts that an inner layer could not know; what it did say stays."""
        for name, fact in context.items():
            if fact is not None:
                self.context.setdefault(name, fact)
        return self


def _rebuild(kind: type[DeltabergError], message: str, hint: str | None, context: dict[str, Any]) -> DeltabergError:
    return kind(message, hint=hint, **context)


class TableNotFoundError(DeltabergError, FileNotFoundError):
    """There is no table at the location."""


class NamespaceNotFoundError(DeltabergError, LookupError):
    """The catalog has no namespace of this name."""


class VersionNotFoundError(DeltabergError, LookupError):
    """The table does not hold the version or the time that was asked for, or holds it no longer."""


class UnsupportedFeatureError(DeltabergError, NotImplementedError):
    """The table needs a feature that this library does not have."""


class CorruptTableError(DeltabergError, ValueError):
    """Something in the table is not what its format allows."""


class CorruptLogError(CorruptTableError):
    """A log entry, or the set of log files, is not what the Delta protocol allows."""


class CorruptCheckpointError(CorruptTableError):
    """A checkpoint is damaged or incomplete."""


class CorruptMetadataError(CorruptTableError):
    """The metadata of an Iceberg table is not what its format allows."""


class CorruptDeletionVectorError(CorruptTableError):
    """A deletion vector is damaged or in no known format."""


class InvalidZ85Error(CorruptDeletionVectorError):
    """Text that should be Z85 is not."""


class CorruptDataFileError(CorruptTableError):
    """A data file cannot be decoded."""


class CorruptAvroError(CorruptDataFileError):
    """An Avro file cannot be decoded: a data file, a manifest or a manifest list."""


class InvalidPartitionValueError(CorruptTableError):
    """A partition value cannot be read as its column's type."""


class SpecViolationError(DeltabergError, ValueError):
    """``validate=True`` found violations of the format's specification.

    ``context["violations"]`` is the list of sentences.
    """


class DataFileNotFoundError(DeltabergError, FileNotFoundError):
    """A live data file is gone: vacuumed under the reader, or the table was moved."""


class UnsafePathError(DeltabergError, PermissionError):
    """A path in the metadata leads where the caller did not allow."""


class StorageError(DeltabergError, OSError):
    """The store or the catalog failed or refused."""


class AuthenticationError(StorageError, PermissionError):
    """The catalog does not take the credentials, or they do not allow this."""


class ObjectNotFoundError(StorageError, FileNotFoundError):
    """The store has no object of this name."""


class SchemaError(DeltabergError, ValueError):
    """A schema cannot be understood, or two of them do not fit together."""


class ColumnNotFoundError(SchemaError, LookupError):
    """No column has this name."""


class ExpressionError(DeltabergError, ValueError):
    """A filter cannot be parsed or does not fit the schema."""


class InvalidArgumentError(DeltabergError, ValueError):
    """An argument has a value that is not taken."""


class TooLargeError(DeltabergError, OverflowError):
    """A result would exceed a limit of Arrow or of the table format."""


class MissingDependencyError(DeltabergError, ImportError):
    """A package that this call needs is not installed."""


class KernelUnavailableError(DeltabergError, ImportError):
    """``DELTABERG_KERNELS=native`` was set and there is no usable compiled module."""


class KernelPanicError(DeltabergError, RuntimeError):
    """Compiled code panicked. This is a defect of deltaberg: please report it."""
