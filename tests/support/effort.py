"""How much random tests try: a third of their examples in `make test`, and all of them in `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

__all__ = ["VARIABLE", "examples", "tries", "unhurried"]

#: The environment variable that asks for all examples.
VARIABLE = "DELTABERG_THOROUGH"

_Test = TypeVar("_Test", bound=Callable[..., Any])


def tries(count: int) -> int:
    """Return how many of so many random examples are tried. The test is marked `thorough`."""
    return count if os.environ.get(VARIABLE) == "1" else -(-count // 3)


def examples(count: int) -> Callable[[_Test], _Test]:
    """Decorate a test of hypothesis: a number of examples."""
    chosen = unhurried(tries(count))

    def decorate(test: _Test) -> _Test:
        marked: _Test = pytest.mark.thorough(chosen(test))
        return marked

    return decorate


def unhurried(count: int = 100) -> settings:
    """Return what decorates a test of hypothesis that tries as many examples in each run."""
    return settings(max_examples=count)
