"""Snapshots and the logs: read from JSON, and written back without loss (Iceberg spec, "Snapshots")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.schema.json_members import check_text, edited, integer, members_of, optional, strings, text

__all__ = [
    "LogEntry",
    "MetadataLogEntry",
    "Snapshot",
    "encode_snapshot",
    "read_log_entry",
    "read_metadata_log_entry",
    "read_snapshot",
]

_WHAT = "a snapshot"


@dataclass(frozen=True)
class Snapshot:
    """The state of a table at some time. ``timestamp_ms`` is in milliseconds since 1970.

    ``raw`` is the JSON object that it was read from.
    """

    snapshot_id: int
    timestamp_ms: int
    sequence_number: int = 0
    parent_snapshot_id: int | None = None
    manifest_list: str | None = None
    manifests: tuple[str, ...] = ()
    summary: Mapping[str, str] = field(default_factory=dict)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def operation(self) -> str | None:
        """The operation of the snapshot, such as ``append`` or ``overwrite``; None if that was not recorded."""
        return self.summary.get("operation")


@dataclass(frozen=True)
class LogEntry:
    """When a snapshot became the current one."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True)
class MetadataLogEntry:
    """A former metadata file, and when it was the newest."""

    timestamp_ms: int
    metadata_file: str


def read_snapshot(document: Mapping[str, Any], format_version: int) -> Snapshot:
    """Read a snapshot."""
    need = format_version > 1
    manifest_list = text(document, "manifest-list", _WHAT) if need else optional(document, "manifest-list", str, _WHAT)
    manifests = optional(document, "manifests", list, _WHAT) or []
    if not all(isinstance(path, str) for path in manifests):
        raise CorruptMetadataError("manifests of a snapshot is not a list of paths")
    for path in manifests:
        check_text(path, "a path in manifests of a snapshot")
    if manifest_list is None and document.get("manifests") is None:
        raise CorruptMetadataError("a snapshot has neither manifest-list nor manifests")
    return Snapshot(
        snapshot_id=integer(document, "snapshot-id", _WHAT),
        timestamp_ms=integer(document, "timestamp-ms", _WHAT),
        # Snapshots from before a table was upgraded from version 1 have none.
        sequence_number=(optional(document, "sequence-number", int, _WHAT) or 0) if need else 0,
        parent_snapshot_id=optional(document, "parent-snapshot-id", int, _WHAT),
        manifest_list=manifest_list,
        manifests=tuple(manifests),
        summary=strings(document, "summary", _WHAT),
        schema_id=optional(document, "schema-id", int, _WHAT),
        first_row_id=optional(document, "first-row-id", int, _WHAT),
        added_rows=optional(document, "added-rows", int, _WHAT),
        key_id=optional(document, "key-id", str, _WHAT),
        raw=document,
    )


def encode_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return the JSON object of a snapshot: exactly the one that it was read from, but for what has changed since.

    Examples
    --------
    >>> encode_snapshot(Snapshot(7, 100, 1, manifest_list="s3://b/t/snap-7.avro", summary={"operation": "append"}))
    {'snapshot-id': 7, 'timestamp-ms': 100, 'sequence-number': 1, 'manifest-list': 's3://b/t/snap-7.avro', \
'summary': {'operation': 'append'}}
    """
    # Version 1 asks the least of a snapshot, and takes its sequence number for 0.
    was = _members(read_snapshot(snapshot.raw, 1)) if snapshot.raw else {}
    return edited(snapshot.raw, _members(snapshot), was)


def _members(snapshot: Snapshot) -> dict[str, Any]:
    found = members_of(snapshot)
    return found | {name: found[name] or None for name in ("sequence-number", "manifests", "summary")}


def read_log_entry(found: Mapping[str, Any]) -> LogEntry:
    """Read an entry of the snapshot log."""
    what = "an entry of snapshot-log"
    return LogEntry(integer(found, "timestamp-ms", what), integer(found, "snapshot-id", what))


def read_metadata_log_entry(found: Mapping[str, Any]) -> MetadataLogEntry:
    """Read an entry of the metadata log."""
    what = "an entry of metadata-log"
    return MetadataLogEntry(integer(found, "timestamp-ms", what), text(found, "metadata-file", what))
