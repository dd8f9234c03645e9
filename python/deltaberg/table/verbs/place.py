"""Creating tables and writing to them, where they may not exist yet: in a directory, or under a name of a catalog."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar, get_args

from deltaberg.choices import IfExists, Mode
from deltaberg.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    InvalidArgumentError,
    TableExistsError,
    TableNotFoundError,
)
from deltaberg.hints import Hint
from deltaberg.table.arguments import checked_choice
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import TableFormat
from deltaberg.table.open.new_table import Description, NewTable
from deltaberg.table.rows.progress import ProgressSum
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.rows.stream import can_be_read_again
from deltaberg.table.transaction.operations import Operations, Overwritten
from deltaberg.table.transaction.transaction import Transaction
from deltaberg.table.verbs.shared_arguments import SingleCommitArguments, arguments_of
from deltaberg.table.verbs.table import Table, operations_of, without_probe
from deltaberg.table.write.sources import open_rows

__all__ = ["Place"]

_Table = TypeVar("_Table", bound=Table[Any, Any])
_Run = TypeVar("_Run", bound=Operations[Transaction])
#: How often a table is created or replaced at most, if others are faster each time.
_ATTEMPTS = 21


class Place(ABC, Generic[_Table, _Run]):
    """Where a table is, or will be."""

    format: ClassVar[TableFormat]
    #: The location of the table.
    location: str
    #: The table, if the caller has opened it.
    opened: _Table | None

    @abstractmethod
    def open(self) -> _Table:
        """Open the newest state of the table.

        Raises
        ------
        TableNotFoundError
            There is no table.
        """

    @abstractmethod
    def create(self, new: NewTable, options: CommitOptions) -> _Run:
        """Begin a transaction that creates the table, and say what the table is like."""

    @abstractmethod
    def replace(self, run: _Run, new: NewTable) -> None:
        """Remove the rows of a table, and make it as a new one would be. Its history stays."""

    @abstractmethod
    def commit(self, run: _Run, mode: Mode | None) -> CommitResult:
        """Commit the creation of a table: with rows, which were written in some mode, or without (None)."""

    @abstractmethod
    def descriptions(self, table: _Table, new: NewTable) -> Iterator[Description]:
        """Yield what is said of a new table beside its columns and partitioning, and what a table has instead.

        Raises
        ------
        InvalidArgumentError, ColumnNotFoundError
            No table can be as it is said.
        """

    @abstractmethod
    def unchanged(self, table: _Table) -> CommitResult:
        """Return the result of a write to a table that leaves it as it is."""

    @abstractmethod
    def find_commit(self, token: str) -> CommitResult | None:
        """Return the result of the commit with this token; None if the table has no such commit."""

    def commit_options(self, new: NewTable, arguments: Mapping[str, Any]) -> CommitOptions:
        """Return what is said of the commit.

        Raises
        ------
        UnsupportedFeatureError
            Tables of the format lack an argument.
        """
        options = CommitOptions.of(arguments)
        for given in (new, options):
            self.format.refuse(given, self.location)
        return options

    def create_table(self, new: NewTable, if_exists: object, commit: Mapping[str, Any]) -> _Table:
        """Create a table without rows, and return it.

        Parameters
        ----------
        new
            Its columns and metadata.
        if_exists
            What becomes of a table that is there already: ``error`` raises, ``ignore`` leaves it as it is, and
            ``replace`` removes its rows and gives it the new columns and metadata, whatever others make of it by then.
        commit
            The arguments about the commit.

        Raises
        ------
        TableExistsError
            There is a table, and ``if_exists`` is ``error``.
        SchemaError, InvalidArgumentError, UnsupportedFeatureError
            The table is not valid, or needs what is not written.
        """
        checked_choice(
            "if_exists", if_exists, get_args(IfExists), "leave it out to have a table that is there reported"
        )
        options = self.commit_options(new, commit)
        self._check_branch(options)
        for left in reversed(range(_ATTEMPTS)):
            table = self._newest()
            if table is not None and if_exists == "error" and not _is_done(table, commit):
                raise self._exists('use ⟪if_exists="ignore"⟫ or ⟪if_exists="replace"⟫')
            if table is not None and if_exists != "replace":
                return table
            try:
                if table is None:
                    run = self.create(new, options)
                    with run.transaction:
                        self.commit(run, None)
                else:
                    with table.transaction(**commit) as transaction:
                        self.replace(operations_of(transaction), new)
                    return table
            except (TableExistsError, CommitConflictError):
                # Somebody else was faster. What is there by now decides.
                if not left:
                    raise
            else:
                break
        return self.open()

    def write_table(
        self, data: Any, new: NewTable, mode: Mode, which: Overwritten, arguments: Mapping[str, Any]
    ) -> CommitResult:
        """Write rows to a table, which is created with them if there is none.

        Parameters
        ----------
        data
            The rows.
        new
            What a new table is like, but for its columns. One that is there has to be like it, but for the
            partitioning if its columns are replaced.
        mode
            What becomes of a table that is there already: ``error`` raises, ``append`` adds the rows, ``overwrite``
            replaces its rows by them, and ``ignore`` writes nothing.
        which
            Which rows an overwrite replaces.
        arguments
            Those about the rows and the commit.

        Raises
        ------
        TableExistsError
            There is a table, and ``mode`` is ``error``.
        InvalidArgumentError
            There is a table that is not like the new one.
        """
        checked_choice(
            "mode",
            mode,
            get_args(Mode),
            '"overwrite" replaces the rows, and "append" adds some; leave it out to create a table',
        )
        choices = {
            "where": which.where is not None,
            "dynamic": which.dynamic,
            "check": not which.check,
            "strategy": which.strategy is not None,
        }
        for name, is_chosen in choices.items():
            if is_chosen and mode != "overwrite":
                raise InvalidArgumentError(
                    Hint(f"⟪{name}⟫ has no meaning if ⟪mode⟫ is {mode}"), hint='pass ⟪mode="overwrite"⟫'
                )
        options, rows = self.commit_options(new, arguments), RowOptions.of(arguments)

        which.check_columns(rows.schema_mode)

        def write(table: _Table) -> CommitResult:
            if not _is_done(table, arguments):
                self._check_likeness(table, new, rows)
            if mode == "append":
                return table.append(data, partition_by=new.partition_by, **arguments)
            how: dict[str, Any] = {
                "where": which.where,
                "dynamic": which.dynamic,
                "check": which.check,
                "strategy": which.strategy,
            }
            return table.overwrite(data, partition_by=new.partition_by, **how, **arguments)

        return self.create_first(
            mode,
            lambda: self._create_with_rows(data, new, mode, which, rows, options),
            write,
            arguments,
            instead='pass ⟪mode="append"⟫ or ⟪mode="overwrite"⟫',
            again=can_be_read_again(data),
        )

    def _check_likeness(self, table: _Table, new: NewTable, rows: RowOptions) -> None:
        """Refuse to write to a table that is not as a new one would be."""
        try:
            for said in self.descriptions(table, new):
                said.check(table.location)
        except ColumnNotFoundError as error:
            if rows.schema_mode is None:
                raise
            # The rows may have it.
            raise InvalidArgumentError(
                f"{error.message} in the table so far, and writing rows does not change what orders them",
                hint="write the rows first, and then use ⟪alter()⟫ of the table",
                table=table.location,
            ) from None

    def create_first(
        self,
        mode: Mode,
        create: Callable[[], CommitResult],
        write: Callable[[_Table], CommitResult],
        arguments: Mapping[str, Any],
        *,
        instead: str,
        again: bool = False,
    ) -> CommitResult:
        """Create the table with rows, or have a table that is there already written to.

        Parameters
        ----------
        mode
            What becomes of a table that is there already, as for `write_table`.
        create, write
            Creates the table, or writes the rows to the one that is there.
        arguments
            Those about the commit, among others. A table that records the progress of their ``txn`` is left alone.
        instead
            What the caller can do instead if there is a table.
        again
            Whether the rows are still there after ``create`` has failed because somebody else was faster.

        Raises
        ------
        TableExistsError
            There is a table, and ``mode`` is ``error``.
        """
        table = self._newest() if self.opened is None else self.opened
        if table is None:
            try:
                return create()
            except TableExistsError:
                table = self.open()
                if mode != "ignore" and not again and not _is_done(table, arguments):
                    raise
        if mode == "error" and not _is_done(table, arguments):
            raise self._exists(instead)
        return self.unchanged(table) if mode in ("error", "ignore") else write(table)

    def _create_with_rows(
        self, data: Any, new: NewTable, mode: Mode, which: Overwritten, options: RowOptions, commit: CommitOptions
    ) -> CommitResult:
        self._check_branch(commit)
        rows = open_rows(data, None if commit.progress is None else ProgressSum(commit.progress).next_write())
        run = self.create(replace(new, schema=rows.schema, of_rows=True), commit)
        with run.transaction:
            if mode == "append":
                run.append(rows, options, None)
            elif which.where is None and which.strategy is None:
                run.append(rows, replace(options, schema_mode=None), None)
            else:
                run.overwrite(rows, replace(options, schema_mode=None), which)
            return self.commit(run, mode)

    def _check_branch(self, commit: CommitOptions) -> None:
        if commit.branch is not None:
            raise InvalidArgumentError(
                "a new table has no branches",
                hint="create one by ⟪alter().create_branch(…)⟫ of the table",
                table=self.location,
            )

    def _newest(self) -> _Table | None:
        try:
            return self.open()
        except TableNotFoundError:
            return None

    def _exists(self, instead: str) -> TableExistsError:
        return TableExistsError("there is a table already", hint=instead, table=self.location)


def _is_done(table: Table[Any, Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether a table records the progress of an application that a write would."""
    if arguments.get("txn") is None:
        return False
    transaction = table.transaction(**without_probe(arguments_of(SingleCommitArguments, arguments)))
    try:
        done: bool = operations_of(transaction).transaction.is_done
        return done
    finally:
        transaction.abort()
