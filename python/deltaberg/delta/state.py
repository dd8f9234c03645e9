"""The files of a snapshot: live ones and tombstones, from commits and from a checkpoint, as Arrow tables.

Each live file remembers where its statistics are: in the bytes of a commit (``version`` and ``stats``), or in a row
of a checkpoint's part (``part`` and ``index``).
"""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.checkpoint import ADD_COLUMNS, Checkpoint, CheckpointPart
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
        self._replay = replay
        self._older = older
        self.parts: list[CheckpointPart] = []
        if isinstance(older, FileState):
            self.parts = older.parts
        elif older is not None:
            self.parts = older.file_parts

    @cached_property
    def live(self) -> pa.Table:
        """The live files; the columns are those of `live_schema`."""
        schema = live_schema()
        newest = _with_origin(self._replay.adds, schema)
        older = self._older_live()
        if older is None:
            return newest
        return pa.concat_tables([newest, self._masked(older, "add")]).select(schema.names)

    @cached_property
    def tombstones(self) -> pa.Table:
        """The removed files: ``path``, ``deletionTimestamp``, ``partitionValues``, ``size``, ``deletionVector`` ..."""
        newest = self._replay.removes
        tables = [newest]
        if isinstance(self._older, FileState):
            tables.append(self._masked(self._older.tombstones, "remove"))
        elif self._older is not None:
            tables += [self._masked(part.removes(), "remove") for part in self.parts]
            if self._older.inline_files is not None:
                tables.append(self._masked(self._older.inline_files.removes, "remove"))
        return pa.concat_tables(tables, promote_options="default")

    def _older_live(self) -> pa.Table | None:
        if self._older is None:
            return None
        if isinstance(self._older, FileState):
            return self._older.live
        schema = live_schema()
        tables = [_of_part(number, part.adds(), schema) for number, part in enumerate(self.parts)]
        if self._older.inline_files is not None:
            tables.append(_with_origin(self._older.inline_files.adds, schema))
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def _masked(self, older: pa.Table, role: str) -> pa.Table:
        """Take the rows of an older table that no newer action replaces or removes."""
        adds, removes = self._replay.adds, self._replay.removes
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
