"""The stores of the storage tests, and a clock for vacuums."""

from __future__ import annotations

import pytest

from deltaberg.delta.maintain.cleaning import vacuum_candidates
from tests.storage.conftest import behind, s3, s3_endpoint, s3_gateway, s3_proxy
from tests.support.vacuums import Clock

__all__ = ["behind", "s3", "s3_endpoint", "s3_gateway", "s3_proxy"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that can be set ahead."""
    made = Clock()
    monkeypatch.setattr(vacuum_candidates, "earlier_clock", made)
    return made
