"""The Parquet files of checkpoints: the whole of one, a part of one, or a sidecar (Delta protocol, "Checkpoints").

Columns are read when they are needed: the actions about the table at once, those of files for planning, and
statistics only for the columns that a filter names.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.columns import (
    ADD_COLUMNS,
    FIRST_FIELDS,
    REMOVE_COLUMNS,
    TABLE_ACTIONS,
    in_columns,
    plain_value,
    unknown_members,
    without_empty_vectors,
)
from deltaberg.delta.log.directory import LogDirectory
from deltaberg.errors import (
    CorruptCheckpointError,
    CorruptDataFileError,
    NotAFileError,
    ObjectNotFoundError,
    SchemaError,
    StorageError,
)
from deltaberg.files.formats.parquet import ParquetSource
from deltaberg.kernels.results import REMOVED_FILES
from deltaberg.schema.arrow import arrow_schema, columns_of
from deltaberg.schema.projection import plan_projection
from deltaberg.schema.types import Field, Struct
from deltaberg.workers import in_chunks

__all__ = ["KEYS", "MISSING", "CheckpointPart"]

#: What identifies live files and tombstones, and says when these came. Checkpoints do not know the version.
KEYS = pa.schema(
    [REMOVED_FILES.field(name) for name in ("path", "deletionVector", "size", "deletionTimestamp", "version")]
)

#: The message where a file of a checkpoint does not exist.
MISSING = "a file of the checkpoint is missing"
#: Rows that are read at a time. They are few, because a long text that repeats is stored once, and Parquet does not say
#: what it takes in memory before it is decoded.
_BATCH_ROWS = 1 << 12
#: How many of these batches are taken together where only the names of files are wanted, and how many bytes of a column
#: are read at once then: other engines put a million names into one row group.
_TOGETHER, _BUFFERED = 16, 4 << 20
#: The most bytes of memory of what is read of a file at once: these, or so many times the bytes of the file.
_EXPANDED, _MOST_TIMES = 1 << 29, 64
_TO_THE_END = (1 << 63) - 1
#: The actions of which every member is read.
_REWRITTEN = [action for action in TABLE_ACTIONS if action.name in ("protocol", "metaData")]
#: Members that nothing here goes by, so that an engine may store them with another type.
_UNREAD = ("tags", "modificationTime")


class CheckpointPart:
    """A Parquet file of a checkpoint: the whole of it, one of its parts, or a sidecar."""

    def __init__(self, log: LogDirectory, path: str, size: int | None) -> None:
        self._log = log
        self.path = path
        self.size = size

    def table_actions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Return the actions about the table or about the checkpoint, each as its name and fields.

        ``protocol`` and ``metaData``, which may be written again, have the members that the protocol does not know.
        """
        unknown: dict[str, tuple[Field, ...]] = {}

        def stored(schema: pa.Schema) -> list[Field]:
            unknown.update({action.name: unknown_members(action, schema) for action in _REWRITTEN})
            return [
                replace(action, type=Struct((*_members(action), *unknown.get(action.name, ()))))
                for action in TABLE_ACTIONS
            ]

        for rows in self._read_batches(stored):
            for action, column in zip(TABLE_ACTIONS, rows, strict=True):
                if column.null_count < len(column):
                    for fields in column.filter(column.is_valid()).to_pylist():
                        more = unknown.get(action.name, ())
                        yield action.name, fields | {one.name: plain_value(fields[one.name], one.type) for one in more}

    def adds(self) -> pa.Table:
        """Return the live files, with the columns `ADD_COLUMNS`."""
        return self._actions("add", ADD_COLUMNS)

    def removes(self) -> pa.Table:
        """Return the tombstones, with the columns `REMOVE_COLUMNS`."""
        return self._actions("remove", REMOVE_COLUMNS)

    def keys(self, action: str) -> Iterator[pa.Table]:
        """Yield the files of an action, ``add`` or ``remove``, with the columns `KEYS`, some at a time."""
        columns = ADD_COLUMNS if action == "add" else REMOVE_COLUMNS
        kept = [column for column in columns if column.name in KEYS.names]
        # Batches without any would hold the rows that they are slices of.
        filled = (batch for batch in self._chunks(action, kept, _BUFFERED) if len(batch))
        for some in in_chunks(filled, _TOGETHER):
            yield in_columns(pa.Table.from_batches(some), KEYS)

    def add_column(self, column: Field, rows: pa.Int64Array) -> Iterator[pa.Array]:
        """Return one more column of some live files, such as their statistics, in batches.

        Parameters
        ----------
        column
            The column of ``add``.
        rows
            The numbers of the live files in this part, ascending.

        Raises
        ------
        CorruptCheckpointError
            If the column cannot be decoded, or ends before the last of these files.
        """
        first = yielded = 0
        for batch in self._read_batches([Field("add", Struct((column,)))]):
            adds = _present(batch[0])
            inside = pc.and_(pc.greater_equal(rows, first), pc.less(rows, first + len(adds)))
            chosen = rows.filter(inside)
            if len(chosen):
                yield adds.field(0).take(pc.subtract(chosen, first))
            first += len(adds)
            yielded += len(chosen)
        if yielded != len(rows):
            raise self._corrupt(f"the column {column.name} has {first} live files, but other columns have more")

    def crowded_rows(self) -> int:
        """Count the rows that hold more than one action."""
        crowded = 0
        for rows in self._read_batches(FIRST_FIELDS):
            counts = functools.reduce(pc.add, (column.is_valid().cast(pa.int8()) for column in rows))
            crowded += pc.sum(pc.greater(counts, 1)).as_py() or 0
        return crowded

    def has_files(self) -> bool:
        """Return whether the part holds any live file or tombstone."""
        fields = [field for field in FIRST_FIELDS if field.name in ("add", "remove")]
        return any(column.null_count < len(column) for rows in self._read_batches(fields) for column in rows)

    def has_add_column(self, *path: str) -> bool:
        """Return whether ``add`` has a column, given as the path of its name."""
        inside: Any = self._schema
        for name in ("add", *path):
            if not isinstance(inside, (pa.Schema, pa.StructType)) or inside.get_field_index(name) < 0:
                return False
            child = inside.field(name)
            inside = child.type
        return True

    def _actions(self, action: str, columns: Sequence[Field]) -> pa.Table:
        whole = pa.Table.from_batches(self._chunks(action, columns), arrow_schema(Struct(tuple(columns))))
        # Texts inside of a struct or a map have no more than 2 GiB in one chunk.
        return whole.combine_chunks() if whole.nbytes < _EXPANDED else whole

    def _chunks(self, action: str, columns: Sequence[Field], buffered: int = 0) -> Iterator[pa.RecordBatch]:
        for rows in self._read_batches([Field(action, Struct(tuple(columns)))], buffered):
            yield without_empty_vectors(columns_of(_present(rows[0])))

    def _read_batches(
        self, fields: Sequence[Field] | Callable[[pa.Schema], Sequence[Field]], buffered: int = 0
    ) -> Iterator[list[pa.Array]]:
        """Read columns of the top level, as a list of arrays for each batch of rows.

        What columns they are may depend on the schema of the file. ``buffered`` is that of `ParquetSource`.

        Raises
        ------
        CorruptCheckpointError
            The file is damaged, or a small one stands for far more than it holds.
        """
        taken = 0
        with self._decoding():
            file = self._log.storage.open(self.path, self.size)
            most = max(_EXPANDED, _MOST_TIMES * file.size())
            source = ParquetSource(file, buffered)
            try:
                wanted = fields(source.schema) if callable(fields) else fields
                projection = plan_projection(wanted, source.schema, by_id=False)
                groups = source.row_groups(0, _TO_THE_END)
                for batch in source.batches(groups, projection.leaves, _BATCH_ROWS, threads=True):
                    taken += batch.batch.nbytes
                    if taken > most:
                        raise self._corrupt(f"the checkpoint takes more than {most:,} bytes of memory for its columns")
                    # Parquet files may hold text that is not UTF-8, which later steps rely on.
                    batch.batch.validate(full=True)
                    yield projection.apply(batch.batch, batch.rows)
            finally:
                source.close()

    @cached_property
    def _schema(self) -> pa.Schema:
        with self._decoding():
            source = ParquetSource(self._log.storage.open(self.path, self.size))
            try:
                return source.schema
            finally:
                source.close()

    @contextlib.contextmanager
    def _decoding(self) -> Iterator[None]:
        """Turn errors of decoding into those of a damaged checkpoint."""
        try:
            yield
        except ObjectNotFoundError as error:
            raise self._corrupt(error.message if isinstance(error, NotAFileError) else MISSING) from error
        except StorageError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError, SchemaError, CorruptDataFileError) as error:
            first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise self._corrupt(f"the checkpoint cannot be decoded: {first_line}") from error

    def _corrupt(self, message: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, table=str(self._log.root), file=self.path)


def _members(action: Field) -> tuple[Field, ...]:
    """Return the members of an action about the table, or about the checkpoint, that are read."""
    known = action.type.fields if isinstance(action.type, Struct) else ()
    return tuple(member for member in known if member.name not in _UNREAD)


def _present(actions: pa.StructArray) -> pa.StructArray:
    """Return the rows that hold the action, without a copy where they are adjacent, as they usually are."""
    if not actions.null_count:
        return actions
    valid = actions.is_valid()
    first = valid.index(True).as_py()
    count = len(actions) - actions.null_count
    if first < 0:
        return actions.slice(0, 0)
    run = actions.slice(first, count)
    return run if not run.null_count else actions.filter(valid)
