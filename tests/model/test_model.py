"""Random operations against rows in plain Python; ``make proof`` runs many more of them."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg import DeltaTable
from tests.model.run import run_model


@pytest.mark.slow
@pytest.mark.both_backends
def test_random_operations(seed: int) -> None:
    steps = run_model(seed, runs=8, steps=15)
    print(f"{steps} steps")
    assert steps > 30


def test_a_writer_that_loses_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = DeltaTable.append

    def forgetful(self: DeltaTable, data: Any, **options: Any) -> Any:
        return append(self, data.slice(1), **options)

    monkeypatch.setattr(DeltaTable, "append", forgetful)
    with pytest.raises(AssertionError):
        run_model(1, runs=8, steps=8)


def test_a_writer_that_removes_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def growing(self: DeltaTable, data: Any, **options: Any) -> Any:
        return self.append(data, schema_mode="merge")

    monkeypatch.setattr(DeltaTable, "overwrite", growing)
    with pytest.raises(AssertionError):
        run_model(1, runs=8, steps=8)
