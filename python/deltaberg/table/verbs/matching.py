"""What a verb would do, in numbers, before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from deltaberg.expressions.build.filters import Filter
from deltaberg.table.change.conditions import row_condition
from deltaberg.table.change.match import find_rows
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.verbs.shared_arguments import RecordedArguments, arguments_of
from deltaberg.table.verbs.table import Table, operations_of

__all__ = ["Matching", "Preview", "count_matching", "preview"]


class Preview(NamedTuple):
    """What verbs would do. Numbers of rows are None where nobody counts them.

    Parameters
    ----------
    inserted, updated, deleted, copied
        How many rows would be new, have new values, be gone, and be written anew as they are.
    added_files, removed_files
        How many data files would come and go.
    """

    inserted: int | None
    updated: int | None
    deleted: int | None
    copied: int | None
    added_files: int
    removed_files: int


def preview(
    table: Table[Any, Any], run: Callable[[Any, dict[str, Any]], object], arguments: Mapping[str, Any]
) -> Preview:
    """Return what verbs would do to a table.

    Rows are read, computed and checked, and written to files that are deleted again, so that the numbers are exact and
    whatever the verbs would refuse is refused. The table is never changed.

    Parameters
    ----------
    run
        Calls the verbs of what it is given, a transaction of the table, with those arguments that say nothing about the
        commit.
    arguments
        All arguments of the verbs.
    """
    commit: Any = arguments_of(RecordedArguments, arguments)
    transaction = table.transaction(**commit)
    try:
        run(transaction, {name: value for name, value in arguments.items() if name not in commit})
        return Preview(*operations_of(transaction).transaction.numbers)
    finally:
        transaction.abort()


class Matching(NamedTuple):
    """How many rows match a condition, None if a file that is not read does not tell it, and in how many files."""

    rows: int | None
    files: int


def count_matching(table: Table[Any, Any], where: Filter | None, arguments: Mapping[str, Any]) -> Matching:
    """Return how many rows `delete` of the table would delete, and in how many files they are; nothing is written.

    Parameters
    ----------
    arguments
        The other arguments of `delete`.

    Raises
    ------
    ExpressionError, ColumnNotFoundError
        The condition is not valid. The other errors are those that `delete` raises before it writes.
    """
    commit: Any = arguments_of(RecordedArguments, arguments)
    transaction = table.transaction(**commit)
    try:
        target = operations_of(transaction).target("delete", RowOptions.of(arguments), arguments.get("strategy"))
        condition = row_condition(target.schema, where, target.timezone)
        matched = find_rows(target.scan(condition, target.timezone), search=target.tasks)
    finally:
        transaction.abort()
    return Matching(matched.total, len(matched.whole) + len(matched.rows.numbers))
