"""What the metadata of a clone keeps of its source: all numbers, and nothing of its history or of its places."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.create.settings import check_new_settings
from deltaberg.iceberg.location.new_files import LOCATION_PROPERTIES
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.metadata_json import metadata_of_json
from deltaberg.iceberg.metadata.versions import ROW_LINEAGE
from deltaberg.iceberg.updates.new_table import check_properties, given_properties
from deltaberg.iceberg.updates.updates import SetCurrentSchema, apply_updates

__all__ = ["cloned_metadata"]

#: What is about snapshots, all of which stay with the source.
_OF_SNAPSHOTS: dict[str, list[Any]] = {
    name: [] for name in ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics")
}


def cloned_metadata(
    source: TableMetadata, schema_id: int, location: str, properties: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the metadata of a clone before its first snapshot, as JSON.

    Schemas, specs, sort orders and their ids are those of the source, since its files go by them. The numbers of
    snapshots and the ids of rows go on behind those that the source has given: then files keep theirs.

    Parameters
    ----------
    schema_id
        The schema of the state that is cloned.
    location
        Where the clone is.
    properties
        Properties of the clone, in addition to those of the source.

    Raises
    ------
    InvalidArgumentError
        A property cannot be given to a clone, or has no valid value.
    UnsupportedFeatureError
        The files of the source are encrypted, or a Java class chooses their places.
    """
    version, given = given_properties({"format-version": source.format_version, **(properties or {})})
    if version != source.format_version:
        raise InvalidArgumentError(
            f"the format version is about files, and a clone has those of its source: {source.format_version}",
            hint="leave it out, and upgrade the clone by ⟪alter()⟫",
        )
    check_properties(given)
    kept = {name: value for name, value in source.properties.items() if name not in LOCATION_PROPERTIES}
    now_ms = time.time_ns() // 1_000_000
    raw = {
        **source.raw,
        **_OF_SNAPSHOTS,
        "table-uuid": str(uuid.uuid4()),
        "location": location.rstrip("/") or location,
        "last-updated-ms": now_ms,
        "properties": {**kept, **given},
        "refs": {},
        # Readers of the first two versions expect a number.
        "current-snapshot-id": None if version >= ROW_LINEAGE else -1,
    }
    metadata = metadata_of_json(raw)
    if schema_id != metadata.current_schema_id:
        metadata = apply_updates(metadata, [SetCurrentSchema(schema_id)], now_ms=now_ms)
    check_new_settings(metadata)
    return dict(metadata.raw)
