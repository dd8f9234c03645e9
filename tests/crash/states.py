"""What a reader sees of the table of an operation, and what must be so whatever became of the operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.crash.formats import NO_TABLE, Rows, State, format_of
from tests.crash.operations import Operation
from tests.crash.targets import CATALOGS, Target

__all__ = ["Verdict", "past_rows", "state_of"]


def state_of(at: Target) -> State:
    """Return what a reader sees now."""
    table, other = at.newest(), at.other.newest() if at.kind in CATALOGS else None
    state, beside = (NO_TABLE if one is None else format_of(at).state(one) for one in (table, other))
    if table is None:
        return beside if other is None else beside._replace(about=(*beside.about, at.other.name))
    # What a transaction of both tables leaves is as before in both of them, or as after.
    return state if other is None else state._replace(about=(*state.about, beside))


def past_rows(at: Target, moments: tuple[int, ...]) -> list[Rows]:
    """Return the rows of older versions or snapshots."""
    current = at.current if moments else at
    return [format_of(current).past(current, moment) for moment in moments]


class Verdict(NamedTuple):
    """What an operation may leave.

    Parameters
    ----------
    operation
        The operation.
    before
        What was there before.
    ways
        What each of its versions shows; the last one is what there is when it is done.
    moments, old
        The versions or snapshots that can be read whatever happens, and their rows.
    """

    operation: Operation
    before: State
    ways: tuple[State, ...]
    moments: tuple[int, ...]
    old: list[Rows]

    @property
    def done(self) -> State:
        """What there is when the operation is done."""
        return self.ways[-1] if self.ways else self.before

    @classmethod
    def of(cls, operation: Operation, at: Target, run: Callable[[], object]) -> Verdict:
        """Return what may be left by an operation, which runs once, and is not disturbed."""
        before, table = state_of(at), at.newest()
        moments = () if table is None else format_of(at).moments(table, operation.keeps_from)
        old = past_rows(at, moments)
        run()
        after = state_of(at)
        assert after.values == sorted(operation.after.items()), operation.name
        if operation.in_catalog:
            assert after != before, operation.name
            return cls(operation, before, (after,), moments, old)
        assert after.version == before.version + operation.versions, (operation.name, before.version, after.version)
        between = range(before.version + 1, after.version)
        ways = tuple(format_of(at).between(at, number) for number in between)
        ways += (after,) if operation.versions else ()
        assert len(set(ways) | {before}) == operation.versions + 1, operation.name
        return cls(operation, before, ways, moments, old)

    def judge(self, state: State, *, acknowledged: bool) -> tuple[str, str] | None:
        """Return what is wrong with a state, as its kind and a sentence."""
        allowed = {self.done} if acknowledged else {self.before, *self.ways}
        if state in allowed:
            return None
        repeated = [row for row, times in Counter(state.rows).items() if times > 1]
        if repeated:
            return "doubled", f"rows are there twice: {repeated[:3]}"
        expected = set(self.done.rows if acknowledged else self.before.rows)
        missing = expected.difference(state.rows)
        if missing:
            return "lost", f"rows are missing: {sorted(missing)[:3]}"
        return "wrong", f"the table is neither as before nor as after: {state}"
