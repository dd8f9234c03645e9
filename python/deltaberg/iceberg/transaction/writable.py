"""Which tables can be written to."""

from __future__ import annotations

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.storage import Location, PathResolver

__all__ = ["check_writable"]

_ENCRYPTION = "encryption.key-id"


def check_writable(metadata: TableMetadata, root: Location, resolver: PathResolver) -> None:
    """Refuse a table that is not written to.

    Raises
    ------
    UnsupportedFeatureError
        If its files are encrypted.
    InvalidArgumentError
        If it was moved: its metadata records another place, where other readers would look for new files.
    """
    if metadata.properties.get(_ENCRYPTION) or metadata.encryption_keys:
        raise UnsupportedFeatureError(
            "the files of the table are encrypted, and are not written",
            hint="write it with an engine that has its keys",
            table=str(root),
            feature="encryption",
        )
    place = resolver.resolve(metadata.location)
    if place.path.rstrip("/") != root.path.rstrip("/"):
        raise InvalidArgumentError(
            f"the metadata says that the table is at {metadata.location}, but it was found elsewhere",
            hint="move it back, or register it in a catalog at its new place",
            table=str(root),
        )
