"""Sort orders: read from JSON, and written back without loss (Iceberg spec, "Sorting" and Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.metadata.specs import encode_term, read_sources
from deltaberg.iceberg.schema.json_members import edited, integer, objects, text

__all__ = ["SortField", "SortOrder", "encode_sort_order", "read_sort_order"]

_WHAT = "a sort order"


@dataclass(frozen=True)
class SortField:
    """One term of a sort order. ``raw`` is the JSON object that it was read from."""

    source_ids: tuple[int, ...]
    transform: str
    direction: str
    null_order: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class SortOrder:
    """An order of rows in files; the one with the id 0 means unsorted.

    ``raw`` is the JSON object that it was read from, without its fields.
    """

    order_id: int
    fields: tuple[SortField, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def read_sort_order(raw: Mapping[str, Any]) -> SortOrder:
    """Read a sort order."""
    fields = tuple(_read_field(part) for part in objects(raw, "fields", _WHAT))
    number = integer(raw, "order-id", _WHAT)
    if number == 0 and fields:
        raise CorruptMetadataError("the sort order 0 means unsorted, but has fields")
    return SortOrder(number, fields, {name: value for name, value in raw.items() if name != "fields"})


def _read_field(raw: Mapping[str, Any]) -> SortField:
    what = "a sort field"
    direction, nulls = text(raw, "direction", what), text(raw, "null-order", what)
    if direction not in ("asc", "desc") or nulls not in ("nulls-first", "nulls-last"):
        raise CorruptMetadataError(f"a sort field has the direction {direction!r} and the null order {nulls!r}")
    return SortField(read_sources(raw), text(raw, "transform", what), direction, nulls, raw)


def encode_sort_order(order: SortOrder) -> dict[str, Any]:
    """Return the JSON object of a sort order: exactly the one that it was read from, but for what has changed since.

    Examples
    --------
    >>> encode_sort_order(SortOrder(0))
    {'order-id': 0, 'fields': []}
    """
    was = {"order-id": integer(order.raw, "order-id", _WHAT)} if order.raw else {}
    fields = [encode_term(part, _read_field(part.raw) if part.raw else None) for part in order.fields]
    return {**edited(order.raw, {"order-id": order.order_id}, was), "fields": fields}
