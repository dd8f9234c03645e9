"""The properties of a table that commits go by. Bad ones are refused before the first file is written."""

from __future__ import annotations

from typing import Any

from deltaberg.iceberg.location.new_files import metadata_location
from deltaberg.iceberg.manifests.merge import MergePolicy
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.property_values import compression_of
from deltaberg.table.property_values import number_of, wrong_value

__all__ = ["check_commit_properties", "compacts_itself", "manifest_codec", "most_partitions"]

#: What asks for small files to be put together after commits. The specification has no property for it.
_AUTO_COMPACT = "deltaberg.auto-compact.enabled"
_MOST_PARTITIONS = "write.summary.partition-limit"


def check_commit_properties(metadata: TableMetadata) -> None:
    """Refuse a table by whose properties no snapshot could be committed.

    Raises
    ------
    InvalidArgumentError
        If a property has no valid value.
    """
    manifest_codec(metadata)
    most_partitions(metadata)
    compacts_itself(metadata)
    MergePolicy.of(metadata.properties)
    metadata_location(metadata.location, metadata.properties)


def most_partitions(metadata: TableMetadata) -> int:
    """Return how many changed partitions the summary tells of one by one, at most."""
    return number_of(metadata.properties, _MOST_PARTITIONS, 0, 0)


def compacts_itself(metadata: TableMetadata) -> bool:
    """Return whether small files are to be put together after commits."""
    text = metadata.properties.get(_AUTO_COMPACT, "false")
    if text.strip().lower() not in ("true", "false"):
        raise wrong_value(_AUTO_COMPACT, text, "true or false")
    return text.strip().lower() == "true"


def manifest_codec(metadata: TableMetadata) -> dict[str, Any]:
    """Return how manifests are compressed, as arguments of what encodes them."""
    codec, level = compression_of(metadata.properties, "avro")
    return {"codec": codec, "level": level}
