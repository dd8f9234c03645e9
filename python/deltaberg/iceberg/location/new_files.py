"""The paths of new files of a table (``LocationProvider`` of the Java library)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltaberg import kernels
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value

__all__ = ["LOCATION_PROPERTIES", "DataPaths", "data_location", "metadata_location"]

_DATA_PATH = "write.data.path"
_METADATA_PATH = "write.metadata.path"
_OBJECT_STORAGE = "write.object-storage.enabled"
_OBJECT_STORAGE_PATH, _FOLDER_PATH = "write.object-storage.path", "write.folder-storage.path"
#: The properties that lead to places of one table.
LOCATION_PROPERTIES = frozenset({_DATA_PATH, _METADATA_PATH, _OBJECT_STORAGE_PATH, _FOLDER_PATH})
_PARTITIONED_PATHS = "write.object-storage.partitioned-paths"
#: The bits of a hash that make directories, and how they are divided.
_BITS, _DIRECTORIES, _DIRECTORY_BITS = 20, 3, 4


def data_location(location: str, properties: Mapping[str, str]) -> str:
    """Return the recorded location below which data files of a table are written.

    Raises
    ------
    InvalidArgumentError
        A property names a location that is relative.
    """
    others = (_OBJECT_STORAGE_PATH, _FOLDER_PATH) if _is_spread(properties) else (_FOLDER_PATH,)
    named = (_full(name, properties) for name in (_DATA_PATH, *others))
    return next((found for found in named if found), f"{location.rstrip('/')}/data")


def metadata_location(location: str, properties: Mapping[str, str]) -> str:
    """Return the recorded location of a table's metadata files.

    Raises
    ------
    InvalidArgumentError
        A property names a location that is relative.
    """
    return _full(_METADATA_PATH, properties) or f"{location.rstrip('/')}/metadata"


def _full(name: str, properties: Mapping[str, str]) -> str:
    """Return the location that a property names; the empty text if it names none. Paths are recorded as they are."""
    location = properties.get(name, "").rstrip("/")
    if location and not location.startswith(("/", "file:")) and "://" not in location:
        raise InvalidArgumentError(
            f"the property {name} is {shown_value(location)}, which readers would look for below their own directories",
            hint="set it to a path that begins with /, or to a URL",
        )
    return location


def _is_spread(properties: Mapping[str, str]) -> bool:
    return properties.get(_OBJECT_STORAGE, "false").lower() == "true"


@dataclass(frozen=True)
class DataPaths:
    """Makes the paths of new data files, relative to the location of data files.

    Parameters
    ----------
    properties
        The properties of the table.
    write_id
        What the names of files have in common; empty if each has an id of its own. Where several tasks write, whose
        numbers all begin with 0, it must be empty.
    suffix
        The extension of the names.
    """

    properties: Mapping[str, str]
    write_id: str = ""
    suffix: str = ".parquet"

    def path(self, partition: str, number: int) -> str:
        """Return the path of a file.

        Parameters
        ----------
        partition
            The directories of its partition values; the empty text if there are none.
        number
            The number of the file in its write.

        Examples
        --------
        >>> DataPaths({}, "id").path("day=2017-11-16", 0)
        'day=2017-11-16/00000-0-id-00001.parquet'
        >>> DataPaths({"write.object-storage.enabled": "true"}, "id").path("", 0)
        '0111/0111/0111/10000001/00000-0-id-00001.parquet'
        """
        name = f"{number:05d}-0-{self.write_id or uuid.uuid4()}-00001{self.suffix}"
        if not _is_spread(self.properties):
            return f"{partition}/{name}" if partition else name
        if self.properties.get(_PARTITIONED_PATHS, "true").lower() == "false":
            return f"{_directories(name)}-{name}"
        inside = f"{partition}/{name}" if partition else name
        return f"{_directories(inside)}/{inside}"


def _directories(name: str) -> str:
    """Return directories made of the hash of a name, which spread files over the partitions of an object store."""
    (hashed,) = kernels.hash32(pa.array([name])).to_pylist()
    bits = f"{hashed & 0xFFFFFFFF:032b}"[-_BITS:]
    parts: Sequence[str] = [
        bits[start : start + _DIRECTORY_BITS] for start in range(0, _DIRECTORIES * _DIRECTORY_BITS, _DIRECTORY_BITS)
    ]
    return "/".join([*parts, bits[_DIRECTORIES * _DIRECTORY_BITS :]])
