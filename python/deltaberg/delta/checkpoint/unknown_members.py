"""Members that the protocol does not know, as columns of Parquet checkpoints, so that they outlive the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from deltaberg.delta.actions.log_action import LogAction
from deltaberg.lossless_json import Number

__all__ = ["with_unknown_members"]

#: The actions that are written again with all of their members.
_REWRITTEN = ("protocol", "metaData")
_LONGS = range(-(1 << 63), 1 << 63)


def with_unknown_members(columns: Sequence[pa.Field], actions: Iterable[LogAction]) -> list[pa.Field]:
    """Return the columns of actions, with fields for the members of ``protocol`` and ``metaData`` that have none.

    Members are left out whose value is null, has no type of Parquet (a list of different things), or whose name differs
    from that of another field only in the case of letters: Spark takes no such columns.

    Examples
    --------
    >>> known = [pa.field("protocol", pa.struct([("minReaderVersion", pa.int32())]))]
    >>> (found,) = with_unknown_members(known, [LogAction("protocol", {"minReaderVersion": 1, "later": {"x": [1.5]}})])
    >>> print(found.type)
    struct<minReaderVersion: int32, later: struct<x: list<item: double>>>
    """
    wanted = {action.name: action.members for action in actions if action.name in _REWRITTEN}
    return [column.with_type(_extended(column.type, wanted.get(column.name, {}))) for column in columns]


def _extended(kind_of_action: pa.DataType, members: Mapping[str, Any]) -> pa.DataType:
    if not isinstance(kind_of_action, pa.StructType):
        return kind_of_action
    fields = list(kind_of_action)
    names = {field.name.lower() for field in fields}
    for name, value in members.items():
        kind = None if name.lower() in names else _type_of(value)
        if kind is not None:
            names.add(name.lower())
            fields.append(pa.field(name, kind))
    return pa.struct(fields) if len(fields) > len(kind_of_action) else kind_of_action


def _type_of(value: Any) -> pa.DataType | None:
    """Return the type of a column for a value of JSON; None if there is none."""
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, Mapping):
        found = _extended(pa.struct([]), value)
        # Parquet has no structs without fields.
        return found if found.num_fields else None if value else pa.map_(pa.string(), pa.string())
    if isinstance(value, (list, tuple)):
        kinds = [_type_of(item) for item in value if item is not None]
        if not kinds:
            return pa.list_(pa.string())
        return pa.list_(kinds[0]) if kinds[0] is not None and all(kind == kinds[0] for kind in kinds) else None
    return _number_type(value)


def _number_type(value: Any) -> pa.DataType | None:
    whole = value.integer if isinstance(value, Number) else value
    if isinstance(whole, int):
        return pa.int64() if whole in _LONGS else None
    return pa.float64() if isinstance(value, (float, Number)) else None
