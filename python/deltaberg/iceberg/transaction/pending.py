"""The files that a transaction adds and removes, before any snapshot has them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifests.fields import DATA, DELETES, EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.metadata.specs import PartitionSpec
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Struct

if TYPE_CHECKING:
    from deltaberg.iceberg.manifests.write_manifest import ManifestHeader
    from deltaberg.iceberg.scan.source import IcebergSource

__all__ = ["AddedFiles", "DeleteKey", "ManifestRow", "PendingFiles", "Regrouped", "Regrouping", "WriteManifest"]

#: A delete file by its recorded path, and by the offset of the blob if it is a deletion vector: these share files.
DeleteKey = tuple[str, "int | None"]
#: A row of a manifest list, with the columns of `MANIFESTS`.
ManifestRow: TypeAlias = "Mapping[str, Any]"
#: Writes a manifest of a table, and returns its row.
WriteManifest: TypeAlias = "Callable[[ManifestHeader, pa.Table], ManifestRow]"


class Regrouped(NamedTuple):
    """The manifests of a snapshot after their entries were put into others, and what its summary says of that."""

    rows: Sequence[ManifestRow]
    summary: Mapping[str, str]


class Regrouping(Protocol):
    """Puts the entries of manifests into others."""

    def regroup(self, source: IcebergSource, rows: Sequence[ManifestRow], write: WriteManifest) -> Regrouped:
        """Return the manifests that replace the manifests of a snapshot.

        Parameters
        ----------
        source
            The newest state of the table. It may be asked for each attempt of the commit, and later ones keep what
            earlier ones have written.
        rows
            The manifests.
        write
            Writes a new one.
        """


@dataclass(frozen=True)
class AddedFiles:
    """Entries of new files of one spec, as `added_entries` makes them.

    ``content`` is 0 for data files, and 1 for delete files of all kinds: it is that of their manifests.
    """

    spec: PartitionSpec
    partition: Struct
    entries: pa.Table
    content: int = DATA
    #: The manifests that `PendingSource` has made of them, by the format version and the schema.
    manifests: dict[tuple[int, int], bytes] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def keys(self) -> list[Hashable]:
        """Keys that are equal for equal partition values."""
        return partition_keys(as_array(self.entries.column("partition")), self.partition)

    @property
    def rows(self) -> int:
        """The number of rows in the files."""
        return pc.sum(self.entries.column("record_count")).as_py() or 0

    @property
    def has_position_files(self) -> bool:
        """Whether there are position delete files among them, which version 3 of the format has no new ones of."""
        content, kind = (self.entries.column(name) for name in ("content", "file_format"))
        is_one = pc.and_(pc.equal(content, POSITION_DELETES), pc.not_equal(kind, "PUFFIN"))
        return bool(pc.any(is_one, min_count=0).as_py())


@dataclass
class PendingFiles:
    """The files that a transaction adds and removes.

    Parameters
    ----------
    added
        New data files and delete files.
    removed
        The recorded paths of data files of the table that are removed.
    removed_in, planned_on
        The recorded paths of the manifests that hold them, and of all manifests that were looked at to find them.
    removed_deletes
        The delete files of the table that are removed. Those of removed data files leave by themselves.
    hidden
        The rows of data files that the transaction itself has deleted: bitmaps by the recorded paths of the files.
    removes_deletes
        Whether all delete files go, because all of the data files go that they are about.
    keeps_rows
        Whether files are replaced by others that hold the same rows.
    replaces_partitions
        Whether the new files replace all files of their partitions, and nothing else changes.
    regrouping
        What puts the entries of manifests into others, without any change of files; None if they stay where they are.
    """

    added: list[AddedFiles] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    removed_in: set[str] = field(default_factory=set)
    planned_on: set[str] = field(default_factory=set)
    removed_deletes: set[DeleteKey] = field(default_factory=set)
    hidden: dict[str, bytes] = field(default_factory=dict)
    removes_deletes: bool = False
    keeps_rows: bool = False
    replaces_partitions: bool = False
    regrouping: Regrouping | None = None

    @property
    def numbers(self) -> tuple[int, int]:
        """How many data files are added and removed."""
        return sum(len(files.entries) for files in self.added if files.content == DATA), len(self.removed)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is added, removed or put elsewhere."""
        return not (self.added or self.removed or self.removed_deletes or self.regrouping is not None)

    @property
    def adds_rows(self) -> bool:
        """Whether there are new data files."""
        return any(files.content == DATA for files in self.added)

    @property
    def least_number(self) -> int | None:
        """The least sequence number that new data files have of their own; None if they all get that of the commit."""
        numbers = [pc.min(files.entries.column("sequence_number")).as_py() for files in self.added if not files.content]
        return min((number for number in numbers if number is not None), default=None)

    @property
    def paths(self) -> frozenset[str]:
        """The recorded paths of the new data files."""
        data = [files.entries for files in self.added if files.content == DATA]
        return frozenset(path for entries in data for path in entries.column("file_path").to_pylist())

    @property
    def deletes_by_keys(self) -> bool:
        """Whether there are new equality delete files."""
        contents = (files.entries.column("content") for files in self.added)
        return any(pc.any(pc.equal(content, EQUALITY_DELETES), min_count=0).as_py() for content in contents)

    def copy(self) -> PendingFiles:
        """Return a copy that does not change with this one."""
        return replace(self, **{name: copy(value) for name, value in vars(self).items()})

    def drop_added(self, paths: Collection[str]) -> None:
        """Leave out new data files, by their recorded paths."""
        self._drop("file_path", paths, DATA)

    def drop_deletes_of(self, paths: Iterable[str]) -> None:
        """Leave out new delete files of single data files, by the recorded paths of these."""
        gone = set(paths)
        self._drop("referenced_data_file", gone, DELETES)
        for path in gone & self.hidden.keys():
            del self.hidden[path]

    def _drop(self, column: str, values: Collection[str], content: int) -> None:
        gone = pa.array(sorted(values), pa.string())
        kept = []
        for files in self.added:
            entries = files.entries
            if files.content == content:
                entries = entries.filter(pc.invert(pc.is_in(entries.column(column), value_set=gone)))
            if len(entries) == len(files.entries):
                kept.append(files)
            elif len(entries):
                kept.append(replace(files, entries=entries))
        self.added = kept
