"""Changes of the metadata of a table that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.updates.updates import RemoveSnapshotRef, SetSnapshotRef, Update, apply_updates

__all__ = ["MetadataChanges"]


@dataclass(frozen=True)
class MetadataChanges:
    """Changes, and the metadata as they leave it. A further change makes another object.

    Parameters
    ----------
    metadata
        The metadata with all changes.
    updates
        The changes.
    before_columns
        What there was before the last change, if that is one of columns, and how many files had been written by then.
    """

    metadata: TableMetadata
    updates: tuple[Update, ...] = ()
    before_columns: tuple[MetadataChanges, int] | None = None

    def then(self, updates: Sequence[Update], now_ms: int) -> MetadataChanges:
        """Return the changes with further ones.

        Raises
        ------
        InvalidArgumentError, SchemaError, ConstraintViolationError
            A change is not allowed, or names what the table does not have.
        """
        return MetadataChanges(apply_updates(self.metadata, updates, now_ms=now_ms), (*self.updates, *updates))

    def on_top_of(self, newest: TableMetadata) -> list[Update]:
        """Return the updates for metadata that others have changed, without branches and tags that are left alone."""
        removed: set[str] = set()
        left: list[Update] = []
        for one in self.updates:
            if isinstance(one, RemoveSnapshotRef):
                removed.add(one.ref_name)
            # What was removed before is not that of others.
            if not (isinstance(one, SetSnapshotRef) and one.ref_name not in removed and one.is_left(newest)):
                left.append(one)
        return left

    def without_columns(self, files: int) -> MetadataChanges:
        """Return the changes that another change of columns follows on: it takes the place of one that came last.

        So a hundred new columns are one new schema. Once files were written, the columns that they have stay.

        Parameters
        ----------
        files
            How many files have been written.
        """
        before, known = self.before_columns or (self, files)
        return before if known == files else self
