"""Changelogs of random histories, which plain Python tells from the rows before and after each snapshot."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, create_table, open_table
from tests.support.roads import Road

State = Counter[tuple[Any, ...]]


class _History:
    """A table of the columns ``id``, one to partition by and ``n``, and the rows of each of its snapshots."""

    def __init__(self, root: Path, part: str, version: int, mode: str) -> None:
        self.part = part
        properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
        self.table: IcebergTable = create_table(
            str(root),
            self._schema,
            format="iceberg",
            partition_by=part,
            properties={"format-version": str(version), **properties},
        )
        self.made: list[int | None] = [None]
        self.states = [State()]

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64()), (self.part, pa.string()), ("n", pa.int64())])

    def _rows(self, rng: random.Random, count: int = 6, parts: Sequence[str | None] = ("a", "b", None)) -> pa.Table:
        rows = [(rng.randrange(5), rng.choice(parts), rng.choice([1, 2, None])) for _ in range(count)]
        return pa.Table.from_pylist([dict(zip(self._schema.names, row, strict=True)) for row in rows], self._schema)

    def change(self, rng: random.Random) -> None:
        """Do something to the table, and remember its rows."""
        part, number = self.part, rng.randrange(5)
        verbs: list[Any] = [
            lambda: self.table.append(self._rows(rng)),
            lambda: self.table.append(self._rows(rng)),
            lambda: self.table.delete(f"id = {number}"),
            lambda: self.table.delete(f"id = {number}", strategy="copy-on-write"),
            lambda: self.table.update({"n": "coalesce(n, 0) + 1"}, f"id = {number}"),
            lambda: self.table.update({part: "'b'"}, f"id = {number}"),
            lambda: self.table.overwrite(self._rows(rng, 2, ["a"]), where=f"`{part}` = 'a'"),
            lambda: self.table.delete_by_keys(pa.table({"id": [number, 77]})),
            lambda: self.table.delete_by_keys(pa.table({"id": [number], part: ["a"]})),
            lambda: self.table.compact(min_files=2, max_deleted=0.0),
            lambda: self.table.compact(min_files=2, max_deleted=0.0),
            lambda: self.table.alter().partition_by(*(("bucket(2, id)",) if number % 2 else (part,))).commit(),
        ]
        rng.choice(verbs)()
        self.remember()

    def remember(self) -> None:
        """Remember the rows of each new snapshot; only the last one of several changes them."""
        known, newest = set(self.made), self.table.snapshot
        for entry in [] if newest is None else list(self.table.metadata.ancestors(newest))[::-1]:
            if entry.snapshot_id not in known:
                self.made.append(entry.snapshot_id)
                rows = open_table(self.table.location, snapshot_id=entry.snapshot_id).scan().to_arrow()
                self.states.append(State(tuple(row.values()) for row in rows.to_pylist()))

    def between(self, first: int, last: int) -> list[tuple[Any, ...]]:
        """Return the changes of the snapshots of a range."""
        changes = []
        for number in range(first, last):
            old, new = self.states[number : number + 2]
            changes += [(number - first, "DELETE", *row) for row in (old - new).elements()]
            changes += [(number - first, "INSERT", *row) for row in (new - old).elements()]
        return sorted(changes, key=repr)

    def net(self, first: int, last: int) -> list[tuple[Any, ...]]:
        """Return what is left of the changes of a range."""
        old, new = self.states[first], self.states[last]
        found = [("DELETE", *row) for row in (old - new).elements()]
        return sorted([*found, *(("INSERT", *row) for row in (new - old).elements())], key=repr)

    def check(self, first: int, last: int, road: Road | None = None) -> None:
        """Compare the changelog of a range with what the rows say."""
        start, end, names = self.made[first], self.made[last], self._schema.names
        scan = self.table.changes(start, end, columns=["_change_ordinal", "_change_type", *names])
        rows = scan.to_arrow().to_pylist() if road is None else road.rows(scan)
        assert sorted((tuple(row.values()) for row in rows), key=repr) == self.between(first, last)
        net = self.table.changes(start, end, net_changes=True, columns=["_change_type", *names]).to_arrow()
        assert sorted((tuple(row.values()) for row in net.to_pylist()), key=repr) == self.net(first, last)
        kept = self.table.changes(start, end, carry_over=True).to_arrow()
        assert _sum(kept, names) == _sum(self.table.changes(start, end).to_arrow(), names)


def _sum(changes: pa.Table, names: list[str]) -> dict[tuple[Any, ...], int]:
    """Return how many more inserts than deletes there are of each row."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in changes.to_pylist():
        found[tuple(row[name] for name in names)] += 1 if row["_change_type"] == "INSERT" else -1
    return {row: count for row, count in found.items() if count}


@pytest.mark.parametrize(
    ("part", "version", "mode"),
    [("p", 2, "merge-on-read"), ("_file", 2, "copy-on-write"), ("_partition", 3, "merge-on-read")],
)
def test_random_histories(tmp_path: Path, part: str, version: int, mode: str) -> None:
    """A change feed of any range is what was done in it, whatever the column to partition by is called."""
    rng = random.Random(f"{part}{version}")
    history = _History(tmp_path / "t", part, version, mode)
    for _ in range(12):
        history.change(rng)
    last = len(history.made) - 1
    assert last >= 5
    history.check(0, last)
    for _ in range(3):
        first, end = sorted((rng.randrange(last + 1), rng.randrange(last + 1)))
        history.check(first, end)


_ENDS: dict[str, Any] = {
    "compacted": lambda table: table.compact(min_files=2, max_deleted=0.0),
    "replaced": lambda table: table.overwrite(table.scan().to_arrow()),
    "rewritten": lambda table: table.delete("n = 1", strategy="copy-on-write"),
}


@pytest.mark.parametrize("end", _ENDS)
def test_deletes_by_keys_that_are_gone_since(tmp_path: Path, road: Road, end: str) -> None:
    """The columns that deletes of the range compare are known, also where the newest snapshot has no such deletes."""
    history = _History(tmp_path / "t", "p", 2, "merge-on-read")
    table = history.table
    for ids in ([1, 2, 3], [3, 4]):
        table.append(pa.table({"id": ids, "p": ["a"] * len(ids), "n": [1] * len(ids)}))
        history.remember()
    table.delete_by_keys(pa.table({"id": [3]}))
    history.remember()
    _ENDS[end](table)
    history.remember()
    assert not table.inspect("delete_files").num_rows
    for first in (0, 2):
        history.check(first, len(history.made) - 1, road)


@pytest.mark.parametrize("name", ["_spec_id", "_pos", "_deleted"])
@pytest.mark.parametrize("partitioned", [True, False])
def test_columns_with_names_of_metadata_columns(tmp_path: Path, name: str, partitioned: bool) -> None:
    history = _History(tmp_path / "t", name, 3, "merge-on-read")
    if not partitioned:
        history.table.alter().partition_by().commit()
    rows = pa.table({"id": [1, 2, 3], name: ["a", "b", None], "n": [1, 2, 3]})
    changes: list[Callable[[], Any]] = [
        lambda: history.table.append(rows),
        lambda: history.table.delete("id = 1"),
        lambda: history.table.update({name: "'c'"}, "id = 2"),
        lambda: history.table.overwrite(rows),
    ]
    for change in changes:
        change()
        history.remember()
    history.check(0, 4)
    history.check(2, 3)
    assert sorted(history.table.appends(None).to_arrow()[name].to_pylist(), key=repr) == ["a", "b", None]
