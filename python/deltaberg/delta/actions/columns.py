"""Actions as columns: what checkpoints and sidecars hold in a struct column for each kind of action.

Delta protocol, "Checkpoint Schema". Statistics are not among these columns: they are read for chosen columns only.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.actions.member_types import action_column
from deltaberg.kernels.results import ADDED_FILES, REMOVED_FILES
from deltaberg.schema.types import DataType, Field, List, Map, Primitive, Struct

__all__ = [
    "ADD_COLUMNS",
    "FIRST_FIELDS",
    "REMOVE_COLUMNS",
    "TABLE_ACTIONS",
    "in_columns",
    "plain_value",
    "unknown_members",
    "without_empty_vectors",
]

_PRIMITIVES = {
    pa.string(): "string",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}


def _field(column: pa.Field) -> Field:
    return Field(column.name, _table_type(column.type))


def _table_type(arrow: pa.DataType) -> DataType:
    if isinstance(arrow, pa.StructType):
        return Struct(tuple(_field(child) for child in arrow))
    if isinstance(arrow, pa.ListType):
        return List(Field("element", _table_type(arrow.value_type)))
    if isinstance(arrow, pa.MapType):
        return Map(Field("key", _table_type(arrow.key_type)), Field("value", _table_type(arrow.item_type)))
    return Primitive(_PRIMITIVES[arrow])


#: The columns of ``add`` that planning needs.
ADD_COLUMNS = tuple(_field(column) for column in ADDED_FILES if column.name not in ("stats", "numRecords", "version"))
#: The columns of ``remove``.
REMOVE_COLUMNS = tuple(_field(column) for column in REMOVED_FILES if column.name not in ("version", "pathAdded"))

#: The actions about the table as a whole, and at the end those that only checkpoints have.
TABLE_ACTIONS = tuple(
    map(action_column, ("protocol", "metaData", "txn", "domainMetadata", "checkpointMetadata", "sidecar"))
)


def unknown_members(action: Field, stored: pa.Schema) -> tuple[Field, ...]:
    """Return the members of an action that a checkpoint stores and the protocol does not know.

    Members of types that JSON does not have, such as binary, are left out.
    """
    place = stored.get_field_index(action.name)
    if place < 0 or not isinstance(stored.field(place).type, pa.StructType) or not isinstance(action.type, Struct):
        return ()
    unknown = []
    for column in stored.field(place).type:
        if action.type.get(column.name) is None:
            with contextlib.suppress(KeyError):
                unknown.append(_field(column))
    return tuple(unknown)


def plain_value(value: Any, kind: DataType) -> Any:
    """Return a value of a column so that its maps can be told from lists: they are lists of pairs, or empty dicts."""
    if value is None:
        return None
    if isinstance(kind, Struct):
        return {child.name: plain_value(value[child.name], child.type) for child in kind}
    if isinstance(kind, List):
        return [plain_value(item, kind.element.type) for item in value]
    if isinstance(kind, Map):
        return [(key, plain_value(item, kind.value.type)) for key, item in value] or {}
    # JSON has no NaN, and no infinite numbers.
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _first_field(action: str, columns: tuple[Field, ...]) -> Field:
    return Field(action, Struct(columns[:1]))


#: Each action with its first field only, which is enough to see in which rows the action is.
FIRST_FIELDS = (
    *(_first_field(action.name, action.type.fields) for action in TABLE_ACTIONS if isinstance(action.type, Struct)),
    _first_field("add", ADD_COLUMNS),
    _first_field("remove", REMOVE_COLUMNS),
)


def in_columns(files: pa.Table, schema: pa.Schema, **own: pa.Array) -> pa.Table:
    """Return files with other columns: those that are given, those that the files have, and nulls for the rest."""

    def column(field: pa.Field) -> pa.Array:
        known = own.get(field.name)
        if known is not None:
            return known
        return files.column(field.name) if field.name in files.schema.names else pa.nulls(len(files), field.type)

    return pa.table([column(field) for field in schema], schema=schema)


def without_empty_vectors(actions: pa.RecordBatch) -> pa.RecordBatch:
    """Replace empty descriptors of deletion vectors with null.

    Some writers store a struct of nulls where a file has no deletion vector.
    """
    vectors = actions.column("deletionVector")
    if vectors.null_count == len(vectors):
        return actions
    storage, path = vectors.field("storageType"), vectors.field("pathOrInlineDv")
    empty = pc.and_(vectors.is_valid(), pc.and_(storage.is_null(), path.is_null()))
    if not pc.any(empty).as_py():
        return actions
    index = actions.schema.get_field_index("deletionVector")
    kept = pc.if_else(empty, pa.scalar(None, vectors.type), vectors)
    return actions.set_column(index, actions.schema.field(index), kept)
