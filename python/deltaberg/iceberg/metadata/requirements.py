"""What must still hold when a change is committed (Iceberg REST specification, ``TableRequirement``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from deltaberg.errors import CommitConflictError, MetadataChangedError, TableExistsError
from deltaberg.iceberg.metadata import updates as changes
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.name_mapping import NAME_MAPPING

__all__ = [
    "AssertCreate",
    "AssertCurrentSchemaId",
    "AssertDefaultSortOrderId",
    "AssertDefaultSpecId",
    "AssertLastAssignedFieldId",
    "AssertLastAssignedPartitionId",
    "AssertRefSnapshotId",
    "AssertTableUUID",
    "Requirement",
    "check_requirements",
    "requirements_of",
]


class Requirement(ABC):
    """Something that must hold of the table that a change is committed to."""

    #: The name of the requirement in the protocol.
    type: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the requirement."""
        return {"type": self.type, **self._members()}

    @abstractmethod
    def _members(self) -> dict[str, Any]:
        """Return the members beside the name."""

    @abstractmethod
    def check(self, metadata: TableMetadata) -> None:
        """Raise an error if the requirement does not hold of a table."""


@dataclass(frozen=True)
class AssertCreate(Requirement):
    """There is no table yet."""

    type = "assert-create"

    def _members(self) -> dict[str, Any]:
        return {}

    def check(self, metadata: TableMetadata) -> None:
        """Refuse any table."""
        raise TableExistsError("there is a table already", table=metadata.location)


@dataclass(frozen=True)
class AssertTableUUID(Requirement):
    """The table is still the same one."""

    type = "assert-table-uuid"
    uuid: str

    def _members(self) -> dict[str, Any]:
        return {"uuid": self.uuid}

    def check(self, metadata: TableMetadata) -> None:
        """Compare the id of the table."""
        if (metadata.table_uuid or "").lower() != self.uuid.lower():
            raise CommitConflictError(
                f"the table-uuid is {metadata.table_uuid}, not {self.uuid}: this is another table",
                table=metadata.location,
            )


@dataclass(frozen=True)
class AssertRefSnapshotId(Requirement):
    """A branch or a tag still names a snapshot; with None, there is no such branch or tag yet."""

    type = "assert-ref-snapshot-id"
    ref: str
    snapshot_id: int | None

    def _members(self) -> dict[str, Any]:
        return {"ref": self.ref, "snapshot-id": self.snapshot_id}

    def check(self, metadata: TableMetadata) -> None:
        """Compare the snapshot of the reference."""
        found = metadata.all_refs.get(self.ref)
        number = None if found is None else found.snapshot_id
        if number != self.snapshot_id:
            raise CommitConflictError(
                f"the reference {self.ref} names the snapshot {number}, not {self.snapshot_id}", table=metadata.location
            )


class _Number(Requirement):
    """A number in the metadata is still the same."""

    member: ClassVar[str]
    #: The attribute of the metadata.
    attribute: ClassVar[str]
    number: int

    def _members(self) -> dict[str, Any]:
        return {self.member: self.number}

    def check(self, metadata: TableMetadata) -> None:
        """Compare the number."""
        found: int | None = getattr(metadata, self.attribute)
        if found is not None and found != self.number:
            raise MetadataChangedError(
                f"{self.member} is {found}, not {self.number}: another commit changed the table",
                table=metadata.location,
            )


@dataclass(frozen=True)
class AssertLastAssignedFieldId(_Number):
    """No column was added."""

    type = "assert-last-assigned-field-id"
    member = "last-assigned-field-id"
    attribute = "last_column_id"
    number: int


@dataclass(frozen=True)
class AssertCurrentSchemaId(_Number):
    """The current schema is still the same one."""

    type = "assert-current-schema-id"
    member = "current-schema-id"
    attribute = "current_schema_id"
    number: int


@dataclass(frozen=True)
class AssertLastAssignedPartitionId(_Number):
    """No partition field was added."""

    type = "assert-last-assigned-partition-id"
    member = "last-assigned-partition-id"
    attribute = "last_partition_id"
    number: int


@dataclass(frozen=True)
class AssertDefaultSpecId(_Number):
    """The default partition spec is still the same one."""

    type = "assert-default-spec-id"
    member = "default-spec-id"
    attribute = "default_spec_id"
    number: int


@dataclass(frozen=True)
class AssertDefaultSortOrderId(_Number):
    """The default sort order is still the same one."""

    type = "assert-default-sort-order-id"
    member = "default-sort-order-id"
    attribute = "default_sort_order_id"
    number: int


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
    found: dict[Requirement, None] = {}
    if metadata.table_uuid is not None:
        found[AssertTableUUID(metadata.table_uuid)] = None
    for update in updates:
        found.update(dict.fromkeys(_requirements_of(metadata, update)))
    return list(found)


def _requirements_of(metadata: TableMetadata, update: changes.Update) -> Iterator[Requirement]:
    if isinstance(update, changes.AddSchema) and metadata.last_column_id is not None:
        yield AssertLastAssignedFieldId(metadata.last_column_id)
    elif isinstance(update, (changes.SetCurrentSchema, changes.RemoveSchemas)):
        yield AssertCurrentSchemaId(metadata.current_schema_id)
    elif isinstance(update, changes.AddSpec) and metadata.last_partition_id is not None:
        yield AssertLastAssignedPartitionId(metadata.last_partition_id)
    elif isinstance(update, (changes.SetDefaultSpec, changes.RemovePartitionSpecs)):
        yield AssertDefaultSpecId(metadata.default_spec_id)
    elif isinstance(update, changes.SetDefaultSortOrder):
        yield AssertDefaultSortOrderId(metadata.default_sort_order_id)
    elif isinstance(update, changes.SetProperties) and NAME_MAPPING in update.updates:
        # It says by which names the columns are found, as they are.
        yield AssertCurrentSchemaId(metadata.current_schema_id)
    elif isinstance(update, (changes.SetSnapshotRef, changes.RemoveSnapshotRef)):
        ref = metadata.all_refs.get(update.ref_name)
        yield AssertRefSnapshotId(update.ref_name, None if ref is None else ref.snapshot_id)
    if isinstance(update, (changes.RemoveSchemas, changes.RemovePartitionSpecs, changes.RemoveSnapshots)):
        # A branch that moved meanwhile may use what is removed.
        for name, ref in metadata.all_refs.items():
            yield AssertRefSnapshotId(name, ref.snapshot_id)
