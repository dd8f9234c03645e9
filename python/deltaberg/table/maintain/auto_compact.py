"""Auto compaction: a commit is followed by the compaction of the partitions that it has left with many small files.

Which files these are is as in delta-spark. The commit stands, whatever becomes of its compaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CommitUnknownError, DeltabergError
from deltaberg.table.transaction.transaction import Transaction

if TYPE_CHECKING:
    from deltaberg.table.maintain.compact import Compaction, Rewrite

__all__ = ["MIN_FILES", "LeftFiles", "are_many", "compact_left_files"]

#: A partition with so many small files is compacted.
MIN_FILES = 50
#: No further group of files is begun after so many seconds, and together they have so many bytes at most.
SECONDS, MOST_BYTES = 60, 16 << 30
#: The bytes of the files of one group, which is one commit.
_GROUP = 1 << 30

_Transaction = TypeVar("_Transaction", bound=Transaction)


def are_many(count: int) -> bool:
    """Return whether so many small files of a partition are put together."""
    return count >= MIN_FILES


class LeftFiles(NamedTuple):
    """The files of a table after a commit, or those of them that may be put together.

    Parameters
    ----------
    numbers
        Their numbers in the file table.
    sizes
        Their bytes.
    partitions
        What is equal for files of a partition.
    are_new
        Which of them the commit has added.
    """

    numbers: pa.Int64Array
    sizes: pa.Array
    partitions: pa.Array
    are_new: pa.BooleanArray

    def chosen(self, size: int) -> pa.Int64Array:
        """Return the numbers of the files with fewer bytes, in the partitions of new ones that have many of them."""
        small = self._where(pc.less(self.sizes, size))
        touched = pc.unique(small.partitions.filter(small.are_new))
        counted = pc.value_counts(small.partitions.filter(pc.is_in(small.partitions, value_set=touched)))
        full = counted.field("values").filter(pc.greater_equal(counted.field("counts"), MIN_FILES))
        many = small._where(pc.is_in(small.partitions, value_set=full))  # noqa: SLF001 - of another one of us
        return many.numbers.filter(pc.less_equal(pc.cumulative_sum(many.sizes), MOST_BYTES))

    def _where(self, mask: pa.BooleanArray) -> LeftFiles:
        return LeftFiles(*(column.filter(mask) for column in self))


def compact_left_files(
    look: Callable[[], tuple[LeftFiles, int] | None],
    begin: Callable[[], _Transaction],
    refresh: Callable[[], object],
    rewrite: Callable[[_Transaction, Compaction], Rewrite[_Transaction]],
    *,
    seconds: float | None,
) -> list[str]:
    """Put small files together after a commit, and return a sentence for each part that failed.

    Parameters
    ----------
    look
        Returns the files of the table, and the bytes of a new one; None where there is surely nothing to do.
    begin, refresh, rewrite
        As for `compact_table`.
    seconds
        No group but the first is begun after so many; None for a minute.
    """
    from deltaberg.table.maintain.compact import Compaction, compact_table
    from deltaberg.table.maintain.packing import Packing

    failed = "small files were not put together"
    most = SECONDS if seconds is None else seconds
    begun = time.monotonic()
    try:
        found = look()
        if found is None:
            return []
        files, target = found
        chosen = files.chosen(target // 2)
        if not len(chosen):
            return []
        packing = Packing(target, max_deleted=1, group_size=_GROUP, min_file_size=target // 2)
        compaction = Compaction(packing=packing, cluster=False, seconds=most, chosen=chosen)
        done = compact_table(begin, refresh, compaction, rewrite)
        late = [f"{failed} for longer than {most:g} seconds: what is left is for a later commit"]
        over = late if time.monotonic() - begun > most and done.removed_files < len(chosen) else []
        return [f"{failed}: {_said(error)}" for error in done.conflicts] + over
    except CommitUnknownError as error:
        return [f"it is not known whether small files were put together: {error.message}"]
    except Exception as error:  # noqa: BLE001 - the commit is done, and must not look as if it had failed
        return [f"{failed}: {_said(error)}"]


def _said(error: Exception) -> str:
    """Return what an error says, without its hint."""
    return error.message if isinstance(error, DeltabergError) else str(error) or type(error).__name__
