"""The ``add`` actions of live files as the log records them, for operations that add a file again.

Planning reads the members of files as columns. A file that is added again, for example with another deletion vector,
keeps all members of its action: those that this library does not understand, and its statistics as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.columns import ADD_COLUMNS
from deltaberg.delta.actions.log_action import LogAction, read_actions
from deltaberg.delta.actions.table_actions import members_of_row
from deltaberg.delta.checkpoint.parquet_part import CheckpointPart
from deltaberg.delta.data.deletion_vectors import unique_id
from deltaberg.delta.snapshot.live_files import LiveFiles
from deltaberg.errors import CorruptCheckpointError, CorruptLogError
from deltaberg.lossless_json import Number, write_json
from deltaberg.schema.types import Field, Primitive, Struct

__all__ = ["recorded_adds"]

_STATS = Field("stats", Primitive("string"))
_COUNTS = Field("stats_parsed", Struct((Field("numRecords", Primitive("long")),)))
#: The path of a file, and the unique id of its deletion vector.
_Key = tuple[str, str | None]


def recorded_adds(files: LiveFiles, rows: pa.Int64Array) -> list[LogAction]:
    """Return the ``add`` actions of some live files.

    A file that a commit or a JSON checkpoint added has its action from there. A Parquet checkpoint has columns for the
    members that the protocol knows. Of statistics that it holds only as ``stats_parsed`` the record count is kept,
    which a file with a deletion vector must have; bounds are left out, which costs a scan of the file at most.

    Parameters
    ----------
    rows
        The numbers of the files in ``files.table``, each at most once. The actions come in this order.

    Raises
    ------
    CorruptLogError
        A log entry was cleaned up or changed since the snapshot was loaded.
    CorruptCheckpointError
        A part of the checkpoint was cleaned up, or is damaged.
    """
    chosen = files.table.take(rows)
    actions: dict[int, LogAction] = {}
    in_log: dict[int, dict[_Key, int]] = {}
    in_parts: dict[int, dict[int, int]] = {}
    for position, row in enumerate(chosen.select(["path", "deletionVector", "version", "part", "index"]).to_pylist()):
        if row["part"] is not None:
            in_parts.setdefault(row["part"], {})[row["index"]] = position
        else:
            in_log.setdefault(row["version"], {})[row["path"], unique_id(row["deletionVector"])] = position
    for version, data in files.log_bytes.again(sorted(in_log)):
        for action in read_actions(data or b"", "add"):
            place = in_log[version].pop(_key(action.members), None)
            if place is not None:
                actions[place] = action
        if in_log[version]:
            raise CorruptLogError(
                "a log entry was changed or deleted after it was read", hint="open the table again", version=version
            )
    try:
        for number, positions in in_parts.items():
            actions |= _of_part(files, number, positions, chosen)
    except CorruptCheckpointError as error:
        error.hint = error.hint or "open the table again"
        raise
    return [actions[position] for position in range(len(chosen))]


def _key(members: Mapping[str, Any]) -> _Key:
    vector = members.get("deletionVector")
    if vector is not None:
        offset = vector.get("offset")
        vector = {**vector, "offset": offset.integer if isinstance(offset, Number) else None}
    return members["path"], unique_id(vector)


def _of_part(files: LiveFiles, number: int, positions: Mapping[int, int], chosen: pa.Table) -> dict[int, LogAction]:
    """Return the actions of files in one part of a Parquet checkpoint, by their position among the chosen files."""
    part, numbers = files.parts[number], sorted(positions)
    statistics = _statistics(part, pa.array(numbers, pa.int64()))
    members = chosen.select([field.name for field in ADD_COLUMNS]).take([positions[index] for index in numbers])
    return {
        positions[index]: LogAction("add", members_of_row({**row, "stats": text}))
        for index, row, text in zip(numbers, members.to_pylist(), statistics, strict=True)
    }


def _statistics(part: CheckpointPart, rows: pa.Int64Array) -> list[str | None]:
    """Return the statistics of some files of a part as text."""
    texts: list[str | None] = [None] * len(rows)
    if part.has_add_column("stats"):
        texts = [text for batch in part.add_column(_STATS, rows) for text in batch.to_pylist()]
    if None in texts and part.has_add_column("stats_parsed", "numRecords"):
        counts = [count for batch in part.add_column(_COUNTS, rows) for count in pc.struct_field(batch, 0).to_pylist()]
        texts = [
            write_json({"numRecords": count}) if text is None and count is not None else text
            for text, count in zip(texts, counts, strict=True)
        ]
    return texts
