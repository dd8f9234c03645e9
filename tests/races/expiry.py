"""Races of expiries and removals of orphans with all that needs files of an Iceberg table, in threads.

Each thread appends and deletes rows, publishes staged ones, sets tags and drops them, goes on in a branch and rolls it
back, expires snapshots, or removes orphans among files that look old. Whatever was acknowledged has to be there in the
end, with its files: the rows of ``main``, of each tag and of each branch, and all retained snapshots.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaberg import IcebergTable, create_table, load_catalog
from deltaberg.errors import (
    CommitConflictError,
    DataFileNotFoundError,
    DeltabergError,
    InvalidArgumentError,
    VersionNotFoundError,
)
from deltaberg.table.commit.commit import CommitPolicy
from tests.catalogs.rest_server import running
from tests.catalogs.rest_writer import WritableServer, writing_version_3
from tests.catalogs.written import peer_sql
from tests.races.in_threads import race_in_threads
from tests.support.rows import ids, ids_of
from tests.support.tally import Tally

__all__ = ["race_of_expiries", "table_to_expire"]

COLUMNS = pa.schema([("id", pa.int64())])
PROPERTIES = {"format-version": "3", "write.delete.mode": "merge-on-read"}
#: Opens a handle of the table, with the arguments of a state.
Open = Callable[..., Any]
_POLICY = CommitPolicy(retries=200, pause=0.001, longest_pause=0.05)
_OLD = 946_684_800
_HOUR = 3600
#: How often each thing is done.
_WEIGHTS = {"append": 6, "delete": 2, "publish": 2, "tag": 4, "untag": 2, "branch": 2, "expire": 4, "orphans": 2}
#: What others may do to a step, which then has done nothing.
_EXPECTED = (CommitConflictError, VersionNotFoundError, DataFileNotFoundError)


class _Racer:
    """One thread, and what it knows to be in the table."""

    def __init__(self, open_table: Open, number: int, seed: int) -> None:
        self._open = open_table
        self._table = open_table()
        self._number = number
        self._random = random.Random(seed * 1000 + number)
        self._given = 0
        self.rows: set[int] = set()
        self.tags: dict[str, list[int]] = {}
        self.branches: dict[str, list[int]] = {}
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, turns: int) -> None:
        """Do so many things."""
        for _ in range(turns):
            (kind,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
            try:
                if self._random.random() < 0.5:
                    self._table.refresh()
                getattr(self, f"_{kind}")()
                self.done[kind] += 1
            except _EXPECTED:
                self.done["refused"] += 1
            except Exception as error:  # noqa: BLE001 - each is a finding
                self.wrong.append(f"{kind} of thread {self._number}: {type(error).__name__}: {error}")

    def _new(self) -> int:
        self._given += 1
        return self._number * 100_000 + self._given

    def _append(self) -> None:
        new = self._new()
        self._table.append(ids(new), policy=_POLICY)
        self.rows.add(new)

    def _delete(self) -> None:
        if self.rows:
            gone = self._random.choice(sorted(self.rows))
            self._table.delete(f"id = {gone}", policy=_POLICY)
            self.rows.discard(gone)

    def _publish(self) -> None:
        new = self._new()
        self._table.append(ids(new), properties={"wap.id": f"w{new}"}, policy=_POLICY)
        with suppress(InvalidArgumentError):
            # An expiry may be faster.
            self._table.publish(f"w{new}", policy=_POLICY)
            self.rows.add(new)

    def _tag(self) -> None:
        chosen = self._random.choice(self._table.snapshots).snapshot_id
        rows = ids_of(self._open(snapshot_id=chosen))
        name = f"t{self._new()}"
        self._table.alter().create_tag(name, chosen).commit()
        self.tags[name] = rows

    def _untag(self) -> None:
        if self.tags:
            name = self._random.choice(sorted(self.tags))
            del self.tags[name]
            self._table.refresh().alter().drop_tag(name).commit()

    def _branch(self) -> None:
        """Begin a branch, write to it, and roll it back, or leave it as it is."""
        name = f"b{self._new()}"
        self._table.refresh().alter().create_branch(name, min_snapshots_to_keep=5).commit()
        branch = self._open(ref=name)
        before, rows = branch.snapshot_id, ids_of(branch)
        self.branches[name] = rows
        new = self._new()
        branch.append(ids(new), policy=_POLICY)
        self.branches[name] = sorted([*rows, new])
        if self._random.random() < 0.5:
            branch.alter().rollback_to_snapshot(before).commit()
            self.branches[name] = rows

    def _expire(self) -> None:
        keeps = self._random.randrange(1, 4)
        done = self._table.expire_snapshots(older_than="9999-12-31", retain_last=keeps, policy=_POLICY)
        self.done["expired"] += len(done.snapshot_ids)
        self.done["deleted"] += done.deleted_files
        if done.failed:
            raise AssertionError(f"files could not be deleted: {done.failed}")

    def _orphans(self) -> None:
        """Let all files of the table look old, so that nothing but what is reached tells orphans."""
        table = self._open()
        manifests = table.inspect("manifests")["path"].to_pylist()
        named = [*table.scan().files()["file_path"].to_pylist(), *manifests, table.snapshot.manifest_list]
        orphan = Path(table.location, "data", f"orphan-{self._new()}.parquet")
        orphan.write_bytes(b"x")
        for path in (*named, str(orphan)):
            with suppress(FileNotFoundError):
                os.utime(path.removeprefix("file://").removeprefix("file:"), (_OLD, _OLD))
        done = self._table.remove_orphan_files(
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - _HOUR)),
            dry_run=False,
            enforce_retention_duration=False,
        )
        self.done["orphans deleted"] += done.deleted_files
        if orphan.exists() and done.is_complete:
            raise AssertionError(f"{orphan} is still there")


def race_of_expiries(open_table: Open, threads: int, turns: int, seed: int, name: str) -> Tally:
    """Race, and look at what is there afterwards.

    Parameters
    ----------
    open_table
        Opens the table, which has a snapshot.
    threads, turns
        How many threads there are, and how many things each does.
    """
    tally = Tally(name, "steps", 0, threads * turns)
    racers = [_Racer(open_table, number, seed) for number in range(1, threads + 1)]
    race_in_threads(tally, racers, turns, _WEIGHTS)
    _check(tally, open_table, racers)
    return tally


def _check(tally: Tally, open_table: Open, racers: list[_Racer]) -> None:
    table = open_table()
    expected = {"main": sorted({0}.union(*(racer.rows for racer in racers)))}
    for racer in racers:
        expected |= racer.tags | racer.branches
    for ref, rows in expected.items():
        try:
            seen = ids_of(open_table(ref=ref))
        except DeltabergError as error:
            tally.lost.append(f"{ref} cannot be read: {error}")
            continue
        tally.lost += [f"the row {one} of {ref}" for one in sorted(set(rows) - set(seen))]
        tally.wrong += [f"{ref} has the row {one}" for one in sorted(set(seen) - set(rows))]
        if len(seen) != len(set(seen)):
            tally.doubled.append(f"rows of {ref}")
    tally.wrong += [f"{ref} is left" for ref in sorted(table.refs.keys() - expected.keys())]
    for snapshot in table.snapshots:
        findings = open_table(snapshot_id=snapshot.snapshot_id).verify(depth="footers").findings
        tally.lost += [f"snapshot {snapshot.snapshot_id}: {one}" for one in findings]


@contextmanager
def table_to_expire(folder: Path, kind: str) -> Iterator[Open]:
    """Make a table in a directory (``iceberg``), a SQL catalog (``sqlite``) or a REST catalog (``rest``)."""
    if kind == "iceberg":
        root = str(folder / "table")
        create_table(root, COLUMNS, format="iceberg", properties=PROPERTIES).append(ids(0))
        yield lambda **state: IcebergTable(root, **state)
        return
    database, warehouse = f"sqlite:///{folder / 'catalog.db'}", folder / "warehouse"
    peer = peer_sql("shop", database, warehouse)
    peer.create_namespace("db")
    with writing_version_3(), running(WritableServer(peer=peer)) as server:
        sql = {"type": "sql", "uri": database, "warehouse": str(warehouse)}
        catalog: Any = load_catalog("shop", **({"uri": server.uri} if kind == "rest" else sql))
        catalog.create_table("db.t", COLUMNS, properties=PROPERTIES).append(ids(0))
        yield lambda **state: catalog.load_table("db.t", **state)
    peer.engine.dispose()
