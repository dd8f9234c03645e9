"""Looking for rows in Spark's tasks, which run in this process here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from deltaberg import IcebergTable, create_table, open_table, write_table
from deltaberg.delta.change.row_changes import scan_to_change
from deltaberg.errors import EvaluationError
from deltaberg.files.read.task import pack_tasks
from deltaberg.spark.read.read_tasks import TASK_COLUMN, ReadTask
from deltaberg.spark.write import row_tasks
from deltaberg.spark.write.search import MatchTask, SearchTask
from deltaberg.spark.write.staging import StageTask, staged_rows
from deltaberg.spark.write.write_tasks import FusedWriteTask, written_of_replies
from deltaberg.storage.location import parse_location
from deltaberg.table.change.conditions import row_condition
from deltaberg.table.change.match import RowTest, find_rows, scan_of_rows
from deltaberg.table.change.positions import positions_of
from deltaberg.table.maintain.bins.stage import Stage
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.sharing import grouped_tasks
from tests.support.below_verbs import engine_of
from tests.support.canon import canonical_lines

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]


def _replies(bound: BoundScan, width: int, test: RowTest | None) -> list[dict[str, Any]]:
    return _run(SearchTask(ReadTask(bound.read_spec), width, test), bound)


def _run(task: Any, bound: BoundScan) -> list[dict[str, Any]]:
    """Run a task for each group of splits, as it arrives at a worker."""
    pickler: Any = cloudpickle
    sent = pickler.loads(pickler.dumps(task))
    packed = [pa.record_batch({TASK_COLUMN: [pack_tasks(group)]}) for group in grouped_tasks(bound, 2)]
    assert packed
    return [row for batch in packed for reply in sent(iter([batch])) for row in reply.to_pylist()]


class _Search:
    def __init__(self) -> None:
        self.rows = 0

    def write(self, *_: Any) -> None:
        """Have this process write."""

    def takes(self, *_: Any) -> bool:
        """Have this process read."""
        return False

    def run(self, *_: Any) -> Any:
        """Refuse what nobody asks for."""
        raise AssertionError("tasks are to do other work")

    def find(self, bound: BoundScan, width: int, test: RowTest | None) -> Any:
        for reply in _replies(bound, width, test):
            if reply["error"] is not None:
                raise written_of_replies([(None, reply["error"])])[1][0]
            positions = positions_of(reply["rows"]).cast(pa.int64())
            yield pa.repeat(pa.scalar(reply["file"], pa.int64()), len(positions)), positions

    def read(self, bound: BoundScan, test: RowTest) -> Any:
        stage = Stage.of(bound.source.store, parse_location(bound.source.table))
        task = StageTask(stage, bound.output)
        replies = _run(FusedWriteTask(MatchTask(ReadTask(bound.read_spec), test), task), bound)
        for batch in staged_rows(task, [(reply["name"], reply["error"]) for reply in replies]):
            self.rows += batch.num_rows
            yield batch
        stage.clear()


_HIDING = {"delta.enableDeletionVectors": "true"}
_WAYS: dict[str, dict[str, Any]] = {
    "delta, by vectors": {"configuration": _HIDING},
    "delta, by files": {},
    "iceberg, by vectors": {
        "format": "iceberg",
        "configuration": {
            "format-version": "3",
            "write.merge.mode": "merge-on-read",
            "write.delete.mode": "merge-on-read",
        },
    },
    "iceberg, by files": {"format": "iceberg"},
}


def _scan(table: Any, condition: Any) -> BoundScan:
    if isinstance(table, IcebergTable):
        return scan_of_rows(engine_of(table.transaction()).source, condition, "UTC")
    return scan_to_change(engine_of(table.transaction()), condition, "UTC")


@pytest.mark.parametrize("way", ["delta, by vectors", "iceberg, by vectors"])
@pytest.mark.parametrize("where", ["n % 3 = 0 AND upper(name) LIKE 'A%'", "n > 4", "length(concat(name, 'x')) > 9"])
def test_tasks_find_what_this_machine_finds(where: str, way: str, tmp_path: Path) -> None:
    """Addresses are physical positions, whatever was deleted before."""
    for first in (0, 10, 20):
        rows = pa.table({"n": range(first, first + 10), "name": [f"a{number}" for number in range(10)]})
        write_table(tmp_path, rows, mode="append", **_WAYS[way])
    table = open_table(tmp_path)
    table.delete("n IN (0, 3, 14)")
    condition = row_condition(table.schema, where, "UTC")
    scan = _scan(table, condition)
    here, there = find_rows(scan), find_rows(scan, search=_Search())
    assert there.rows.numbers == here.rows.numbers
    assert there.whole == here.whole
    for number in here.rows.numbers:
        assert there.rows.positions(number).equals(here.rows.positions(number))


def test_errors_of_tasks_are_those_of_this_machine(tmp_path: Path) -> None:
    write_table(tmp_path, pa.table({"n": [1, 2]}))
    write_table(tmp_path, pa.table({"n": [0]}), mode="append")
    transaction = engine_of(open_table(tmp_path, "delta").transaction())
    condition = row_condition(transaction.snapshot.schema, "5 / n > 1", "UTC")
    with pytest.raises(EvaluationError, match="zero"):
        find_rows(scan_to_change(transaction, condition, "UTC"), search=_Search())


@pytest.mark.parametrize(
    ("on", "read"),
    [
        ("target.n = source.n", 2),
        ("target.n = source.n AND target.name <=> source.name", 1),
        ("target.n + 1 = source.n AND target.name IS NOT NULL", 2),
        # Zeros and NaN are equal to values of other bits, and every pair is looked at where there is no key.
        ("CAST(target.n AS double) = CAST(source.n AS double)", None),
        ("target.n < source.n AND source.n = 3", None),
    ],
)
@pytest.mark.parametrize("way", _WAYS)
def test_merges_read_the_rows_that_can_match(on: str, read: int | None, way: str, tmp_path: Path) -> None:
    source = pa.table({"n": [3, 14, 99], "name": ["a3", "new", None]})
    tables = []
    for name in ("here", "there"):
        for first in (0, 10):
            rows = pa.table({"n": range(first, first + 10), "name": [f"a{number}" for number in range(10)]})
            write_table(tmp_path / name, rows, mode="append", **_WAYS[way])
        tables.append(open_table(tmp_path / name))
        tables[-1].delete("n = 5")
    here, there = tables
    searched = _Search()
    for table in tables:
        table._row_tasks = searched if table is there else None
        with table.transaction() as transaction:
            merge = transaction.merge(source, on).when_matched_update(
                {"name": "concat(source.name, '!')"}, "source.n < 50"
            )
            merge.when_not_matched_insert_all("source.n > 50").execute()
    assert canonical_lines(there.scan().to_arrow()) == canonical_lines(here.scan().to_arrow())
    assert searched.rows == (read or 0)
    assert not list((tmp_path / "there").glob("*.arrow"))


def test_iceberg_tables_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are found by Spark's tasks, also those that match a DataFrame."""
    monkeypatch.setattr(row_tasks, "_LEAST_BYTES", 0)
    asked: list[str] = []
    for name in ("find", "read"):
        method = getattr(row_tasks.SparkRowTasks, name)

        def noted(self: Any, *places: Any, own_name: str = name, own: Any = method, **named: Any) -> Any:
            asked.append(own_name)
            return own(self, *places, **named)

        monkeypatch.setattr(row_tasks.SparkRowTasks, name, noted)
    properties = {"format-version": "3", **{f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "merge")}}
    columns = {"n": pa.int64(), "name": pa.string()}
    plain = create_table(tmp_path / "t", columns, format="iceberg", properties=properties)
    for first in (0, 50):
        plain.append(pa.table({"n": range(first, first + 50), "name": [f"n{one}" for one in range(50)]}))
    table = plain.on_spark(spark)
    assert table.delete("upper(name) LIKE 'N4%' AND n % 2 = 0").metrics["numDeletedRows"] == 12
    assert table.update({"n": "n + 1000"}, "length(name) = 2").metrics["numUpdatedRows"] == 18
    updates = spark.range(90, 110).selectExpr("id AS n", "'new' AS name")
    merge = table.merge(updates, "target.n = source.n AND target.n < 98").when_matched_update_all()
    done = merge.when_not_matched_insert_all("source.n > 105").execute()
    assert (done.metrics["numTargetRowsUpdated"], done.metrics["numTargetRowsInserted"]) == (4, 4)
    assert asked == ["find", "find", "read"]
    assert plain.refresh().snapshot_id == done.snapshot_id
    asked.clear()
    rows = spark.sql("SELECT * FROM VALUES (11L, 'n11'), (12L, 'other'), (200L, 'more') AS rows(n, name)")
    done = table.refresh().upsert(rows, "n")
    assert (done.metrics["numTargetRowsUpdated"], done.metrics["numTargetRowsInserted"]) == (1, 1)
    assert asked == ["read", "find"]
    plain.refresh().delete("n = 1003")
    assert asked == ["read", "find"]
    assert not list(tmp_path.rglob("*.arrow"))
