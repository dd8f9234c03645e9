"""The files that a transaction adds and removes, before any snapshot has them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.schema import Struct

__all__ = ["AddedFiles", "PendingFiles"]


@dataclass(frozen=True)
class AddedFiles:
    """Entries of new files of one spec, as `added_entries` makes them."""

    spec: PartitionSpec
    partition: Struct
    entries: pa.Table


@dataclass
class PendingFiles:
    """The files that a transaction adds and removes.

    Parameters
    ----------
    added
        New data files.
    removed
        The recorded paths of data files of the table that are removed.
    removed_in, planned_on
        The recorded paths of the manifests that hold them, and of all manifests that were looked at to find them.
    removes_deletes
        Whether all delete files go, because all of the data files go that they are about.
    keeps_rows
        Whether files are replaced by others that hold the same rows.
    """

    added: list[AddedFiles] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    removed_in: set[str] = field(default_factory=set)
    planned_on: set[str] = field(default_factory=set)
    removes_deletes: bool = False
    keeps_rows: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is added or removed."""
        return not self.added and not self.removed

    def copy(self) -> PendingFiles:
        """Return a copy that does not change with this one."""
        return replace(
            self,
            added=list(self.added),
            removed=set(self.removed),
            removed_in=set(self.removed_in),
            planned_on=set(self.planned_on),
        )

    def drop_added(self, paths: Collection[str]) -> None:
        """Leave out new files, by their recorded paths."""
        gone = pa.array(sorted(paths), pa.string())
        kept = []
        for files in self.added:
            stays = pc.invert(pc.is_in(files.entries.column("file_path"), value_set=gone))
            entries = files.entries.filter(stays)
            if len(entries):
                kept.append(AddedFiles(files.spec, files.partition, entries))
        self.added = kept
