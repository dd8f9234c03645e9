"""The result of `drop_feature`."""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.signatures import public
from deltaberg.table.commit.commit import CommitResult

__all__ = ["DropFeatureResult"]


@public
@dataclass(frozen=True)
class DropFeatureResult:
    """The result of `drop_feature`, or of its dry run.

    Parameters
    ----------
    feature
        The name of the feature.
    commit
        The commit that took it from the protocol; None for a dry run.
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
    commit: CommitResult | None = None
    dry_run: bool = False
    steps: tuple[str, ...] = ()

    def __repr__(self) -> str:
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return f"DropFeatureResult({'dry run: ' if self.dry_run else ''}{self.feature}, {steps})"
