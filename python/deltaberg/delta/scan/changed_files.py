"""The files that one commit changed, as rows with what happened to them (Delta protocol, "Add CDC File").

``only_in_vector`` restricts a file to the rows that its deletion vector names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltaberg.delta.actions.columns import in_columns
from deltaberg.delta.actions.log_action import read_actions
from deltaberg.delta.data.change_files import CHANGE_TYPE
from deltaberg.delta.data.deletion_vectors import unique_id
from deltaberg.kernels.canonical import canonical_path
from deltaberg.kernels.results import ADDED_FILES, DELETION_VECTOR
from deltaberg.lossless_json import Number

__all__ = ["CHANGED_FILES", "ChangedFiles", "exchanged_vectors", "path_keys", "recorded_changes"]

#: The columns of changed files.
CHANGED_FILES = pa.schema(
    [
        pa.field("path", pa.string()),
        ADDED_FILES.field("partitionValues"),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("deletion_vector", DELETION_VECTOR),
        pa.field("only_in_vector", DELETION_VECTOR),
        pa.field(CHANGE_TYPE, pa.string()),
        pa.field("_commit_version", pa.int64()),
        pa.field("_commit_timestamp", pa.timestamp("us", "UTC")),
    ]
)


class ChangedFiles:
    """Builds tables of the files that a commit changed.

    Parameters
    ----------
    version
        The version that the commit made.
    millis
        When it was committed, in milliseconds since 1970.
    """

    def __init__(self, version: int, millis: int) -> None:
        self._version = version
        self._instant = pa.scalar(millis * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Return a table of rows that lack only version and time."""
        marked = [{**row, "_commit_version": self._version, "_commit_timestamp": self._instant.as_py()} for row in rows]
        return pa.Table.from_pylist(marked, CHANGED_FILES)

    def whole_files(self, files: pa.Table, change_type: str) -> pa.Table:
        """Return files in which every row changed, except those that their deletion vector hides."""
        rows = len(files)
        own = {
            "deletion_vector": files.column("deletionVector"),
            CHANGE_TYPE: pa.repeat(pa.scalar(change_type), rows),
            "_commit_version": pa.repeat(pa.scalar(self._version, pa.int64()), rows),
            "_commit_timestamp": pa.repeat(self._instant, rows),
        }
        return in_columns(files, CHANGED_FILES, **own)


def recorded_changes(data: bytes) -> list[dict[str, Any]]:
    """Return the change data files in the bytes of a commit.

    Raises
    ------
    CorruptLogError
        If a ``cdc`` action is incomplete.
    """
    rows = []
    for action in read_actions(data, "cdc"):
        size = action.members.get("size")
        row = {
            "path": action.members["path"],
            "partitionValues": list((action.members.get("partitionValues") or {}).items()),
            "size": size.integer if isinstance(size, Number) else None,
        }
        rows.append({**row, **dict.fromkeys(("modificationTime", "deletion_vector", "only_in_vector", CHANGE_TYPE))})
    return rows


def path_keys(files: pa.Table) -> pa.BinaryArray:
    """Return the keys by which the paths of files are compared."""
    return pa.array([canonical_path(path) for path in files.column("path").to_pylist()], pa.binary())


def exchanged_vectors(adds: pa.Table, removes: pa.Table) -> Iterator[dict[str, Any]]:
    """Return what changed in files that a commit both removed and added: the difference of their deletion vectors.

    Rows that only the new vector names were deleted; rows that only the old one names were inserted.
    """
    older = dict(zip(path_keys(removes).to_pylist(), removes.column("deletionVector").to_pylist(), strict=True))
    for path, row in zip(path_keys(adds).to_pylist(), adds.to_pylist(), strict=True):
        new, old = row["deletionVector"], older[path]
        file = {name: row[name] for name in ("path", "partitionValues", "size", "modificationTime")}
        if unique_id(new) == unique_id(old):
            continue
        if new is not None:
            yield {**file, "only_in_vector": new, "deletion_vector": old, CHANGE_TYPE: "delete"}
        if old is not None:
            yield {**file, "only_in_vector": old, "deletion_vector": new, CHANGE_TYPE: "insert"}
