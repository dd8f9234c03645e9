"""Snapshots, references and logs of them (Iceberg spec, "Snapshots" and "Snapshot References")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.json_members import integer, optional, strings, text

__all__ = ["LogEntry", "MetadataLogEntry", "Snapshot", "SnapshotRef", "read_ref", "read_snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """The state of a table at some time. ``timestamp_ms`` is in milliseconds since 1970."""

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

    @property
    def operation(self) -> str | None:
        """What the snapshot did, as ``append`` or ``overwrite``; None where it was not recorded."""
        return self.summary.get("operation")


@dataclass(frozen=True)
class SnapshotRef:
    """A branch or a tag."""

    snapshot_id: int
    type: str
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None


@dataclass(frozen=True)
class LogEntry:
    """When a snapshot became the current one."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True)
class MetadataLogEntry:
    """A former metadata file, and until when it was the newest."""

    timestamp_ms: int
    metadata_file: str


def read_snapshot(found: Mapping[str, Any], format_version: int) -> Snapshot:
    """Read a snapshot."""
    what = "a snapshot"
    need = format_version > 1
    manifest_list = (text if need else _text_or_none)(found, "manifest-list", what)
    manifests = optional(found, "manifests", list, what) or []
    if not all(isinstance(path, str) for path in manifests):
        raise CorruptMetadataError("manifests of a snapshot is no list of paths")
    if manifest_list is None and found.get("manifests") is None:
        raise CorruptMetadataError("a snapshot has neither manifest-list nor manifests")
    return Snapshot(
        snapshot_id=integer(found, "snapshot-id", what),
        timestamp_ms=integer(found, "timestamp-ms", what),
        # Writers of tables that were upgraded from version 1 leave it out of the snapshots from before.
        sequence_number=(optional(found, "sequence-number", int, what) or 0) if need else 0,
        parent_snapshot_id=optional(found, "parent-snapshot-id", int, what),
        manifest_list=manifest_list,
        manifests=tuple(manifests),
        summary=strings(found, "summary", what),
        schema_id=optional(found, "schema-id", int, what),
        first_row_id=optional(found, "first-row-id", int, what),
        added_rows=optional(found, "added-rows", int, what),
        key_id=optional(found, "key-id", str, what),
    )


def _text_or_none(found: Mapping[str, Any], name: str, what: str) -> str | None:
    value: str | None = optional(found, name, str, what)
    return value


def read_ref(found: Mapping[str, Any]) -> SnapshotRef:
    """Read a reference."""
    what = "a reference"
    kind = text(found, "type", what).lower()
    if kind not in ("branch", "tag"):
        raise CorruptMetadataError(f"a reference is of type {kind!r}, neither branch nor tag")
    return SnapshotRef(
        integer(found, "snapshot-id", what),
        kind,
        optional(found, "min-snapshots-to-keep", int, what),
        optional(found, "max-snapshot-age-ms", int, what),
        optional(found, "max-ref-age-ms", int, what),
    )
