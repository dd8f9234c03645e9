"""A transaction as callers see it: the verbs of a table, each of which becomes a part of one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

from deltaberg.schema.types import Struct
from deltaberg.signatures import public
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.transaction.operations import Operations
from deltaberg.table.transaction.transaction import Transaction
from deltaberg.table.verbs.verbs import Verbs

__all__ = ["TableTransaction"]

_Own = TypeVar("_Own", bound="TableTransaction[Any, Any]")
_Run_co = TypeVar("_Run_co", bound=Operations[Transaction], covariant=True)
_Alteration = TypeVar("_Alteration")


@public
class TableTransaction(Verbs[None], Generic[_Run_co, _Alteration]):
    """Several operations on a table that become one commit, or none. `transaction` of a table begins one.

    Each operation sees what the ones before it did. An operation that fails has changed nothing, so that a block that
    handles its exception can go on. At the end of the block everything is committed at once, unless nothing was
    changed. An exception that leaves the block commits nothing, and the files that were written are deleted. On a Delta
    table that records a change data feed, an operation that changes rows must be the only operation on rows, unless it
    deletes whole files.

    Examples
    --------
    >>> import pyarrow as pa
    >>> with table.transaction() as transaction:
    ...     transaction.append(pa.table({"id": [4], "name": ["d"]}))
    ...     transaction.alter().add("price", pa.float64())
    ...     transaction.append(pa.table({"id": [5], "price": [9.5]}))
    Alteration(['ADD COLUMNS'])
    >>> table.scan("id > 3", columns=["id", "price"]).to_arrow().to_pylist()
    [{'id': 4, 'price': None}, {'id': 5, 'price': 9.5}]
    """

    def __init__(self, operations: _Run_co) -> None:
        self._operations = operations

    @property
    def token(self) -> str:
        """The token by which `deltaberg.find_commit` finds the commit, whatever becomes of it."""
        return self._operations.transaction.token

    @property
    def is_empty(self) -> bool:
        """Whether the transaction changes nothing so far."""
        return self._operations.transaction.is_empty

    @property
    def result(self) -> CommitResult | None:
        """The result of the commit; None before it."""
        return self._operations.transaction.result

    def _run(self, verb: Callable[[Operations[Transaction]], object], arguments: Mapping[str, Any]) -> None:
        CommitOptions.refuse_in_transaction(arguments)
        verb(self._operations)

    @property
    def _table_at(self) -> str:
        return str(self._operations.transaction.root)

    @property
    def _columns(self) -> Struct:
        return self._operations.target("merge", RowOptions(), None).schema

    def alter(self) -> _Alteration:
        """Change columns, properties and whatever else the format has, as parts of the transaction.

        Each change takes effect at once in the transaction. The result has no commit of its own.
        """
        made: _Alteration = self._operations.alter()
        return made

    def commit(self) -> CommitResult:
        """Commit the changes, and return what was done; nothing is committed if there are none.

        If the changes surely are not committed, the files that were written for them are deleted.

        Raises
        ------
        CommitConflictError
            Another commit came first, and the changes do not fit on top of it. Nothing was committed.
        CommitUnknownError
            The commit was sent, but it is not known whether it took effect.
        InvalidArgumentError
            The transaction has ended, or is a part of one of several tables.
        """
        return self._operations.transaction.commit()

    def abort(self) -> None:
        """End the transaction without a commit, and delete its files. After a commit was tried this does nothing."""
        self._operations.transaction.abort()

    def __enter__(self: _Own) -> _Own:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        self._operations.transaction.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._operations.transaction.__exit__(kind, error, trace)
