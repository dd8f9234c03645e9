"""Racers in threads: each does so many things at its own pace, and their numbers go into one tally."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from tests.support.tally import Tally

__all__ = ["race_in_threads"]


class _Racer(Protocol):
    done: Counter[str]
    wrong: list[str]

    def run(self, turns: int) -> None:
        """Do so many things."""


def race_in_threads(tally: Tally, racers: Sequence[_Racer], turns: int, kinds: Iterable[str]) -> Counter[str]:
    """Run racers side by side, note in the tally what they did, and return how often each thing was done.

    Parameters
    ----------
    kinds
        The things that count as steps.
    """
    with tally.timed():
        started = [threading.Thread(target=racer.run, args=(turns,)) for racer in racers]
        for one in started:
            one.start()
        for one in started:
            one.join()
    done: Counter[str] = Counter()
    for racer in racers:
        done.update(racer.done)
        tally.wrong += racer.wrong
    tally.tried = sum(done[kind] for kind in (*kinds, "refused"))
    tally.note = ", ".join(f"{count} {what}" for what, count in sorted(done.items()))
    return done
