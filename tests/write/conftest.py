"""The stores of the storage tests, and a clock for vacuums."""

from __future__ import annotations

import pytest

from deltaberg.delta.maintain import vacuum_candidates
from tests.storage.conftest import s3, s3_endpoint
from tests.support.vacuums import Clock

__all__ = ["s3", "s3_endpoint"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that can be set ahead."""
    made = Clock()
    monkeypatch.setattr(vacuum_candidates, "earlier_clock", made)
    return made
