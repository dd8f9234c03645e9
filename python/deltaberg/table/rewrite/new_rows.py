"""The rows that files are written with where rows are deleted, replaced or inserted, and how many they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.schema import ColumnName
from deltaberg.table.rewrite.match import MatchedRows
from deltaberg.table.rewrite.rows import Change, Replacement, matched_rows, rewritten_rows
from deltaberg.table.rewrite.target import Rows

__all__ = ["NewRows", "RowCounts", "RowIdentity"]


class RowIdentity(Protocol):
    """The columns that are read and stored of rows that move, so that they keep their ids."""

    @property
    def columns(self) -> Sequence[ColumnName]:
        """The columns to read of rows that move: those of the table, and those of ids behind them."""
        ...

    def change(self, change: Change) -> Change:
        """Return a change of rows with ids, made of one of the columns of the table."""
        ...

    def flat(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with ``columns`` as files store them."""
        ...

    def new(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return new rows as files store them, which have no ids yet."""
        ...


@dataclass
class RowCounts:
    """How many rows are deleted, replaced, inserted, and written anew as they are.

    The number of deleted ones is None if a file that was not read does not tell it.
    """

    deleted: int | None = 0
    updated: int = 0
    inserted: int = 0
    copied: int = 0


class NewRows:
    """Makes the rows that files are written with, and counts them.

    Parameters
    ----------
    identity
        What keeps the ids of rows.
    """

    def __init__(self, identity: RowIdentity) -> None:
        self._identity = identity
        self.counts = RowCounts()

    def batches(
        self, matched: MatchedRows, change: Change | None, inserted: Rows | None, *, hides: bool
    ) -> Iterator[pa.RecordBatch] | None:
        """Return the rows as files store them; None if none can be written.

        Parameters
        ----------
        matched
            The rows that change.
        change
            What replaces them; None deletes them.
        inserted
            Rows that are new.
        hides
            Whether old rows stay in their files, hidden. Otherwise all rows of these files are written anew, those that
            stay as they are included.
        """
        whole = pc.sum(matched.of(matched.whole).plan.row_counts(), skip_nulls=False, min_count=0).as_py()
        self.counts.deleted = None if whole is None else whole + matched.rows.total
        streams: list[Iterable[pa.RecordBatch]] = []
        if not hides:
            streams.append(self._rewritten(matched, change))
        elif change is not None:
            streams.append(self._replaced(matched, change))
        if inserted is not None:
            streams.append(self._inserted(inserted))
        return chain.from_iterable(streams) if streams else None

    def count_copied(self, written: int) -> None:
        """Count the rows that were written as they are, given how many were written altogether."""
        self.counts.copied = written - self.counts.updated - self.counts.inserted

    def _replaced(self, matched: MatchedRows, change: Change) -> Iterator[pa.RecordBatch]:
        changed = self._counted(change)
        for batch in matched_rows(matched, self._identity.columns):
            rows = changed(batch).rows
            if rows.num_rows:
                yield self._identity.flat(rows)

    def _rewritten(self, matched: MatchedRows, change: Change | None) -> Iterator[pa.RecordBatch]:
        changed = None if change is None else self._counted(change)
        for batch in rewritten_rows(matched, self._identity.columns, changed):
            yield self._identity.flat(batch)

    def _counted(self, change: Change) -> Change:
        tracked = self._identity.change(change)

        def counted(batch: pa.RecordBatch) -> Replacement:
            found = tracked(batch)
            self.counts.updated += found.rows.num_rows
            if self.counts.deleted is not None:
                self.counts.deleted -= found.rows.num_rows
            return found

        return counted

    def _inserted(self, inserted: Rows) -> Iterator[pa.RecordBatch]:
        for batch in inserted():
            self.counts.inserted += batch.num_rows
            yield self._identity.new(batch)
