"""Files that Spark's tasks write where rows are deleted or updated. The tasks run in this process here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import IcebergTable, create_table
from deltaberg.errors import ConstraintViolationError, EvaluationError
from deltaberg.spark.write import row_tasks
from deltaberg.spark.write.search import DividedSearchTask
from deltaberg.table.commit.commit import CommitResult
from tests.spark.worker_tasks import Workers
from tests.support.canon import canonical_lines

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_ROWS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("price", pa.float64()), ("name", pa.string())])
_TRACKED = {"delta.enableRowTracking": "true"}
_MODES = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
_WAYS: dict[str, dict[str, Any]] = {
    "delta, by files": {"properties": _TRACKED},
    "delta, by vectors": {
        "properties": {**_TRACKED, "delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    },
    "iceberg 2, by files": {"format": "iceberg", "properties": {"format-version": "2"}},
    "iceberg 3, by files": {"format": "iceberg", "properties": {"format-version": "3"}},
    "iceberg 3, by vectors": {"format": "iceberg", "properties": {"format-version": "3", **_MODES}},
}

#: The ways that are tested each time.
_OFTEN = ("delta, by files", "iceberg 3, by vectors")


def _rows(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    parts = [None if one % 3 else "p/1" for one in ids]
    prices = [None if one % 7 == 0 else float("nan") if one % 11 == 0 else one / 4 for one in ids]
    return pa.table([list(ids), parts, prices, [f"name {one % 9}" for one in ids]], schema=_ROWS)


def _table(path: Path, way: str) -> Any:
    """Make a table of several files in each of several partitions, from some of which rows were deleted before."""
    table = create_table(path, _ROWS, partition_by=["part"], **_WAYS[way])
    with table.transaction() as transaction:
        for first in (0, 40):
            transaction.append(_rows(first, first + 40))
    table.delete(
        "id IN (3, 41, 42)", strategy=None if "iceberg 2" in way else "merge-on-read" if "vec" in way else None
    )
    return table


def _facts(table: Any, result: CommitResult) -> list[str]:
    """Return the partitions, counts and statistics of the files that the newest commit added."""
    if isinstance(table, IcebergTable):
        own = ("content", "partition", "record_count", "readable_metrics", "sort_order_id", "value_counts")
        new = table.snapshot.snapshot_id if table.snapshot else None
        entries = [entry for entry in table.inspect("entries").to_pylist() if entry["snapshot_id"] == new]
        files = [entry["data_file"] | entry for entry in entries if entry["status"] == 1]
        return sorted(repr([file.get(name) for name in own]) for file in files)
    log = Path(table.location) / "_delta_log" / f"{result.version:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    adds = [action["add"] for action in actions if "add" in action]
    return sorted(repr([add["partitionValues"], json.loads(add["stats"]), add.get("tags")]) for add in adds)


def _content(table: Any) -> list[str]:
    """Return the rows with their ids, and with the versions that last changed them."""
    hidden: list[str] = []
    if not isinstance(table, IcebergTable):
        hidden = ["_metadata.row_id", "_metadata.row_commit_version"]
    elif table.format_version > 2:
        hidden = ["_row_id", "_last_updated_sequence_number"]
    old = table.scan(filter="id < 80", columns=[*_ROWS.names, *hidden])
    # The ids of inserted rows depend on how many files there are.
    return canonical_lines(old.to_arrow()) + canonical_lines(table.scan(filter="id >= 80").to_arrow())


_WHERE = "length(name) = 6 AND id % 4 = 1 OR part = 'p/1' AND id < 40"
_UPDATED = {"price": "id * 2", "part": "concat(coalesce(part, 'new'), '!')"}
_SOURCE = pa.table({"id": [6, 13, 20, 47, 90, 91], "name": ["six", None, "gone", "name 2", "new", "ignored"]})


def _merge(table: Any) -> CommitResult:
    merge = table.merge(_SOURCE, "target.id = source.id")
    merge = merge.when_matched_delete("source.name = 'gone'")
    merge = merge.when_matched_update({"name": "concat(source.name, target.name)", "part": "'merged'"})
    merge = merge.when_not_matched_insert({"id": "source.id", "name": "source.name"}, "source.name = 'new'")
    result: CommitResult = merge.when_not_matched_by_source_update({"price": "price + 1"}, "id % 5 = 0").execute()
    return result


def _upsert(table: Any) -> CommitResult:
    """Upsert every other row, of which one in three changes."""
    rows = [row for row in table.scan().to_arrow().to_pylist() if row["id"] % 2]
    for row in rows[::3]:
        row["price"] = -1.0
    source = pa.Table.from_pylist(rows, schema=_ROWS)
    result: CommitResult = table.upsert(source, "id", when_not_matched="ignore")
    return result


_VERBS: list[tuple[int, Callable[[Any], CommitResult]]] = [
    (1, lambda table: table.update(_UPDATED, "name IN ('name 1', 'name 4') OR id > 70")),
    (1, _upsert),
    (3, lambda table: table.delete(_WHERE)),
    (3, lambda table: table.update({"name": "'x'"}, "part LIKE '%!' AND id < 77")),
    (3, _merge),
]
#: The number of the one that writes no rows where rows are hidden.
_DELETE = 2


@pytest.mark.parametrize("way", [pytest.param(way, marks=() if way in _OFTEN else pytest.mark.full) for way in _WAYS])
def test_tasks_write_what_this_machine_writes(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One task writes the very files, and several, which are tried again, write the same rows."""
    here, there = (_table(tmp_path / name, way) for name in ("here", "there"))
    monkeypatch.setattr(row_tasks, "_JOB_BYTES", 1)
    for number, (slots, change) in enumerate(_VERBS):
        workers = Workers(monkeypatch, slots, twins=slots > 1)
        there._row_tasks = workers.tasks
        expected, distributed = change(here), change(there)
        assert _content(there) == _content(here)
        is_written = "files" in way or number != _DELETE
        assert (len(workers.jobs) >= min(slots, 2)) == is_written
        assert ("fused" in distributed.road) == is_written
        # Change data files are written by this process.
        assert bool(distributed.road) == (is_written or way == "delta, by vectors")
        if slots == 1:
            assert _facts(there, distributed) == _facts(here, expected)
        rows = {name: count for name, count in expected.metrics.items() if name.endswith("Rows")}
        assert {name: distributed.metrics[name] for name in rows} == rows
    assert not list(tmp_path.rglob("*.arrow"))


