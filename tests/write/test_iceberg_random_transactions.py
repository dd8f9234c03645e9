"""Random operations of a transaction see each other, as a model in plain Python and pyiceberg tell."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from deltaberg import create_table, open_table
from deltaberg.errors import UnsupportedFeatureError
from tests.support.effort import tries

pytestmark = [pytest.mark.slow, pytest.mark.one_backend]

_COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.string()), ("n", pa.int32())])
_SPECS = [[], ["k"], ["bucket(2, id)"], ["k", "truncate(2, n)"], ["n"]]
_KINDS = ("append", "delete", "update", "replace", "partitions", "upsert", "move")
#: The columns that a partition's rows agree in, by the spec.
_Model = dict[int, tuple[str | None, int | None]]


class _Run:
    """A table, the model of its rows, and the dice."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.rng, self.root = rng, root
        self.version = rng.choice([1, 2, 3])
        granularity = {"write.delete.granularity": rng.choice(["file", "partition"])}
        properties = {"format-version": str(self.version), **granularity}
        self.spec = rng.choice(_SPECS)
        self.table: Any = create_table(root, _COLUMNS, format="iceberg", partition_by=self.spec, properties=properties)
        self.model: _Model = {}
        self.following = 0

    def rows(self, count: int) -> _Model:
        first, self.following = self.following, self.following + count
        return {number: self.row() for number in range(first, first + count)}

    def row(self) -> tuple[str | None, int | None]:
        return self.rng.choice(["a", "b", None]), self.rng.choice([1, 2, 5, None])

    def step(self, change: Any) -> str:
        """Do one operation, in the transaction and in the model."""
        kind = self.rng.choice(_KINDS if self.model else ("append",))
        modes = [None] if self.version == 1 else ["copy-on-write", "merge-on-read"]
        strategy, model = self.rng.choice(modes), self.model
        low = self.rng.randrange(self.following + 1)
        chosen = {number for number in model if low <= number < low + 4}
        where = f"id >= {low} AND id < {low + 4}"
        if kind == "append":
            new = self.rows(self.rng.randrange(1, 6))
            change.append(_arrow(new))
            self.model = {**model, **new}
        elif kind == "delete":
            change.delete(where, strategy=strategy)
            self.model = {number: row for number, row in model.items() if number not in chosen}
        elif kind == "update":
            change.update({"n": "coalesce(n, 0) + 1"}, where, strategy=strategy)
            self.model = {number: (k, (n or 0) + 1) if number in chosen else (k, n) for number, (k, n) in model.items()}
        elif kind == "move":
            change.update({"k": "'b'"}, where, strategy=strategy)
            self.model = {number: ("b", n) if number in chosen else (k, n) for number, (k, n) in model.items()}
        elif kind == "replace":
            new = self.rows(2)
            change.overwrite(_arrow(new), where=where, check=False)
            self.model = {number: row for number, row in model.items() if number not in chosen} | new
        elif kind == "upsert":
            new = {number: self.row() for number in [*sorted(chosen)[:2], *self.rows(1)]}
            change.upsert(_arrow(new), "id", strategy=strategy)
            self.model = {**model, **new}
        elif self.spec and "bucket" not in self.spec[0]:
            new = self.rows(2)
            keys = {self._partition(row) for row in new.values()}
            change.overwrite(_arrow(new), dynamic=True)
            self.model = {number: row for number, row in model.items() if self._partition(row) not in keys} | new
        return kind

    def _partition(self, row: tuple[str | None, int | None]) -> tuple[Any, ...]:
        k, n = row
        values = {"k": k, "n": n, "truncate(2, n)": None if n is None else n - n % 2}
        return tuple(values[name] for name in self.spec)

    def check(self, done: object) -> None:
        self.table.refresh()
        expected = [{"id": number, "k": k, "n": n} for number, (k, n) in sorted(self.model.items())]
        found = open_table(self.root, "iceberg", validate=True)
        assert found.scan().to_arrow().sort_by("id").to_pylist() == expected, done
        assert found.scan().count() == len(expected), done
        theirs = StaticTable.from_metadata(found.metadata_location).scan().to_arrow()
        assert sorted(theirs["id"].to_pylist()) == sorted(self.model), done


def _arrow(rows: _Model) -> pa.Table:
    columns = {"id": list(rows), "k": [k for k, _ in rows.values()], "n": [n for _, n in rows.values()]}
    return pa.table(columns, _COLUMNS)


@pytest.mark.thorough
def test_transactions(tmp_path: Path, rng: random.Random) -> None:
    for case in range(tries(36)):
        run = _Run(tmp_path / str(case), rng)
        for _ in range(4):
            done: list[str] = [f"version {run.version}", str(run.spec)]
            before, following = run.model, run.following
            try:
                with run.table.transaction() as transaction:
                    done.extend(run.step(transaction) for _ in range(rng.randrange(1, 5)))
            except UnsupportedFeatureError as error:
                # Partitions of a file that the transaction has added before a change of the partitioning, for one.
                done.append(str(error))
                run.model, run.following = before, following
            run.check(done)
            if rng.random() < 0.4:
                run.spec = rng.choice(_SPECS)
                run.table.alter().partition_by(*run.spec).commit()
