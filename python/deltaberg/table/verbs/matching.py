"""How many rows a condition concerns, before anything is done to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow.compute as pc

from deltaberg.expressions.build.filters import Filter
from deltaberg.table.change.conditions import row_condition
from deltaberg.table.change.match import find_rows
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.verbs.shared_arguments import RecordedArguments, arguments_of
from deltaberg.table.verbs.table import Table, operations_of

__all__ = ["Matching", "count_matching"]


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
    whole = pc.sum(matched.of(matched.whole).plan.row_counts(), skip_nulls=False, min_count=0).as_py()
    rows = None if whole is None else whole + matched.rows.total
    return Matching(rows, len(matched.whole) + len(matched.rows.numbers))
