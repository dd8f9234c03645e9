"""Positions of a stream in an Iceberg table, as iceberg-spark records them in the checkpoints of queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import InvalidArgumentError

__all__ = ["BEFORE_ALL", "SnapshotPosition", "read_snapshot_position"]

_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class SnapshotPosition:
    """A position after some files of a snapshot.

    Parameters
    ----------
    snapshot_id
        The snapshot; -1 before the first one.
    position
        How many files of it are before the position, in the order of its manifests.
    scan_all_files
        Whether all files of the snapshot count, not only those that it added: a stream begins so.
    """

    snapshot_id: int
    position: int = 0
    scan_all_files: bool = False

    def record(self) -> dict[str, Any]:
        """Return the position as the JSON object of iceberg-spark.

        Examples
        --------
        >>> SnapshotPosition(7, 2).record()
        {'version': 1, 'snapshot_id': 7, 'position': 2, 'scan_all_files': False}
        """
        return {
            "version": 1,
            "snapshot_id": self.snapshot_id,
            "position": self.position,
            "scan_all_files": self.scan_all_files,
        }


#: The position before the first snapshot of a table that has none yet.
BEFORE_ALL = SnapshotPosition(-1, -1)


def read_snapshot_position(recorded: Mapping[str, Any], table: str) -> SnapshotPosition:
    """Return the position that a JSON object says.

    Raises
    ------
    InvalidArgumentError
        If it is no offset of an Iceberg table.
    """
    numbers = [recorded.get(name) for name in ("snapshot_id", "position")]
    scan_all = recorded.get("scan_all_files")
    whole = [number for number in numbers if type(number) is int and -1 <= number <= _MOST]
    known = len(whole) == len(numbers) and type(recorded.get("version")) is int and isinstance(scan_all, bool)
    if not known or recorded.get("version") != 1 or (whole[1] < 0 and (whole[0] >= 0 or scan_all)):
        raise InvalidArgumentError(
            f"{str(dict(recorded))[:200]} is no offset of a stream of an Iceberg table",
            hint="it must be one that this library or iceberg-spark recorded",
            table=table,
        )
    return SnapshotPosition(whole[0], whole[1], bool(scan_all))
