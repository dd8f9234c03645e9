"""Fixtures of the Iceberg tests."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg import kernels


@pytest.fixture
def key_rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the rows that are passed to the kernels of equality deletes."""
    counts = {"index_keys": 0, "contains_keys": 0}

    def count(name: str) -> None:
        original = getattr(kernels, name)

        def counted(*arguments: Any) -> Any:
            counts[name] += arguments[-1].num_rows
            return original(*arguments)

        monkeypatch.setattr(kernels, name, counted)

    for name in counts:
        count(name)
    return counts
