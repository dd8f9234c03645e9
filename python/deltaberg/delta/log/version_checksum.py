"""The version checksum: facts about a version in ``<version>.crc`` (Delta protocol, "Version Checksum File").

The file is optional, and no reader depends on it. A validating reader compares it with the snapshot. Since others may
trust it, it is written only where it is proven, and never replaced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deltaberg.delta.actions.table_actions import Metadata, Protocol
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.errors import CorruptLogError, ObjectNotFoundError
from deltaberg.lossless_json import write_json

__all__ = ["VersionChecksum", "checksum_name", "read_version_checksum", "write_version_checksum"]

#: The most bytes of a file: Spark lists the live files in it as long as they are few.
_MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class VersionChecksum:
    """The facts of a version checksum; None stands for one that the file does not state.

    Parameters
    ----------
    table_size_bytes
        The total size of the live files in bytes (``tableSizeBytes``).
    num_files
        The number of live files (``numFiles``).
    num_metadata, num_protocol
        The number of these actions, always 1 (``numMetadata``, ``numProtocol``).
    num_deleted_records
        The number of rows that deletion vectors hide (``numDeletedRecordsOpt``).
    num_deletion_vectors
        The number of live files with a deletion vector (``numDeletionVectorsOpt``).
    """

    table_size_bytes: int | None = None
    num_files: int | None = None
    num_metadata: int | None = None
    num_protocol: int | None = None
    num_deleted_records: int | None = None
    num_deletion_vectors: int | None = None

    def to_json(self) -> dict[str, int]:
        """Return the stated facts by the names that the file gives them.

        Examples
        --------
        >>> VersionChecksum(num_files=3).to_json()
        {'numFiles': 3}
        """
        facts = {name: getattr(self, attribute) for name, attribute in _ATTRIBUTES.items()}
        return {name: fact for name, fact in facts.items() if fact is not None}


_ATTRIBUTES = {
    "tableSizeBytes": "table_size_bytes",
    "numFiles": "num_files",
    "numMetadata": "num_metadata",
    "numProtocol": "num_protocol",
    "numDeletedRecordsOpt": "num_deleted_records",
    "numDeletionVectorsOpt": "num_deletion_vectors",
}


def checksum_name(version: int) -> str:
    """Return the name of a version's checksum file."""
    return f"{version:020d}.crc"


def read_version_checksum(log: LogDirectory, version: int) -> VersionChecksum | None:
    """Read the checksum file of a version; None if there is none.

    Raises
    ------
    CorruptLogError
        If the file is not a JSON object, or states a fact that is not a number.
    """
    name = checksum_name(version)
    try:
        data = log.storage.get(f"{log.path}/{name}", _MOST_BYTES)
    except ObjectNotFoundError:
        return None
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        raise CorruptLogError(f"{name} is not a JSON object", table=str(log.root), file=name)
    return VersionChecksum(**{attribute: _number(members, key, log, name) for key, attribute in _ATTRIBUTES.items()})


def write_version_checksum(
    log: LogDirectory,
    version: int,
    checksum: VersionChecksum,
    protocol: Protocol,
    metadata: Metadata,
    in_commit_timestamp: int | None = None,
) -> None:
    """Write the checksum file of a version, unless there is one.

    Parameters
    ----------
    in_commit_timestamp
        The time that the commit records, in milliseconds since 1970; None where the table has no such times.

    Raises
    ------
    StorageError
        Where the store fails.
    """
    members: dict[str, Any] = {
        **checksum.to_json(),
        "metadata": metadata.action.members,
        "protocol": protocol.action.members,
    }
    if in_commit_timestamp is not None:
        members["inCommitTimestampOpt"] = in_commit_timestamp
    log.storage.put(f"{log.path}/{checksum_name(version)}", write_json(members).encode(), if_absent=True)


def _number(members: dict[str, Any], key: str, log: LogDirectory, name: str) -> int | None:
    value = members.get(key)
    if value is not None and type(value) is not int:
        raise CorruptLogError(f"{name} has {key} {value!r}, which is not a number", table=str(log.root), file=name)
    return value
