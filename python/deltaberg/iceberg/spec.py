"""Partition specs and sort orders (Iceberg spec, "Partitioning", "Sorting" and Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import CorruptMetadataError
from deltaberg.iceberg.json_members import field_number, integer, integers, objects, optional, text

__all__ = [
    "PartitionField",
    "PartitionSpec",
    "SortField",
    "SortOrder",
    "read_sort_order",
    "read_spec",
    "read_spec_fields",
]

#: The first id of a partition field.
FIRST_PARTITION_ID = 1000


@dataclass(frozen=True)
class PartitionField:
    """A partition column: ``source_ids`` are the columns that ``transform`` is applied to."""

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: str

    @property
    def source_id(self) -> int:
        """The first source column."""
        return self.source_ids[0]


@dataclass(frozen=True)
class PartitionSpec:
    """How the files that a manifest lists are partitioned."""

    spec_id: int
    fields: tuple[PartitionField, ...] = ()

    @property
    def is_partitioned(self) -> bool:
        """Whether any field can tell files apart: one that is ``void`` is null in all of them."""
        return any(part.transform != "void" for part in self.fields)


@dataclass(frozen=True)
class SortField:
    """A part of a sort order."""

    source_ids: tuple[int, ...]
    transform: str
    direction: str
    null_order: str


@dataclass(frozen=True)
class SortOrder:
    """An order of rows in files; 0 is the order of none."""

    order_id: int
    fields: tuple[SortField, ...] = ()


def read_spec(found: Mapping[str, Any]) -> PartitionSpec:
    """Read a partition spec."""
    return PartitionSpec(
        integer(found, "spec-id", "a partition spec"), read_spec_fields(objects(found, "fields", "a partition spec"))
    )


def read_spec_fields(found: Sequence[Mapping[str, Any]]) -> tuple[PartitionField, ...]:
    """Read the fields of a spec; in version 1 they may lack ids, which then go up from 1000."""
    fields = []
    for number, part in enumerate(found):
        given = optional(part, "field-id", int, "a partition field")
        field_id = FIRST_PARTITION_ID + number if given is None else field_number(given, "field-id")
        name = text(part, "name", "a partition field")
        fields.append(PartitionField(_sources(part), field_id, name, text(part, "transform", "a partition field")))
    ids = [part.field_id for part in fields]
    if len(set(ids)) < len(ids):
        raise CorruptMetadataError("two fields of a partition spec have one id")
    return tuple(fields)


def _sources(part: Mapping[str, Any]) -> tuple[int, ...]:
    several = integers(part, "source-ids", "a field of a spec")
    sources = several or (integer(part, "source-id", "a field of a spec"),)
    return tuple(field_number(source, "the source of a field of a spec") for source in sources)


def read_sort_order(found: Mapping[str, Any]) -> SortOrder:
    """Read a sort order."""
    fields = tuple(_sort_field(part) for part in objects(found, "fields", "a sort order"))
    number = integer(found, "order-id", "a sort order")
    if number == 0 and fields:
        raise CorruptMetadataError("the sort order 0 has fields, and stands for no order")
    return SortOrder(number, fields)


def _sort_field(part: Mapping[str, Any]) -> SortField:
    direction, nulls = text(part, "direction", "a sort field"), text(part, "null-order", "a sort field")
    if direction not in ("asc", "desc") or nulls not in ("nulls-first", "nulls-last"):
        raise CorruptMetadataError(f"a sort field has the direction {direction!r} and the null order {nulls!r}")
    return SortField(_sources(part), text(part, "transform", "a sort field"), direction, nulls)
