"""Requirements that must still hold when a change is committed (Iceberg REST specification, ``TableRequirement``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from deltaberg.errors import CommitConflictError, MetadataChangedError, TableExistsError
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING
from deltaberg.iceberg.updates import updates as changes
from deltaberg.iceberg.updates.update import json_members, protocol_name

__all__ = [
    "AssertCreate",
    "AssertNumber",
    "AssertRefSnapshotId",
    "AssertTableUUID",
    "Requirement",
    "check_requirements",
    "requirements_of",
]

#: The attributes of metadata that hold the numbers which can be required.
_NUMBERS = {
    "last-assigned-field-id": "last_column_id",
    "last-assigned-partition-id": "last_partition_id",
    "current-schema-id": "current_schema_id",
    "default-spec-id": "default_spec_id",
    "default-sort-order-id": "default_sort_order_id",
}
#: The numbers that must still be the same, by the changes that assign the next one or choose among them.
_GUARDED: dict[type[changes.Update], str] = {
    changes.AddSchema: "last-assigned-field-id",
    changes.SetCurrentSchema: "current-schema-id",
    changes.RemoveSchemas: "current-schema-id",
    changes.AddSpec: "last-assigned-partition-id",
    changes.SetDefaultSpec: "default-spec-id",
    changes.RemovePartitionSpecs: "default-spec-id",
    changes.SetDefaultSortOrder: "default-sort-order-id",
}


@dataclass(frozen=True)
class Requirement(ABC):
    """Something that must hold of the table that a change is committed to."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the requirement."""
        return {"type": protocol_name(self), **json_members(self)}

    @abstractmethod
    def check(self, metadata: TableMetadata) -> None:
        """Raise an error if the requirement does not hold of a table."""


@dataclass(frozen=True)
class AssertCreate(Requirement):
    """There is no table yet."""

    def check(self, metadata: TableMetadata) -> None:
        """Refuse any table."""
        raise TableExistsError("there is a table already")


@dataclass(frozen=True)
class AssertTableUUID(Requirement):
    """The table is still the same one."""

    uuid: str

    def check(self, metadata: TableMetadata) -> None:
        """Compare the id of the table."""
        if (metadata.table_uuid or "").lower() != self.uuid.lower():
            raise CommitConflictError(
                f"the table-uuid is {metadata.table_uuid}, not {self.uuid}: this is another table"
            )


@dataclass(frozen=True)
class AssertRefSnapshotId(Requirement):
    """A branch or a tag still names a snapshot; with None, there is no such branch or tag yet."""

    ref: str
    snapshot_id: int | None

    def check(self, metadata: TableMetadata) -> None:
        """Compare the snapshot of the reference."""
        found = metadata.all_refs.get(self.ref)
        number = None if found is None else found.snapshot_id
        if number != self.snapshot_id:
            raise CommitConflictError(f"the reference {self.ref} names the snapshot {number}, not {self.snapshot_id}")


@dataclass(frozen=True)
class AssertNumber(Requirement):
    """A number in the metadata is still the same, such as ``current-schema-id``: nobody chose or added another."""

    member: str
    number: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the requirement, which is named by the number."""
        return {"type": f"assert-{self.member}", self.member: self.number}

    def check(self, metadata: TableMetadata) -> None:
        """Compare the number."""
        found: int | None = getattr(metadata, _NUMBERS[self.member])
        if found is not None and found != self.number:
            raise MetadataChangedError(f"{self.member} is {found}, not {self.number}: another commit changed the table")


def check_requirements(metadata: TableMetadata | None, requirements: Iterable[Requirement]) -> None:
    """Check that a change fits the newest metadata of a table; None if there is no table.

    Raises
    ------
    CommitConflictError
        If a requirement does not hold. `MetadataChangedError` says that schemas, specs or sort orders have changed.
    TableExistsError
        If a table is to be created where there is one.
    """
    for requirement in requirements:
        if metadata is not None:
            requirement.check(metadata)
        elif not isinstance(requirement, AssertCreate):
            raise CommitConflictError("there is no table any more")


def requirements_of(metadata: TableMetadata, updates: Iterable[changes.Update]) -> list[Requirement]:
    """Return what must hold so that no commit in between is overwritten by changes that were made for a table.

    Each list of ids is guarded where a change assigns one or chooses among them, and each reference that moves.
    """
    requirements: dict[Requirement, None] = {}
    if metadata.table_uuid is not None:
        requirements[AssertTableUUID(metadata.table_uuid)] = None
    for update in updates:
        requirements.update(dict.fromkeys(_requirements_of(metadata, update)))
    return list(requirements)


def _requirements_of(metadata: TableMetadata, update: changes.Update) -> Iterator[Requirement]:
    is_mapping = isinstance(update, changes.SetProperties) and NAME_MAPPING in update.updates
    # A name mapping says by which names the columns are found, as they are.
    member = "current-schema-id" if is_mapping else _GUARDED.get(type(update))
    number: int | None = None if member is None else getattr(metadata, _NUMBERS[member])
    if member is not None and number is not None:
        yield AssertNumber(member, number)
    if isinstance(update, (changes.SetSnapshotRef, changes.RemoveSnapshotRef)):
        ref = metadata.all_refs.get(update.ref_name)
        yield AssertRefSnapshotId(update.ref_name, None if ref is None else ref.snapshot_id)
    if isinstance(update, (changes.RemoveSchemas, changes.RemovePartitionSpecs, changes.RemoveSnapshots)):
        # A branch that moved meanwhile may use what is removed.
        for name, ref in metadata.all_refs.items():
            yield AssertRefSnapshotId(name, ref.snapshot_id)
