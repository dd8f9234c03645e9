"""How much random tests try: a third of their examples in `make test`, and all of them in `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["VARIABLE", "examples", "tries"]

#: The environment variable that asks for all examples.
VARIABLE = "DELTABERG_THOROUGH"

_Test = TypeVar("_Test", bound=Callable[..., Any])


def tries(count: int) -> int:
    """Return how many of so many random examples are tried. The test is marked `thorough`."""
    return count if os.environ.get(VARIABLE) == "1" else -(-count // 3)


def examples(count: int) -> Callable[[_Test], _Test]:
    """Decorate a test of hypothesis: a number of examples, without a limit on time."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    chosen = settings(max_examples=tries(count), deadline=None, suppress_health_check=slow, print_blob=True)

    def decorate(test: _Test) -> _Test:
        marked: _Test = pytest.mark.thorough(chosen(test))
        return marked

    return decorate
