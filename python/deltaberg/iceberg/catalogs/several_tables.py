"""What a transaction of several tables of a catalog does."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

from deltaberg.iceberg.catalogs.names import Identifier, Levels
from deltaberg.iceberg.table_transaction import IcebergTransaction
from deltaberg.signatures import takes
from deltaberg.table import CommitResult
from deltaberg.table.verbs.arguments import RecordedArguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["SeveralTables"]

_Own = TypeVar("_Own", bound="SeveralTables")


class SeveralTables(Protocol):
    """A transaction of several tables of a catalog. `Catalog.transaction` returns one."""

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
        ...

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
        ...

    def __enter__(self: _Own) -> _Own:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        """Begin the block at whose end the changes are committed."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless an exception ends the block."""
        ...
