"""Maintenance: what a table needs to stay in order, step by step in the safe order, and one report of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

from deltaberg.choices import MaintenanceStep
from deltaberg.errors import DeltabergError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.hints import Hint
from deltaberg.signatures import public
from deltaberg.table.arguments import checked_choice, checked_hours, checked_number, checked_texts
from deltaberg.table.maintain.cleanup import CleanupProgress
from deltaberg.table.maintain.compact_result import CompactResult
from deltaberg.table.maintain.packing import Packing
from deltaberg.table.rows.progress import WriteProgress
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.rows.shown_progress import shown_while
from deltaberg.telemetry import span

if TYPE_CHECKING:
    from deltaberg.table.maintain.compact import Compaction

__all__ = [
    "MaintainedStep",
    "MaintenancePolicy",
    "MaintenanceProgress",
    "MaintenanceResult",
    "OnMaintenanceProgress",
    "OnStep",
    "Step",
    "compaction_step",
    "maintain_table",
]


@public
@dataclass(frozen=True, kw_only=True)
class MaintenancePolicy:
    """What a table needs, as `maintain` takes it. The bounds of each step are those of the verb of its name.

    Parameters
    ----------
    steps
        The steps that are taken, whatever their order here; None for all that tables of the format have.
    min_files
        How many small files of a partition, or small manifests, must become one at least; fewer files do if it has more
        than half of the target size. Files of half that size stay.
    max_deleted
        Files with a larger share of deleted rows are rewritten.
    target_file_size
        Bytes of a new file; None for what the table says.
    retention_hours
        How long files stay that the table has removed; None for what the table says.
    max_commits
        After how many commits since the newest checkpoint there is to be another one.

    Raises
    ------
    InvalidArgumentError
        There is no such step, or a number is out of its range.
    """

    steps: MaintenanceStep | Iterable[MaintenanceStep] | None = None
    min_files: int = 5
    max_deleted: float = 0.05
    target_file_size: int | None = None
    retention_hours: float | None = None
    max_commits: int = 10

    def __post_init__(self) -> None:
        if self.steps is not None:
            steps = checked_texts("steps", self.steps, "names of steps", "leave it out for all")
            if not steps:
                raise InvalidArgumentError(Hint("⟪steps⟫ names no step"), hint="leave it out for all")
            for step in steps:
                checked_choice("a step", step, get_args(MaintenanceStep), "leave steps out for all")
            object.__setattr__(self, "steps", tuple(steps))
        # What is wrong is told before anything is done.
        rows = RowOptions(target_file_size=self.target_file_size)
        object.__setattr__(self, "target_file_size", rows.target_file_size)
        Packing(rows.target_file_size or 1, self.min_files, self.max_deleted)
        if self.retention_hours is not None:
            object.__setattr__(self, "retention_hours", checked_hours("retention_hours", self.retention_hours))
        number = checked_number("max_commits", self.max_commits, 1, "pass a number of commits")
        object.__setattr__(self, "max_commits", number)


class MaintenanceProgress(NamedTuple):
    """How far a maintenance has come.

    Parameters
    ----------
    step
        The step that is taken.
    done
        What its verb tells: a `WriteProgress` if it writes data files, a `CleanupProgress` if it deletes files. None
        when the step begins.
    """

    step: MaintenanceStep
    done: WriteProgress | CleanupProgress | None


#: What is told how far a maintenance has come. An exception ends it.
OnMaintenanceProgress: TypeAlias = Callable[[MaintenanceProgress], object]
#: What the verb of a step tells how far it is; None if nobody asks.
OnStep: TypeAlias = "Callable[[Any], object] | None"


@dataclass(frozen=True)
class MaintainedStep:
    """The outcome of one step of a maintenance.

    Parameters
    ----------
    step
        Its name.
    is_due
        Whether there was something to do.
    numbers
        What was done, or would be: counts and bytes by their names.
    why
        Why nothing was done where the table needs it, such as a conflict, or does not want it.
    result
        What the verb of the step returned; None if it was not called.
    seconds
        The time that it took.
    """

    step: MaintenanceStep
    is_due: bool
    numbers: Mapping[str, int] = field(default_factory=dict)
    why: str = ""
    result: Any = field(default=None, repr=False)
    seconds: float = 0.0


@dataclass(frozen=True)
class MaintenanceResult:
    """The result of a maintenance, or of its dry run.

    Parameters
    ----------
    steps
        What became of each step, in their order.
    dry_run
        Whether nothing was changed. The steps are judged by the table as it is then, though an earlier one may give
        a later one more to do.
    """

    steps: tuple[MaintainedStep, ...] = ()
    dry_run: bool = True

    def __getitem__(self, step: MaintenanceStep) -> MaintainedStep:
        """Return the outcome of a step, by its name."""
        for one in self.steps:
            if one.step == step:
                return one
        raise KeyError(step)

    @property
    def is_due(self) -> bool:
        """Whether there was anything to do."""
        return any(one.is_due for one in self.steps)

    @property
    def lines(self) -> list[str]:
        """A line for each step, for people."""
        lines = []
        for one in self.steps:
            numbers = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in one.numbers.items())
            said = numbers if one.is_due else "nothing to do"
            lines.append(f"{one.step}: {said}" + (f" ({one.why})" if one.why else ""))
        return lines

    def __repr__(self) -> str:
        return f"MaintenanceResult({'would do: ' if self.dry_run else ''}{'; '.join(self.lines)})"


#: What takes a step, or only looks what it would do if it is called with True, and tells how far it is.
Step = Callable[[bool, OnStep], MaintainedStep]


def maintain_table(
    steps: Mapping[MaintenanceStep, Step],
    policy: MaintenancePolicy,
    *,
    dry_run: bool,
    progress: OnMaintenanceProgress | bool | None = None,
) -> MaintenanceResult:
    """Take the steps that a policy asks for, one after the other.

    Parameters
    ----------
    steps
        The steps that the format has, in the safe order.

    Raises
    ------
    UnsupportedFeatureError
        Tables of the format have no such step.
    DeltabergError
        A step failed. The fact ``maintained`` names the steps that were taken before; those after it are not.
    """
    asked = [*(policy.steps or ()), *(["vacuum"] if policy.retention_hours is not None else [])]
    unknown = next((one for one in asked if one not in steps), None)
    if unknown is not None:
        raise UnsupportedFeatureError(
            f"tables of this format have no {unknown}",
            hint=f"leave it out of the policy; there are the steps {', '.join(steps)}",
            feature=unknown,
        )
    done: list[MaintainedStep] = []
    with shown_while(progress, "MaintenanceProgress") as tell:
        for name, step in steps.items():
            if policy.steps is not None and name not in policy.steps:
                continue
            begun, tell_step = time.monotonic(), _teller(tell, name)
            if tell_step is not None:
                tell_step(None)
            try:
                with span("maintain", step=name, dry_run=dry_run) as told:
                    maintained = step(dry_run, tell_step)
                    told.set(is_due=maintained.is_due, **maintained.numbers)
            except DeltabergError as error:
                error.with_context(maintained=", ".join(one.step for one in done) or None, step=name)
                raise
            done.append(replace(maintained, seconds=time.monotonic() - begun))
    return MaintenanceResult(tuple(done), dry_run)


def _teller(tell: OnMaintenanceProgress | None, step: MaintenanceStep) -> OnStep:
    return None if tell is None else lambda done: tell(MaintenanceProgress(step, done))


def compaction_step(policy: MaintenancePolicy, rewrite: Callable[[Compaction, OnStep], CompactResult]) -> Step:
    """Return the step that compacts a table, or only looks what that would do.

    Parameters
    ----------
    rewrite
        Compacts the table.
    """
    from deltaberg.table.maintain.compact import Compaction

    rows = RowOptions(target_file_size=policy.target_file_size)
    packing = Packing(policy.target_file_size or 1, policy.min_files, policy.max_deleted, large=0.5)
    asked = Compaction(packing=packing, rows=rows, is_gradual=True)

    def step(dry_run: bool, tell: OnStep) -> MaintainedStep:
        done = rewrite(replace(asked, dry_run=dry_run), tell)
        names = ("removed_files", "added_files", "removed_bytes", "added_bytes")
        numbers = {name: getattr(done, name) for name in names}
        commits = {"commits": len(done.groups if dry_run else done.commits)}
        why = "; ".join(error.message for error in done.conflicts)
        return MaintainedStep("compact", bool(done.groups), commits | numbers, why, done)

    return step
