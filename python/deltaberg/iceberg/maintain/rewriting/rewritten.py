"""The result of a rewrite of delete files."""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.table.commit.commit import CommitResult

__all__ = ["RewriteDeletesResult"]


@dataclass(frozen=True)
class RewriteDeletesResult:
    """The result of a rewrite of delete files, or of its dry run. A deletion vector counts as a file of its size.

    Parameters
    ----------
    commit
        The commit; None if there was nothing to do, or nothing was to be done.
    dry_run
        Whether nothing was written: then it is not known what would be added.
    removed_files, removed_bytes
        The delete files that were removed, or would be.
    added_files, added_bytes
        Those that took their place.
    data_files
        The data files whose deletes were written anew; of a dry run, those that have to be looked at.
    """

    commit: CommitResult | None = None
    dry_run: bool = False
    removed_files: int = 0
    removed_bytes: int = 0
    added_files: int = 0
    added_bytes: int = 0
    data_files: int = 0

    def __repr__(self) -> str:
        if self.dry_run:
            return (
                f"RewriteDeletesResult(would replace {self.removed_files} delete files that may be about "
                f"{self.data_files} data files)"
            )
        return (
            f"RewriteDeletesResult({self.removed_files} delete files into {self.added_files}, of {self.data_files} "
            "data files)"
        )
