"""How many rows come and go where files of a table take the place of others, as far as the log tells."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.table.transaction.operation import RowNumbers

__all__ = ["live_rows", "rows_of_swap"]


def live_rows(files: pa.Table) -> int | None:
    """Return the number of rows of live files that are not deleted; None if a file does not tell."""
    hidden = _hidden_rows(files, "hidden").column("hidden")
    rows: int | None = pc.sum(pc.subtract(files.column("numRecords"), hidden), skip_nulls=False, min_count=0).as_py()
    return rows


def rows_of_swap(added: pa.Table, removed: pa.Table) -> RowNumbers:
    """Return how many rows a table gets and loses.

    Rows that come in some files and go with others may be the same, or other values of the same. Then nobody knows. Of
    a file that gets another deletion vector, the rows are those of the one that there is, where there is only one.

    Parameters
    ----------
    added, removed
        The files, as live files are recorded.
    """
    both = _hidden_rows(removed, "was").join(_hidden_rows(added, "is"), "path", join_type="inner")
    was, now = both.column("was"), both.column("is")
    if pc.any(pc.greater(pc.min_element_wise(was, now), 0)).as_py():
        return RowNumbers.uncounted()
    paths = both.column("path").combine_chunks()
    whole = [files.filter(pc.invert(pc.is_in(files.column("path"), value_set=paths))) for files in (added, removed)]
    came, went = (live_rows(files) for files in whole)
    inserted = None if came is None else came + (pc.sum(was).as_py() or 0)
    deleted = None if went is None else went + (pc.sum(now).as_py() or 0)
    return RowNumbers.uncounted() if inserted != 0 and deleted != 0 else RowNumbers(inserted, 0, deleted)


def _hidden_rows(files: pa.Table, name: str) -> pa.Table:
    """Return the paths of files, and how many rows their deletion vectors hide."""
    hidden = pc.fill_null(pc.struct_field(files.column("deletionVector"), "cardinality"), 0)
    return pa.table([files.column("path"), hidden], ["path", name])
