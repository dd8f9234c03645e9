"""Metadata files as they are written: their bytes, their names, and the log of those before (Iceberg spec, "Naming").

Tables in plain directories count their metadata files, so that two writers ask for one name. Catalogs name the newest
file, so there a random part makes each name a new one.
"""

from __future__ import annotations

import gzip
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.lossless_json import write_json
from deltaberg.table.property_values import number_of

__all__ = [
    "DELETES_METADATA",
    "catalog_file_name",
    "encode_metadata",
    "is_compressed",
    "kept_in_log",
    "metadata_codec",
    "outdated_files",
    "version_file_name",
    "version_of",
    "with_previous_file",
]

_CODEC = "write.metadata.compression-codec"
_KEPT = "write.metadata.previous-versions-max"
#: Whether commits delete the metadata files that the log does not name any more.
DELETES_METADATA = "write.metadata.delete-after-commit.enabled"
_DEFAULT_KEPT = 100
_MOST_KEPT = 9_999_999_999
_SUFFIXES = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}
_COUNTER = re.compile(r"v?([0-9]{1,18})[-.]")


def metadata_codec(properties: Mapping[str, str]) -> str:
    """Return how metadata files are compressed: ``none`` or ``gzip``.

    Raises
    ------
    InvalidArgumentError
        If the property names another codec.
    """
    codec = properties.get(_CODEC, "none").lower()
    if codec not in _SUFFIXES:
        raise InvalidArgumentError(f"the property {_CODEC} is {codec!r}", hint="metadata files know none and gzip")
    return codec


def is_compressed(name: str) -> bool:
    """Return whether the name of a metadata file says that it is compressed.

    Examples
    --------
    >>> is_compressed("v3.gz.metadata.json"), is_compressed("v3.metadata.json")
    (True, False)
    """
    return name.endswith((_SUFFIXES["gzip"], ".gz"))


def encode_metadata(raw: Mapping[str, Any], codec: str = "none") -> bytes:
    """Return the bytes of a metadata file. The same metadata has the same bytes every time."""
    data = write_json(raw).encode()
    return gzip.compress(data, mtime=0) if codec == "gzip" else data


def version_file_name(version: int, codec: str = "none") -> str:
    """Return the name of a metadata file in a plain directory.

    Examples
    --------
    >>> version_file_name(3), version_file_name(3, "gzip")
    ('v3.metadata.json', 'v3.gz.metadata.json')
    """
    return f"v{version}{_SUFFIXES[codec]}"


def catalog_file_name(version: int, codec: str = "none") -> str:
    """Return a new name for a metadata file of a table in a catalog: five digits and a random part."""
    return f"{version:05d}-{uuid.uuid4()}{_SUFFIXES[codec]}"


def version_of(name: str) -> int | None:
    """Return the number in the name of a metadata file; None if there is none.

    Examples
    --------
    >>> version_of("00012-7f1c.metadata.json"), version_of("v3.gz.metadata.json"), version_of("x.metadata.json")
    (12, 3, None)
    """
    found = _COUNTER.match(name)
    return None if found is None else int(found[1])


def with_previous_file(raw: Mapping[str, Any], before: TableMetadata, file: str) -> dict[str, Any]:
    """Return new metadata whose log ends with the metadata file that it follows; the oldest entries are dropped.

    Parameters
    ----------
    before
        The metadata in that file.
    file
        The file as metadata records it.
    """
    log = [*(raw.get("metadata-log") or []), {"timestamp-ms": before.last_updated_ms, "metadata-file": file}]
    kept = _DEFAULT_KEPT
    with suppress(InvalidArgumentError):
        # What another engine has left there is no reason to refuse a change.
        kept = kept_in_log(raw.get("properties") or {})
    return {**raw, "metadata-log": log[-kept:]}


def kept_in_log(properties: Mapping[str, str]) -> int:
    """Return how many metadata files the log of a table names.

    Raises
    ------
    InvalidArgumentError
        If the property is not a whole number.
    """
    return max(1, number_of(properties, _KEPT, _DEFAULT_KEPT, -_MOST_KEPT, _MOST_KEPT))


def outdated_files(before: TableMetadata, after: TableMetadata) -> list[str]:
    """Return the metadata files that a commit dropped from the log, if the table wants them to be deleted."""
    if after.properties.get(DELETES_METADATA, "false").strip().lower() != "true":
        return []
    try:
        kept_in_log(after.properties)
    except InvalidArgumentError:
        # Nobody knows how many were meant to stay.
        return []
    kept = {entry.metadata_file for entry in after.metadata_log}
    return [entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in kept]
