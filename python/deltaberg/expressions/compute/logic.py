"""Logic of three values, comparisons, and what decides which of its arguments are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.expressions.compute.evaluate import among_doubles, compare_values
from deltaberg.expressions.tree.nodes import Failure, Kernel, Outcome, spread
from deltaberg.expressions.tree.types import is_floating
from deltaberg.schema.types import DataType

__all__ = [
    "compare",
    "decide_and",
    "decide_case",
    "decide_coalesce",
    "decide_in",
    "decide_member",
    "decide_or",
]


def compare(operator: str, kind: DataType) -> Kernel:
    """Return the kernel of a comparison of two values of a type. NaN equals NaN and is greater than all else."""
    floating = is_floating(kind)
    return lambda left, right: compare_values(operator, left, right, floating)


def decide_and(outcomes: Sequence[Outcome], rows: int) -> Outcome:
    """AND: a part counts where none of those before it is false."""
    return _joined(outcomes, rows, stop=False)


def decide_or(outcomes: Sequence[Outcome], rows: int) -> Outcome:
    """OR: a part counts where none of those before it is true."""
    return _joined(outcomes, rows, stop=True)


def _joined(outcomes: Sequence[Outcome], rows: int, stop: bool) -> Outcome:
    join = pc.or_kleene if stop else pc.and_kleene
    values, failures = outcomes[0].values, outcomes[0].failures
    for part in outcomes[1:]:
        if part.failures:
            stopped = spread(values, rows)
            goes_on = (pc.invert(stopped) if stop else stopped).fill_null(True)
            failures += tuple(failure.only(goes_on) for failure in part.failures)
        values = join(values, part.values)
    return Outcome(values, failures)


def decide_case(outcomes: Sequence[Outcome], rows: int) -> Outcome:
    """CASE: conditions and values in turns, and the value of ELSE, which is always there."""
    conditions = [spread(outcome.values, rows).fill_null(False) for outcome in outcomes[0:-1:2]]
    values = [*outcomes[1::2], outcomes[-1]]
    result = spread(values[-1].values, rows)
    for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        result = pc.if_else(condition, value.values, result)
    if not any(outcome.failures for outcome in outcomes):
        return Outcome(result)
    failures: list[Failure] = []
    open_rows = pa.repeat(pa.scalar(True), rows)
    for number, condition in enumerate(conditions):
        failures += [failure.only(open_rows) for failure in outcomes[2 * number].failures]
        taken = pc.and_(open_rows, condition)
        failures += [failure.only(taken) for failure in values[number].failures]
        open_rows = pc.and_not(open_rows, condition)
    failures += [failure.only(open_rows) for failure in values[-1].failures]
    return Outcome(result, tuple(failures))


def decide_coalesce(outcomes: Sequence[Outcome], rows: int) -> Outcome:
    """COALESCE: an argument counts where all before it are null."""
    result = pc.coalesce(*(spread(outcome.values, rows) for outcome in outcomes))
    failures: list[Failure] = []
    if any(outcome.failures for outcome in outcomes):
        open_rows = pa.repeat(pa.scalar(True), rows)
        for outcome in outcomes:
            failures += [failure.only(open_rows) for failure in outcome.failures]
            open_rows = pc.and_(open_rows, pc.is_null(spread(outcome.values, rows)))
    return Outcome(result, tuple(failures))


def decide_in(outcomes: Sequence[Outcome], rows: int, kind: DataType) -> Outcome:
    """IN: items count until one of them equals the value, if the value is not null."""
    value, *items = outcomes
    subject = spread(value.values, rows)
    open_rows = pc.is_valid(subject)
    decided = pc.if_else(open_rows, pa.scalar(False), pa.scalar(None, pa.bool_()))
    failures = list(value.failures)
    for item in items:
        failures += [failure.only(open_rows) for failure in item.failures]
        decided = pc.or_kleene(decided, compare_values("=", subject, spread(item.values, rows), is_floating(kind)))
        open_rows = pc.and_(open_rows, pc.invert(decided).fill_null(True))
    return Outcome(decided, tuple(failures))


def decide_member(items: pa.Array, kind: DataType) -> Callable[[Sequence[Outcome], int], Outcome]:
    """Return what decides IN with literals, which are looked up."""

    def decide(outcomes: Sequence[Outcome], rows: int) -> Outcome:
        known = items.drop_null()
        # Where the value is none of the items, an item that is null leaves the answer open.
        otherwise = pa.scalar(None if items.null_count else False, pa.bool_())
        values = spread(outcomes[0].values, rows)
        found = among_doubles(values, known) if is_floating(kind) else pc.is_in(values, value_set=known)
        found = pc.if_else(found, pa.scalar(True), otherwise)
        return Outcome(pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_())), outcomes[0].failures)

    return decide
