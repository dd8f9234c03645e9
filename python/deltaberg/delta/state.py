"""The files of a snapshot: live ones and tombstones, from commits and from a checkpoint, as Arrow tables.

Each live file remembers where its statistics are: in the bytes of a commit (``version`` and ``stats``), or in a row
of a checkpoint's part (``part`` and ``index``).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.checkpoint import ADD_COLUMNS, Checkpoint, CheckpointPart
from deltaberg.errors import CorruptCheckpointError
from deltaberg.pruning import keep_rows
from deltaberg.schema import Struct, arrow_schema

__all__ = [
    "ADD_KEYS",
    "REMOVE_KEYS",
    "FileState",
    "live_of_part",
    "live_of_replay",
    "live_schema",
    "mask_older",
]

_PLACE = pa.struct([("offset", pa.int64()), ("length", pa.int32())])
#: The columns that tell file actions apart.
ADD_KEYS = ["path", "deletionVector"]
REMOVE_KEYS = [*ADD_KEYS, "pathAdded"]


def live_schema() -> pa.Schema:
    """Give the schema of `FileState.live`."""
    return pa.schema(
        [
            *arrow_schema(Struct(ADD_COLUMNS)),
            pa.field("stats", _PLACE),
            pa.field("version", pa.int64()),
            pa.field("part", pa.int32()),
            pa.field("index", pa.int64()),
        ]
    )


class FileState:
    """The file actions of a version, reconciled.

    Parameters
    ----------
    replay
        What the newest commits left behind.
    older
        What was before them: a checkpoint, an earlier state of the same snapshot, or nothing.
    """

    def __init__(self, replay: kernels.Replay, older: Checkpoint | FileState | None) -> None:
        self.parts: list[CheckpointPart] = []
        self.live_layer: _Layer
        self.tombstone_layer: _Layer
        #: What is on top of which checkpoint; None where files come from elsewhere, too.
        self.origin: tuple[kernels.Replay, Checkpoint] | None = None
        if isinstance(older, FileState):
            self.parts = older.parts
            self.live_layer = _Layer(replay, "add", older.live_layer)
            self.tombstone_layer = _Layer(replay, "remove", older.tombstone_layer)
        elif older is not None:
            self.parts = older.file_parts
            self.origin = replay, older
            self.live_layer = _Layer(replay, "add", functools.partial(_checkpoint_live, older))
            self.tombstone_layer = _Layer(replay, "remove", functools.partial(_checkpoint_tombstones, older))
        else:
            self.live_layer, self.tombstone_layer = _Layer(replay, "add", None), _Layer(replay, "remove", None)

    @property
    def live(self) -> pa.Table:
        """The live files; the columns are those of `live_schema`."""
        return self.live_layer.table()

    @property
    def tombstones(self) -> pa.Table:
        """The removed files: ``path``, ``deletionTimestamp``, ``partitionValues``, ``size``, ``deletionVector`` ..."""
        return self.tombstone_layer.table()


_Base = Callable[[], list[pa.Table]]


class _Layer:
    """The files that a replay leaves on top of older ones, worked out when they are asked for.

    A table that is refreshed again and again makes a layer each time. Once a layer is worked out it lets go of those
    below, and no more than a few wait for that, so that neither memory nor depth follows the number of refreshes.
    """

    _MOST_WAITING = 32
    _MOST_CHUNKS = 1024
    #: The replay, whether live files or tombstones are wanted, and what is below; None once all is worked out.
    waiting: tuple[kernels.Replay, str, _Layer | _Base | None] | None

    def __init__(self, replay: kernels.Replay, role: str, older: _Layer | _Base | None) -> None:
        self.waiting = (replay, role, older)
        self._table: pa.Table | None = None
        self.depth = 0
        if isinstance(older, _Layer) and older.waiting is not None:
            self.depth = older.depth + 1
            if self.depth > self._MOST_WAITING:
                self.depth = 0
                with contextlib.suppress(CorruptCheckpointError):
                    # Whoever asks this layer is told.
                    older.table()

    def table(self) -> pa.Table:
        """Give the files."""
        layers = [self]
        while (waiting := layers[-1].waiting) is not None and isinstance(waiting[2], _Layer):
            layers.append(waiting[2])
        for layer in reversed(layers[1:]):
            layer.work_out()
        return self.work_out()

    def work_out(self) -> pa.Table:
        """Give the files, from layers below that are worked out already."""
        waiting = self.waiting
        if waiting is None:
            return self._table
        replay, role, older = waiting
        newest = live_of_replay(replay) if role == "add" else replay.removes
        tables = [older.work_out()] if isinstance(older, _Layer) else older() if older is not None else []
        found = pa.concat_tables(
            [newest, *(mask_older(table, replay.adds, replay.removes, role) for table in tables)],
            promote_options="default",
        ).select(newest.schema.names)
        if isinstance(older, _Layer) and found.column(0).num_chunks > self._MOST_CHUNKS:
            found = found.combine_chunks()
        # In this order: another thread that finds nothing waiting finds the table.
        self._table = found
        self.waiting = None
        return found


def _checkpoint_live(checkpoint: Checkpoint) -> list[pa.Table]:
    tables = [live_of_part(number, part) for number, part in enumerate(checkpoint.file_parts)]
    inline = checkpoint.inline_files
    return tables if inline is None else [*tables, live_of_replay(inline)]


def _checkpoint_tombstones(checkpoint: Checkpoint) -> list[pa.Table]:
    tables = [part.removes() for part in checkpoint.file_parts]
    inline = checkpoint.inline_files
    return tables if inline is None else [*tables, inline.removes]


def mask_older(older: pa.Table, adds: pa.Table, removes: pa.Table, role: str) -> pa.Table:
    """Take the rows of an older table that no newer action replaces or removes.

    Of the newer actions only `ADD_KEYS` and `REMOVE_KEYS` are needed.
    """
    if not len(older) or not (len(adds) or len(removes)):
        return older
    keep = kernels.reconcile(
        adds.select(ADD_KEYS).to_batches(),
        removes.select(REMOVE_KEYS).to_batches(),
        older.select(ADD_KEYS).to_batches(),
        role,
    )
    return keep_rows(older, keep)


def live_of_replay(replay: kernels.Replay) -> pa.Table:
    """Give the files that a replay adds: they are in no checkpoint."""
    adds, schema = replay.adds, live_schema()
    columns = [
        adds.column(field.name) if field.name in adds.schema.names else pa.nulls(len(adds), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def live_of_part(number: int, part: CheckpointPart) -> pa.Table:
    """Give the files of a checkpoint's part, with where they are in it."""
    adds, schema = part.adds(), live_schema()
    rows = len(adds)
    own = {
        "part": pa.repeat(pa.scalar(number, pa.int32()), rows),
        "index": pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1),
    }
    columns = [
        adds.column(field.name) if field.name in adds.schema.names else own.get(field.name, pa.nulls(rows, field.type))
        for field in schema
    ]
    return pa.table(columns, schema=schema)
