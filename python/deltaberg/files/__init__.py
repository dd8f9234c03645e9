"""Data files: tasks to read them, row positions, deletes, and the function that reads."""

from __future__ import annotations

from deltaberg.files.bitmaps import RowSelection, load_bitmap
from deltaberg.files.layout import FileLayout
from deltaberg.files.metadata import (
    DELETED,
    LINEAGE_COLUMNS,
    METADATA,
    ROW_COLUMNS,
    ROW_IDS,
    ROW_INDEXES,
    ROW_VERSIONS,
    materialized_fields,
    metadata_field,
)
from deltaberg.files.read import ReadCounters, ReadSpec, read_task
from deltaberg.files.task import (
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
    "LINEAGE_COLUMNS",
    "METADATA",
    "ROW_COLUMNS",
    "ROW_IDS",
    "ROW_INDEXES",
    "ROW_VERSIONS",
    "BitmapRef",
    "DeleteFile",
    "FileLayout",
    "FileTask",
    "ReadCounters",
    "ReadSpec",
    "RowSelection",
    "constant_column",
    "load_bitmap",
    "materialized_fields",
    "metadata_field",
    "pack_tasks",
    "read_task",
    "task_schema",
    "tasks_of",
    "unpack_tasks",
]
