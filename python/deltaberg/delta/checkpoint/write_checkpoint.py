"""The Parquet files of checkpoints, written: a struct column for each kind of action, one action to a row.

Delta protocol, "Checkpoint Schema".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.delta.actions.columns import ADD_COLUMNS, REMOVE_COLUMNS, TABLE_ACTIONS
from deltaberg.delta.actions.log_action import LogAction
from deltaberg.lossless_json import Number
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import Struct
from deltaberg.storage.base import Storage

__all__ = ["ROW_GROUP_ROWS", "ActionFile", "file_columns", "table_columns"]

#: How many file actions a row group holds.
ROW_GROUP_ROWS = 1 << 17
#: Columns whose values repeat. Paths and statistics do not, and are not worth a dictionary.
_REPEATED = (
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "add.tags.key_value.key",
    "add.deletionVector.storageType",
    "add.clusteringProvider",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
    "remove.deletionVector.storageType",
)
#: Members of ``remove`` that are in commits only.
_ONLY_IN_COMMITS = ("tags", "stats")


def table_columns(spec: int) -> list[pa.Field]:
    """Return the columns of the actions that are not about files, in a specification of checkpoints."""
    return list(arrow_schema(Struct(TABLE_ACTIONS if spec > 1 else TABLE_ACTIONS[:-2])))


def file_columns(
    *, texts: bool, statistics: pa.DataType | None, partition_values: pa.DataType | None
) -> list[pa.Field]:
    """Return the columns ``add`` and ``remove``.

    Parameters
    ----------
    texts
        Whether statistics are written as JSON text (``stats``).
    statistics, partition_values
        The types of ``stats_parsed`` and ``partitionValues_parsed``; None leaves the field out.
    """
    add = list(arrow_schema(Struct(ADD_COLUMNS)))
    if texts:
        add.append(pa.field("stats", pa.string()))
    if partition_values is not None:
        add.append(pa.field("partitionValues_parsed", partition_values))
    if statistics is not None:
        add.append(pa.field("stats_parsed", statistics))
    remove = [field for field in arrow_schema(Struct(REMOVE_COLUMNS)) if field.name not in _ONLY_IN_COMMITS]
    return [pa.field("add", pa.struct(add)), pa.field("remove", pa.struct(remove))]


class ActionFile:
    """A Parquet file of actions under construction: it appears whole when it is closed, or never.

    As a context manager it is closed at the end, or discarded where an exception ends the block.

    Parameters
    ----------
    storage
        The store.
    path
        The path of the file, which is replaced if it exists.
    columns
        The columns, each of the kind of action that names it.
    """

    def __init__(self, storage: Storage, path: str, columns: list[pa.Field]) -> None:
        self.path = path
        self.schema = pa.schema(columns)
        #: How many actions were written, by kind.
        self.counts = dict.fromkeys(self.schema.names, 0)
        with ExitStack() as stack:
            self._output = stack.enter_context(storage.open_output(path))
            # Without the Arrow schema, every reader sees the plain types of the format.
            self._writer = stack.enter_context(
                pq.ParquetWriter(
                    self._output, self.schema, use_dictionary=list(_REPEATED), compression="snappy", store_schema=False
                )
            )
            self._open = stack.pop_all()

    def write(self, kind: str, actions: pa.StructArray) -> None:
        """Append actions of one kind as a row group; without any, nothing happens."""
        if not len(actions):
            return
        self.counts[kind] += len(actions)
        columns = [actions if field.name == kind else pa.nulls(len(actions), field.type) for field in self.schema]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def write_actions(self, actions: Iterable[LogAction]) -> None:
        """Append single actions. Members that have no column are left out (see `with_unknown_members`)."""
        by_kind: dict[str, list[Any]] = {}
        for action in actions:
            by_kind.setdefault(action.name, []).append(action.members)
        for kind, rows in by_kind.items():
            column = self.schema.field(kind).type
            self.write(kind, pa.array([_cell(row, column) for row in rows], column))

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._output.tell()

    def __enter__(self) -> ActionFile:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)


def _cell(value: Any, kind: pa.DataType) -> Any:
    """Return a member of an action as Arrow takes it: maps as pairs, without nulls, and numbers as such."""
    if isinstance(value, Mapping):
        if pa.types.is_map(kind):
            # A property that is null says nothing, and deltalake reads no table with one.
            return [(name, text) for name, text in value.items() if text is not None]
        return {child.name: _cell(value.get(child.name), child.type) for child in kind}
    if isinstance(kind, pa.ListType) and value is not None:
        return [_cell(item, kind.value_type) for item in value]
    if isinstance(value, Number):
        return value.real if pa.types.is_floating(kind) else value.integer
    return value
