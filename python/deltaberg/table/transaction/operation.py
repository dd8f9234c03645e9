"""The result of an operation of a transaction, for the commit and for its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from deltaberg.table.commit.commit import CommitResult
from deltaberg.whole_numbers import known_sum

__all__ = ["Operation", "RowNumbers", "row_sums", "with_rows", "without_deleted"]

#: What metrics call the rows that were deleted.
_OF_DELETED = frozenset({"numDeletedRows", "numTargetRowsDeleted"})


@dataclass
class RowNumbers:
    """How many rows were inserted, updated, deleted, and written anew as they were; None where nobody knows."""

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    copied: int | None = 0

    @classmethod
    def total(cls, numbers: Iterable[RowNumbers]) -> RowNumbers:
        """Return the sums of some numbers."""
        rows = list(numbers)
        return cls(*(known_sum(getattr(one, column.name) for one in rows) for column in fields(cls)))

    @classmethod
    def uncounted(cls) -> RowNumbers:
        """Return the numbers of an operation that takes over files of another state, whose rows nobody compares."""
        return cls(None, None, None)


@dataclass
class Operation:
    """One of the operations that a transaction consists of. Whoever runs it fills it in.

    Parameters
    ----------
    name
        The operation.
    parameters
        What the history says of it, where it does.
    metrics
        What it did, in numbers.
    rows
        The numbers of rows.
    again
        Runs it again on a newer state of the table; None if that may change other rows than its caller meant.
    """

    name: str
    parameters: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    rows: RowNumbers = field(default_factory=RowNumbers)
    again: Callable[[], object] | None = None


def with_rows(result: CommitResult, operations: Sequence[Operation]) -> CommitResult:
    """Return the result of a commit with the numbers of rows of its operations.

    Examples
    --------
    >>> made = [Operation("append", rows=RowNumbers(inserted=2)), Operation("delete", rows=RowNumbers(deleted=None))]
    >>> found = with_rows(CommitResult(1, "", "commit"), made)
    >>> found.inserted_rows, found.deleted_rows
    (2, None)
    """
    names = [f"{one.name}_rows" for one in fields(RowNumbers)]
    sums: dict[str, Any] = dict(zip(names, row_sums(operations), strict=True))
    return replace(result, **sums)


def without_deleted(operations: Sequence[Operation]) -> list[Operation]:
    """Return operations of which nobody knows how many rows they have deleted, as others deleted some of these."""
    return [
        replace(
            one,
            rows=replace(one.rows, deleted=None) if one.rows.deleted else one.rows,
            metrics={name: number for name, number in one.metrics.items() if name not in _OF_DELETED},
        )
        for one in operations
    ]


def row_sums(operations: Sequence[Operation]) -> tuple[int | None, int | None, int | None, int | None]:
    """Return the numbers of rows of several operations, in the order of `RowNumbers`."""
    rows = RowNumbers.total(operation.rows for operation in operations)
    return rows.inserted, rows.updated, rows.deleted, rows.copied