def _data(path: Path) -> set[Path]:
    return {file for file in path.rglob("*.parquet") if "metadata" not in file.parts}


@pytest.mark.parametrize("way", ["delta, by files", "iceberg 3, by vectors"])
def test_errors_of_tasks_leave_nothing(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of tasks that succeeded, and of jobs before, are deleted."""
    table = _table(tmp_path, way)
    workers = Workers(monkeypatch, 3)
    table._row_tasks = workers.tasks
    monkeypatch.setattr(row_tasks, "_JOB_BYTES", 1)
    before, rows = _data(tmp_path), _content(table)
    last = table.scan().to_arrow()["id"][-1].as_py()
    with pytest.raises(EvaluationError, match="zero"):
        table.update({"price": f"1 / (id - {last})"})
    assert len(workers.jobs) > 1
    assert sum(reply["files"] is not None for reply in workers.replies) == len(workers.jobs) - 1
    assert _data(tmp_path) == before
    assert _content(table.refresh()) == rows


def test_tasks_obey_the_rules_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = pa.field("twice", pa.int64(), metadata={"delta.generationExpression": "n * 2"})
    table = create_table(tmp_path, pa.schema([pa.field("n", pa.int64()), twice]))
    table.alter().add_constraint("small", "twice < 10").commit()
    table.append(pa.table({"n": [1, 2, 3]}))
    table._row_tasks = Workers(monkeypatch, 2).tasks
    assert table.update({"n": "n + 1"}, "n > 1").road == "fused"
    rows = table.scan().to_arrow().sort_by("n").to_pylist()
    assert rows == [{"n": n, "twice": 2 * n} for n in (1, 3, 4)]
    with pytest.raises(ConstraintViolationError, match="small: twice=10"):
        table.update({"n": "n + 1"})


@pytest.mark.parametrize(
    "way", ["delta, by files", "delta, by vectors", "iceberg 3, by files", "iceberg 3, by vectors"]
)
def test_rows_that_an_upsert_compares_stay_in_the_tasks(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver reads keys, and is told the positions of the rows that change; rows that do not are left alone."""
    schema = pa.schema([("id", pa.int64()), ("heavy", pa.list_(pa.string())), ("x", pa.float64())])
    heavy = [["x" * 1000, None]] * 40
    table = create_table(tmp_path, schema, **_WAYS[way])
    for first in (0, 40):
        table.append(pa.table([range(first, first + 40), heavy, [float("nan")] * 40], schema=schema))
    rest = set(table.scan().files()["file_path"].to_pylist())
    workers = Workers(monkeypatch, 2)
    table._row_tasks = workers.tasks
    monkeypatch.setattr(row_tasks, "_JOB_BYTES", 1)
    read: list[list[str]] = []
    own = row_tasks.SparkRowTasks.read

    def noted(self: Any, bound: Any, test: Any) -> Any:
        read.append(bound.with_columns([]).with_addresses().output.names)
        read.append(bound.output.names)
        return own(self, bound, test)

    monkeypatch.setattr(row_tasks.SparkRowTasks, "read", noted)
    same = table.scan().to_arrow()
    assert "there was nothing to do" in str(table.upsert(same, "id"))
    addresses, names = read
    assert names == ["id", "x", *addresses]
    assert len(workers.jobs) == 2
    assert all(isinstance(job, DividedSearchTask) for job in workers.jobs)
    assert workers.replies == []
    changed = pc.if_else(pc.greater(same["id"], 70), pa.scalar(["y"], schema.field("heavy").type), same["heavy"])
    changed = same.set_column(1, "heavy", changed)
    result = table.upsert(changed.set_column(2, "x", pc.if_else(pc.equal(same["id"], 72), 1.5, same["x"])), "id")
    assert (result.metrics["numTargetRowsUpdated"], "fused" in result.road) == (9, True)
    compared = [reply for reply in workers.replies if "rows" in reply]
    assert len(compared) == 1
    assert len(compared[0]["rows"]) < 100
    # One of two files holds rows that change.
    kept = rest & set(table.scan().files()["file_path"].to_pylist())
    assert len(kept) == (2 if "vectors" in way else 1)
    rows = table.scan("id >= 70").to_arrow().sort_by("id").select(["heavy", "x"]).to_pylist()
    assert [row["heavy"] for row in rows] == [heavy[0], *[["y"]] * 9]
    assert [number for number, row in enumerate(rows, 70) if row["x"] == 1.5] == [72]
