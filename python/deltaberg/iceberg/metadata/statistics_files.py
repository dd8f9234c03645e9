"""Entries of statistics in table metadata (Iceberg spec, "Table Statistics" and "Partition Statistics").

No read needs them, so an entry that breaks the specification is no reason to refuse the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.schema.json_members import optional

__all__ = ["STATISTICS_MEMBERS", "StatisticsFile", "known_file", "read_statistics_file", "statistics_files"]

#: The members of an entry that are understood, in the order of `StatisticsFile`.
STATISTICS_MEMBERS = {"snapshot-id": int, "statistics-path": str, "file-size-in-bytes": int}


class StatisticsFile(NamedTuple):
    """A file of statistics, as far as its entry was understood: a member that is missing or of a wrong type is None."""

    snapshot_id: int | None
    path: str | None
    size: int | None


def read_statistics_file(part: Mapping[str, Any]) -> StatisticsFile:
    """Return what an entry says.

    Examples
    --------
    >>> read_statistics_file({"snapshot-id": {}, "statistics-path": "s3://b/a.puffin"})
    StatisticsFile(snapshot_id=None, path='s3://b/a.puffin', size=None)
    """
    return StatisticsFile(*(_known(part, name, kind) for name, kind in STATISTICS_MEMBERS.items()))


def statistics_files(metadata: TableMetadata) -> dict[str, list[StatisticsFile]]:
    """Return the files of statistics that metadata names, by their kind."""
    return {
        "statistics": [read_statistics_file(part) for part in metadata.statistics],
        "partition statistics": [read_statistics_file(part) for part in metadata.partition_statistics],
    }


def known_file(metadata: TableMetadata, kind: str, snapshot_id: int) -> tuple[str, int] | None:
    """Return the path and the size of the file of a kind that a snapshot has.

    An entry that lacks one of them counts for none.
    """
    for one in statistics_files(metadata)[kind]:
        if one.snapshot_id == snapshot_id and one.path is not None and one.size is not None:
            return one.path, one.size
    return None


def _known(part: Mapping[str, Any], name: str, kind: type) -> Any:
    try:
        return optional(part, name, kind, "an entry of statistics")
    except CorruptMetadataError:
        return None
