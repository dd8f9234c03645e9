"""A version whose checkpoint is read in parts, each elsewhere: what planning on executors needs of it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from deltaberg import kernels
from deltaberg.delta.checkpoint import CheckpointPart
from deltaberg.delta.log_bytes import LogBytes
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.state import ADD_KEYS, REMOVE_KEYS, live_of_part, live_of_replay, live_schema, mask_older
from deltaberg.delta.table_state import TableState
from deltaberg.errors import CorruptCheckpointError
from deltaberg.schema import columns_of

__all__ = ["SnapshotPart", "divide"]

#: Bytes of file actions after the checkpoint; where there are more, each executor would be sent too much.
_MOST_NEWER = 32 << 20
#: A part of a checkpoint, or the files that commits after it added; ``length`` is what it costs to read.
_PIECES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("files", pa.list_(pa.struct(list(live_schema())))),
        ("length", pa.int64()),
    ]
)


class _Newer(NamedTuple):
    """What commits did after the checkpoint: the keys of what they added and removed."""

    adds: pa.Table
    removes: pa.Table


def divide(snapshot: Snapshot | SnapshotPart) -> pa.Table | None:
    """Give the pieces of a snapshot; None where it has no checkpoint in parts, or much happened since."""
    origin = _divisible(snapshot) if isinstance(snapshot, Snapshot) else None
    if origin is None:
        return None
    replay, parts = origin
    newest = live_of_replay(replay).combine_chunks()
    files = pa.StructArray.from_arrays([_whole(column) for column in newest.columns], fields=list(newest.schema))
    offsets = pa.array([*(None for _ in parts), 0, len(newest)], pa.int32())
    sizes = [part.size for part in parts]
    columns = [
        pa.array([*(part.path for part in parts), None], pa.string()),
        pa.array([*sizes, None], pa.int64()),
        pa.ListArray.from_arrays(offsets, files),
        pa.array([*(size or 0 for size in sizes), newest.nbytes], pa.int64()),
    ]
    return pa.table(columns, schema=_PIECES)


def _divisible(snapshot: Snapshot) -> tuple[kernels.Replay, list[CheckpointPart]] | None:
    """Give what happened after the checkpoint and its parts, where it is worth it to read those elsewhere."""
    if snapshot.files.origin is None:
        return None
    replay, checkpoint = snapshot.files.origin
    parts = checkpoint.file_parts
    few = replay.adds.nbytes + replay.removes.nbytes <= _MOST_NEWER
    return (replay, parts) if len(parts) > 1 and few else None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


class SnapshotPart(TableState):
    """Some of the files of a version, or all of them; they are read where they are asked for.

    Parameters
    ----------
    known
        The version.
    log_bytes
        The commits after the checkpoint.
    newer
        What they did; None where pieces are no use.
    pieces
        Rows of what `divide` gave; without them the version is loaded from its log.
    """

    def __init__(
        self, known: TableState, log_bytes: LogBytes, newer: _Newer | None, pieces: pa.Table | None = None
    ) -> None:
        self.log, self.version = known.log, known.version
        self.protocol, self.metadata = known.protocol, known.metadata
        self._log_bytes = log_bytes
        self._newer = newer
        self._pieces = pieces

    @classmethod
    def of(cls, snapshot: Snapshot) -> SnapshotPart:
        """Give a snapshot without what was read of it."""
        newer, origin = None, _divisible(snapshot)
        if origin is not None:
            replay, _ = origin
            newer = _Newer(replay.adds.select(ADD_KEYS), replay.removes.select(REMOVE_KEYS))
        return cls(snapshot, snapshot.log_bytes, newer)

    def only(self, pieces: pa.Table) -> SnapshotPart:
        """Give the files in some of the pieces."""
        return SnapshotPart(self, self._log_bytes, self._newer, pieces)

    def __getstate__(self) -> dict[str, Any]:
        # What was read, and what was understood of it, is left behind.
        own = ("log", "version", "protocol", "metadata", "_log_bytes", "_newer", "_pieces")
        return {name: self.__dict__[name] for name in own}

    @cached_property
    def _loaded(self) -> Snapshot:
        return Snapshot.load(self.log, self.version)

    @property
    def log_bytes(self) -> LogBytes:
        """The commits that live files name."""
        return self._log_bytes if self._newer is not None and self._pieces is not None else self._loaded.log_bytes

    @cached_property
    def parts(self) -> list[CheckpointPart]:
        """The parts of the checkpoint that live files name."""
        if self._newer is None or self._pieces is None:
            return self._loaded.parts
        rows = self._pieces.select(["path", "size"]).to_pylist()
        return [CheckpointPart(self.log, row["path"], row["size"]) for row in rows if row["path"] is not None]

    @cached_property
    def live(self) -> pa.Table:
        """The live files.

        Raises
        ------
        CorruptCheckpointError
            Where a part is damaged: that another checkpoint may be sound can be seen only by reading the whole log.
        """
        if self._newer is None or self._pieces is None:
            return self._loaded.live
        try:
            older = [
                mask_older(live_of_part(number, part), self._newer.adds, self._newer.removes, "add")
                for number, part in enumerate(self.parts)
            ]
        except CorruptCheckpointError as error:
            error.hint = error.hint or "pass planning='driver', which can go back to an older checkpoint"
            raise
        newest = self._pieces.column("files").combine_chunks().flatten()
        files = pa.Table.from_batches([columns_of(newest)])
        return pa.concat_tables([files, *older]).select(live_schema().names)
