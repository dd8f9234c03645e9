"""Units of reading: batches of file splits that travel to a task, and the single split that a reader works on.

Planning keeps tasks columnar, as an Arrow batch with a row for each split. Packed tasks are bare buffers, since the
schema is the same for all tasks of a scan.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

__all__ = [
    "BITMAP",
    "DELETE_FILES",
    "BitmapRef",
    "DeleteFile",
    "FileTask",
    "constant_column",
    "pack_tasks",
    "task_schema",
    "tasks_of",
    "unpack_tasks",
]

#: Where a bitmap of row positions is stored: in a file, or inline.
BITMAP = pa.struct(
    [
        pa.field("location", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int32()),
        pa.field("framing", pa.string()),
        pa.field("inline", pa.binary()),
        pa.field("cardinality", pa.int64()),
    ]
)
#: The delete files that apply to a data file. ``keys`` holds the field ids of an equality delete file, else null.
DELETE_FILES = pa.list_(
    pa.struct(
        [
            pa.field("location", pa.string()),
            pa.field("format", pa.string()),
            pa.field("size", pa.int64()),
            pa.field("keys", pa.list_(pa.int32())),
        ]
    )
)
_CONSTANT = "="
_COMPRESSION = 6


class BitmapRef(NamedTuple):
    """Where a bitmap of row positions is: ``size`` bytes at ``offset`` of a file, or ``inline``.

    ``size`` includes the magic number of the bitmap; ``offset`` is where the file stores the length of the bitmap.
    """

    location: str | None
    offset: int | None
    size: int
    framing: str
    inline: bytes | None
    cardinality: int


class DeleteFile(NamedTuple):
    """A delete file. ``keys`` holds the ids of the fields that it compares; None for a position delete file."""

    location: str
    format: str
    size: int
    keys: tuple[int, ...] | None


@dataclass(frozen=True)
class FileTask:
    """A part of a data file to read: the row groups whose middle lies in bytes ``start`` to ``stop``.

    Parameters
    ----------
    filtered
        Whether the filter must still be applied to the rows.
    deletion_vector, delete_files
        What deletes rows of the file.
    only_in_vector, only_in_delete_files
        If either is given, only rows that it names are wanted: those that a change deleted or restored.
    recorded_path
        The path as the metadata spells it, where delete files name it.
    limit
        How many rows are wanted at most; None for all.
    constants
        The columns that have one value in the whole file.
    """

    location: str
    format: str
    size: int
    modified: int | None
    start: int
    stop: int
    record_count: int | None
    filtered: bool
    deletion_vector: BitmapRef | None = None
    only_in_vector: BitmapRef | None = None
    delete_files: tuple[DeleteFile, ...] = ()
    only_in_delete_files: tuple[DeleteFile, ...] = ()
    recorded_path: str | None = None
    base_row_id: int | None = None
    row_commit_version: int | None = None
    limit: int | None = None
    constants: dict[str, pa.Scalar] = field(default_factory=dict)


def constant_column(name: str) -> str:
    """Return the name of the task column that holds the value of a constant."""
    return _CONSTANT + name


def task_schema(constants: pa.Schema) -> pa.Schema:
    """Return the schema of the tasks of a scan, whose files have these constant columns."""
    return pa.schema(
        [
            pa.field("location", pa.string()),
            pa.field("format", pa.string()),
            pa.field("size", pa.int64()),
            pa.field("modified", pa.int64()),
            pa.field("start", pa.int64()),
            pa.field("stop", pa.int64()),
            pa.field("record_count", pa.int64()),
            pa.field("filtered", pa.bool_()),
            pa.field("deletion_vector", BITMAP),
            pa.field("only_in_vector", BITMAP),
            pa.field("delete_files", DELETE_FILES),
            pa.field("only_in_delete_files", DELETE_FILES),
            pa.field("recorded_path", pa.string()),
            pa.field("base_row_id", pa.int64()),
            pa.field("row_commit_version", pa.int64()),
            pa.field("limit", pa.int64()),
            *(pa.field(constant_column(child.name), child.type) for child in constants),
        ]
    )


def pack_tasks(tasks: pa.RecordBatch) -> bytes:
    """Return tasks as compressed bytes, without their schema."""
    return zlib.compress(tasks.serialize(), _COMPRESSION)


def unpack_tasks(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Read tasks that `pack_tasks` packed."""
    return pa.ipc.read_record_batch(pa.py_buffer(zlib.decompress(data)), schema)


def tasks_of(tasks: pa.RecordBatch) -> Iterator[FileTask]:
    """Return the tasks of a batch one by one."""
    constants = [name for name in tasks.schema.names if name.startswith(_CONSTANT)]
    plain = tasks.select([name for name in tasks.schema.names if not name.startswith(_CONSTANT)])
    for index, row in enumerate(plain.to_pylist()):
        values: dict[str, Any] = dict(row)
        for name in ("deletion_vector", "only_in_vector"):
            values[name] = _bitmap(row[name])
        for name in ("delete_files", "only_in_delete_files"):
            values[name] = tuple(_delete_file(file) for file in row[name] or ())
        scalars = {name.removeprefix(_CONSTANT): tasks.column(name)[index] for name in constants}
        yield FileTask(**values, constants=scalars)


def _delete_file(row: dict[str, Any]) -> DeleteFile:
    keys = row["keys"]
    return DeleteFile(row["location"], row["format"], row["size"], None if keys is None else tuple(keys))


def _bitmap(row: dict[str, Any] | None) -> BitmapRef | None:
    return None if row is None else BitmapRef(**row)
