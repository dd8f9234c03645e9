"""The model of Iceberg tables, in a directory or an SQLite catalog: what both formats have, branches and tags."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import deltaberg
from deltaberg import IcebergTable
from deltaberg.iceberg.metadata.write_metadata import version_of
from tests.model.rules import ModelMachine
from tests.model.values import Columns, Row, as_arrow, counted, rows_of

__all__ = ["IcebergMachine"]

_NAME = ("db", "t")


class IcebergMachine(ModelMachine):
    """An Iceberg table. Each of its metadata files is a version."""

    def __init__(self) -> None:
        super().__init__()
        self.catalog: Any = None
        self.begin = 0
        #: Whether files may be written that delete rows of others.
        self.has_deletes = False
        #: The snapshots that versions made, by version.
        self.snapshots: dict[int, int] = {}
        #: The versions that tags name, and the columns and rows of branches.
        self.tags: dict[str, int] = {}
        self.branches: dict[str, list[Row]] = {}

    def open(self, version: int | None = None) -> Any:
        """Open the newest version, or the snapshot that an older one made."""
        return self._open() if version is None else self._open(snapshot_id=self.snapshots[version])

    def _open(self, **moment: Any) -> Any:
        if self.catalog is not None:
            return self.catalog.load_table(_NAME, **moment)
        return deltaberg.open_table(self.root, "iceberg", **moment)

    def number(self, table: Any) -> int:
        """Return which version an open table shows."""
        return (version_of(Path(table.metadata_location).name) or 0) - self.begin

    def landed(self, result: Any) -> int:
        """Return which version a commit made."""
        return int(result.version) - self.begin

    def moments(self) -> list[int]:
        """Return the versions that made a snapshot."""
        return list(self.snapshots)

    def feed(self, first: int, last: int) -> tuple[list[int], Any]:
        """Return the versions that made the snapshots between two, if the one led to the other."""
        table = self.open(last)
        versions = {snapshot: version for version, snapshot in self.snapshots.items()}
        led = [one.snapshot_id for one in table.metadata.ancestors(table.metadata.snapshots[self.snapshots[last]])]
        if self.snapshots[first] not in led:
            return [last], table.changes(self.snapshots[last], self.snapshots[last])
        between = led[: led.index(self.snapshots[first]) + 1][::-1]
        return [versions[snapshot] for snapshot in between], table.changes(self.snapshots[first], self.snapshots[last])

    def version_of(self, known: list[int], row: Row) -> int:
        """Return the version that made the snapshot that a row of a change feed names."""
        return next(version for version in known if self.snapshots[version] == row["_commit_snapshot_id"])

    def _landed(self) -> None:
        super()._landed()
        now = self.open().snapshot_id
        if now is not None and now not in self.snapshots.values():
            self.snapshots[len(self.versions) - 1] = now

    @initialize(
        catalog=st.booleans(),
        version=st.sampled_from(["1", "2", "3"]),
        partitioned=st.booleans(),
        tidy=st.booleans(),
        mode=st.sampled_from(["copy-on-write", "merge-on-read"]),
    )
    def create(self, catalog: bool, version: str, partitioned: bool, tidy: bool, mode: str) -> None:
        """Create the table with random properties."""
        Path(self.root).mkdir()
        if catalog:
            uri = f"sqlite:///{self.folder}/catalog.db"
            self.catalog = deltaberg.load_catalog("model", type="sql", uri=uri, warehouse=self.root)
            self.catalog.create_namespace("db")
        self.partitioned = partitioned
        self.has_deletes = version != "1"
        properties = {
            "format-version": version,
            **({} if version == "1" else {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}),
            **({"commit.manifest.min-count-to-merge": "2"} if tidy else {}),
        }
        where: dict[str, Any] = {"catalog": self.catalog} if catalog else {"format": "iceberg"}
        self.table = deltaberg.create_table(
            _NAME if catalog else self.root,
            as_arrow([], self.columns).schema,
            partition_by=self.part if partitioned else None,
            properties=properties,
            **where,
        )
        self.stale = self.open()
        self.begin = version_of(Path(self.table.metadata_location).name) or 0
        self._landed()

    @precondition(lambda self: self.versions and self.has_deletes)
    @rule(keys=st.sets(st.integers(0, 9), min_size=1, max_size=3))
    def delete_by_keys(self, keys: set[int]) -> None:
        """Delete the rows with some keys, without reading the table."""
        self.table.refresh()
        given = pa.table({"id": pa.array(sorted(keys), pa.int64())})
        left = [row for row in self.rows if row["id"] not in keys]
        self._write(lambda table: table.delete_by_keys(given), lagging=False, rows=left)

    @precondition(lambda self: self.versions)
    @rule(size=st.sampled_from([None, 1, 4000]))
    def rewrite_manifests(self, size: int | None) -> None:
        """Put the entries of manifests into others: the rows stay, and what is in order is left alone."""
        self.table.refresh()
        done = self.table.rewrite_manifests(rewrite_all=size is not None, target_size=size)
        if done.commit is not None:
            assert self.landed(done.commit) == len(self.versions)
            self._landed()
        if size is None:
            assert self.table.rewrite_manifests().commit is None

    @precondition(lambda self: self.versions and self.has_deletes)
    @rule(joins=st.booleans())
    def rewrite_deletes(self, joins: bool) -> None:
        """Turn equality deletes into positions, or join position delete files: the rows stay."""
        self.table.refresh()
        table = self.table
        done = table.rewrite_position_delete_files(rewrite_all=True) if joins else table.convert_equality_deletes()
        if done.commit is not None:
            assert self.landed(done.commit) == len(self.versions)
            assert done.commit.warnings == ()
            self._landed()
        if not joins:
            assert 2 not in table.inspect("delete_files")["content"].to_pylist()

    # Branches and tags

    def _name(self) -> str:
        return f"r{len(self.tags) + len(self.branches)}"

    @precondition(lambda self: self.snapshots)
    @rule()
    def tag(self) -> None:
        """Name the newest snapshot."""
        name, newest = self._name(), max(self.snapshots)
        self.table.refresh()
        self._write(lambda table: table.alter().create_tag(name).commit(), lagging=False, rows=self.rows)
        if name in self.open().metadata.refs:
            self.tags[name] = newest

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def read_a_tag(self, data: st.DataObject) -> None:
        """Read what a tag names."""
        name = data.draw(st.sampled_from(sorted(self.tags)))
        self._compare(self._open(ref=name), self.tags[name])

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def append_to_a_branch(self, data: st.DataObject) -> None:
        """Create a branch and append to it: the table itself stays as it is."""
        name = self._name()
        rows = data.draw(rows_of(self.columns, self.part))
        columns: Columns = dict(self.columns)
        self.table.refresh()
        self._write(lambda table: table.alter().create_branch(name).commit(), lagging=False, rows=self.rows)
        if name not in self.open().metadata.refs:
            return
        before = self.versions[-1][1]
        self.branches[name] = before + rows
        self._write(lambda table: table.append(as_arrow(rows, columns), branch=name), lagging=False, rows=self.rows)
        found = self._open(ref=name).scan(columns=["id"]).to_arrow()["id"].to_pylist()
        assert sorted(found) == sorted(row["id"] for row in self.branches[name])

    @precondition(lambda self: len(self.snapshots) > 1)
    @rule(data=st.data())
    def go_back_and_return(self, data: st.DataObject) -> None:
        """Roll back to an earlier snapshot of these columns, if there is one, and return to the newest."""
        self.table.refresh()
        led = {one.snapshot_id for one in self.table.history()[1:]}
        earlier = [at for at, one in self.snapshots.items() if one in led and self.versions[at][0] == self.columns]
        if not earlier:
            return
        version, newest, now = data.draw(st.sampled_from(earlier)), self.table.snapshot_id, self.rows
        back = self.snapshots[version]
        self._write(
            lambda table: table.alter().rollback_to_snapshot(back).commit(),
            lagging=False,
            rows=self.versions[version][1],
        )
        self._compare(self.open(), len(self.versions) - 1)
        self._write(lambda table: table.alter().set_current_snapshot(newest).commit(), lagging=False, rows=now)

    @precondition(lambda self: self.versions and self.moments())
    @rule(data=st.data())
    def clone(self, data: st.DataObject) -> None:
        """Make a table of a snapshot: it has its rows, and goes on by itself."""
        moment = data.draw(st.sampled_from(self.moments()))
        place = self.folder / "clone"
        self.open(moment).clone(place)
        cloned = IcebergTable(place)
        self._compare(cloned, moment)
        cloned.delete("id < 5")
        assert counted(cloned.scan().to_arrow().to_pylist()) == counted(
            [row for row in self.versions[moment][1] if not row["id"] < 5]
        )
        shutil.rmtree(place)
