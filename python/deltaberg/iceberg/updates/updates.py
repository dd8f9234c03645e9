"""The changes of table metadata, named as the REST protocol names them (Iceberg REST specification, ``TableUpdate``).

A REST catalog is sent the updates (`by_known_ids`). For every other catalog `apply_updates` makes them to a copy of the
metadata's JSON, so that what is not understood survives.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import ConstraintViolationError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import unsupported_version
from deltaberg.iceberg.metadata.versions import NEWEST_VERSION, ROW_LINEAGE
from deltaberg.iceberg.updates.draft import LAST_ADDED, Draft
from deltaberg.iceberg.updates.layout_updates import (
    AddSchema,
    AddSortOrder,
    AddSpec,
    RemovePartitionSpecs,
    RemoveSchemas,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
)
from deltaberg.iceberg.updates.snapshot_updates import (
    AddSnapshot,
    RemovePartitionStatistics,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
)
from deltaberg.iceberg.updates.update import Update

__all__ = [
    "LAST_ADDED",
    "AddSchema",
    "AddSnapshot",
    "AddSortOrder",
    "AddSpec",
    "AssignUUID",
    "RemovePartitionSpecs",
    "RemovePartitionStatistics",
    "RemoveProperties",
    "RemoveSchemas",
    "RemoveSnapshotRef",
    "RemoveSnapshots",
    "RemoveStatistics",
    "SetCurrentSchema",
    "SetDefaultSortOrder",
    "SetDefaultSpec",
    "SetLocation",
    "SetPartitionStatistics",
    "SetProperties",
    "SetSnapshotRef",
    "SetStatistics",
    "Update",
    "UpgradeFormatVersion",
    "apply_updates",
]


@dataclass(frozen=True)
class AssignUUID(Update):
    """Assign the id of a new table, or confirm the id that the table has."""

    uuid: str

    def apply(self, draft: Draft) -> None:
        """Set the id of the table."""
        before = draft.raw.get("table-uuid")
        if before is not None and str(before).lower() != self.uuid.lower():
            raise ConstraintViolationError(f"the table has the table-uuid {before} already")
        draft.raw["table-uuid"] = self.uuid if before is None else before


@dataclass(frozen=True)
class UpgradeFormatVersion(Update):
    """Raise the format version."""

    format_version: int

    def apply(self, draft: Draft) -> None:
        """Set the format version, and add the members that it requires."""
        old, new = draft.version, self.format_version
        if new < old:
            raise ConstraintViolationError(f"the table has the format version {old}, which cannot be lowered to {new}")
        if new > NEWEST_VERSION:
            raise unsupported_version(new)
        raw = draft.raw
        raw["format-version"] = new
        if old == 1 < new:
            if any(part.get("manifest-list") is None for part in draft.listed("snapshots")):
                raise UnsupportedFeatureError(
                    "a snapshot lists its manifests in the metadata, which only format version 1 allows",
                    hint="expire that snapshot first",
                    feature="manifests",
                )
            raw["last-sequence-number"] = raw.get("last-sequence-number") or 0
            raw["table-uuid"] = raw.get("table-uuid") or str(uuids.uuid4())
            # Version 2 requires a summary with an operation, which old writers left out.
            raw["snapshots"] = [
                {**part, "summary": part.get("summary") or {"operation": "overwrite"}}
                for part in draft.listed("snapshots")
            ]
        if old < ROW_LINEAGE <= new:
            raw["next-row-id"] = raw.get("next-row-id") or 0


@dataclass(frozen=True)
class SetLocation(Update):
    """Change the location below which new files are written."""

    location: str

    def apply(self, draft: Draft) -> None:
        """Set the location."""
        draft.raw["location"] = self.location


@dataclass(frozen=True)
class SetProperties(Update):
    """Set properties of the table."""

    updates: Mapping[str, str]

    def __post_init__(self) -> None:
        given: Mapping[Any, Any] = self.updates
        wrong = [name for name, value in given.items() if not isinstance(value, str)]
        if wrong:
            raise InvalidArgumentError(f"the value of the property {wrong[0]!r} is not text")

    def apply(self, draft: Draft) -> None:
        """Set the properties."""
        draft.raw["properties"] = {**(draft.raw.get("properties") or {}), **self.updates}


@dataclass(frozen=True)
class RemoveProperties(Update):
    """Remove properties of the table."""

    removals: tuple[str, ...]

    def apply(self, draft: Draft) -> None:
        """Remove those of the properties that are there."""
        found = draft.raw.get("properties") or {}
        draft.raw["properties"] = {name: value for name, value in found.items() if name not in self.removals}


def apply_updates(metadata: TableMetadata, updates: Sequence[Update], *, now_ms: int) -> TableMetadata:
    """Return metadata with changes made to it. The metadata that is passed stays as it is.

    ``last-updated-ms`` becomes the time of the change, and the snapshot log gets an entry if the current snapshot
    changes. Times never run backwards.

    Parameters
    ----------
    metadata
        The metadata.
    updates
        The changes, in order.
    now_ms
        The time in milliseconds since 1970.

    Raises
    ------
    InvalidArgumentError
        If an update names something that the table does not have.
    ConstraintViolationError
        If the specification forbids a change.
    SchemaError
        If a schema, a partition spec or a sort order is not valid for the table.
    """
    draft = Draft(metadata, now_ms)
    for update in updates:
        update.apply(draft)
    return draft.finish()
