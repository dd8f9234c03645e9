"""Random operations against rows in plain Python; ``make proof`` runs many more of them."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg import DeltaTable
from deltaberg.delta.maintain.cleaning import vacuum_candidates
from deltaberg.errors import DataFileNotFoundError
from deltaberg.iceberg import IcebergTable
from tests.model.iceberg_machine import IcebergMachine
from tests.model.machine import TableMachine
from tests.model.rules import ModelMachine
from tests.model.run import only, run_model


@pytest.mark.slow
@pytest.mark.both_backends
def test_random_operations(seed: int) -> None:
    before = TableMachine.vacuumed
    steps = run_model(seed, runs=8, steps=15)
    print(f"{steps} steps, {TableMachine.vacuumed - before} files vacuumed")
    assert steps > 30


@pytest.mark.slow
@pytest.mark.both_backends
def test_vacuums_between_operations() -> None:
    """The same operations in every run: vacuums find files to delete, and leave those of every version that is kept."""
    machine = only(
        TableMachine,
        *("append", "overwrite", "delete", "compact", "checkpoint", "clean_up_the_log"),
        *("vacuum", "vacuum_by_the_log", "repair", "hold", "read_what_is_held", "travel"),
    )
    before = TableMachine.vacuumed
    run_model(2, runs=16, steps=14, machine=machine)
    assert TableMachine.vacuumed > before


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


@pytest.mark.full
@pytest.mark.parametrize("name", ["_of_retained_commits", "_of_kept_versions"])
def test_a_vacuum_that_takes_too_much_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(vacuum_candidates.VacuumCandidates, name, lambda *_: iter(()))
    # Nor do the removals themselves say when they were.
    monkeypatch.setattr(vacuum_candidates, "unexpired", lambda tombstones, *_: tombstones.slice(0, 0))
    with pytest.raises((AssertionError, DataFileNotFoundError)):
        _run_several()


def _run_several() -> None:
    for number in range(10):
        run_model(number, runs=15, steps=20)


def test_a_repair_that_takes_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    repair = DeltaTable.repair

    def overdoing(self: DeltaTable, *given: Any) -> Any:
        done = repair(self, *given)
        self.delete("id < 5")
        return done

    monkeypatch.setattr(DeltaTable, "repair", overdoing)
    machine = only(TableMachine, "append", "overwrite", "delete", "repair", "travel")
    with pytest.raises(AssertionError):
        run_model(1, runs=8, steps=15, machine=machine)


def test_a_writer_that_removes_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def growing(self: DeltaTable, data: Any, **options: Any) -> Any:
        return self.append(data, schema_mode="merge")

    monkeypatch.setattr(DeltaTable, "overwrite", growing)
    with pytest.raises(AssertionError):
        run_model(1, runs=8, steps=8)
