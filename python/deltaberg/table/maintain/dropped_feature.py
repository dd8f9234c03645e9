"""The result of `drop_feature`."""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.signatures import public
from deltaberg.table.commit.commit import CommitResult
from deltaberg.whole_numbers import known_sum

__all__ = ["DropFeatureResult"]


@public
@dataclass(frozen=True)
class DropFeatureResult:
    """The result of `drop_feature`, or of its dry run.

    Parameters
    ----------
    feature
        The name of the feature.
    commits
        What was committed, oldest first. The last one took the feature from the protocol. Those before took it out of
        the table, also in attempts that others got in the way of, or have a checkpoint each. None for a dry run.
    dry_run
        Whether nothing was to be changed.
    steps
        What it took, or would take, in the order in which it is done.

    Examples
    --------
    >>> DropFeatureResult("deletionVectors", dry_run=True, steps=("write 3 checkpoints",))
    DropFeatureResult(dry run: deletionVectors, 1 step)
    """

    feature: str
    commits: tuple[CommitResult, ...] = ()
    dry_run: bool = False
    steps: tuple[str, ...] = ()

    @property
    def commit(self) -> CommitResult | None:
        """The commit that took the feature from the protocol; None for a dry run."""
        return self.commits[-1] if self.commits else None

    @property
    def copied_rows(self) -> int | None:
        """How many rows were written anew, as they were; None where nobody counted them, as in a dry run."""
        return None if self.dry_run else known_sum(one.copied_rows for one in self.commits)

    def __repr__(self) -> str:
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return f"DropFeatureResult({'dry run: ' if self.dry_run else ''}{self.feature}, {steps})"
