"""Races of drops with writers, readers and those that make the table anew in its place, in threads.

Each table that comes to be in the directory is told from others by its id. What was acknowledged for one of them has to
be in it, unless a drop of that very table was acknowledged; then nothing of it was acknowledged later, and no reader of
another one sees its rows.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from deltaberg import DeltaTable, create_table, drop_table, open_table
from deltaberg.choices import Format
from deltaberg.errors import (
    CommitConflictError,
    CorruptCheckpointError,
    CorruptLogError,
    DataFileNotFoundError,
    DeltabergError,
    InvalidArgumentError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaberg.table.commit.commit import CommitPolicy
from tests.races.in_threads import race_in_threads
from tests.support.rows import ids, ids_of
from tests.support.tally import Tally

__all__ = ["race_of_drops"]

_COLUMNS = pa.schema([("id", pa.int64())])
_POLICY = CommitPolicy(retries=50, pause=0.001, longest_pause=0.02)
#: How often each thing is done.
_WEIGHTS = {"append": 8, "delete": 2, "read": 4, "make": 8, "drop": 2}
#: What becomes of a step where the table goes, or another one comes in its place.
_EXPECTED = (
    CommitConflictError,
    CorruptCheckpointError,
    CorruptLogError,
    DataFileNotFoundError,
    TableExistsError,
    TableNotFoundError,
    VersionNotFoundError,
)


#: The directory of a file can go before the file comes, and what is left of one table can hold up the drop of another.
_REFUSALS = (
    "the table was dropped",
    "No such file",
    "no such file",
    "not known to be metadata",
    "is about another table",
)


class _Journal:
    """What was acknowledged, in the order in which it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows: dict[str, set[int]] = defaultdict(set)
        self.deleted: dict[str, set[int]] = defaultdict(set)
        self.dropped: set[str] = set()
        self.wrong: list[str] = []

    def changed(self, table: str, begun: frozenset[str], added: set[int], deleted: set[int]) -> None:
        """Note a commit to a table, which began when some were known to be dropped."""
        with self._lock:
            self.rows[table] |= added
            self.deleted[table] |= deleted
            if table in begun:
                self.wrong.append(f"{sorted(added | deleted)} were changed in {table} after it was dropped")

    def drop(self, table: str) -> None:
        """Note a drop."""
        with self._lock:
            self.dropped.add(table)

    def now(self) -> frozenset[str]:
        """Return the tables that are dropped."""
        with self._lock:
            return frozenset(self.dropped)


def _id(table: Any) -> str:
    return cast("str", table.metadata.id if isinstance(table, DeltaTable) else table.metadata.table_uuid)


class _Racer:
    """One thread."""

    def __init__(self, root: Path, kind: Format, journal: _Journal, number: int, seed: int) -> None:
        self._root, self._format, self._journal = root, kind, journal
        self._table: Any = None
        self._number = number
        self._random = random.Random(seed * 1000 + number)
        self._given = 0
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, turns: int) -> None:
        """Do so many things."""
        for _ in range(turns):
            (kind,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
            try:
                getattr(self, f"_{kind}")()
                self.done[kind] += 1
            except _EXPECTED:
                self.done["refused"] += 1
                self._table = None
            except (InvalidArgumentError, StorageError, UnsupportedFeatureError) as error:
                if not any(one in error.message for one in _REFUSALS):
                    self.wrong.append(f"{kind} of thread {self._number}: {type(error).__name__}: {error}")
                self.done["refused"] += 1
                self._table = None
            except Exception as error:  # noqa: BLE001 - each is a finding
                self.wrong.append(f"{kind} of thread {self._number}: {type(error).__name__}: {error}")

    def _opened(self) -> Any:
        """Return the table as this thread knows it, which may be one that is gone."""
        if self._table is None or self._random.random() < 0.3:
            self._table = open_table(self._root)
        return self._table

    def _append(self) -> None:
        table, begun = self._opened(), self._journal.now()
        self._given += 1
        new = self._number * 100_000 + self._given
        table.append(ids(new), policy=_POLICY)
        self._journal.changed(_id(table), begun, {new}, set())

    def _delete(self) -> None:
        table, begun = self._opened(), self._journal.now()
        rows = ids_of(table)
        if rows:
            gone = self._random.choice(rows)
            if table.delete(f"id = {gone}", policy=_POLICY).committed:
                self._journal.changed(_id(table), begun, set(), {gone})

    def _read(self) -> None:
        """Read a state of the table: its rows were never those of another one."""
        table = self._opened()
        own, seen = _id(table), ids_of(table)
        others = (rows for name, rows in list(self._journal.rows.items()) if name != own)
        foreign = set(seen).intersection(*[set[int]().union(*others)])
        if foreign or len(seen) != len(set(seen)):
            self.wrong.append(f"{own} has the rows {seen}, of which others have {sorted(foreign)}")

    def _make(self) -> None:
        self._table = create_table(self._root, _COLUMNS, format=self._format, if_exists="error")

    def _drop(self) -> None:
        before = _id(open_table(self._root))
        self.done["begun drops"] += 1
        done = drop_table(self._root, purge=True)
        # If that was a later one, another drop had taken this one before.
        if done is not None and done.is_complete:
            self._journal.drop(before)
        self._table = None


def race_of_drops(root: Path, kind: Format, threads: int, turns: int, seed: int, name: str) -> Tally:
    """Race in a directory, and look at what is there afterwards.

    Parameters
    ----------
    threads, turns
        How many threads there are, and how many things each does.
    """
    tally, journal = Tally(name, "steps", 0, threads * turns), _Journal()
    racers = [_Racer(root, kind, journal, number, seed) for number in range(1, threads + 1)]
    done = race_in_threads(tally, racers, turns, _WEIGHTS)
    tally.wrong += journal.wrong
    _check(tally, root, journal, done["begun drops"])
    return tally


def _check(tally: Tally, root: Path, journal: _Journal, drops: int) -> None:
    """Compare the table that is left, and no other one was to be, with what was acknowledged."""
    left = None
    try:
        table: Any = open_table(root)
        left = _id(table)
        seen = ids_of(table)
        tally.lost += [f"the row {one} of {left}" for one in journal.rows[left] - journal.deleted[left] - set(seen)]
        tally.wrong += [f"{left} has the deleted row {one}" for one in journal.deleted[left].intersection(seen)]
        # A drop that others got in the way of has taken older metadata files.
        findings = map(str, table.verify(depth="footers").findings)
        tally.lost += [one for one in findings if not one.endswith("which metadata-log names")]
    except TableNotFoundError:
        pass
    except DeltabergError as error:
        tally.lost.append(f"{left or 'the table'} cannot be read: {error}")
    if left in journal.dropped:
        tally.wrong.append(f"{left} is there, and was dropped")
    gone = journal.rows.keys() - {left}
    if len(gone) > drops:
        tally.lost.append(f"{len(gone)} tables are gone by {drops} drops")
