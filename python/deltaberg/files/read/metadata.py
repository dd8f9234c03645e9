"""Metadata columns, which are computed for each row: which file a row comes from, and which row of it.

Delta has one struct, ``_metadata`` (Delta protocol, "Row Tracking"), with a field for each: ``file_path``,
``file_name``, ``file_size``, ``file_modification_time``, ``row_index`` (the physical position in the file), ``row_id``
and ``row_commit_version``. Iceberg has columns of reserved ids: ``_pos`` (the physical position), ``_deleted``,
``_row_id`` and ``_last_updated_sequence_number`` (Iceberg spec, "Reserved Field IDs" and "Row Lineage").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import CorruptDataFileError
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.read.task import FileTask
from deltaberg.schema.arrow import arrow_field, count_up
from deltaberg.schema.types import Field, Primitive, Struct

__all__ = [
    "DELETED",
    "LAST_UPDATED",
    "LINEAGE_COLUMNS",
    "METADATA",
    "ROW_COLUMNS",
    "ROW_IDS",
    "ROW_VERSIONS",
    "ComputedColumns",
    "is_position",
    "materialized_fields",
    "metadata_field",
]

#: The name of Delta's column.
METADATA = "_metadata"
#: Iceberg's column that says whether a row is deleted; a scan that asks for it also returns deleted rows.
DELETED = "_deleted"
#: Iceberg's metadata columns of every table.
ROW_COLUMNS = (
    Field("_pos", Primitive("long"), nullable=False, id=2147483645),
    Field(DELETED, Primitive("boolean"), nullable=False, id=2147483644),
)
#: Iceberg's version of a row. It is null in files without row ids: these are older than the lineage of the table.
LAST_UPDATED = "_last_updated_sequence_number"
#: Iceberg's metadata columns of tables with row lineage.
LINEAGE_COLUMNS = (
    Field("_row_id", Primitive("long"), id=2147483540),
    Field(LAST_UPDATED, Primitive("long"), id=2147483539),
)

_FILE_FIELDS = (
    Field("file_path", Primitive("string")),
    Field("file_name", Primitive("string")),
    Field("file_size", Primitive("long")),
    Field("file_modification_time", Primitive("timestamp")),
    Field("row_index", Primitive("long")),
)
_ROW_FIELDS = (Field("row_id", Primitive("long")), Field("row_commit_version", Primitive("long")))
#: The names of the physical position, of the row id and of the version of a row, in both formats.
_POSITIONS = frozenset({"row_index", "_pos"})
ROW_IDS = frozenset({"row_id", "_row_id"})
ROW_VERSIONS = frozenset({"row_commit_version", LAST_UPDATED})


def is_position(name: str, layout: FileLayout) -> bool:
    """Return whether a computed column, or a field of one, is the physical position of a row in its file."""
    return name in _POSITIONS or name == layout.position


def metadata_field(row_tracking: bool) -> Field:
    """Return Delta's column ``_metadata``; it has row ids and row commit versions where a table tracks rows."""
    return Field(METADATA, Struct(_FILE_FIELDS + (_ROW_FIELDS if row_tracking else ())))


def materialized_fields(parts: Iterable[Field], layout: FileLayout) -> dict[frozenset[str], Field]:
    """Return the columns of files in which wanted row ids and row versions may be materialized, by what they hold."""
    names = {part.name for part in parts}
    materialized = ((ROW_IDS, layout.row_id), (ROW_VERSIONS, layout.row_version))
    return {kind: column for kind, column in materialized if column is not None and names & kind}


class ComputedColumns:
    """Builds the computed columns that one task needs.

    Parameters
    ----------
    columns
        Columns that ``layout`` names as computed.
    """

    def __init__(self, table: str, task: FileTask, columns: Sequence[Field], layout: FileLayout) -> None:
        self._table = table
        self._task = task
        self._layout = layout
        self.wanted = columns
        inner = [part for child in columns for part in (child.type if isinstance(child.type, Struct) else (child,))]
        self._hidden = materialized_fields(inner, layout)

    @property
    def file_fields(self) -> list[Field]:
        """The materialized columns that have to be read from the file."""
        return list(self._hidden.values())

    def build(
        self, start: int, count: int, hidden: Sequence[pa.Array], keep: pa.BooleanArray | None
    ) -> dict[Field, pa.Array]:
        """Return the columns for ``count`` rows from physical position ``start`` on.

        ``keep`` marks the rows that are not deleted; None means that none is.
        """
        stored = dict(zip(self._hidden, hidden, strict=True))
        columns: dict[Field, pa.Array] = {}
        for child in self.wanted:
            if child.name == DELETED:
                columns[child] = pa.repeat(False, count) if keep is None else pc.invert(keep)
            elif isinstance(child.type, Struct):
                parts = [self._part(part.name, start, count, stored) for part in child.type]
                columns[child] = pa.StructArray.from_arrays(parts, fields=[arrow_field(part) for part in child.type])
            else:
                columns[child] = self._part(child.name, start, count, stored)
        return columns

    def _part(self, name: str, start: int, count: int, stored: dict[frozenset[str], pa.Array]) -> pa.Array:
        task = self._task
        if is_position(name, self._layout):
            return count_up(start, count)
        if name in ROW_IDS:
            base = self._required(task.base_row_id, "baseRowId")
            made = pa.nulls(count, pa.int64()) if base is None else count_up(base + start, count)
            return _coalesce(stored.get(ROW_IDS), made)
        if name in ROW_VERSIONS:
            version = self._required(task.row_commit_version, "defaultRowCommitVersion")
            if name == LAST_UPDATED and task.base_row_id is None:
                version = None
            return _coalesce(stored.get(ROW_VERSIONS), _repeated(pa.scalar(version, pa.int64()), count))
        if name == "file_modification_time":
            modified = None if task.modified is None else task.modified * 1000
            return _repeated(pa.scalar(modified, pa.int64()).cast(pa.timestamp("us", "UTC")), count)
        if name == "file_size":
            return _repeated(pa.scalar(task.size, pa.int64()), count)
        path = task.location if name == "file_path" else task.location.rpartition("/")[2]
        return _repeated(pa.scalar(path, pa.string()), count)

    def _required(self, value: int | None, name: str) -> int | None:
        if value is None and self._layout.all_rows_have_ids:
            raise CorruptDataFileError(
                f"the table tracks rows, but the file has no {name}", table=self._table, file=self._task.location
            )
        return value


def _repeated(value: pa.Scalar, count: int) -> pa.Array:
    return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)


def _coalesce(stored: pa.Array | None, made: pa.Array) -> pa.Array:
    return made if stored is None else pc.coalesce(stored, made)
