"""A writer is killed before and after every call of its store: the table is as before or as after, and goes on.

Each operation has some seconds, in which the points that decide come first; ``make proof`` tries all of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import operations
from tests.crash.operations import OPERATIONS
from tests.crash.points import Nursery, kill_everywhere

pytestmark = [pytest.mark.one_backend, pytest.mark.slow]

_SECONDS = 2.5


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """What starts the writers."""
    with Nursery() as found:
        yield found


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len(OPERATIONS) == len(operations._ALL)


@pytest.mark.req("DL-GEN-04")
@pytest.mark.req("DL-LOG-03", half="writer")
@pytest.mark.parametrize("name", OPERATIONS)
def test_points(tmp_path: Path, nursery: Nursery, name: str, rng: random.Random) -> None:
    tally = kill_everywhere(OPERATIONS[name], nursery, tmp_path, _SECONDS, rng)
    print(tally)
    assert tally.faults == []
    assert tally.tried >= 4
