"""Planning a scan in parts: executors read a checkpoint's parts, and commits since mask what they find."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from deltaberg.delta.checkpoint.parquet_part import CheckpointPart
from deltaberg.delta.log.entries import LogBytes
from deltaberg.delta.snapshot.file_state import Origin
from deltaberg.delta.snapshot.lazy_value import lazy_value
from deltaberg.delta.snapshot.live_files import (
    ADD_KEYS,
    LIVE_FILES,
    REMOVE_KEYS,
    LiveFiles,
    live_of_part,
    live_of_replay,
    mask_older,
)
from deltaberg.delta.snapshot.scanned_version import ScannedVersion
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import CorruptCheckpointError
from deltaberg.hints import Hint
from deltaberg.schema.arrow import as_array, columns_of

__all__ = ["SnapshotPart"]

#: The most bytes of file actions after the checkpoint; with more, too much would be sent to each executor.
_MOST_NEWER = 32 << 20
#: A part of the checkpoint, or the files that later commits added; ``length`` is the cost of reading it in bytes.
_PIECES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("files", pa.list_(pa.struct(list(LIVE_FILES)))),
        ("length", pa.int64()),
    ]
)


class _Newer(NamedTuple):
    """The effect of commits after the checkpoint: the keys of files that they added and removed, and their bytes."""

    adds: pa.Table
    removes: pa.Table
    log_bytes: LogBytes


class SnapshotPart(ScannedVersion):
    """Some of the files of a version, or all of them, read only where they are needed. It can be pickled.

    Parameters
    ----------
    version
        The version.
    newer
        What commits after the checkpoint did; None if the version cannot be divided.
    pieces
        Rows of `divide`; without any, the version is loaded from its log.
    """

    def __init__(self, version: ScannedVersion, newer: _Newer | None, pieces: pa.Table | None = None) -> None:
        self.log, self.version = version.log, version.version
        self.protocol, self.metadata = version.protocol, version.metadata
        self._newer = newer
        self._pieces = pieces
        self._divisible: Origin | None = None

    @classmethod
    def of(cls, version: ScannedVersion) -> SnapshotPart:
        """Return all files of a version, without what was read of them."""
        if isinstance(version, SnapshotPart):
            return version
        origin = _divisible(version.origin)
        newer = None
        if origin is not None:
            adds, removes = origin.replay.adds.select(ADD_KEYS), origin.replay.removes.select(REMOVE_KEYS)
            newer = _Newer(adds, removes, origin.log_bytes)
        whole = cls(version, newer)
        whole._divisible = origin
        return whole

    def only(self, pieces: pa.Table) -> SnapshotPart:
        """Return the files in some of the pieces."""
        return SnapshotPart(self, self._newer, pieces)

    def __getstate__(self) -> dict[str, Any]:
        # What was read and derived is left behind.
        own = ("log", "version", "protocol", "metadata", "_newer", "_pieces")
        return {**{name: self.__dict__[name] for name in own}, "_divisible": None}

    @property
    def origin(self) -> None:
        """None: a part is not divided further."""

    def divide(self) -> pa.Table | None:
        """Return the pieces of the version; None if it has no checkpoint in parts, or where much came after it."""
        if self._divisible is None:
            return None
        parts = self._divisible.checkpoint.file_parts
        newest = live_of_replay(self._divisible.replay)
        files = pa.StructArray.from_arrays([as_array(column) for column in newest.columns], fields=list(newest.schema))
        offsets = pa.array([*(None for _ in parts), 0, len(newest)], pa.int32())
        sizes = [part.size for part in parts]
        columns = [
            pa.array([*(part.path for part in parts), None], pa.string()),
            pa.array([*sizes, None], pa.int64()),
            pa.ListArray.from_arrays(offsets, files),
            pa.array([*(size or 0 for size in sizes), newest.nbytes], pa.int64()),
        ]
        return pa.table(columns, schema=_PIECES)

    @property
    def live(self) -> LiveFiles:
        """The live files.

        Raises
        ------
        CorruptCheckpointError
            If a part is damaged. Only whoever reads the whole log can go back to an older checkpoint.
        """
        return lazy_value(self, "_live", self._read_live)

    def _read_live(self) -> LiveFiles:
        if self._newer is None or self._pieces is None:
            return Snapshot.load(self.log, self.version).live
        rows = self._pieces.select(["path", "size"]).to_pylist()
        parts = [CheckpointPart(self.log, row["path"], row["size"]) for row in rows if row["path"] is not None]
        try:
            older = [
                mask_older(live_of_part(number, part), self._newer.adds, self._newer.removes, "add")
                for number, part in enumerate(parts)
            ]
        except CorruptCheckpointError as error:
            error.hint = error.hint or Hint("pass ⟪planning='driver'⟫, which can go back to an older checkpoint")
            raise
        newest = as_array(self._pieces.column("files")).flatten()
        files = pa.Table.from_batches([columns_of(newest)])
        table = pa.concat_tables([files, *older]).select(LIVE_FILES.names)
        return LiveFiles(table, parts, self._newer.log_bytes)


def _divisible(origin: Origin | None) -> Origin | None:
    """Return the origin where it is worth reading the parts of its checkpoint elsewhere."""
    if origin is None or len(origin.checkpoint.file_parts) <= 1:
        return None
    return origin if origin.replay.adds.nbytes + origin.replay.removes.nbytes <= _MOST_NEWER else None
