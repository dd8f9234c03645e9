"""The file actions of a version, reconciled: live files and tombstones as Arrow tables.

Delta protocol, "Action Reconciliation".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from deltaberg import kernels
from deltaberg.delta.actions.columns import in_columns
from deltaberg.delta.checkpoint.parquet_part import KEYS, CheckpointPart
from deltaberg.delta.checkpoint.read import Checkpoint
from deltaberg.delta.log.directory import LogEntry
from deltaberg.delta.log.entries import LogBytes
from deltaberg.delta.snapshot.live_files import LiveFiles, live_of_part, live_of_replay, mask_older
from deltaberg.errors import CorruptCheckpointError

__all__ = ["FileState", "Origin", "Role"]

#: Live files are added ones, and tombstones are removed ones.
Role = Literal["add", "remove"]


@dataclass(frozen=True)
class Origin:
    """A checkpoint, the commits that were replayed on top of it, and their bytes."""

    checkpoint: Checkpoint
    replay: kernels.Replay
    log_bytes: LogBytes


@dataclass(frozen=True)
class FileState:
    """The files of a version, as one checkpoint and the commits after it give them.

    It does not change: both tables, and all that the live files refer to, belong to the same checkpoint and log
    entries. The tables are worked out when they are asked for.

    Parameters
    ----------
    checkpoint
        The files of the checkpoint; empty where the log alone was read.
    damaged
        The names of checkpoints and compactions that proved to be damaged, and were passed over.
    parts
        The parts of the checkpoint that hold file actions.
    log_bytes
        The log entries that live files refer to.
    origin
        The checkpoint and what was replayed on top of it; None if some files also come from elsewhere.
    """

    checkpoint: tuple[LogEntry, ...]
    damaged: frozenset[str]
    parts: Sequence[CheckpointPart]
    log_bytes: LogBytes
    origin: Origin | None
    _live: _Layer = field(repr=False)
    _tombstones: _Layer = field(repr=False)

    @classmethod
    def loaded(
        cls,
        entries: tuple[LogEntry, ...],
        checkpoint: Checkpoint | None,
        replay: kernels.Replay,
        log_bytes: LogBytes,
        damaged: frozenset[str],
    ) -> FileState:
        """Return the files of a checkpoint, if there is one, with commits replayed on top of it."""
        if checkpoint is None:
            return cls((), damaged, (), log_bytes, None, _Layer(replay, "add", None), _Layer(replay, "remove", None))
        return cls(
            entries,
            damaged,
            checkpoint.file_parts,
            log_bytes,
            Origin(checkpoint, replay, log_bytes),
            _Layer(replay, "add", _OfCheckpoint(checkpoint, "add")),
            _Layer(replay, "remove", _OfCheckpoint(checkpoint, "remove")),
        )

    def after(self, replay: kernels.Replay, log_bytes: LogBytes) -> FileState:
        """Return the files after further commits."""
        return FileState(
            self.checkpoint,
            self.damaged,
            self.parts,
            log_bytes,
            None,
            _Layer(replay, "add", self._live),
            _Layer(replay, "remove", self._tombstones),
        )

    @property
    def used_or_damaged(self) -> frozenset[str]:
        """The names of the files of the checkpoint, and of damaged ones: those to avoid if this checkpoint fails."""
        return self.damaged | {entry.file.name for entry in self.checkpoint}

    @property
    def live(self) -> LiveFiles:
        """The live files.

        Raises
        ------
        CorruptCheckpointError
            If the columns of ``add`` show that the checkpoint is damaged.
        """
        return LiveFiles(self._live.table(), self.parts, self.log_bytes)

    @property
    def is_live_known(self) -> bool:
        """Whether the live files are known without reading a checkpoint."""
        return self._live.is_known

    @property
    def tombstones(self) -> pa.Table:
        """The removed files: ``path``, ``deletionTimestamp``, ``partitionValues``, ``size``, ``deletionVector`` ...

        Raises
        ------
        CorruptCheckpointError
            If the columns of ``remove`` show that the checkpoint is damaged.
        """
        return self._tombstones.table()

    def keys(self, role: Role) -> Iterator[pa.Table]:
        """Yield all live files or tombstones, some at a time, with the columns `KEYS` alone.

        Raises
        ------
        CorruptCheckpointError
            If these columns show that the checkpoint is damaged.
        """
        return (self._live if role == "add" else self._tombstones).keys()


@dataclass(frozen=True)
class _OfCheckpoint:
    """The files of a checkpoint."""

    checkpoint: Checkpoint
    role: Role

    def tables(self) -> list[pa.Table]:
        parts, inline = self.checkpoint.file_parts, self.checkpoint.inline_files
        if self.role == "add":
            tables = [live_of_part(number, part) for number, part in enumerate(parts)]
            return tables if inline is None else [*tables, live_of_replay(inline)]
        return [*(part.removes() for part in parts), *(() if inline is None else [inline.removes])]

    def keys(self) -> Iterator[pa.Table]:
        for part in self.checkpoint.file_parts:
            yield from part.keys(self.role)
        if self.checkpoint.inline_files is not None:
            yield _newest(self.checkpoint.inline_files, self.role)


class _Layer:
    """The files that a replay leaves on top of older ones, worked out when they are asked for.

    Every refresh of a table adds a layer. A layer that is worked out releases those below it, and only a few may
    wait for that, so that neither memory nor depth grows with the number of refreshes.
    """

    _MOST_WAITING = 32
    #: The replay, the kind of file action, and what is below; None once the table is worked out.
    waiting: tuple[kernels.Replay, Role, _Layer | _OfCheckpoint | None] | None

    def __init__(self, replay: kernels.Replay, role: Role, older: _Layer | _OfCheckpoint | None) -> None:
        self.waiting = (replay, role, older)
        self._table: pa.Table | None = None
        self.depth = 0
        if isinstance(older, _Layer) and older.waiting is not None:
            self.depth = older.depth + 1
            if self.depth > self._MOST_WAITING:
                self.depth = 0
                with contextlib.suppress(CorruptCheckpointError):
                    # Whoever asks for this layer's table gets the error.
                    older.table()

    @property
    def is_known(self) -> bool:
        """Whether the files can be worked out without reading anything."""
        layer = self
        while (waiting := layer.waiting) is not None:
            older = waiting[2]
            if not isinstance(older, _Layer):
                return older is None
            layer = older
        return True

    def table(self) -> pa.Table:
        """Return the files."""
        layers = [self]
        while (waiting := layers[-1].waiting) is not None and isinstance(waiting[2], _Layer):
            layers.append(waiting[2])
        for layer in reversed(layers[1:]):
            layer.work_out()
        return self.work_out()

    def keys(self) -> Iterator[pa.Table]:
        """Yield the files with the columns `KEYS`, some at a time, and keep nothing of what is read for that."""
        waiting = self.waiting
        if waiting is None:
            yield in_columns(self._table, KEYS)
            return
        replay, role, older = waiting
        yield _newest(replay, role)
        for table in older.keys() if older is not None else ():
            yield mask_older(table, replay.adds, replay.removes, role)

    def work_out(self) -> pa.Table:
        """Return the files, where all layers below are worked out already."""
        waiting = self.waiting
        if waiting is None:
            return self._table
        replay, role, older = waiting
        newest = live_of_replay(replay) if role == "add" else replay.removes
        tables = [older.work_out()] if isinstance(older, _Layer) else older.tables() if older is not None else []
        files = pa.concat_tables(
            [newest, *(mask_older(table, replay.adds, replay.removes, role) for table in tables)],
            promote_options="default",
        ).select(newest.schema.names)
        if isinstance(older, _Layer):
            files = _merge_newest(files)
        # The table is set first, so that another thread that sees nothing waiting finds it.
        self._table = files
        self.waiting = None
        return files


def _merge_newest(files: pa.Table) -> pa.Table:
    """Merge the newest chunks, which come first, with those behind them that are not much larger.

    Every commit adds a chunk, and masking costs time for each of them. After this, each chunk has more than twice the
    rows of all newer ones together, so that there are few chunks, and a row is copied only a few times.
    """
    batches = [batch for batch in files.to_batches() if batch.num_rows]
    rows = count = 0
    for batch in batches:
        if count and batch.num_rows > 2 * rows:
            break
        rows += batch.num_rows
        count += 1
    newest = pa.Table.from_batches(batches[:count], files.schema).combine_chunks()
    return pa.concat_tables([newest, pa.Table.from_batches(batches[count:], files.schema)])


def _newest(replay: kernels.Replay, role: Role) -> pa.Table:
    return in_columns(replay.adds if role == "add" else replay.removes, KEYS)
