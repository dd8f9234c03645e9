"""Converts schemas, partition specs and sort orders of callers: from Arrow, or from objects of pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from deltaberg.errors import InvalidArgumentError
from deltaberg.iceberg.metadata.sort_orders import SortOrder, read_sort_order
from deltaberg.iceberg.metadata.specs import PartitionSpec, read_spec
from deltaberg.iceberg.schema.schema import Schema, read_schema
from deltaberg.iceberg.updates.new_columns import given_columns
from deltaberg.iceberg.updates.new_table import with_fresh_ids

__all__ = ["as_order", "as_schema", "as_spec"]

_Layout = TypeVar("_Layout")


def _json_of(given: Any) -> Any:
    """Return the JSON object of an object of pyiceberg; None for anything else."""
    dump = getattr(given, "model_dump_json", None)
    return json.loads(dump()) if callable(dump) else None


def as_schema(described: Any, version: int) -> Schema:
    """Return the schema that a caller describes, for a table of a format version.

    Raises
    ------
    InvalidArgumentError
        If it describes no columns.
    SchemaError
        If an Arrow type has no type in tables.
    """
    if isinstance(described, Schema):
        return described
    document = _json_of(described)
    if document is not None:
        return read_schema(document)
    columns, _ = with_fresh_ids(given_columns(described, version))
    return Schema(columns)


def as_spec(layout: Any) -> PartitionSpec | None:
    """Return the partition spec that a caller describes; None for None.

    Raises
    ------
    InvalidArgumentError
        If it is not a partition spec.
    """
    return _converted(layout, PartitionSpec, read_spec, "partition spec")


def as_order(layout: Any) -> SortOrder | None:
    """Return the sort order that a caller describes; None for None.

    Raises
    ------
    InvalidArgumentError
        If it is not a sort order.
    """
    return _converted(layout, SortOrder, read_sort_order, "sort order")


def _converted(layout: Any, kind: type[_Layout], read: Callable[[Any], _Layout], noun: str) -> _Layout | None:
    if layout is None or isinstance(layout, kind):
        return layout
    document = _json_of(layout)
    if document is None:
        raise InvalidArgumentError(
            f"the {noun} is of type {type(layout).__name__}", hint=f"pass a {kind.__name__} of pyiceberg"
        )
    return read(document)
