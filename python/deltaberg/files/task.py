"""Units of reading: tables of file splits that travel, and the one split that a reader works on.

Planning keeps tasks columnar: a `TaskTable` is an Arrow table with a row for each split. It pickles as bare
buffers, since the schema is the same for all tasks of a scan.
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

#: Where a bitmap of row positions is: in a file, or inline.
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
#: Delete files that apply to a data file; ``keys`` are the field ids of an equality delete file, null of another.
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
    """A bitmap of row positions: ``size`` bytes of it at ``offset`` of a file, or ``inline``.

    ``size`` counts the bitmap with its magic number, ``offset`` is where its length stands in the file.
    """

    location: str | None
    offset: int | None
    size: int
    framing: str
    inline: bytes | None
    cardinality: int


class DeleteFile(NamedTuple):
    """A delete file: ``keys`` are the field ids by which it compares rows; None where it names positions."""

    location: str
    format: str
    size: int
    keys: tuple[int, ...] | None


@dataclass(frozen=True)
class FileTask:
    """A part of a data file to read: the row groups whose middle lies in bytes ``start`` to ``stop``.

    Rows in ``exclude`` are deleted, as are those that ``deletes`` name; where ``include`` or ``included`` is given, no
    row is wanted but those that they name. ``constants`` are columns with one value for the whole file. ``filtered``
    says that a filter remains to be applied. ``recorded_path`` is the path as the metadata spells it, where delete
    files name it.
    """

    location: str
    format: str
    size: int
    modified: int | None
    start: int
    stop: int
    record_count: int | None
    filtered: bool
    exclude: BitmapRef | None = None
    include: BitmapRef | None = None
    deletes: tuple[DeleteFile, ...] = ()
    included: tuple[DeleteFile, ...] = ()
    recorded_path: str | None = None
    base_row_id: int | None = None
    row_commit_version: int | None = None
    limit: int | None = None
    constants: dict[str, pa.Scalar] = field(default_factory=dict)


def constant_column(name: str) -> str:
    """Give the name of the task column that holds the value of a constant."""
    return _CONSTANT + name


def task_schema(constants: pa.Schema) -> pa.Schema:
    """Give the schema of the tasks of a scan, whose files have these constant columns."""
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
            pa.field("exclude", BITMAP),
            pa.field("include", BITMAP),
            pa.field("deletes", DELETE_FILES),
            pa.field("included", DELETE_FILES),
            pa.field("recorded_path", pa.string()),
            pa.field("base_row_id", pa.int64()),
            pa.field("row_commit_version", pa.int64()),
            pa.field("limit", pa.int64()),
            *(pa.field(constant_column(child.name), child.type) for child in constants),
        ]
    )


def pack_tasks(tasks: pa.RecordBatch) -> bytes:
    """Give tasks as bytes, without their schema."""
    return zlib.compress(tasks.serialize(), _COMPRESSION)


def unpack_tasks(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Read tasks that `pack_tasks` gave."""
    return pa.ipc.read_record_batch(pa.py_buffer(zlib.decompress(data)), schema)


def tasks_of(tasks: pa.RecordBatch) -> Iterator[FileTask]:
    """Give the tasks of a batch one by one."""
    constants = [name for name in tasks.schema.names if name.startswith(_CONSTANT)]
    plain = tasks.select([name for name in tasks.schema.names if not name.startswith(_CONSTANT)])
    for index, row in enumerate(plain.to_pylist()):
        values: dict[str, Any] = {**row, "exclude": _bitmap(row["exclude"]), "include": _bitmap(row["include"])}
        for name in ("deletes", "included"):
            values[name] = tuple(_delete_file(file) for file in row[name] or ())
        scalars = {name.removeprefix(_CONSTANT): tasks.column(name)[index] for name in constants}
        yield FileTask(**values, constants=scalars)


def _delete_file(row: dict[str, Any]) -> DeleteFile:
    keys = row["keys"]
    return DeleteFile(row["location"], row["format"], row["size"], None if keys is None else tuple(keys))


def _bitmap(row: dict[str, Any] | None) -> BitmapRef | None:
    return None if row is None else BitmapRef(**row)
