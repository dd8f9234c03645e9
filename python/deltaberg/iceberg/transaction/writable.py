"""Which tables can be written to."""

from __future__ import annotations

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.storage.location import PathResolver

__all__ = ["check_ours_to_write", "check_writable"]

_ENCRYPTION = "encryption.key-id"
_PROVIDER = "write.location-provider.impl"


def check_writable(metadata: TableMetadata, resolver: PathResolver) -> None:
    """Refuse a table that is not written to.

    Raises
    ------
    UnsupportedFeatureError
        If its files are encrypted, or a Java class chooses their places.
    InvalidArgumentError
        If it was moved: its metadata records another place, where other readers would look for new files.
    """
    check_ours_to_write(metadata, str(resolver.root))
    place = resolver.resolve(metadata.location)
    if place.path.rstrip("/") != resolver.root.path.rstrip("/"):
        raise InvalidArgumentError(
            f"the metadata says that the table is at {metadata.location}, but it was found elsewhere",
            hint="move it back, or register it in a catalog at its new place",
            table=str(resolver.root),
        )


def check_ours_to_write(metadata: TableMetadata, table: str) -> None:
    """Refuse a table whose properties leave its files to other engines.

    Raises
    ------
    UnsupportedFeatureError
        If its files are encrypted, or a Java class chooses their places.
    """
    if metadata.properties.get(_ENCRYPTION) or metadata.encryption_keys:
        raise UnsupportedFeatureError(
            "the files of the table are encrypted, and are not written",
            hint="write it with an engine that has its keys",
            table=table,
            feature="encryption",
        )
    if metadata.properties.get(_PROVIDER):
        raise UnsupportedFeatureError(
            f"the Java class {metadata.properties[_PROVIDER]} chooses where files of the table are ({_PROVIDER})",
            hint="write it with an engine that has the class, or unset the property with one",
            table=table,
            feature="location provider",
        )
