"""Summaries of snapshots: what changed, and how much the table holds (Iceberg spec, "Snapshots" and Appendix F)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifests.fields import DATA, EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.schema import Struct, as_array

__all__ = ["REPLACES_PARTITIONS", "Tally", "snapshot_summary"]

#: What the summary says of a snapshot whose files replace all files of their partitions.
REPLACES_PARTITIONS = "replace-partitions"
#: What is counted of the files of each content: the files, the rows, and the bytes, by the names of the summary.
_FILES = {DATA: "data-files", POSITION_DELETES: "delete-files", EQUALITY_DELETES: "delete-files"}
_ROWS = {DATA: "records", POSITION_DELETES: "position-deletes", EQUALITY_DELETES: "equality-deletes"}
_KIND = {POSITION_DELETES: "position-delete-files", EQUALITY_DELETES: "equality-delete-files"}
_TOTALS = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")
#: Removed data files and their rows are called deleted.
_DELETED = ("data-files", "records")
_VECTORS = "dvs"


class Tally:
    """Counts the files that a snapshot adds and removes.

    Parameters
    ----------
    keeps_rows
        Whether the added files hold the rows of the removed ones.
    replaces_partitions
        Whether the added files replace all files of their partitions, and nothing else changes.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.is_empty
    True
    """

    def __init__(self, *, keeps_rows: bool = False, replaces_partitions: bool = False) -> None:
        self._keeps_rows = keeps_rows
        self.replaces_partitions = replaces_partitions
        self.added: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()
        self._partitions: set[Hashable] = set()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was counted."""
        return not self.added and not self.removed

    def add(self, spec_id: int, partition: Struct, entries: pa.Table) -> None:
        """Count entries of files that are added."""
        self._count(self.added, spec_id, partition, entries)

    def remove(self, spec_id: int, partition: Struct, entries: pa.Table) -> None:
        """Count entries of files that are removed."""
        self._count(self.removed, spec_id, partition, entries)

    def _count(self, counts: Counter[str], spec_id: int, partition: Struct, entries: pa.Table) -> None:
        if not len(entries):
            return
        for content, files in _FILES.items():
            mine = entries.filter(pc.equal(entries.column("content"), content))
            if not len(mine):
                continue
            rows = pc.sum(mine.column("record_count")).as_py()
            counts[files] += len(mine)
            counts[_ROWS[content]] += rows
            # Vectors share files: the size of one is that of its blob.
            sizes = pc.coalesce(mine.column("content_size_in_bytes"), mine.column("file_size_in_bytes"))
            counts["files-size"] += pc.sum(sizes).as_py()
            if content != DATA:
                vectors = pc.sum(pc.equal(pc.utf8_lower(mine.column("file_format")), "puffin")).as_py()
                counts[_VECTORS] += vectors
                counts[_KIND[content]] += len(mine) - vectors
        keys = partition_keys(as_array(entries.column("partition")), partition)
        self._partitions.update((spec_id, key) for key in keys)

    @property
    def operation(self) -> str:
        """What a snapshot is called that does just this."""
        if self._keeps_rows:
            return "replace"
        if self.replaces_partitions:
            return "overwrite"
        if not self.removed and not self.added["delete-files"]:
            return "append"
        return "overwrite" if self.added["data-files"] else "delete"

    @property
    def changed_partitions(self) -> int:
        """The number of partitions whose files change."""
        return len(self._partitions)


def snapshot_summary(
    operation: str, tally: Tally, before: Mapping[str, str] | None, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the summary of a snapshot.

    Totals are only known if they are known of the snapshot before.

    Parameters
    ----------
    operation
        What the snapshot does.
    tally
        What it adds and removes.
    before
        The summary of its parent; None if there is no parent.
    extra
        What the caller adds to the summary.

    Examples
    --------
    >>> snapshot_summary("delete", Tally(), None)["total-records"]
    '0'
    """
    changes = {f"added-{name}": count for name, count in tally.added.items()}
    for name, count in tally.removed.items():
        changes[f"{'deleted' if name in _DELETED else 'removed'}-{name}"] = count
    changes["changed-partition-count"] = tally.changed_partitions
    for name in _TOTALS:
        total = _known(before, f"total-{name}")
        if total is not None and total + tally.added[name] - tally.removed[name] >= 0:
            changes[f"total-{name}"] = total + tally.added[name] - tally.removed[name]
    own = {name: str(count) for name, count in changes.items() if count or not name.startswith(("added", "removed"))}
    marks = {REPLACES_PARTITIONS: "true"} if tally.replaces_partitions else {}
    return {**(extra or {}), "operation": operation, **marks, **own}


def _known(before: Mapping[str, str] | None, name: str) -> int | None:
    if before is None:
        return 0
    text = before.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
