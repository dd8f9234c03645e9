"""Auto compaction of Iceberg tables, which a property of this library asks for: the specification has none."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import TableNotFoundError
from deltaberg.iceberg.location.committer import Committer
from deltaberg.iceberg.location.loaded import LoadedTable
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.rows.row_spec import row_spec
from deltaberg.iceberg.transaction.commit_properties import compacts_itself
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema.arrow import as_array
from deltaberg.table.commit.commit_options import CommitOptions
from deltaberg.table.maintain.auto_compact import MIN_FILES, LeftFiles, are_many, compact_left_files
from deltaberg.table.read.plan import file_numbers
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.whole_numbers import whole_number

__all__ = ["compact_after"]

#: How often the files of a table are looked at though summaries do not tell that there are many new ones.
_LOOKS_EVERY = 10


def compact_after(
    committed: Transaction,
    added: Collection[str],
    *,
    committer: Committer,
    tell: Callable[[LoadedTable], object] | None = None,
    seconds: float | None = None,
) -> list[str]:
    """Put small files together in the partitions to which a transaction has added files, if its table asks for it.

    Parameters
    ----------
    committed
        The transaction, which is committed.
    added
        The data files that were written for it, by their recorded paths.
    committer
        What commits to the table.
    tell
        What is told the table as it is afterwards.
    seconds
        No group of files but the first is begun after so many; None for a minute.

    Returns
    -------
    list
        A sentence for each part that failed.
    """
    if not added or not compacts_itself(committed.metadata):
        return []
    from deltaberg.iceberg.maintain.compact import IcebergRewrite
    from deltaberg.table.maintain.compact import Compaction

    following = _Following(committed, committer, tell)

    def look() -> tuple[LeftFiles, int] | None:
        following.refresh()
        transaction = following.begin()
        if not _may_be_many(transaction.metadata, transaction.planned):
            return None
        target = row_spec(transaction.metadata, RowOptions()).target_size
        rewrite = IcebergRewrite(transaction, Compaction())
        files = rewrite.files
        codes: dict[object, int] = {}
        partitions = [codes.setdefault(key, len(codes)) for key in rewrite.partitions(files)]
        is_new = pc.is_in(as_array(files.column("path")), value_set=pa.array(sorted(added), pa.string()))
        sizes = pc.fill_null(as_array(files.column("size")), 0)
        return LeftFiles(file_numbers(files), sizes, pa.array(partitions, pa.int64()), is_new), target

    return compact_left_files(look, following.begin, following.refresh, IcebergRewrite, seconds=seconds)


class _Following:
    """Transactions after another one, on its branch, which record nothing of its caller."""

    def __init__(self, made: Transaction, committer: Committer, tell: Callable[[LoadedTable], object] | None) -> None:
        self._options = CommitOptions(branch=made.branch)
        self._timezone = made.timezone
        self._committer = committer
        self._caller = tell
        self._loaded: LoadedTable | None = None

    def begin(self) -> Transaction:
        """Begin one on the newest metadata that is known."""
        if self._loaded is None:
            raise AssertionError("refresh comes first")
        return Transaction(self._loaded, self._committer, self._options, timezone=self._timezone, committed=self._tell)

    def refresh(self) -> None:
        """Look for newer metadata."""
        loaded = self._committer.load(self._loaded)
        if loaded is None:
            raise TableNotFoundError("the table does not exist any more")
        self._tell(loaded)

    def _tell(self, loaded: LoadedTable) -> None:
        self._loaded = loaded
        if self._caller is not None:
            self._caller(loaded)


def _may_be_many(metadata: TableMetadata, newest: Snapshot | None) -> bool:
    """Return whether a partition may have many small files, as far as summaries tell.

    Most commits read no manifest for it. Where files were added that no summary tells of, since snapshots expire, or
    other partitions were put together meanwhile, each tenth commit looks for them.
    """
    if newest is None or not are_many(_count(newest, "total-data-files", MIN_FILES)):
        return False
    added = 0
    for snapshot in metadata.ancestors(newest):
        if snapshot.operation == "replace":
            break
        added += _count(snapshot, "added-data-files", 0)
    return are_many(added) or newest.sequence_number % _LOOKS_EVERY == 0


def _count(snapshot: Snapshot, name: str, otherwise: int) -> int:
    count = whole_number(snapshot.summary.get(name, ""), 0)
    return otherwise if count is None else count
