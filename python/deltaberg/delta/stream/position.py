"""Positions of a stream in a Delta table, as delta-spark records them in the checkpoints of queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError, VersionNotFoundError
from deltaberg.table.streaming.table_stream import NEW_STREAM

__all__ = ["NOTHING", "Position", "read_position"]

#: The index of a position before the first file of a version.
NOTHING = -1
#: What delta-spark has in its place since the third version of its offsets, which it never records.
_NOTHING_IN_3 = -100
_VERSIONS = (1, 3)
_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class Position:
    """A position after some files of a version.

    Parameters
    ----------
    version
        The version. A version that is still to come is the end of the log.
    index
        The number of the last file before the position, from 0: in the order of the actions of the commit, or, of the
        snapshot that a stream begins with, in the order of modification times and paths.
    is_initial
        Whether it is in that snapshot.
    """

    version: int
    index: int = NOTHING
    is_initial: bool = False

    def record(self, table_id: str) -> dict[str, Any]:
        """Return the position as the JSON object of delta-spark.

        Examples
        --------
        >>> Position(3).record("t")
        {'sourceVersion': 1, 'reservoirId': 't', 'reservoirVersion': 3, 'index': -1, 'isStartingVersion': False}
        """
        return {
            "sourceVersion": 1,
            "reservoirId": table_id,
            "reservoirVersion": self.version,
            "index": self.index,
            "isStartingVersion": self.is_initial,
        }


def read_position(recorded: Mapping[str, Any], table_id: str, table: str) -> Position:
    """Return the position that a JSON object says.

    Raises
    ------
    InvalidArgumentError
        If it is no offset of a Delta table.
    UnsupportedFeatureError
        If delta-spark recorded it between two schemas, of which it keeps a log.
    VersionNotFoundError
        If it is one of another table.
    """
    version, index = (_number(recorded.get(name)) for name in ("reservoirVersion", "index"))
    is_initial, table_of = recorded.get("isStartingVersion"), recorded.get("reservoirId")
    if (
        version is None
        or index is None
        or not isinstance(is_initial, bool)
        or not isinstance(table_of, str)
        or recorded.get("sourceVersion") not in _VERSIONS
    ):
        raise InvalidArgumentError(
            f"{str(dict(recorded))[:200]} is no offset of a stream of a Delta table",
            hint="it must be one that this library or delta-spark recorded",
            table=table,
        )
    if table_of != table_id:
        raise VersionNotFoundError(
            f"the stream began with another table: its id was {table_of:.100}, and is now {table_id}",
            hint=NEW_STREAM,
            table=table,
        )
    if index == _NOTHING_IN_3:
        index = NOTHING
    if version < 0 or index < NOTHING:
        raise UnsupportedFeatureError(
            f"the position {index} of version {version} is one of delta-spark's log of schemas",
            hint=f"finish the change of the schema with delta-spark, or {NEW_STREAM}",
            table=table,
        )
    return Position(version, index, is_initial)


def _number(found: Any) -> int | None:
    return found if type(found) is int and abs(found) <= _MOST else None
