"""What a reader sees of the table of an operation, and what must be so whatever became of the operation."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from deltaberg import DeltaTable
from deltaberg.errors import TableNotFoundError
from tests.crash.operations import Operation

__all__ = ["NO_TABLE", "State", "Verdict", "old_rows", "state_of", "state_of_version"]

_Row = tuple[tuple[str, str], ...]


class State(NamedTuple):
    """What a reader sees, without names that differ from run to run."""

    version: int
    schema: str
    about: tuple[Any, ...]
    rows: tuple[_Row, ...]

    @property
    def values(self) -> list[tuple[int, int]]:
        """The id and the value of each row, sorted."""
        found = [dict(row) for row in self.rows]
        return sorted((int(row["id"]), int(row["value"])) for row in found)


#: There is no table.
NO_TABLE = State(-1, "", (), ())


def _rows(table: DeltaTable) -> tuple[_Row, ...]:
    rows = table.scan().to_arrow().to_pylist()
    return tuple(sorted(tuple(sorted((name, repr(value)) for name, value in row.items())) for row in rows))


def state_of(location: str, options: Mapping[str, str] | None = None) -> State:
    """Return what a reader sees now."""
    try:
        table = DeltaTable(location, storage_options=dict(options or {}))
    except TableNotFoundError:
        return NO_TABLE
    return _state(table)


def state_of_version(location: str, version: int, options: Mapping[str, str] | None = None) -> State:
    """Return what a reader sees of an older version."""
    return _state(DeltaTable(location, version=version, storage_options=dict(options or {})))


def _without_random(name: str, value: str) -> str:
    """Return the value of a property; the names of columns that hold row ids end in a random part."""
    return value[: -len(str(uuid.UUID(int=0)))] if name.startswith("delta.rowTracking.materialized") else value


def _state(table: DeltaTable) -> State:
    about = (
        table.metadata.description,
        tuple(sorted((name, _without_random(name, value)) for name, value in table.properties.items())),
        tuple(sorted((name, one.version) for name, one in table.transactions.items())),
    )
    # Physical names of new columns are random.
    return State(table.version, str(table.arrow_schema.remove_metadata()), about, _rows(table))


def old_rows(location: str, versions: range, options: Mapping[str, str] | None = None) -> list[tuple[_Row, ...]]:
    """Return the rows of older versions."""
    return [state_of_version(location, version, options).rows for version in versions]


class Verdict(NamedTuple):
    """What an operation may leave.

    Parameters
    ----------
    operation
        The operation.
    before
        What was there before.
    ways
        What each of its versions shows; the last one is what there is when it is done.
    old
        The rows of the versions that can be read whatever happens.
    """

    operation: Operation
    before: State
    ways: tuple[State, ...]
    old: list[tuple[_Row, ...]]

    @property
    def done(self) -> State:
        """What there is when the operation is done."""
        return self.ways[-1] if self.ways else self.before

    @classmethod
    def of(cls, operation: Operation, original: str, whole: str, options: Mapping[str, str] | None = None) -> Verdict:
        """Return what may be left by an operation that ran on one of two equal tables, and was not disturbed."""
        before, after = state_of(original, options), state_of(whole, options)
        assert after.values == sorted(operation.after.items()), operation.name
        assert after.version == before.version + operation.versions, operation.name
        ways = tuple(
            state_of_version(whole, version, options) for version in range(before.version + 1, after.version + 1)
        )
        assert len(set(ways) | {before}) == operation.versions + 1, operation.name
        kept = range(operation.keeps_from, before.version + 1)
        return cls(operation, before, ways, old_rows(original, kept, options))

    def judge(self, state: State, *, acknowledged: bool) -> tuple[str, str] | None:
        """Return what is wrong with a state, as its kind and a sentence."""
        allowed = {self.done} if acknowledged else {self.before, *self.ways}
        if state in allowed:
            return None
        repeated = [row for row, times in Counter(state.rows).items() if times > 1]
        if repeated:
            return "doubled", f"rows are there twice: {repeated[:3]}"
        expected = set(self.done.rows if acknowledged else self.before.rows)
        missing = expected.difference(state.rows)
        if missing:
            return "lost", f"rows are missing: {sorted(missing)[:3]}"
        return "wrong", f"the table is neither as before nor as after: {state}"
