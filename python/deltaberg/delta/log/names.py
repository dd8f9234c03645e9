"""Names of files in ``_delta_log`` (Delta protocol, "File Types")."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = [
    "LAST_CHECKPOINT",
    "LOG_DIRECTORY",
    "SIDECAR_DIRECTORY",
    "STAGED_DIRECTORY",
    "LogFile",
    "checkpoint_name",
    "classify",
    "commit_name",
    "compaction_name",
]

LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = "_sidecars"
LAST_CHECKPOINT = "_last_checkpoint"

STAGED_DIRECTORY = "_staged_commits"

_LAST_VERSION = (1 << 63) - 1
_VERSION = r"(?P<version>[0-9]{20})"
_UUID = r"(?P<uuid>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
_PATTERNS = {
    "commit": re.compile(rf"{_VERSION}\.json"),
    "checksum": re.compile(rf"{_VERSION}\.crc"),
    "compaction": re.compile(rf"{_VERSION}\.(?P<end>[0-9]{{20}})\.compacted\.json"),
    "classic": re.compile(rf"{_VERSION}\.checkpoint\.parquet"),
    "multipart": re.compile(rf"{_VERSION}\.checkpoint\.(?P<part>[0-9]{{10}})\.(?P<parts>[0-9]{{10}})\.parquet"),
    "uuid": re.compile(rf"{_VERSION}\.checkpoint\.{_UUID}\.(?P<format>json|parquet)"),
}


class LogFile(NamedTuple):
    """The facts in the name of a log file.

    Parameters
    ----------
    kind
        ``commit``, ``checksum``, ``compaction``, or the form of a checkpoint: ``classic``, ``multipart`` or ``uuid``.
    version
        The version, or the first version of a compaction.
    name
        The name.
    end
        The last version of a compaction.
    part, parts
        The number of the part, from 1, and the number of parts of a multi-part checkpoint.
    """

    kind: str
    version: int
    name: str
    end: int = 0
    part: int = 0
    parts: int = 0

    @property
    def is_checkpoint(self) -> bool:
        """Whether the file is a checkpoint or a part of one."""
        return self.kind in ("classic", "multipart", "uuid")


def classify(name: str) -> LogFile | None:
    """Return the kind and version of a file in the log by its name; None if readers do not know the name.

    Examples
    --------
    >>> classify("00000000000000000003.checkpoint.parquet").kind
    'classic'
    >>> classify("1.json") is None
    True
    """
    for kind, pattern in _PATTERNS.items():
        found = pattern.fullmatch(name)
        if found is not None:
            numbers = {key: int(text) for key, text in found.groupdict().items() if key not in ("uuid", "format")}
            file = LogFile(kind, name=name, **numbers)
            return file if max(file.version, file.end) <= _LAST_VERSION and _is_sound(file) else None
    return None


def _is_sound(file: LogFile) -> bool:
    if file.kind == "compaction":
        return file.end > file.version
    if file.kind == "multipart":
        return 1 <= file.part <= file.parts and file.parts > 1
    return True


def commit_name(version: int) -> str:
    """Return the name of a version's log entry."""
    return f"{version:020d}.json"


def checkpoint_name(version: int) -> str:
    """Return the name of a version's classic checkpoint."""
    return f"{version:020d}.checkpoint.parquet"


def compaction_name(first: int, last: int) -> str:
    """Return the name of the compaction of a range of versions."""
    return f"{first:020d}.{last:020d}.compacted.json"
