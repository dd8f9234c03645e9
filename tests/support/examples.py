"""Records what random tests try, so that two runs can be compared: ``pytest --record-examples FILE``.

The file has a line for each test with random examples: how many choices its examples were made of, and their digest.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis.internal.conjecture.data import ConjectureData

__all__ = ["Examples", "note"]


class Examples:
    """The examples of each test, as a digest over all that was drawn for them."""

    current: Examples | None = None

    def __init__(self, target: Path) -> None:
        self._target = target
        self._digest: Any = None
        self._drawn = 0
        self._found: dict[str, tuple[int, str]] = {}

    def pytest_configure(self) -> None:
        """Listen to hypothesis, and to the generators that tests make."""
        Examples.current = self
        freeze = ConjectureData.freeze

        def frozen(data: ConjectureData) -> None:
            if not data.frozen:
                note(data.choices)
            freeze(data)

        ConjectureData.freeze = frozen  # type: ignore[assignment,method-assign]
        random.Random = _Recorded  # type: ignore[assignment,misc]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Keep what is drawn while a test runs."""
        self._digest, self._drawn = hashlib.sha256(), 0
        try:
            return (yield)
        finally:
            if self._drawn:
                self._found[item.nodeid] = (self._drawn, self._digest.hexdigest())

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self._target.write_text(json.dumps(self._found, indent=0, sort_keys=True) + "\n")

    def add(self, drawn: object) -> None:
        """Keep something that was drawn."""
        if self._digest is not None:
            self._drawn += 1
            self._digest.update(repr(drawn).encode("utf-8", "surrogatepass"))


def note(drawn: object) -> None:
    """Record what was chosen for an example of the test that runs, if examples are recorded."""
    if Examples.current is not None:
        Examples.current.add(drawn)


class _Recorded(random.Random):
    """A generator whose numbers are recorded if it has a seed. They are the same as without."""

    def __init__(self, seed: Any = None) -> None:
        self._is_seeded = seed is not None
        super().__init__(seed)

    def random(self) -> float:
        found = super().random()
        if self._is_seeded:
            note(found)
        return found

    def getrandbits(self, count: int, /) -> int:
        found = super().getrandbits(count)
        if self._is_seeded:
            note(found)
        return found
