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
from deltaberg.schema import Struct, arrow_schema

__all__ = ["FileState", "live_schema"]

_PLACE = pa.struct([("offset", pa.int64()), ("length", pa.int32())])
_KEY_COLUMNS = ["path", "deletionVector"]


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
        if isinstance(older, FileState):
            self.parts = older.parts
            self.live_layer = _Layer(replay, "add", older.live_layer)
            self.tombstone_layer = _Layer(replay, "remove", older.tombstone_layer)
        elif older is not None:
            self.parts = older.file_parts
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
        newest = _with_origin(replay.adds, live_schema()) if role == "add" else replay.removes
        tables = [older.work_out()] if isinstance(older, _Layer) else older() if older is not None else []
        found = pa.concat_tables(
            [newest, *(_masked(table, replay, role) for table in tables)], promote_options="default"
        ).select(newest.schema.names)
        if isinstance(older, _Layer) and found.column(0).num_chunks > self._MOST_CHUNKS:
            found = found.combine_chunks()
        # In this order: another thread that finds nothing waiting finds the table.
        self._table = found
        self.waiting = None
        return found


def _checkpoint_live(checkpoint: Checkpoint) -> list[pa.Table]:
    schema = live_schema()
    tables = [_of_part(number, part.adds(), schema) for number, part in enumerate(checkpoint.file_parts)]
    inline = checkpoint.inline_files
    return tables if inline is None else [*tables, _with_origin(inline.adds, schema)]


def _checkpoint_tombstones(checkpoint: Checkpoint) -> list[pa.Table]:
    tables = [part.removes() for part in checkpoint.file_parts]
    inline = checkpoint.inline_files
    return tables if inline is None else [*tables, inline.removes]


def _masked(older: pa.Table, replay: kernels.Replay, role: str) -> pa.Table:
    """Take the rows of an older table that no newer action replaces or removes."""
    adds, removes = replay.adds, replay.removes
    if not len(older) or not (len(adds) or len(removes)):
        return older
    keep = kernels.reconcile(
        adds.select(_KEY_COLUMNS).to_batches(),
        removes.select([*_KEY_COLUMNS, "pathAdded"]).to_batches(),
        older.select(_KEY_COLUMNS).to_batches(),
        role,
    )
    return older if pc.all(keep, min_count=0).as_py() else older.filter(keep)


def _with_origin(adds: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give adds of a replay the columns that say they are in no checkpoint."""
    columns = [
        adds.column(field.name) if field.name in adds.schema.names else pa.nulls(len(adds), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _of_part(number: int, adds: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give adds of a checkpoint's part the columns that say where they are in it."""
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
