"""Partition specs: read from JSON, and written back without loss (Iceberg spec, "Partitioning" and Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltaberg.errors import CorruptMetadataError, InvalidArgumentError
from deltaberg.iceberg.schema.json_members import (
    edited,
    field_number,
    integer,
    integers,
    members_of,
    objects,
    optional,
    text,
)

__all__ = [
    "PartitionField",
    "PartitionSpec",
    "check_known_spec",
    "encode_spec",
    "encode_term",
    "read_sources",
    "read_spec",
    "read_spec_fields",
]

#: The first id of a partition field.
FIRST_PARTITION_ID = 1000
_WHAT = "a partition spec"


@dataclass(frozen=True)
class PartitionField:
    """A partition column: ``transform`` is applied to the columns ``source_ids``.

    ``raw`` is the JSON object that it was read from.
    """

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def source_id(self) -> int:
        """The first source column."""
        return self.source_ids[0]


@dataclass(frozen=True)
class PartitionSpec:
    """The partitioning of the files of a manifest.

    ``raw`` is the JSON object that it was read from, without its fields.
    """

    spec_id: int
    fields: tuple[PartitionField, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_partitioned(self) -> bool:
        """Whether any field can tell files apart: one whose transform is ``void`` is null in all of them."""
        return any(part.transform != "void" for part in self.fields)


def check_known_spec(specs: Mapping[int, PartitionSpec], spec_id: int | None) -> None:
    """Refuse the id of a partition spec that a table does not have.

    Raises
    ------
    InvalidArgumentError
        There is no such spec.
    """
    if spec_id is not None and spec_id not in specs:
        known = ", ".join(str(number) for number in sorted(specs))
        raise InvalidArgumentError(f"the table has no partition spec {spec_id}", hint=f"it has {known}")


def read_spec(found: Mapping[str, Any]) -> PartitionSpec:
    """Read a partition spec."""
    raw = {name: value for name, value in found.items() if name != "fields"}
    return PartitionSpec(integer(found, "spec-id", _WHAT), read_spec_fields(objects(found, "fields", _WHAT)), raw)


def read_spec_fields(found: Sequence[Mapping[str, Any]]) -> tuple[PartitionField, ...]:
    """Read the fields of a spec; in version 1 they may lack ids, which are then assigned from 1000 on."""
    fields = tuple(_read_field(part, number) for number, part in enumerate(found))
    ids = [part.field_id for part in fields]
    if len(set(ids)) < len(ids):
        raise CorruptMetadataError("two fields of a partition spec have the same id")
    return fields


def _read_field(raw: Mapping[str, Any], number: int) -> PartitionField:
    what = "a partition field"
    recorded = optional(raw, "field-id", int, what)
    field_id = FIRST_PARTITION_ID + number if recorded is None else field_number(recorded, "field-id")
    return PartitionField(read_sources(raw), field_id, text(raw, "name", what), text(raw, "transform", what), raw)


def read_sources(found: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the source columns of a partition or sort field: ``source-ids``, or else ``source-id``."""
    several = integers(found, "source-ids", "a field of a spec")
    sources = several or (integer(found, "source-id", "a field of a spec"),)
    return tuple(field_number(source, "the source of a field of a spec") for source in sources)


def encode_spec(spec: PartitionSpec) -> dict[str, Any]:
    """Return the JSON object of a spec: exactly the one that it was read from, but for what has changed since.

    Its ``fields`` are what ``partition-spec`` holds in metadata of version 1.

    Examples
    --------
    >>> encode_spec(PartitionSpec(1, (PartitionField((4,), 1000, "day", "day"),)))["fields"]
    [{'source-id': 4, 'field-id': 1000, 'name': 'day', 'transform': 'day'}]
    """
    was = {"spec-id": integer(spec.raw, "spec-id", _WHAT)} if spec.raw else {}
    known = [_read_field(part.raw, number) if part.raw else None for number, part in enumerate(spec.fields)]
    fields = list(map(encode_term, spec.fields, known))
    return {**edited(spec.raw, {"spec-id": spec.spec_id}, was), "fields": fields}


def encode_term(part: Any, was: Any) -> dict[str, Any]:
    """Return the JSON object of a partition or sort field.

    Parameters
    ----------
    was
        What was read from the JSON object of the field; None if it has none.
    """
    now = {name: value for name, value in members_of(part).items() if name != "source-ids"}
    return edited(_encode_sources(part.raw, part.source_ids), now, {} if was is None else members_of(was))


def _encode_sources(raw: Mapping[str, Any], sources: Sequence[int]) -> dict[str, Any]:
    """Return the JSON object of a partition or sort field with its source columns set."""
    if raw and read_sources(raw) == tuple(sources):
        return dict(raw)
    own: dict[str, Any] = {"source-id": sources[0]} if len(sources) == 1 else {"source-ids": list(sources)}
    return own | {name: value for name, value in raw.items() if name not in ("source-id", "source-ids")}
