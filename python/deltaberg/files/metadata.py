"""The ``_metadata`` column: where a row comes from, and which row it is (Delta protocol, "Row Tracking").

One struct with a field for each: ``file_path``, ``file_name``, ``file_size``, ``file_modification_time``,
``row_index`` (the physical position in the file), ``row_id`` and ``row_commit_version``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CorruptDataFileError
from deltaberg.files.task import FileTask
from deltaberg.schema import Field, Primitive, Struct, arrow_field

__all__ = ["METADATA", "MetadataColumns", "metadata_field"]

#: The name of the column.
METADATA = "_metadata"

_FILE_FIELDS = (
    Field("file_path", Primitive("string")),
    Field("file_name", Primitive("string")),
    Field("file_size", Primitive("long")),
    Field("file_modification_time", Primitive("timestamp")),
    Field("row_index", Primitive("long")),
)
_ROW_FIELDS = (Field("row_id", Primitive("long")), Field("row_commit_version", Primitive("long")))


def metadata_field(row_tracking: bool) -> Field:
    """Give the column, with row ids and row commit versions only where a table tracks rows."""
    return Field(METADATA, Struct(_FILE_FIELDS + (_ROW_FIELDS if row_tracking else ())))


class MetadataColumns:
    """Builds the wanted part of the column for one task.

    ``row_id`` and ``row_commit_version`` are the names of the columns that may hold materialized ones.
    """

    def __init__(
        self, table: str, task: FileTask, wanted: Field | None, row_id: str | None, row_commit_version: str | None
    ) -> None:
        self._table = table
        self._task = task
        self._fields = tuple(wanted.type) if wanted is not None and isinstance(wanted.type, Struct) else ()
        names = {child.name for child in self._fields}
        self._hidden = {
            name: column
            for name, column in (("row_id", row_id), ("row_commit_version", row_commit_version))
            if name in names and column is not None
        }

    @property
    def file_fields(self) -> list[Field]:
        """The hidden columns of the file that are needed."""
        return [Field(column, Primitive("long")) for column in self._hidden.values()]

    def build(self, start: int, count: int, hidden: Sequence[pa.Array]) -> pa.StructArray | None:
        """Give the column for ``count`` rows from physical position ``start`` on."""
        if not self._fields:
            return None
        materialized = dict(zip(self._hidden, hidden, strict=True))
        children = [self._child(child.name, start, count, materialized) for child in self._fields]
        return pa.StructArray.from_arrays(children, fields=[arrow_field(child) for child in self._fields])

    def _child(self, name: str, start: int, count: int, materialized: dict[str, pa.Array]) -> pa.Array:
        task = self._task
        if name == "row_index":
            return _range(start, count)
        if name == "row_id":
            first = self._required(task.base_row_id, "baseRowId") + start
            return _coalesce(materialized.get(name), _range(first, count))
        if name == "row_commit_version":
            version = self._required(task.row_commit_version, "defaultRowCommitVersion")
            return _coalesce(materialized.get(name), pa.repeat(pa.scalar(version, pa.int64()), count))
        if name == "file_modification_time":
            modified = None if task.modified is None else task.modified * 1000
            value = pa.scalar(modified, pa.int64()).cast(pa.timestamp("us", "UTC"))
        elif name == "file_size":
            value = pa.scalar(task.size, pa.int64())
        else:
            path = task.location if name == "file_path" else task.location.rpartition("/")[2]
            value = pa.scalar(path, pa.string())
        return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)

    def _required(self, value: int | None, name: str) -> int:
        if value is None:
            raise CorruptDataFileError(
                f"the table tracks rows, and the file has no {name}", table=self._table, file=self._task.location
            )
        return value


def _range(first: int, count: int) -> pa.Array:
    ones = pa.repeat(pa.scalar(1, pa.int64()), count)
    return pc.cumulative_sum(ones, start=pa.scalar(first - 1, pa.int64()))


def _coalesce(materialized: pa.Array | None, generated: pa.Array) -> pa.Array:
    return generated if materialized is None else pc.coalesce(materialized, generated)
