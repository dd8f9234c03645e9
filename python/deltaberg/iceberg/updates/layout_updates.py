"""Changes of the schemas, the partition specs and the sort orders of a table.

Their ids are assigned when they are added: an equal one that is there already is used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import ConstraintViolationError, InvalidArgumentError
from deltaberg.iceberg.metadata.sort_orders import SortOrder, encode_sort_order, read_sort_order
from deltaberg.iceberg.metadata.specs import PartitionSpec, encode_spec, read_spec
from deltaberg.iceberg.metadata.versions import (
    check_columns,
    check_new_names,
    check_order,
    check_spec,
    highest_field_id,
)
from deltaberg.iceberg.schema.schema import Schema, columns_text, encode_schema, read_schema
from deltaberg.iceberg.updates.draft import LAST_ADDED, Draft
from deltaberg.iceberg.updates.update import Update

__all__ = [
    "AddSchema",
    "AddSortOrder",
    "AddSpec",
    "RemovePartitionSpecs",
    "RemoveSchemas",
    "SetCurrentSchema",
    "SetDefaultSortOrder",
    "SetDefaultSpec",
    "by_known_ids",
]


@dataclass(frozen=True)
class AddSchema(Update):
    """Add a schema. It gets the next id, or that of an equal one; `LAST_ADDED` stands for that id afterwards."""

    schema: Schema

    def apply(self, draft: Draft) -> None:
        """Add the schema."""
        check_columns(self.schema, draft.version)
        specs = map(read_spec, draft.listed("partition-specs"))
        check_new_names(self.schema.struct, specs, lambda: _current_schema(draft).struct)
        part, text = encode_schema(self.schema), columns_text(self.schema.struct)

        def same(other: Mapping[str, Any]) -> bool:
            known = read_schema(other)
            if set(known.identifier_field_ids) != set(self.schema.identifier_field_ids):
                return False
            return columns_text(known.struct) == text

        draft.add_numbered("schemas", "schema-id", part, same)
        highest = max(draft.raw.get("last-column-id") or 0, highest_field_id(self.schema.struct))
        draft.raw["last-column-id"] = highest


@dataclass(frozen=True)
class SetCurrentSchema(Update):
    """Choose the schema that new rows are written with."""

    schema_id: int = LAST_ADDED

    def apply(self, draft: Draft) -> None:
        """Choose the schema."""
        draft.choose("current-schema-id", "schemas", "schema-id", self.schema_id, "schema")


@dataclass(frozen=True)
class AddSpec(Update):
    """Add a partition spec. It gets the next id, or that of an equal one."""

    spec: PartitionSpec

    def apply(self, draft: Draft) -> None:
        """Add the spec."""
        check_spec(self.spec, _schema_for(draft), draft.version)
        terms = [(part.source_ids, part.name, part.transform) for part in self.spec.fields]

        def same(other: Mapping[str, Any]) -> bool:
            return [(part.source_ids, part.name, part.transform) for part in read_spec(other).fields] == terms

        draft.add_numbered("partition-specs", "spec-id", encode_spec(self.spec), same)
        highest = max((part.field_id for part in self.spec.fields), default=0)
        draft.raw["last-partition-id"] = max(draft.raw["last-partition-id"], highest)


@dataclass(frozen=True)
class SetDefaultSpec(Update):
    """Choose the partition spec of new files."""

    spec_id: int = LAST_ADDED

    def apply(self, draft: Draft) -> None:
        """Choose the spec."""
        draft.choose("default-spec-id", "partition-specs", "spec-id", self.spec_id, "partition spec")


@dataclass(frozen=True)
class AddSortOrder(Update):
    """Add a sort order. It gets the next id, or that of an equal one; one without fields has the id 0."""

    sort_order: SortOrder

    def apply(self, draft: Draft) -> None:
        """Add the sort order."""
        check_order(self.sort_order, _schema_for(draft))
        fields = self.sort_order.fields
        if self.sort_order.order_id == 0 and fields:
            raise InvalidArgumentError("the sort order 0 means unsorted, but has fields")

        def same(other: Mapping[str, Any]) -> bool:
            return read_sort_order(other).fields == fields

        part = encode_sort_order(self.sort_order)
        if fields:
            draft.add_numbered("sort-orders", "order-id", part, same, first=1)
        else:
            # The order without fields has this id whatever other orders there are.
            known = draft.find("sort-orders", "order-id", 0)
            if known is None or known.get("fields"):
                draft.keep("sort-orders", lambda other: other.get("order-id") != 0)
                draft.append("sort-orders", {**part, "order-id": 0})
            draft.added["sort-orders"] = 0


@dataclass(frozen=True)
class SetDefaultSortOrder(Update):
    """Choose the sort order of new files."""

    sort_order_id: int = LAST_ADDED

    def apply(self, draft: Draft) -> None:
        """Choose the sort order."""
        draft.choose("default-sort-order-id", "sort-orders", "order-id", self.sort_order_id, "sort order")


@dataclass(frozen=True)
class RemovePartitionSpecs(Update):
    """Remove partition specs that no manifest uses any more."""

    spec_ids: tuple[int, ...]

    def apply(self, draft: Draft) -> None:
        """Remove those of the specs that are there."""
        if draft.raw["default-spec-id"] in self.spec_ids:
            raise ConstraintViolationError("the default partition spec cannot be removed")
        draft.keep("partition-specs", lambda part: part["spec-id"] not in self.spec_ids)


@dataclass(frozen=True)
class RemoveSchemas(Update):
    """Remove schemas that no snapshot uses any more."""

    schema_ids: tuple[int, ...]

    def apply(self, draft: Draft) -> None:
        """Remove those of the schemas that are there."""
        if draft.raw["current-schema-id"] in self.schema_ids:
            raise ConstraintViolationError("the current schema cannot be removed")
        draft.keep("schemas", lambda part: (part.get("schema-id") or 0) not in self.schema_ids)


#: Where each of these changes keeps what it adds, the member of its number, and the change that chooses it.
_ADDING: dict[type[Update], tuple[str, str, type[SetCurrentSchema | SetDefaultSpec | SetDefaultSortOrder]]] = {
    AddSchema: ("schemas", "schema-id", SetCurrentSchema),
    AddSpec: ("partition-specs", "spec-id", SetDefaultSpec),
    AddSortOrder: ("sort-orders", "order-id", SetDefaultSortOrder),
}


def by_known_ids(updates: Iterable[Update], draft: Draft) -> list[Update]:
    """Return changes that choose by its id what the table has already, and do not add it again.

    Java's servers take an equal schema, partition spec or sort order for the one that they have, and then know of none
    that was added last.

    Parameters
    ----------
    draft
        The metadata that the changes are made to. It is changed.
    """
    kept: list[Update] = []
    new: dict[str, set[int]] = {name: set() for name, _, _ in _ADDING.values()}
    #: What chooses the object that was added last, and what chooses it by its id instead.
    chosen: dict[str, tuple[Update, Update]] = {}
    for update in updates:
        if type(update) not in _ADDING:
            update.apply(draft)
            kept.append(next((known for last, known in chosen.values() if update == last), update))
            continue
        name, key, choosing = _ADDING[type(update)]
        before = {part.get(key) or 0 for part in draft.listed(name)} - new[name]
        update.apply(draft)
        number = draft.added[name]
        if number in before:
            chosen[name] = (choosing(), choosing(number))
        else:
            chosen.pop(name, None)
            new[name].add(number)
            kept.append(update)
    return kept


def _schema_for(draft: Draft) -> Schema:
    """Return the schema that specs and sort orders are to fit: the one that was just added, or the current one."""
    return _numbered(draft, draft.added.get("schemas", draft.raw["current-schema-id"]))


def _current_schema(draft: Draft) -> Schema:
    return _numbered(draft, draft.raw["current-schema-id"])


def _numbered(draft: Draft, number: int) -> Schema:
    return read_schema(draft.find("schemas", "schema-id", number))
