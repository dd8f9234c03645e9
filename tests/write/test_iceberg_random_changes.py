"""Random changes of rows of Iceberg tables by two writers, one of them late, beside a model in memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import CommitConflictError
from deltaberg.iceberg import IcebergTable
from tests.support.snapshot_log import faults_of_directory

pytestmark = pytest.mark.one_backend

_COLUMNS = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("note", pa.string())])
_LAYOUTS = [(), ("kind",), ("bucket(3, id)",), ("truncate(2, id)", "kind")]


def _kind(number: int) -> str | None:
    return None if number % 5 == 4 else "abc"[number % 3]


def _rows(ids: list[int], note: str) -> pa.Table:
    return pa.table({"id": ids, "kind": [_kind(number) for number in ids], "note": [note] * len(ids)}, _COLUMNS)


def _read(root: Path, *columns: str) -> list[dict[str, Any]]:
    table = open_table(root, "iceberg", validate=True)
    found: list[dict[str, Any]] = table.scan(columns=list(columns)).to_arrow().to_pylist()
    return found


def _named(some: list[int]) -> str:
    return f"id IN ({', '.join(map(str, some)) or 'NULL'})"


class _Changes:
    """A table, and what its rows should be. Notes tell how often a row was updated."""

    def __init__(self, root: Path, generator: random.Random) -> None:
        self.root, self._random = root, generator
        properties = {
            "format-version": generator.choice(["2", "3"]),
            "commit.manifest.min-count-to-merge": generator.choice(["2", "100"]),
            "write.delete.format.default": generator.choice(["parquet", "avro", "orc"]),
        }
        layout = list(generator.choice(_LAYOUTS))
        create_table(root, _COLUMNS, format="iceberg", properties=properties, partition_by=layout)
        self.rows: dict[int, str] = {}
        self.ids: dict[int, int] = {}
        self._next = 0

    def open(self) -> IcebergTable:
        table: IcebergTable = open_table(self.root, "iceberg")
        return table

    def _new(self, count: int) -> list[int]:
        self._next += count
        return list(range(self._next - count, self._next))

    def change(self, table: IcebergTable, is_late: bool) -> str:
        """Change rows by a table object; a late one does not know the newest snapshot, and may be refused."""
        verbs = ["append", "delete", "update", "keys", "compact"]
        verb = self._random.choice(verbs if is_late else [*verbs, "delete", "upsert", "layout", "whole", "transaction"])
        strategy = self._random.choice(["merge-on-read", "copy-on-write"])
        some = self._random.sample(sorted(self.rows), min(len(self.rows), self._random.randrange(1, 6)))
        if is_late and verb in ("delete", "update"):
            seen = set(table.scan().to_arrow()["id"].to_pylist())
            some = [number for number in some if number in seen]
        self.rows = getattr(self, f"_{verb}")(table, some, strategy)
        return f"{verb} {strategy} {some}"

    def _append(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        new = self._new(self._random.randrange(1, 12))
        table.append(_rows(new, "n"))
        return self.rows | dict.fromkeys(new, "n")

    def _delete(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        table.delete(_named(some), strategy=strategy)
        return self._without(some)

    def _update(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        table.update({"note": "concat(note, 'u')"}, _named(some), strategy=strategy)
        return self.rows | {number: self.rows[number] + "u" for number in some}

    def _keys(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        table.delete_by_keys(_rows(some, "other"), self._random.choice([["id"], ["id", "kind"]]))
        return self._without(some)

    def _compact(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        table.compact(max_deleted=self._random.choice([0.0, 0.9]))
        return self.rows

    def _upsert(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        new = [*some, *self._new(1)]
        table.upsert(_rows(new, "s"), "id", strategy=strategy)
        return self.rows | dict.fromkeys(new, "s")

    def _layout(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        choose = self._random.choice
        version, granularity = choose([str(table.format_version), "3"]), choose(["file", "partition"])
        layout = table.alter().partition_by(*choose(_LAYOUTS))
        layout.set({"format-version": version, "write.delete.granularity": granularity}).commit()
        return self.rows

    def _whole(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        table.delete("kind = 'a'", strategy=strategy)
        return self._without([number for number in self.rows if _kind(number) == "a"])

    def _transaction(self, table: IcebergTable, some: list[int], strategy: Any) -> dict[int, str]:
        (new,) = self._new(1)
        with table.transaction() as transaction:
            transaction.append(_rows([new], "t"))
            transaction.delete(_named(some), strategy=strategy)
            transaction.update({"note": "concat(note, 'x')"}, f"id % 2 = 0 OR id = {new}", strategy=strategy)
        left = self._without(some) | {new: "t"}
        return {number: f"{note}x" if number % 2 == 0 or number == new else note for number, note in left.items()}

    def _without(self, some: list[int]) -> dict[int, str]:
        return {number: note for number, note in self.rows.items() if number not in some}

    def check(self) -> None:
        """Compare the rows, and look whether each kept the id that it got."""
        found = _read(self.root, "id", "note")
        assert sorted((row["id"], row["note"]) for row in found) == sorted(self.rows.items())
        if self.open().format_version > 2:
            known = {row["id"]: row["_row_id"] for row in _read(self.root, "id", "_row_id")}
            ids = {number: row_id for number, row_id in known.items() if row_id is not None}
            assert len(set(ids.values())) == len(ids)
            assert {number: ids.get(number) for number in self.ids if number in known} == {
                number: row_id for number, row_id in self.ids.items() if number in known
            }
            self.ids = ids


@pytest.mark.parametrize("run", [0, *(pytest.param(number, marks=pytest.mark.full) for number in range(1, 40))])
def test_random_changes(tmp_path: Path, seed: int, run: int) -> None:
    generator = random.Random(f"{seed} {run}")
    changes = _Changes(tmp_path / "t", generator)
    late, log = changes.open(), list[str]()
    for _ in range(generator.randrange(6, 14)):
        if generator.random() < 0.3:
            try:
                log.append(f"late: {changes.change(late, True)}")
            except CommitConflictError as error:
                log.append(f"late: {type(error).__name__}")
        else:
            log.append(changes.change(changes.open(), False))
        if generator.random() < 0.5:
            late = changes.open()
        try:
            changes.check()
        except AssertionError as error:
            raise AssertionError(f"{error} after {log}") from None
    assert faults_of_directory(changes.root) == [], log
