"""Where the snapshot of a transaction goes: to a branch, or to none until it is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.snapshot_refs import MAIN, SnapshotRef
from deltaberg.iceberg.metadata.snapshots import Snapshot
from deltaberg.iceberg.transaction.summary import is_recorded
from deltaberg.iceberg.updates.application_progress import ApplicationProgress
from deltaberg.iceberg.updates.requirements import Requirement, requirements_of
from deltaberg.iceberg.updates.updates import SetSnapshotRef, Update
from deltaberg.table.arguments import checked_properties, refuse_recorded
from deltaberg.table.commit.commit_options import CommitOptions

__all__ = ["PUBLISHED", "SOURCE", "WAP_BRANCH", "WAP_ID", "SnapshotTarget"]

#: What summaries of snapshots call the id under which one is staged, and under which one was published.
WAP_ID, PUBLISHED = "wap.id", "published-wap-id"
#: What they call the snapshot that one was picked from.
SOURCE = "source-snapshot-id"
#: The property of a commit that names the branch that gets the rows.
WAP_BRANCH = "wap.branch"


@dataclass(frozen=True)
class SnapshotTarget:
    """The branch that gets the snapshot of a transaction, and what its summary says besides numbers.

    Parameters
    ----------
    branch
        The branch that the snapshot follows on.
    summary
        What the caller adds to the summary, and the library itself beside numbers.
    is_staged
        Whether no branch gets the snapshot.
    is_created
        Whether the branch may be new; then it begins with the newest snapshot of the table.
    progress
        What the table records with the snapshot, or without one where no rows change; None if nothing.
    """

    branch: str
    summary: Mapping[str, str]
    is_staged: bool = False
    is_created: bool = False
    progress: ApplicationProgress | None = None

    @classmethod
    def of(
        cls, metadata: TableMetadata, options: CommitOptions, records: Mapping[str, str] | None = None
    ) -> SnapshotTarget:
        """Return the target that the options of a commit ask for. The library adds its own records to the summary.

        Raises
        ------
        InvalidArgumentError
            The table has no such branch, or what is asked for contradicts itself.
        """
        requested, kept = options.branch, checked_properties(options.properties or {})
        for name, value in kept.items():
            if not isinstance(value, str):
                raise InvalidArgumentError(
                    f"the property {name!r} is {shown_value(value)}, which is not text",
                    hint="pass strings, such as '4'",
                )
        refuse_recorded(filter(is_recorded, kept))
        branch = MAIN if requested is None else requested
        wap_branch = kept.pop(WAP_BRANCH, None)
        if wap_branch is not None:
            if requested not in (None, wap_branch):
                raise InvalidArgumentError(
                    f"{WAP_BRANCH} is {wap_branch!r}, but the branch is {requested!r}",
                    hint="choose one place for the new rows",
                )
            if not wap_branch or WAP_ID in kept:
                raise InvalidArgumentError(
                    f"{WAP_BRANCH} is {wap_branch!r}, which is empty, or named beside {WAP_ID}",
                    hint="choose one place for the new rows",
                )
            branch = wap_branch
        ref = metadata.all_refs.get(branch)
        if ref is not None and ref.type != "branch":
            raise InvalidArgumentError(
                f"{branch!r} is a {ref.type}, whose snapshot no commit changes",
                hint="name a branch; to have the tag name another snapshot, drop it by ⟪alter().drop_tag()⟫ and create "
                "it again",
            )
        if ref is None and branch != MAIN and wap_branch is None:
            raise InvalidArgumentError(
                f"the table has no branch {branch!r}", hint="create it first, with ⟪alter().create_branch(name)⟫"
            )
        progress = None if options.txn is None else ApplicationProgress(*options.txn, branch)
        summary = {**kept, **(records or {}), **({} if progress is None else progress.summary)}
        return cls(branch, summary, WAP_ID in kept, wap_branch is not None, progress)

    def is_done(self, metadata: TableMetadata) -> bool:
        """Return whether the table records the progress, or a later one."""
        return self.progress is not None and self.progress.is_recorded(metadata, self.parent(metadata))

    @property
    def updates(self) -> list[Update]:
        """The changes of the table beside those of rows."""
        return [] if self.progress is None else [self.progress.update]

    def held(self, base: TableMetadata) -> list[Requirement]:
        """Return what must hold so that progress is recorded on top of what others have recorded."""
        current = self.newest(base)
        return [] if self.progress is None or current is None else requirements_of(base, self.moves(base, current))

    def parent(self, metadata: TableMetadata) -> Snapshot | None:
        """Return the snapshot that the new one follows on; None if there is none."""
        is_new = self.is_created and self.branch not in metadata.all_refs
        return metadata.snapshot_of_ref(MAIN if is_new else self.branch)

    def newest(self, metadata: TableMetadata) -> int | None:
        """Return the id of the snapshot that the branch is at; None if there is none."""
        found = self.parent(metadata)
        return None if found is None else found.snapshot_id

    def moves(self, base: TableMetadata, snapshot_id: int) -> list[SetSnapshotRef]:
        """Return the change of the branch that makes a snapshot its newest; none if the snapshot is staged."""
        if self.is_staged:
            return []
        ref = base.all_refs.get(self.branch) or SnapshotRef(snapshot_id, "branch")
        return [SetSnapshotRef(self.branch, replace(ref, snapshot_id=snapshot_id))]
