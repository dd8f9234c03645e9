"""Which files of a listing form complete checkpoints (Delta protocol, "Checkpoints")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltaberg.delta.log.directory import LogEntry

__all__ = ["CheckpointInfo", "checkpoint_info", "complete_checkpoints"]


@dataclass(frozen=True)
class CheckpointInfo:
    """The checkpoint that a snapshot was read from.

    Parameters
    ----------
    version
        The version of the table that the checkpoint holds.
    kind
        ``classic``, ``multipart`` or ``uuid``.
    files
        The names of its files in the log, without sidecars.
    size
        The total size of these files in bytes.
    """

    version: int
    kind: str
    files: tuple[str, ...]
    size: int


def checkpoint_info(entries: tuple[LogEntry, ...]) -> CheckpointInfo | None:
    """Describe the files of a checkpoint; None if there are none."""
    if not entries:
        return None
    names = tuple(entry.file.name for entry in entries)
    return CheckpointInfo(entries[0].version, entries[0].file.kind, names, sum(entry.meta.size for entry in entries))


def complete_checkpoints(
    listed: Iterable[LogEntry], damaged: frozenset[str] = frozenset()
) -> dict[int, tuple[LogEntry, ...]]:
    """Return the files of one complete checkpoint for each version that has one.

    Parameters
    ----------
    listed
        Files of the log, ordered by name.
    damaged
        The names of files that must not be used.
    """
    complete: dict[int, tuple[LogEntry, ...]] = {}
    parts: dict[tuple[int, int], dict[int, LogEntry]] = {}
    for entry in listed:
        file = entry.file
        if not file.is_checkpoint or file.name in damaged:
            continue
        if file.kind == "multipart":
            pieces = parts.setdefault((file.version, file.parts), {})
            pieces[file.part] = entry
            if len(pieces) == file.parts:
                complete.setdefault(file.version, tuple(pieces[number] for number in sorted(pieces)))
        elif file.version not in complete or file.kind == "classic":
            complete[file.version] = (entry,)
    return complete
