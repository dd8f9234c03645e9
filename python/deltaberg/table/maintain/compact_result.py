"""The result of a compaction, the same for every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltaberg.errors import CommitConflictError
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.maintain.packing import PackedFile, Packing, kept_size, size_of
from deltaberg.whole_numbers import counted, known_sum

__all__ = ["CompactResult", "CompactedGroup", "committed_groups", "expected_group"]


@dataclass(frozen=True)
class CompactedGroup:
    """The outcome of one group of files, or of properties that are set between groups.

    Parameters
    ----------
    files
        How many files were to be put together; 0 where properties are set.
    bytes
        Their sizes in bytes.
    commit
        The commit that replaced them; None if there is none.
    conflict
        Why there is none: another commit changed one of the files, or the table, meanwhile.
    new_files
        How many files they were to become, as far as their sizes tell.
    new_bytes
        The bytes of the new files, as far as the share of deleted rows tells.
    properties
        The properties of the table that the commit sets, if it replaces no files.
    """

    files: int
    bytes: int
    commit: CommitResult | None = None
    conflict: CommitConflictError | None = None
    new_files: int = 0
    new_bytes: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CompactResult:
    """The result of a compaction, or of its dry run, group by group.

    Parameters
    ----------
    groups
        What became of each group, in the order in which they were tried. There is none if no file is worth the work.
    dry_run
        Whether nothing was written: then the numbers are those that are expected.
    """

    groups: tuple[CompactedGroup, ...] = ()
    dry_run: bool = False

    def __repr__(self) -> str:
        counts = f"{counted(self.removed_files, 'file')} into {self.added_files}"
        if self.dry_run:
            return f"CompactResult(would put {counts}, {counted(len(self.groups), 'commit')})"
        left = f", {counted(len(self.conflicts), 'group')} left after conflicts" if self.conflicts else ""
        return f"CompactResult({counts}, {counted(len(self.commits), 'commit')}{left})"

    @property
    def commits(self) -> list[CommitResult]:
        """The commits, oldest first."""
        return [group.commit for group in self.groups if group.commit is not None]

    @property
    def conflicts(self) -> list[CommitConflictError]:
        """Why groups were left as they are, one error for each."""
        return [group.conflict for group in self.groups if group.conflict is not None]

    @property
    def added_files(self) -> int:
        """How many files were added, or would be."""
        return self._sum("new_files", "added_files")

    @property
    def removed_files(self) -> int:
        """How many files were removed, or would be."""
        return self._sum("files", "removed_files")

    @property
    def added_bytes(self) -> int:
        """The size of the added files in bytes."""
        return self._sum("new_bytes", "added_bytes")

    @property
    def removed_bytes(self) -> int:
        """The size of the removed files in bytes."""
        return self._sum("bytes", "removed_bytes")

    @property
    def copied_rows(self) -> int | None:
        """How many rows were written anew, as they were; None where nobody counted them, as in a dry run."""
        return None if self.dry_run else known_sum(commit.copied_rows for commit in self.commits)

    def _sum(self, expected: str, done: str) -> int:
        """Return a sum over what groups expected, or over what their commits did."""
        numbers = (
            [(group, expected) for group in self.groups] if self.dry_run else [(one, done) for one in self.commits]
        )
        return sum(getattr(one, name) for one, name in numbers)


def committed_groups(outcomes: Sequence[CompactedGroup], count: int) -> str | None:
    """Return which of so many groups are committed; None if none is."""
    commits = [group.commit for group in outcomes if group.commit is not None]
    return f"{len(commits)} of {count} groups, the last one as version {commits[-1].version}" if commits else None


def expected_group(group: Sequence[Sequence[PackedFile]], packing: Packing) -> CompactedGroup:
    """Return what a group of bins is, and what it is expected to become."""
    new_files = new_bytes = 0
    for one in group:
        size = kept_size(one)
        new_bytes += size
        new_files += -(-size // packing.target_size) if packing.is_cut(one) else bool(size)
    return CompactedGroup(sum(map(len, group)), sum(map(size_of, group)), new_files=new_files, new_bytes=new_bytes)
