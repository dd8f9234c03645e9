"""The live files of a version as an Arrow table, and where their statistics are.

A file that a commit added has the place of its statistics in the bytes of that commit (``version`` and ``stats``), and
their record count (``numRecords``).
A file from a checkpoint has the number of a part and of a row in it (``part`` and ``index``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.delta.actions.columns import ADD_COLUMNS, in_columns
from deltaberg.delta.checkpoint.parquet_part import CheckpointPart
from deltaberg.delta.data.statistics import read_statistics
from deltaberg.delta.log.entries import LogBytes
from deltaberg.kernels.results import STATS_PLACE
from deltaberg.pruning.evaluate import keep_rows
from deltaberg.pruning.stats import FileStats
from deltaberg.schema.arrow import arrow_schema, count_up
from deltaberg.schema.types import Field, Struct

__all__ = [
    "ADD_KEYS",
    "LIVE_FILES",
    "REMOVE_KEYS",
    "LiveFiles",
    "files_without_row_ids",
    "live_of_part",
    "live_of_replay",
    "mask_older",
]

#: The columns that identify file actions.
ADD_KEYS = ["path", "deletionVector"]
REMOVE_KEYS = [*ADD_KEYS, "pathAdded"]
_FEW = 1 << 15
#: The columns of `LiveFiles.table`.
LIVE_FILES = pa.schema(
    [
        *arrow_schema(Struct(ADD_COLUMNS)),
        pa.field("stats", STATS_PLACE),
        pa.field("numRecords", pa.int64()),
        pa.field("version", pa.int64()),
        pa.field("part", pa.int32()),
        pa.field("index", pa.int64()),
    ]
)


@dataclass(frozen=True)
class LiveFiles:
    """The live files of a version, together with what their statistics are read from.

    Parameters
    ----------
    table
        A row for each file, with the columns of `LIVE_FILES`.
    parts
        The parts of the checkpoint that ``table.part`` numbers.
    log_bytes
        The log entries that ``table.version`` names.
    """

    table: pa.Table
    parts: Sequence[CheckpointPart]
    log_bytes: LogBytes

    def statistics(self, rows: pa.Int64Array | None, columns: Sequence[tuple[Field, ...]]) -> FileStats:
        """Read statistics of some of the files.

        Parameters
        ----------
        rows
            The numbers of the files, ascending; None means all files.
        columns
            Paths of fields from the root of the schema. Without any only record counts are read.
        """
        chosen = self.table if rows is None or len(rows) == len(self.table) else self.table.take(rows)
        wanted = chosen.select(["stats", "numRecords", "version", "part", "index", "deletionVector"])
        return read_statistics(wanted, self.parts, self.log_bytes, columns)


def files_without_row_ids(files: pa.Table) -> pa.Table:
    """Return the files whose rows have no ids, or no version that these come from (Delta protocol, "Row Tracking")."""
    lacking = pc.or_(pc.is_null(files.column("baseRowId")), pc.is_null(files.column("defaultRowCommitVersion")))
    return files.filter(lacking)


def mask_older(older: pa.Table, adds: pa.Table, removes: pa.Table, role: str) -> pa.Table:
    """Return the rows of an older table that newer actions neither replace nor remove.

    Parameters
    ----------
    older
        Live files or tombstones.
    adds, removes
        The newer actions; only the columns `ADD_KEYS` and `REMOVE_KEYS` are used.
    role
        ``add`` where ``older`` holds live files, ``remove`` where it holds tombstones.
    """
    if not len(older) or not (len(adds) or len(removes)):
        return older
    keep = kernels.reconcile(
        adds.select(ADD_KEYS).to_batches(),
        removes.select(REMOVE_KEYS).to_batches(),
        older.select(ADD_KEYS).to_batches(),
        role,
        # A thread takes longer to start than a few files to look up.
        1 if len(older) < _FEW else 0,
    )
    return keep_rows(older, keep)


def live_of_replay(replay: kernels.Replay) -> pa.Table:
    """Return the files that commits added, which are in no checkpoint."""
    return in_columns(replay.adds, LIVE_FILES)


def live_of_part(number: int, part: CheckpointPart) -> pa.Table:
    """Return the files of one part of a checkpoint, with the numbers of the part and of their rows in it."""
    adds = part.adds()
    rows = len(adds)
    part_numbers = pa.repeat(pa.scalar(number, pa.int32()), rows)
    return in_columns(adds, LIVE_FILES, part=part_numbers, index=count_up(0, rows))
