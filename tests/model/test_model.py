"""Random operations against rows in plain Python; ``make proof`` runs many more of them."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg import DeltaTable
from deltaberg.iceberg import IcebergTable
from tests.model.iceberg_machine import IcebergMachine
from tests.model.machine import TableMachine
from tests.model.rules import ModelMachine
from tests.model.run import run_model


@pytest.mark.slow
@pytest.mark.both_backends
def test_random_operations(seed: int) -> None:
    steps = run_model(seed, runs=8, steps=15)
    print(f"{steps} steps")
    assert steps > 30


@pytest.mark.slow
def test_operations_on_iceberg_tables() -> None:
    """The same operations in every run."""
    assert run_model(77, runs=4, steps=12, machine=IcebergMachine) > 12


@pytest.mark.full
@pytest.mark.slow
def test_random_operations_on_iceberg_tables(seed: int) -> None:
    steps = run_model(seed, runs=20, steps=20, machine=IcebergMachine)
    print(f"{steps} steps")
    assert steps > 30


@pytest.mark.parametrize(("table", "machine"), [(DeltaTable, TableMachine), (IcebergTable, IcebergMachine)])
def test_a_writer_that_loses_a_row_is_found(
    monkeypatch: pytest.MonkeyPatch, table: Any, machine: type[ModelMachine]
) -> None:
    append = table.append

    def forgetful(self: Any, data: Any, **options: Any) -> Any:
        return append(self, data.slice(1), **options)

    monkeypatch.setattr(table, "append", forgetful)
    with pytest.raises(AssertionError):
        run_model(1, runs=8, steps=8, machine=machine)


@pytest.mark.parametrize(("table", "machine"), [(DeltaTable, TableMachine), (IcebergTable, IcebergMachine)])
def test_a_feed_that_loses_a_row_is_found(
    monkeypatch: pytest.MonkeyPatch, table: Any, machine: type[ModelMachine]
) -> None:
    changes = table.changes

    def forgetful(self: Any, *given: Any, **options: Any) -> Any:
        return changes(self, *given, **options, filter="id < 2")

    monkeypatch.setattr(table, "changes", forgetful)
    with pytest.raises(AssertionError):
        run_model(1, runs=8, steps=8, machine=machine)


def test_a_writer_that_removes_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def growing(self: DeltaTable, data: Any, **options: Any) -> Any:
        return self.append(data, schema_mode="merge")

    monkeypatch.setattr(DeltaTable, "overwrite", growing)
    with pytest.raises(AssertionError):
        run_model(1, runs=8, steps=8)
