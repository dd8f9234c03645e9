"""Random operations on a table of either format, which rows in plain Python follow: each version must hold these rows.

A second writer lags behind, and readers keep old versions open.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import deltaberg
from deltaberg import CompactResult
from deltaberg.errors import CommitConflictError, DeltabergError, UnsupportedFeatureError
from tests.model.values import PARTS, TYPES, Columns, Row, as_arrow, counted, rows_of
from tests.support.meanwhile import while_files_are_written

__all__ = ["KINDS", "ModelMachine"]

KINDS = sorted(TYPES)
#: The orders of rows of a compaction, which mostly keeps that in which they are.
_ORDERS: list[dict[str, Any]] = [{}, {}, {"sort_by": "id desc"}, {"hilbert_by": ["id"]}]
#: New values of a type: in SQL, and the same in Python.
_VALUES: dict[str, tuple[str, Callable[[Row], Any]]] = {
    "long": ("id % 3 + 1", lambda row: row["id"] % 3 + 1),
    "text": ("if(id > 4, 'B c', null)", lambda row: "B c" if row["id"] > 4 else None),
}


class ModelMachine(RuleBasedStateMachine):
    """The table, and the rows that it must hold. Subclasses know how tables of their format are opened."""

    #: How many steps all machines have made, for who prints what was tried.
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="deltaberg-model-"))
        self.root = str(self.folder / "table")
        self.columns: Columns = {"id": "long", "p": "text", "v": "long", "t": "text"}
        self.part = "p"
        self.rows: list[Row] = []
        #: The columns and rows of each version.
        self.versions: list[tuple[Columns, list[Row]]] = []
        self.names = 0
        self.mapped = True
        self.partitioned = False
        self.records_changes = False
        #: Whether statistics hold the bounds of the first column.
        self.has_bounds = True
        #: Versions that were opened, and are kept open.
        self.held: list[tuple[int, Any]] = []
        self.table: Any = None
        self.stale: Any = None

    def open(self, version: int | None = None) -> Any:
        """Open the newest version, or an older one."""
        raise NotImplementedError

    def number(self, table: Any) -> int:
        """Return which version an open table shows that was opened at the newest one."""
        raise NotImplementedError

    def landed(self, result: Any) -> int:
        """Return which version a commit made."""
        raise NotImplementedError

    def moments(self) -> list[int]:
        """Return the versions that can be opened."""
        raise NotImplementedError

    # What every step ends with

    def _landed(self) -> None:
        """Record a new version."""
        self.versions.append((dict(self.columns), [dict(row) for row in self.rows]))

    def _writer(self, *, lagging: bool) -> Any:
        """Return the one that mostly writes, which is behind where the other one did, or the one that mostly lags."""
        return self.stale if lagging else self.table

    def _write(self, how: Any, *, lagging: bool, rows: list[Row], columns: Columns | None = None) -> None:
        """Let one of the writers commit what leaves these rows; one that lags behind may be refused."""
        writer = self._writer(lagging=lagging)
        behind = self.number(writer) < len(self.versions) - 1
        try:
            result = how(writer)
        except CommitConflictError:
            assert behind, "nobody else wrote"
            writer.refresh()
            return
        if not result.committed:
            # Nothing was to be done in the version that the writer knows, after which others may have written.
            assert behind or (counted(rows), columns or self.columns) == (counted(self.rows), self.columns)
            return
        assert self.landed(result) == len(self.versions)
        assert result.warnings == ()
        self.rows = rows
        if columns is not None:
            self.columns = columns
        self._landed()

    @invariant()
    def newest_is_as_in_the_model(self) -> None:
        """Whoever opens the table sees the rows of the model."""
        if not self.versions:
            return
        type(self).steps += 1
        table = self.open()
        newest = len(self.versions) - 1
        assert self.number(table) == newest
        self._compare(table, newest)

    def _compare(self, table: Any, version: int) -> None:
        columns, rows = self.versions[version]
        found = table.scan().to_arrow()
        assert found.column_names == list(columns)
        assert counted(found.to_pylist()) == counted(rows)

    def teardown(self) -> None:
        """Read every version that is kept, and let go of the table."""
        try:
            for version in self.moments():
                self._compare(self.open(version), version)
            self._compare_changes()
        finally:
            self._discard()

    def _discard(self) -> None:
        """Remove the table."""
        shutil.rmtree(self.folder)

    def leads_to(self, before: int, moment: int) -> bool:
        """Return whether all changes from one version to another can be read."""
        return True

    def feed(self, first: int, last: int) -> tuple[list[int], Any]:
        """Return the versions of a range that changed rows, after the first of them, and a scan of their changes."""
        raise NotImplementedError

    def _compare_changes(self) -> None:
        """Read the changes of all versions, as far as the columns stay the same from one to the next."""
        runs: list[list[int]] = []
        for moment in sorted(self.moments()):
            before = runs[-1][-1] if runs else 0
            same = self.leads_to(before, moment)
            same = same and all(self.versions[one][0] == self.versions[moment][0] for one in range(before, moment))
            runs = [*runs[:-1], [*runs[-1], moment]] if runs and same else [*runs, [moment]]
        for run in runs:
            if len(run) > 1:
                self._compare_feed(run[0], run[-1])

    def _compare_feed(self, first: int, last: int) -> None:
        """Read the changes of a range: version by version, they are the difference of the rows before and after."""
        columns = self.versions[last][0]
        versions, scan = self.feed(first, last)
        told: dict[int, Counter[str]] = {version: Counter() for version in versions[1:]}
        for row in scan.to_arrow().to_pylist():
            version = self.version_of(versions, row)
            sign = 1 if row["_change_type"].lower() in ("insert", "update_postimage") else -1
            (text,) = counted([{name: row[name] for name in columns}])
            told[version][text] += sign
        for before, version in pairwise(versions):
            old, new = (counted(self.versions[one][1]) for one in (before, version))
            change = Counter(new)
            change.subtract(old)
            assert {text: count for text, count in told[version].items() if count} == {
                text: count for text, count in change.items() if count
            }

    def version_of(self, known: list[int], row: Row) -> int:
        """Return the version of which a row of a change feed tells."""
        raise NotImplementedError

    @rule(data=st.data(), lagging=st.booleans(), narrow=st.booleans())
    def append(self, data: st.DataObject, lagging: bool, narrow: bool) -> None:
        """Append rows; columns may be left out."""
        if lagging and self._stale_columns() != self.columns:
            return
        rows = data.draw(rows_of(self.columns, self.part))
        columns = {name: kind for name, kind in self.columns.items() if not narrow or name in ("id", self.part)}
        new = [{name: row[name] if name in columns else None for name in self.columns} for row in rows]
        self._write(
            lambda table: table.append(as_arrow([{n: r[n] for n in columns} for r in rows], columns)),
            lagging=lagging,
            rows=self.rows + new,
        )

    @rule(data=st.data(), kind=st.sampled_from(KINDS))
    def append_a_column(self, data: st.DataObject, kind: str) -> None:
        """Append rows with a column that the table lacks."""
        columns = {**self.columns, self._fresh_name(): kind}
        new = [name for name in columns if name not in self.columns]
        rows = data.draw(rows_of(columns, self.part))
        given = as_arrow(rows, columns)
        old = [{**row, new[0]: None} for row in self.rows]
        self._write(
            lambda table: table.append(given, schema_mode="merge"), lagging=False, rows=old + rows, columns=columns
        )

    @rule(data=st.data(), lagging=st.booleans())
    def overwrite(self, data: st.DataObject, lagging: bool) -> None:
        """Replace all rows."""
        if lagging and self._stale_columns() != self.columns:
            return
        rows = data.draw(rows_of(self.columns, self.part))
        self._write(lambda table: table.overwrite(as_arrow(rows, self.columns)), lagging=lagging, rows=rows)

    @precondition(lambda self: self.versions and self.partitioned)
    @rule(data=st.data(), part=st.sampled_from(PARTS), lagging=st.booleans())
    def overwrite_part(self, data: st.DataObject, part: str | None, lagging: bool) -> None:
        """Replace the rows of one partition."""
        if lagging and self._stale_columns() != self.columns:
            return
        rows = data.draw(rows_of(self.columns, self.part, parts=[part]))
        left = [row for row in self.rows if row[self.part] != part]
        column = deltaberg.col(self.part)
        where = column.is_null() if part is None else column == part
        self._write(
            lambda table: table.overwrite(as_arrow(rows, self.columns), where=where), lagging=lagging, rows=left + rows
        )

    @precondition(lambda self: self.versions and self.partitioned)
    @rule(data=st.data(), lagging=st.booleans())
    def overwrite_parts(self, data: st.DataObject, lagging: bool) -> None:
        """Replace the partitions that the new rows are in."""
        if lagging and self._stale_columns() != self.columns:
            return
        rows = data.draw(rows_of(self.columns, self.part))
        parts = {row[self.part] for row in rows}
        left = [row for row in self.rows if row[self.part] not in parts]
        given = as_arrow(rows, self.columns)
        self._write(lambda table: table.overwrite(given, dynamic=True), lagging=lagging, rows=left + rows)

    @rule(data=st.data(), lagging=st.booleans(), anew=st.booleans())
    def delete(self, data: st.DataObject, lagging: bool, anew: bool) -> None:
        """Delete the rows that match a condition; null does not match."""
        if self.versions[self.number(self._writer(lagging=lagging))][0] != self.columns:
            return
        condition, matches = data.draw(st.sampled_from(self._conditions()))
        if not any(map(matches, self.versions[self.number(self._writer(lagging=lagging))][1])):
            return
        self._write(
            lambda table: table.delete(condition, strategy="copy-on-write" if anew else None),
            lagging=lagging,
            rows=[row for row in self.rows if not matches(row)],
        )

    @rule(data=st.data(), lagging=st.booleans(), anew=st.booleans())
    def set_a_column(self, data: st.DataObject, lagging: bool, anew: bool) -> None:
        """Set a column of the rows that match a condition; the partition column moves them."""
        if self.versions[self.number(self._writer(lagging=lagging))][0] != self.columns:
            return
        condition, matches = data.draw(st.sampled_from(self._conditions()))
        if not any(map(matches, self.versions[self.number(self._writer(lagging=lagging))][1])):
            return
        name = data.draw(st.sampled_from([one for one, kind in self.columns.items() if kind in _VALUES]))
        text, value = _VALUES[self.columns[name]]
        self._write(
            lambda table: table.update({name: text}, condition, strategy="copy-on-write" if anew else None),
            lagging=lagging,
            rows=[{**row, name: value(row)} if matches(row) else row for row in self.rows],
        )

    def _conditions(self) -> list[tuple[deltaberg.Expression, Callable[[Row], bool]]]:
        """Return conditions, and the same in Python."""
        part = self.part
        number, place = deltaberg.col("id"), deltaberg.col(part)
        conditions: list[tuple[deltaberg.Expression, Callable[[Row], bool]]] = [
            (number == 3, lambda row: row["id"] == 3),
            (number > 4, lambda row: row["id"] > 4),
            (place.is_null(), lambda row: row[part] is None),
            ((place == "a") | (number < 2), lambda row: row[part] == "a" or row["id"] < 2),
        ]
        for name in (name for name, kind in self.columns.items() if kind == "long" and name != "id"):
            value = deltaberg.col(name)
            conditions.append((value >= 1, lambda row, name=name: row[name] is not None and row[name] >= 1))  # type: ignore[misc]
        return conditions

    @precondition(lambda self: self.versions and not self.records_changes)
    @rule(data=st.data())
    def several_at_once(self, data: st.DataObject) -> None:
        """Append, delete and append again in one transaction."""
        first, second = (data.draw(rows_of(self.columns, self.part)) for _ in range(2))
        condition, matches = data.draw(st.sampled_from(self._conditions()))

        def write(table: Any) -> Any:
            with table.transaction() as transaction:
                transaction.append(as_arrow(first, self.columns))
                transaction.delete(condition)
                transaction.append(as_arrow(second, self.columns))
                return transaction.commit()

        left = [row for row in [*self.rows, *first] if not matches(row)]
        self._write(write, lagging=False, rows=left + second)

    @rule(files=st.integers(2, 4), order=st.sampled_from(_ORDERS))
    def compact(self, files: int, order: dict[str, Any]) -> None:
        """Put files together, perhaps in an order: each commit leaves the rows as they were."""
        self._compact(files, order)

    @rule()
    def purge(self) -> None:
        """Write files anew that hold deleted rows or dropped columns: none is left that does."""
        self.table.refresh()
        self._rearranged(self.table.reorg())
        assert not self.table.reorg(dry_run=True).groups

    def _compact(self, files: int, order: dict[str, Any]) -> None:
        self.table.refresh()
        if "hilbert_by" in order and not self.has_bounds:
            with pytest.raises(UnsupportedFeatureError, match="without statistics"):
                self.table.compact(**order)
            return
        self._rearranged(self.table.compact(min_files=files, max_deleted=0.0, **order))

    def _rearranged(self, result: CompactResult) -> None:
        """Note commits that each leave the rows as they were."""
        for commit in result.commits:
            assert self.landed(commit) == len(self.versions)
            assert commit.warnings == ()
            self._landed()

    @precondition(lambda self: self.versions)
    @rule(data=st.data(), files=st.integers(2, 3), order=st.sampled_from(_ORDERS))
    def compact_while_rows_are_deleted(self, data: st.DataObject, files: int, order: dict[str, Any]) -> None:
        """Put files together while the other writer deletes rows: groups are committed without them, or stay."""
        condition, matches = data.draw(st.sampled_from(self._conditions()))
        self.stale.refresh()
        left = [row for row in self.rows if not matches(row)]
        if len(left) == len(self.rows):
            return

        def delete() -> None:
            self._write(lambda table: table.delete(condition), lagging=True, rows=left)

        with pytest.MonkeyPatch.context() as patch:
            while_files_are_written(patch, delete)
            self._compact(files, order)

    def _fresh_name(self) -> str:
        self.names += 1
        return f"c{self.names}" + (" ,;(x)" if self.mapped and self.names % 3 == 0 else "")

    def _stale_columns(self) -> Columns:
        return self.versions[self.number(self.stale)][0]

    @rule(kind=st.sampled_from(KINDS))
    def add_a_column(self, kind: str) -> None:
        """Add a column, which is null in all rows."""
        name = self._fresh_name()
        columns = {**self.columns, name: kind}
        self._write(
            lambda table: table.alter().add([name], TYPES[kind][0]).commit(),
            lagging=False,
            rows=[{**row, name: None} for row in self.rows],
            columns=columns,
        )

    @precondition(lambda self: self.versions and self.mapped)
    @rule(data=st.data())
    def rename_a_column(self, data: st.DataObject) -> None:
        """Rename a column, perhaps that of the partitions."""
        old = data.draw(st.sampled_from([name for name in self.columns if name != "id"]))
        new = self._fresh_name()

        def renamed(found: dict[str, Any]) -> dict[str, Any]:
            return {new if name == old else name: value for name, value in found.items()}

        part = new if old == self.part else self.part
        columns = renamed(self.columns)
        self._write(
            lambda table: table.alter().rename([old], new).commit(),
            lagging=False,
            rows=[renamed(row) for row in self.rows],
            columns=columns,
        )
        self.part = part

    @precondition(lambda self: self.versions and self.mapped and len(self.columns) > 2)
    @rule(data=st.data())
    def drop_a_column(self, data: st.DataObject) -> None:
        """Drop a column."""
        old = data.draw(st.sampled_from([name for name in self.columns if name not in ("id", self.part)]))

        def without(found: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in found.items() if name != old}

        self._write(
            lambda table: table.alter().drop([old]).commit(),
            lagging=False,
            rows=[without(row) for row in self.rows],
            columns=without(self.columns),
        )

    @rule(value=st.text("ab", max_size=3))
    def set_a_property(self, value: str) -> None:
        """Set a property."""
        self._write(lambda table: table.alter().set({"model": value}).commit(), lagging=False, rows=self.rows)
        assert self.open().properties["model"] == value

    @rule(data=st.data(), number=st.integers(0, 3))
    def refused(self, data: st.DataObject, number: int) -> None:
        """Try what cannot be done: it raises, and nothing changes."""
        rows = data.draw(rows_of(self.columns, self.part, most=3))
        good = as_arrow([*rows, dict.fromkeys(self.columns, None)], self.columns)
        if number == 0:
            bad = good.set_column(0, "id", [["no number"] * len(good)])
        elif number == 1:
            bad = good.append_column("not there", [[1] * len(good)])
        elif number == 2:
            bad = good.rename_columns(["ID", *good.column_names[1:]]).append_column("id", good.column(0))
        else:
            bad = good.set_column(0, "id", [[1.5] * len(good)])
        for write in (self.table.append, self.table.overwrite):
            try:
                write(bad)
            except DeltabergError:
                continue
            raise AssertionError("what does not fit was written")

    @rule()
    def refresh_the_other_writer(self) -> None:
        """Let the writer that lags behind see what the others did."""
        self.stale.refresh()
        assert self.number(self.stale) == len(self.versions) - 1

    @rule()
    def open_again(self) -> None:
        """Begin with a new table object."""
        self.table = self.open()

    @precondition(lambda self: self.versions and self.moments())
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        """Open a version, and keep it open."""
        version = data.draw(st.sampled_from(self.moments()))
        self.held.append((version, self.open(version)))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def read_what_is_held(self, data: st.DataObject) -> None:
        """Read a version that was opened earlier."""
        version, table = data.draw(st.sampled_from(self.held))
        self._compare(table, version)

    @precondition(lambda self: self.versions and self.moments())
    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        """Read an older version."""
        version = data.draw(st.sampled_from(self.moments()))
        self._compare(self.open(version), version)
