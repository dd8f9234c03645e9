"""How a single kernel is measured: the processor time of one thread for each item, and the bytes that it takes in.

Nothing is compared with these cases but an earlier run, in which a kernel may have been faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benches.measure import Case, Outcome, Side, Unit, await_turn

__all__ = ["Work", "count_of", "no_data", "single_kernel_case"]

_TIMES = 7
#: A kernel is called so often that a measurement takes this time, which a clock tells exactly enough.
_LEAST_NANOSECONDS = 20_000_000


def _nanoseconds(amount: float) -> str:
    return f"{amount:,.0f} ns" if amount >= 100 else f"{amount:.3g} ns"


_NANOSECONDS = Unit(_nanoseconds, "input per second")


class Work(NamedTuple):
    """A call of a kernel on one thread.

    It works on so many items, and so many bytes of them; ``describe`` tells what of the result is compared between
    rounds.
    """

    call: Callable[[], Any]
    items: int
    bytes: int
    describe: Callable[[Any], Any] = len


def _side(prepare: Callable[[float], Work]) -> Side:
    def run(scale: float) -> Outcome:
        work = prepare(scale)
        answer = work.describe(work.call())
        await_turn()
        start = time.process_time_ns()
        work.call()
        calls = 1 + _LEAST_NANOSECONDS // max(time.process_time_ns() - start, 1)
        amounts = []
        for _ in range(_TIMES):
            start = time.process_time_ns()
            for _ in range(calls):
                work.call()
            amounts.append((time.process_time_ns() - start) / (calls * work.items))
        return Outcome(amounts, answer, int(work.bytes * 1e9 / (min(amounts) * work.items)))

    return run


def single_kernel_case(title: str, made: Callable[[float], Any], prepare: Callable[[float], Work]) -> Case:
    """Return a case of one kernel. What ``made`` makes is not measured."""
    return Case(title, made, {"deltaberg": _side(prepare)}, _NANOSECONDS)


def count_of(scale: float, count: int) -> int:
    """Return how many items there are at a scale: enough that a clock can measure them."""
    return max(int(count * scale), 10_000)


def no_data(scale: float) -> None:
    """Prepare nothing: values are made when a case runs."""
