"""The properties of a table that commits go by. Bad ones are refused before the first file is written."""

from __future__ import annotations

import re
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.files.avro import is_codec
from deltaberg.iceberg.location.new_files import metadata_location
from deltaberg.iceberg.manifests.merge import MergePolicy
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.write import kept_in_log

__all__ = ["check_commit_properties", "manifest_codec", "most_partitions"]

_CODEC, _LEVEL = "write.avro.compression-codec", "write.avro.compression-level"
_LEVELS = tuple("123456789")
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
    MergePolicy.of(metadata.properties)
    kept_in_log(metadata.properties)
    metadata_location(metadata.location, metadata.properties)


def most_partitions(metadata: TableMetadata) -> int:
    """Return how many changed partitions the summary tells of one by one, at most."""
    text = metadata.properties.get(_MOST_PARTITIONS, "0").strip()
    if not re.fullmatch("[0-9]{1,9}", text):
        raise InvalidArgumentError(f"the property {_MOST_PARTITIONS} is {text!r:.40}", hint="set it to a whole number")
    return int(text)


def manifest_codec(metadata: TableMetadata) -> dict[str, Any]:
    """Return how manifests are compressed, as arguments of what encodes them."""
    codec = metadata.properties.get(_CODEC, "gzip").lower()
    level = metadata.properties.get(_LEVEL, "null").strip()
    if not is_codec(codec):
        raise InvalidArgumentError(
            f"the property {_CODEC} is {codec!r:.40}, which is not a codec of Avro files",
            hint="Avro files are written with gzip, zstd, snappy, none",
        )
    if codec != "gzip" or level.lower() in ("", "null"):
        return {"codec": codec}
    if level not in _LEVELS:
        raise InvalidArgumentError(
            f"the property {_LEVEL} is {level!r:.40}", hint="set it to a whole number of 1 to 9, the levels of gzip"
        )
    return {"codec": codec, "level": int(level)}
