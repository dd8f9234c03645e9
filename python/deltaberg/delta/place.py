"""The directory of a Delta table that may not exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltaberg.choices import Mode
from deltaberg.delta.create.create import creation_parameters, define_table, descriptions
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.delta.maintain.auto_compact import compact_after
from deltaberg.delta.operations import DeltaOperations
from deltaberg.delta.table import DeltaTable, open_delta_table
from deltaberg.delta.transaction.find import find_commit_of
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.storage.location import parse_location
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.formats import DELTA
from deltaberg.table.open.new_table import Description, NewTable
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.verbs.place import Place

__all__ = ["DeltaPlace"]

#: Modes of a write as the history spells them.
_MODES: dict[Mode, str] = {
    "error": "ErrorIfExists",
    "append": "Append",
    "overwrite": "Overwrite",
    "ignore": "Ignore",
}


@dataclass(frozen=True)
class DeltaPlace(Place[DeltaTable, DeltaOperations]):
    """The directory of a Delta table.

    Parameters
    ----------
    location, options
        The directory, and how a table is opened.
    opened
        The table, if the caller has opened it.
    """

    format = DELTA
    location: str
    options: OpenOptions
    opened: DeltaTable | None = None

    @property
    def log(self) -> LogDirectory:
        """The log of the table."""
        return LogDirectory(parse_location(self.location), self.options.store)

    def open(self) -> DeltaTable:
        """Open the newest version."""
        return open_delta_table(self.location, self.options)

    def create(self, new: NewTable, options: CommitOptions) -> DeltaOperations:
        """Begin a transaction that creates the table."""
        run = DeltaOperations(Transaction(self.log, None, options))
        run.transaction.follow = compact_after
        define_table(run.transaction, new, None)
        return run

    def replace(self, run: DeltaOperations, new: NewTable) -> None:
        """Remove all rows, and set the protocol and the metadata."""
        transaction = run.transaction
        before = transaction.snapshot
        with transaction.operation("REPLACE TABLE", writes_files=False) as made:
            define_table(transaction, new, before)
            transaction.read()
            transaction.remove_files(before.live.table)
            made.parameters.update(creation_parameters(transaction.snapshot))

    def commit(self, run: DeltaOperations, mode: Mode | None) -> CommitResult:
        """Commit the creation under the name that the history knows it by."""
        if mode is None:
            return run.transaction.commit("CREATE TABLE", creation_parameters(run.transaction.snapshot))
        return run.transaction.commit("WRITE", {"mode": _MODES[mode]})

    def descriptions(self, table: DeltaTable, new: NewTable) -> Iterator[Description]:
        """Yield what is said of a new table, and what a table has instead."""
        return descriptions(table._snapshot, new)  # noqa: SLF001 - it is what the table is

    def unchanged(self, table: DeltaTable) -> CommitResult:
        """Return the result of no commit."""
        return CommitResult(table.version, "", "WRITE", committed=False)

    def find_commit(self, token: str) -> CommitResult | None:
        """Look for a commit in the log."""
        return find_commit_of(self.log, token)
