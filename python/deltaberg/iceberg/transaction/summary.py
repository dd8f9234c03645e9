"""Summaries of snapshots: what changed, and how much the table holds (Iceberg spec, "Snapshots" and Appendix F)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifests.fields import DATA, EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.partition.assign import PartitionPaths
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Struct
from deltaberg.table.transaction.operation import RowNumbers
from deltaberg.whole_numbers import whole_number

__all__ = ["CLONED_FROM", "REPLACES_PARTITIONS", "Tally", "is_recorded", "rows_of", "snapshot_summary"]

#: What the summary says of a snapshot whose files replace all files of their partitions.
REPLACES_PARTITIONS = "replace-partitions"
#: Where the table is whose files a clone has copied.
CLONED_FROM = "deltaberg.cloned-from"
#: What is counted of the files of each content: the files, the rows, and the bytes, by the names of the summary.
_FILES = {DATA: "data-files", POSITION_DELETES: "delete-files", EQUALITY_DELETES: "delete-files"}
_ROWS = {DATA: "records", POSITION_DELETES: "position-deletes", EQUALITY_DELETES: "equality-deletes"}
_KIND = {POSITION_DELETES: "position-delete-files", EQUALITY_DELETES: "equality-delete-files"}
_TOTALS = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")
#: Removed data files and their rows are called deleted.
_DELETED = ("data-files", "records")
_VECTORS = "dvs"
#: What deletes rows by other means than deletion vectors.
_BESIDE_VECTORS = (
    *(f"deleted-{name}" for name in _DELETED),
    *(f"{way}-{name}" for way in ("added", "removed") for name in _KIND.values()),
)
#: What the summary says of single partitions.
_HAS_PARTITIONS, _OF_PARTITION = "partition-summaries-included", "partitions."
#: What else it says of any snapshot.
_OPERATION, _CHANGED = "operation", "changed-partition-count"
_COUNTS = "|".join({*_FILES.values(), *_ROWS.values(), *_KIND.values(), *_TOTALS, _VECTORS})
_RECORDED = re.compile(
    f"{_OPERATION}|{REPLACES_PARTITIONS}|{re.escape(CLONED_FROM)}|{_CHANGED}|{_HAS_PARTITIONS}|{re.escape(_OF_PARTITION)}.*"
    f"|(?:added|deleted|removed|total)-(?:{_COUNTS})",
    re.DOTALL,
)

#: The columns of entries that are counted.
_COUNTED = ("content", "record_count", "content_size_in_bytes", "file_size_in_bytes", "file_format")

_Side: TypeAlias = "Callable[[Tally], Counter[str]]"


class Tally:
    """Counts the files that a snapshot adds and removes.

    Parameters
    ----------
    keeps_rows
        Whether the added files hold the rows of the removed ones.
    replaces_partitions
        Whether the added files replace all files of their partitions, and nothing else changes.
    paths
        The paths of the partitions of each spec, by its id; None if partitions are not counted one by one.
    most_partitions
        How many partitions are counted one by one at most; if there are more, none is.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.is_empty
    True
    """

    def __init__(
        self,
        *,
        keeps_rows: bool = False,
        replaces_partitions: bool = False,
        paths: Mapping[int, PartitionPaths] | None = None,
        most_partitions: int = 0,
    ) -> None:
        self._keeps_rows = keeps_rows
        self._paths = paths or {}
        self._most = most_partitions if paths else 0
        self._by_partition: dict[str, Tally] = {}
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
        _count(self.added, entries)
        self._look_at(spec_id, partition, entries, lambda tally: tally.added)

    def remove(self, spec_id: int, partition: Struct, entries: pa.Table) -> None:
        """Count entries of files that are removed."""
        _count(self.removed, entries)
        self._look_at(spec_id, partition, entries, lambda tally: tally.removed)

    def _look_at(self, spec_id: int, partition: Struct, entries: pa.Table, side: _Side) -> None:
        """Note the partitions of files, and count those of each if there are few."""
        if not len(entries):
            return
        values = as_array(entries.column("partition"))
        keys = partition_keys(values, partition)
        rows: dict[Hashable, list[int]] = {}
        for row, key in enumerate(keys):
            rows.setdefault(key, []).append(row)
        self._partitions.update((spec_id, key) for key in rows)
        if spec_id not in self._paths or len(self._partitions) > self._most:
            return
        counted = entries.select(_COUNTED)
        for own in rows.values():
            name = self._paths[spec_id].text(values.field(index)[own[0]] for index in range(values.type.num_fields))
            _count(side(self._by_partition.setdefault(name, Tally())), counted.take(own))

    @property
    def operation(self) -> str:
        """The operation of the snapshot, such as ``append``."""
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

    @property
    def changes(self) -> dict[str, int]:
        """How many files, rows and bytes were added and removed, by the names of the summary, without zeros."""
        found = {f"added-{name}": count for name, count in self.added.items()}
        for name, count in self.removed.items():
            found[f"{'deleted' if name in _DELETED else 'removed'}-{name}"] = count
        return {name: count for name, count in found.items() if count}

    @property
    def partition_changes(self) -> dict[str, str]:
        """The changes of each partition for the summary; nothing if there are too many partitions, or none."""
        if not self._by_partition or len(self._partitions) > self._most:
            return {}
        texts = {
            f"{_OF_PARTITION}{name}": ",".join(f"{part}={count}" for part, count in own.changes.items())
            for name, own in self._by_partition.items()
            if name
        }
        return {_HAS_PARTITIONS: "true", **texts}


def _count(counts: Counter[str], entries: pa.Table) -> None:
    """Add up files, rows and bytes."""
    for content, files in _FILES.items():
        mine = entries.filter(pc.equal(entries.column("content"), content))
        if not len(mine):
            continue
        counts[files] += len(mine)
        counts[_ROWS[content]] += pc.sum(mine.column("record_count")).as_py()
        # Vectors share files: the size of one is that of its blob.
        sizes = pc.coalesce(mine.column("content_size_in_bytes"), mine.column("file_size_in_bytes"))
        counts["files-size"] += pc.sum(sizes).as_py()
        if content != DATA:
            vectors = pc.sum(pc.equal(pc.utf8_lower(mine.column("file_format")), "puffin")).as_py()
            counts[_VECTORS] += vectors
            counts[_KIND[content]] += len(mine) - vectors


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
    changes = {**tally.changes, _CHANGED: tally.changed_partitions}
    for name in _TOTALS:
        total = _known(before, f"total-{name}")
        if total is not None and total + tally.added[name] - tally.removed[name] >= 0:
            changes[f"total-{name}"] = total + tally.added[name] - tally.removed[name]
    own = {name: str(count) for name, count in changes.items()}
    marks = {REPLACES_PARTITIONS: "true"} if tally.replaces_partitions else {}
    return {**(extra or {}), _OPERATION: operation, **marks, **own, **tally.partition_changes}


def rows_of(snapshot: Snapshot, before: Mapping[str, str] | None) -> RowNumbers:
    """Return how many rows a snapshot has inserted, updated and deleted, as far as its summary says so.

    Parameters
    ----------
    snapshot
        The snapshot.
    before
        The summary of its parent, without anything if there is no parent; None if the table has that no more.

    Examples
    --------
    >>> rows_of(Snapshot(7, 100, 1, summary=snapshot_summary("append", Tally(), None)), {}).deleted
    0
    """
    summary, operation = snapshot.summary, snapshot.operation
    # Writers that count leave out what is zero, and others leave out all.
    if whole_number(summary.get("total-records", ""), 0) is None:
        return RowNumbers.uncounted()
    if operation == "append":
        return RowNumbers(inserted=_stated(summary, "added-records"))
    if operation == "replace":
        return RowNumbers()
    if operation != "delete" or before is None or _stated(summary, "added-data-files") != 0:
        return RowNumbers.uncounted()
    if not any(_stated(summary, f"added-{_FILES[kind]}") != 0 for kind in _KIND):
        # All rows of the files are gone with them, unless some were gone before.
        had_none = all(_stated(before, f"total-{_ROWS[kind]}") == 0 for kind in _KIND)
        return RowNumbers(deleted=_stated(summary, "deleted-records") if had_none else None)
    if any(_stated(summary, name) != 0 for name in _BESIDE_VECTORS):
        return RowNumbers(deleted=None)
    # A vector takes in the one before it.
    added, removed = (_stated(summary, f"{way}-{_ROWS[POSITION_DELETES]}") for way in ("added", "removed"))
    return RowNumbers(deleted=None if added is None or removed is None else added - removed)


def _stated(summary: Mapping[str, str], name: str) -> int | None:
    """Return a count of a summary, of which zeros are left out; None if it is none."""
    return whole_number(summary.get(name, "0"), 0)


def is_recorded(name: str) -> bool:
    """Return whether summaries say under this name what the library itself records.

    Examples
    --------
    >>> is_recorded("added-records"), is_recorded("added-by")
    (True, False)
    """
    return _RECORDED.fullmatch(name) is not None


def _known(before: Mapping[str, str] | None, name: str) -> int | None:
    if before is None:
        return 0
    return whole_number(before.get(name, ""), 0)
