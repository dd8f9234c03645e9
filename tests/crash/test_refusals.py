"""The disk is full, read-only or failing at any call of an operation: a clear error, and the table as it was.

Some of the calls are tried; ``make proof`` tries all of them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.operations import OPERATIONS
from tests.crash.refusals import refuse_everywhere
from tests.support.effort import tries

pytestmark = [pytest.mark.one_backend, pytest.mark.slow, pytest.mark.thorough]

#: How many calls of an operation are refused.
_CALLS = tries(6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables are."""
    return tmp_path_factory.mktemp("refusals")


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if one.kind in ("delta", "iceberg")])
def test_refusals(folder: Path, name: str, rng: random.Random) -> None:
    tally = refuse_everywhere(OPERATIONS[name], folder, _CALLS, rng)
    print(tally)
    assert tally.faults == []
    assert tally.tried == min(_CALLS, tally.planned)
