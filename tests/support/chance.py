"""The seeds of random tests: the same in every run, unless new ones are asked for.

``make test`` must not fail by chance, so that each of its runs has the same examples. New ones are tried by
``make explore``, ``make test-all`` and ``make proof``, and whatever they find becomes a fixed example.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, core, settings

__all__ = ["FIXED_SEED", "SEED", "NewSeeds", "fix_examples", "is_random", "seed_of"]

#: The seed of the runs that have the same examples.
FIXED_SEED = 20_240_229
#: Where a run keeps its seed.
SEED = pytest.StashKey[int]()


def seed_of(given: str | None) -> int:
    """Return the seed that an option gives: the fixed one, a new one, or a number."""
    if given is None:
        return FIXED_SEED
    return random.SystemRandom().randrange(1 << 32) if given == "new" else int(given)


def fix_examples(option: str | None, seed: int) -> None:
    """Have the tests of hypothesis try what follows from their code, or from a seed if one is given."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    settings.register_profile(
        "deltaberg",
        # A machine that runs other tests may stall for seconds in any of them.
        deadline=None,
        suppress_health_check=slow,
        # Examples that failed before would be tried first, on this machine alone.
        database=None,
        derandomize=option is None,
        print_blob=True,
    )
    settings.load_profile("deltaberg")
    if option is not None:
        core.global_force_seed = seed  # type: ignore[assignment]
    # The numbers and texts of modules that happen to be loaded would be among the examples, so that a test that is
    # run alone had others. Older versions of hypothesis do not look for them.
    providers: Any = sys.modules.get("hypothesis.internal.conjecture.providers")
    if hasattr(providers, "_local_constants"):
        nothing = type(providers._local_constants)()
        providers._get_local_constants = lambda: nothing


def is_random(item: pytest.Item) -> bool:
    """Return whether a test has random examples."""
    test = getattr(item, "obj", None)
    return bool(getattr(test, "is_hypothesis_test", False)) or bool(
        {"seed", "rng"} & set(getattr(item, "fixturenames", ()))
    )


class NewSeeds:
    """Says at the end of a run with other seeds how to repeat what failed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the seed, and the command that repeats the tests that failed."""
        terminalreporter.write_line(f"random tests had --random-seed {self._seed}")
        failed = [report.nodeid for report in terminalreporter.getreports("failed")]
        if failed:
            shown = " ".join(f"'{name}'" for name in failed)
            terminalreporter.write_line(f"repeat with: .venv/bin/python -m pytest --random-seed {self._seed} {shown}")
            terminalreporter.write_line("then mend what was found, and add it to the test as a fixed example")
