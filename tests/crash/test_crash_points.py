"""A writer is killed before and after every call of its store: the table is as before or as after, and goes on.

Some points of each operation are tried, first of all those that decide; ``make proof`` tries all of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import operations
from tests.crash.operations import OPERATIONS
from tests.crash.points import Nursery, kill_everywhere
from tests.support.effort import tries
from tests.support.tally import sample

pytestmark = [pytest.mark.one_backend, pytest.mark.slow, pytest.mark.thorough]

#: How many points of an operation are tried, and how many of the operations in catalogs.
_POINTS, _CATALOG_OPERATIONS = tries(9), tries(9)
#: A server of PostgreSQL takes longer to start than they all may take.
_IN_CATALOGS = [name for name, one in OPERATIONS.items() if one.kind in ("sqlite", "rest")]
_IN_DIRECTORIES = [name for name, one in OPERATIONS.items() if one.kind in ("delta", "iceberg")]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """What starts the writers."""
    with Nursery() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables are."""
    return tmp_path_factory.mktemp("points")


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len(OPERATIONS) == len(operations._ALL)


def _check(name: str, folder: Path, nursery: Nursery, rng: random.Random, points: int = _POINTS) -> None:
    tally = kill_everywhere(OPERATIONS[name], nursery, folder, points, rng)
    print(tally)
    assert tally.faults == []
    assert tally.tried == min(points, tally.planned)


@pytest.mark.req("DL-GEN-04")
@pytest.mark.req("DL-LOG-03", half="writer")
@pytest.mark.parametrize("name", _IN_DIRECTORIES)
def test_points(folder: Path, nursery: Nursery, name: str, rng: random.Random) -> None:
    _check(name, folder, nursery, rng)


def test_points_in_catalogs(folder: Path, nursery: Nursery, rng: random.Random) -> None:
    """Some of the operations, chosen by chance."""
    for name in sample(_IN_CATALOGS, _CATALOG_OPERATIONS, rng):
        _check(name, folder, nursery, rng)


@pytest.mark.full
@pytest.mark.parametrize("name", _IN_CATALOGS)
def test_each_operation_in_catalogs(folder: Path, nursery: Nursery, name: str, rng: random.Random) -> None:
    """One point of each, so that none of them is one that cannot be tried."""
    _check(name, folder, nursery, rng, points=1)
