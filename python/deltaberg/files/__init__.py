"""Data files: the tasks that read them, row positions, deleted rows, and the function that reads."""

from __future__ import annotations

from deltaberg.files.read.bitmaps import RowSelection, deletion_bitmaps, load_bitmap
from deltaberg.files.read.deletes import POSITION_DELETE_COLUMNS
from deltaberg.files.read.formats import open_data_file
from deltaberg.files.read.layout import FileLayout
from deltaberg.files.read.metadata import (
    DELETED,
    LAST_UPDATED,
    LINEAGE_COLUMNS,
    METADATA,
    ROW_COLUMNS,
    ROW_IDS,
    ROW_VERSIONS,
    is_position,
    materialized_fields,
    metadata_field,
)
from deltaberg.files.read.reader import ReadCounters, ReadSpec, read_task
from deltaberg.files.read.task import (
    BITMAP,
    DELETE_FILES,
    BitmapRef,
    DeleteFile,
    FileTask,
    constant_column,
    pack_tasks,
    task_schema,
    tasks_of,
    unpack_tasks,
)

__all__ = [
    "BITMAP",
    "DELETED",
    "DELETE_FILES",
    "LAST_UPDATED",
    "LINEAGE_COLUMNS",
    "METADATA",
    "POSITION_DELETE_COLUMNS",
    "ROW_COLUMNS",
    "ROW_IDS",
    "ROW_VERSIONS",
    "BitmapRef",
    "DeleteFile",
    "FileLayout",
    "FileTask",
    "ReadCounters",
    "ReadSpec",
    "RowSelection",
    "constant_column",
    "deletion_bitmaps",
    "is_position",
    "load_bitmap",
    "materialized_fields",
    "metadata_field",
    "open_data_file",
    "pack_tasks",
    "read_task",
    "task_schema",
    "tasks_of",
    "unpack_tasks",
]
