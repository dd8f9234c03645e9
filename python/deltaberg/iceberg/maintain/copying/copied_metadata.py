"""Metadata files of a copy: the JSON of a table with the paths that its files have there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltaberg.errors import InvalidArgumentError, ObjectNotFoundError
from deltaberg.hints import shown_value
from deltaberg.iceberg.location.loaded import LoadedTable, load_file
from deltaberg.iceberg.maintain.copying.path_prefix import PathPrefix
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.table.arguments import checked_text

__all__ = ["MetadataVersion", "moved_metadata", "versions_of"]

#: Members of snapshots, of the log and of statistics that are paths.
_PATHS = {
    "snapshots": "manifest-list",
    "metadata-log": "metadata-file",
    "statistics": "statistics-path",
    "partition-statistics": "statistics-path",
}


class MetadataVersion:
    """A metadata file of a table, which is read when it is asked for.

    Parameters
    ----------
    loaded
        The newest metadata.
    path
        The file, as it is recorded.
    """

    def __init__(self, loaded: LoadedTable, path: str) -> None:
        self._loaded = loaded
        self.path = path
        self.name = path.rpartition("/")[2]

    def read(self) -> TableMetadata | None:
        """Return its metadata; None for a file that is gone, as old ones may be."""
        loaded = self._loaded
        if self.path == str(loaded.file):
            return loaded.metadata
        place = loaded.resolver.resolve(self.path)
        try:
            return load_file(place, loaded.store)
        except ObjectNotFoundError:
            return None


def versions_of(loaded: LoadedTable, start: str | None, end: str | None) -> tuple[list[MetadataVersion], int]:
    """Return the metadata files of a table up to the end of a copy, and how many of them are there already.

    Parameters
    ----------
    start, end
        The names of the last metadata file that was copied before, and of the last one that is to be copied.

    Raises
    ------
    InvalidArgumentError
        The log of the table does not have them, in this order.
    """
    paths = [*(entry.metadata_file for entry in loaded.metadata.metadata_log), str(loaded.file)]
    versions = [MetadataVersion(loaded, path) for path in paths]
    stop = len(versions) if end is None else _place(versions, end) + 1
    begin = 0 if start is None else _place(versions, start) + 1
    if begin >= stop and start is not None:
        raise InvalidArgumentError(
            f"there is nothing to copy after {shown_value(start)}",
            hint=f"pass an older one; the last is {versions[stop - 1].name}",
        )
    return versions[:stop], begin


def _place(versions: list[MetadataVersion], named: str) -> int:
    wanted = checked_text("a version", named, "pass the name of a metadata file").rpartition("/")[2]
    for at, version in enumerate(versions):
        if version.name == wanted:
            return at
    shown = ", ".join(one.name for one in versions[-10:])
    raise InvalidArgumentError(
        f"the table has no metadata file {shown_value(named)}", hint=f"its log has {shown}", file=named
    )


def moved_metadata(raw: Mapping[str, Any], prefix: PathPrefix) -> dict[str, Any]:
    """Return the JSON of metadata with the paths of a copy.

    Properties that name places below the prefix name those of the copy.

    Raises
    ------
    InvalidArgumentError
        A path is not below the prefix.
    """
    moved = {**raw, "location": prefix.moved(raw["location"])}
    for member, name in _PATHS.items():
        if raw.get(member):
            moved[member] = [_moved(one, name, prefix) for one in raw[member]]
    properties = raw.get("properties") or {}
    moved["properties"] = {
        name: prefix.moved(value) if prefix.is_below(value) else value for name, value in properties.items()
    }
    return moved


def _moved(one: Mapping[str, Any], name: str, prefix: PathPrefix) -> dict[str, Any]:
    moved = dict(one)
    if isinstance(one.get(name), str):
        moved[name] = prefix.moved(one[name])
    # Before manifest lists, snapshots of version 1 named their manifests themselves.
    if one.get("manifests"):
        moved["manifests"] = [prefix.moved(path) for path in one["manifests"]]
    return moved
