"""What a part of the harness tried, and what it found: lines of the table that ``make proof`` prints."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tests.support.examples import note

__all__ = ["Tally", "sample", "table_of"]

_Trial = TypeVar("_Trial")


@dataclass
class Tally:
    """What was tried of one scenario.

    Parameters
    ----------
    scenario
        What it is called in the table.
    unit
        What is counted: points, commits, runs.
    tried, planned
        How many of them were tried, and how many there are.
    lost
        A sentence for each change that was acknowledged and is not there, and each row that is missing.
    doubled
        A sentence for each change, file or row that is there more than once.
    wrong
        A sentence for whatever else is not as it has to be.
    """

    scenario: str
    unit: str
    tried: int = 0
    planned: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    note: str = ""

    @property
    def faults(self) -> list[str]:
        """All sentences."""
        return [*self.lost, *self.doubled, *self.wrong]

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure how long something takes. What cannot be tried is wrong, and the other scenarios go on."""
        begun = time.monotonic()
        try:
            yield
        except AssertionError as error:
            self.wrong.append(f"not all was tried: {error}")
        self.seconds += time.monotonic() - begun

    def __str__(self) -> str:
        of = f" of {self.planned}" if self.planned > self.tried else ""
        note = f", {self.note}" if self.note else ""
        return (
            f"{self.scenario}: {self.tried}{of} {self.unit}{note}; {len(self.lost)} lost, {len(self.doubled)} doubled, "
            f"{len(self.wrong)} wrong; {self.seconds:.1f} s"
        )


def sample(
    trials: Sequence[_Trial],
    most: int | None,
    generator: random.Random,
    is_decisive: Callable[[_Trial], bool] = lambda _: True,
) -> list[_Trial]:
    """Return so many trials, or all of them if no number is given. Those that decide come first.

    How many there are never depends on how fast the machine is, so that a generator of the same seed repeats them.

    Examples
    --------
    >>> sample([1, 2, 3, 4], 2, random.Random(0), lambda number: number % 2 == 0)
    [2, 4]
    """
    chosen = list(trials)
    generator.shuffle(chosen)
    chosen.sort(key=lambda trial: not is_decisive(trial))
    del chosen[len(chosen) if most is None else most :]
    note(chosen)
    return chosen


def table_of(tallies: Iterable[Tally]) -> str:
    """Return the table of all scenarios, which ends with the sums."""
    rows = list(tallies)
    columns = ("scenario", "tried", "", "lost", "doubled", "wrong", "seconds")
    lines = [columns]
    lines += [
        (
            one.scenario,
            f"{one.tried}" + (f" of {one.planned}" if one.planned > one.tried else ""),
            f"{one.unit}, {one.note}" if one.note else one.unit,
            str(len(one.lost)),
            str(len(one.doubled)),
            str(len(one.wrong)),
            f"{one.seconds:.1f}",
        )
        for one in rows
    ]
    lost = sum(len(one.lost) for one in rows)
    doubled = sum(len(one.doubled) for one in rows)
    wrong = sum(len(one.wrong) for one in rows)
    seconds = f"{sum(one.seconds for one in rows):.1f}"
    lines.append(("all", str(sum(one.tried for one in rows)), "", str(lost), str(doubled), str(wrong), seconds))
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    left = {0, 2}
    text = [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    text.insert(1, "-" * len(text[0]))
    text.insert(-1, "-" * len(text[0]))
    text.append(f"lost: {lost}")
    return "\n".join(text)
