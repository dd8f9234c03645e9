"""The rows that files are written with where rows are deleted, replaced or inserted, and how many they are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.table.change.changed_rows import ChangedRows, NewFiles, RowCounts, RowIdentity, RowTasks
from deltaberg.table.change.match import MatchedRows
from deltaberg.table.change.matched_rows import Change
from deltaberg.table.change.target import Rows

__all__ = ["NewRows"]


class NewRows:
    """Writes the rows that files are written with, and counts them.

    Parameters
    ----------
    identity
        What keeps the ids of rows.
    tasks
        What writes rows that take the place of others; None for this process, which also writes what is inserted.
    """

    def __init__(self, identity: RowIdentity, tasks: RowTasks | None = None) -> None:
        self._identity = identity
        self._tasks = tasks
        self.counts = RowCounts()

    def write(
        self, matched: MatchedRows, change: Change | None, inserted: Rows | None, files: NewFiles, *, hides: bool
    ) -> pa.Table | None:
        """Write the rows, and return a row for each file; None if none can be written.

        Parameters
        ----------
        matched
            The rows that change.
        change
            What replaces them; None deletes them.
        inserted
            Rows that are new.
        files
            The files that are written.
        hides
            Whether old rows stay in their files, hidden. Otherwise all rows of these files are written anew, those that
            stay as they are included.
        """
        self.counts.deleted = matched.total
        written: list[pa.Table] = []
        streams: list[Iterator[pa.RecordBatch]] = []
        if change is not None or not hides:
            changed = ChangedRows.of(matched, change, self._identity, hides=hides)
            bound = changed.scan(matched)
            done = None if self._tasks is None else self._tasks.write(bound, changed, files)
            if done is None:
                streams.append(changed.made(bound.batches(), self.counts))
            else:
                files.note(done.files, done.road)
                self.counts.replace(done.updated)
                written.append(done.files)
        if inserted is not None:
            streams.append(self._inserted(inserted))
        if streams:
            written.append(files.write(chain.from_iterable(streams)))
        if not written:
            return None
        table = pa.concat_tables(written)
        rows = pc.sum(table.column("record_count")).as_py() or 0
        self.counts.copied = rows - self.counts.updated - self.counts.inserted
        return table

    def _inserted(self, inserted: Rows) -> Iterator[pa.RecordBatch]:
        for batch in inserted():
            self.counts.inserted += batch.num_rows
            yield self._identity.new(batch)
