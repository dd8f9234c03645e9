"""Branches and tags: read from JSON, and written back without loss (Iceberg spec, "Snapshot References")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.schema.json_members import edited, integer, members_of, optional, text

__all__ = ["MAIN", "SnapshotRef", "encode_ref", "in_words", "read_ref"]

#: The branch that is read by default.
MAIN = "main"
_WHAT = "a reference"


@dataclass(frozen=True)
class SnapshotRef:
    """A branch or a tag. ``raw`` is the JSON object that it was read from."""

    snapshot_id: int
    type: str
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def read_ref(raw: Mapping[str, Any]) -> SnapshotRef:
    """Read a reference."""
    kind = text(raw, "type", _WHAT).lower()
    if kind not in ("branch", "tag"):
        raise CorruptMetadataError(f"a reference is of type {kind!r}, neither branch nor tag")
    return SnapshotRef(
        integer(raw, "snapshot-id", _WHAT),
        kind,
        optional(raw, "min-snapshots-to-keep", int, _WHAT),
        optional(raw, "max-snapshot-age-ms", int, _WHAT),
        optional(raw, "max-ref-age-ms", int, _WHAT),
        raw,
    )


def in_words(snapshot_id: int, refs: Mapping[str, SnapshotRef]) -> str:
    """Return what a snapshot is called, with the branches and tags that name it.

    Examples
    --------
    >>> in_words(10, {"kept": SnapshotRef(10, "tag"), "dev": SnapshotRef(11, "branch")})
    'snapshot 10 (tag kept)'
    """
    names = [f"{ref.type} {name}" for name, ref in refs.items() if ref.snapshot_id == snapshot_id]
    return f"snapshot {snapshot_id} ({', '.join(names)})" if names else f"snapshot {snapshot_id}"


def encode_ref(ref: SnapshotRef) -> dict[str, Any]:
    """Return the JSON object of a reference: exactly the one that it was read from, but for what has changed since.

    Examples
    --------
    >>> encode_ref(SnapshotRef(10, "tag", max_ref_age_ms=60_000))
    {'snapshot-id': 10, 'type': 'tag', 'max-ref-age-ms': 60000}
    """
    return edited(ref.raw, members_of(ref), members_of(read_ref(ref.raw)) if ref.raw else {})
