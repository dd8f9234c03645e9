"""Changes of Iceberg metadata, from JSON to JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.updates.updates import Update, apply_updates

__all__ = ["changed_json"]


def changed_json(raw: Mapping[str, Any], updates: Sequence[Update], *, now_ms: int) -> dict[str, Any]:
    """Return the JSON of metadata with changes made to it, after a check that reading it again gives the same."""
    found = apply_updates(metadata_of_json(dict(raw)), updates, now_ms=now_ms)
    assert metadata_of_json(found.raw) == found
    return dict(found.raw)
