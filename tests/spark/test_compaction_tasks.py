"""Compaction by Spark's tasks leaves the rows, ids and files that one here does. The tasks run in this process."""

from __future__ import annotations

import json
import pickle
import random
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from deltaberg import DeltaTable, create_table, open_table
from deltaberg.errors import EvaluationError, StorageError
from deltaberg.spark.write import row_tasks
from deltaberg.spark.write.item_tasks import ItemTask
from deltaberg.storage.local import LocalStorage
from deltaberg.table.maintain.bins import bin_tasks, stage, write_bins
from deltaberg.table.maintain.bins.stage import StagedRows
from deltaberg.table.rows.progress import WriteProgress
from deltaberg.table.sort import external_sort
from tests.spark.worker_tasks import Workers
from tests.support.delta_builder import DeltaBuilder
from tests.support.meanwhile import while_files_are_written

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

_ROWS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("price", pa.float64()), ("name", pa.string())])
_WAYS: dict[str, dict[str, Any]] = {
    "delta": {"properties": {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}},
    "iceberg 2": {"format": "iceberg", "properties": {"format-version": "2"}},
    "iceberg 3": {"format": "iceberg", "properties": {"format-version": "3"}},
}
_ORDERS: dict[str, dict[str, Any]] = {
    "packed": {},
    "sorted": {"sort_by": ["price desc nulls last", "name"]},
    "by id": {"hilbert_by": "id"},
    "z-order": {"z_order_by": ["price", "name"]},
    "hilbert": {"hilbert_by": ["name", "id"]},
}
_COUNT = 3000


def _rows(first: int, last: int) -> pa.Table:
    """Return rows in no order, with nulls, NaN, and values that repeat."""
    ids = list(range(first, last))
    random.Random(first).shuffle(ids)
    prices = [None if one % 7 == 0 else float("nan") if one % 11 == 0 else one % 1000 / 4 for one in ids]
    names = [None if one % 13 == 0 else f"name {one % 97}" for one in ids]
    return pa.table([ids, ["p/1" if one % 2 else None for one in ids], prices, names], schema=_ROWS)


def _table(path: Path, way: str, by: str | None = "part") -> Any:
    """Make a table of three files in each partition, some of whose rows are deleted."""
    table = create_table(path, _ROWS, partition_by=by, **_WAYS[way])
    for first in range(0, _COUNT, _COUNT // 3):
        table.append(_rows(first, first + _COUNT // 3))
    table.delete("id % 10 IN (3, 4)", strategy="merge-on-read")
    return table


def _content(table: Any) -> list[dict[str, Any]]:
    """Return the rows with their ids, and with the versions that last changed them, in the order of the files."""
    hidden: list[str] = []
    if isinstance(table, DeltaTable):
        hidden = ["_metadata.row_id", "_metadata.row_commit_version"]
    elif table.format_version > 2:
        hidden = ["_row_id", "_last_updated_sequence_number"]
    rows: list[dict[str, Any]] = table.scan(columns=[*_ROWS.names, *hidden]).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def _same(rows: list[dict[str, Any]]) -> list[str]:
    # NaN equals nothing.
    return list(map(repr, rows))


def _files(table: Any) -> list[list[int]]:
    """Return the ids of the rows of each data file, in their order, partition by partition as they were made."""
    paths = sorted(table.scan().files()["file_path"].to_pylist())
    return [pq.read_table(path.removeprefix("file://"), columns=["id"])["id"].to_pylist() for path in paths]


@pytest.fixture(params=["whole", "divided"])
def is_divided(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the rows of a bin that are put into an order are divided among tasks."""
    if request.param == "divided":
        monkeypatch.setattr(bin_tasks, "_DIVIDED", 1)
        # Rows are sorted on disk, and there are several streams for each part.
        monkeypatch.setattr(bin_tasks, "_MEMORY", 1 << 19)
        monkeypatch.setattr(external_sort, "_SMALLEST_BLOCK", 1 << 10)
        monkeypatch.setattr(stage, "_STREAM", 1 << 12)
    return bool(request.param == "divided")


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.full if way == "iceberg 2" else ()) for way in _WAYS]
)
@pytest.mark.parametrize("order", _ORDERS)
def test_tasks_write_what_this_machine_writes(
    order: str, way: str, is_divided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_divided and order == "packed":
        pytest.skip("rows that stay in their order are not divided")
    arguments = _ORDERS[order]
    if order == "z-order" and way.startswith("iceberg"):
        # Iceberg tables also take transforms.
        arguments = {"z_order_by": ["truncate(6, name)", "bucket(16, id)"]}
    here, there = (_table(tmp_path / name, way) for name in ("here", "there"))
    workers = Workers(monkeypatch, 2, twins=True)
    there._row_tasks = workers.tasks
    size = sum(here.scan().files()["file_size_in_bytes"].to_pylist()) // (4 if arguments else 1)
    expected = here.compact(target_file_size=size, **arguments)
    done = there.compact(target_file_size=size, **arguments)
    assert [commit.road for commit in done.commits] == ["fused"]
    assert (
        (done.removed_files, done.copied_rows)
        == (expected.removed_files, expected.copied_rows)
        == (6, _COUNT * 8 // 10)
    )
    assert _same(_content(there)) == _same(_content(here))
    if is_divided and order in ("sorted", "by id"):
        # Parts are cut elsewhere. Their rows follow each other as those here do.
        places = {one: place for place, one in enumerate(one for file in _files(here) for one in file)}
        for file in _files(there):
            assert [places[one] for one in file] == list(range(places[file[0]], places[file[0]] + len(file)))
    else:
        assert sorted(_files(there)) == sorted(_files(here))
    # Nobody knows how many rows position deletes leave, so that this machine fills files to the brim.
    assert way == "iceberg 2" or abs(done.added_files - expected.added_files) <= 2
    assert len(workers.jobs) == (3 if is_divided else 1)
    assert all(isinstance(job, ItemTask) for job in workers.jobs)
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize("order", ["sorted", "by id", "z-order", "hilbert"])
def test_few_tasks_write_the_same_files(order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are more files than tasks, each task reads more of them, and writes several."""
    here, there = (_table(tmp_path / name, "delta", by=None) for name in ("here", "there"))
    size = sum(here.scan().files()["file_size_in_bytes"].to_pylist()) // 10
    monkeypatch.setattr(bin_tasks, "_DIVIDED", 1)
    many = Workers(monkeypatch, 2)
    here._row_tasks = many.tasks
    expected = here.compact(target_file_size=size, **_ORDERS[order])
    monkeypatch.setattr(bin_tasks, "_MOST", 2)
    few = Workers(monkeypatch, 2)
    there._row_tasks = few.tasks
    done = there.compact(target_file_size=size, **_ORDERS[order])
    # Samples, what is stored, and what is written.
    assert len(many.replies) >= 2 * 3 + expected.added_files
    assert len(few.replies) <= 2 * 3 + 2
    assert done.added_files == expected.added_files >= 8
    assert sorted(_files(there)) == sorted(_files(here))
    assert _same(_content(there)) == _same(_content(here))


@pytest.mark.parametrize("order", ["packed", "z-order"])
def test_leftovers_of_attempts_are_named_by_nothing(
    order: str, is_divided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a task that runs more than once, one set of files counts. A vacuum finds the others."""
    table = _table(tmp_path, "delta")
    before = set(tmp_path.rglob("*.parquet"))
    table._row_tasks = Workers(monkeypatch, 2, twins=True).tasks
    done = table.compact(target_file_size=4_000, max_file_size=4_001, **_ORDERS[order])
    live = set(map(Path, table.scan().files()["file_path"].to_pylist()))
    left = set(tmp_path.rglob("*.parquet")) - live - before
    # Each task ran three times.
    assert len(left) == 2 * done.added_files == 2 * len(live)
    old: dict[str, Any] = {"retention_hours": 0, "enforce_retention_duration": False, "untracked_hours": 0}
    found = set(table.vacuum(**old).files["path"].to_pylist())
    assert {str(path.relative_to(tmp_path)) for path in left} <= found
    assert DeltaTable(tmp_path).verify().is_clean


@pytest.mark.parametrize("way", ["delta", "iceberg 2", "iceberg 3"])
@pytest.mark.parametrize("order", ["packed", "sorted", "hilbert"])
def test_rows_that_others_delete_meanwhile_are_deleted(
    order: str, way: str, is_divided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tasks have stored of where rows came from tells where they are now."""
    table = _table(tmp_path, way)
    expected = [row["id"] for row in _content(table) if row["id"] % 5 != 1]
    table._row_tasks = Workers(monkeypatch, 2).tasks
    opened = open_table(tmp_path)
    while_files_are_written(monkeypatch, lambda: opened.delete("id % 5 = 1", strategy="merge-on-read"))
    done = table.compact(target_file_size=20_000, **_ORDERS[order])
    assert len(done.commits) == 1
    assert not done.conflicts
    assert [row["id"] for row in _content(table)] == expected
    assert not list(tmp_path.rglob("*.arrow"))


def test_an_error_of_a_task_leaves_nothing(is_divided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of tasks that succeeded are deleted, and what was stored on the stage."""
    table = _table(tmp_path, "delta")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    workers = Workers(monkeypatch, 2)
    table._row_tasks = workers.tasks
    write, calls = write_bins.BinWriter.write_part, list[int]()

    def failing(self: Any, *arguments: Any, **named: Any) -> Any:
        found = write(self, *arguments, **named)
        calls.append(len(found))
        if len(calls) == 2:
            raise EvaluationError("no such value")
        return found

    monkeypatch.setattr(write_bins.BinWriter, "write_part", failing)
    with pytest.raises(EvaluationError, match="no such value"):
        table.compact(target_file_size=4_000, z_order_by=["price", "id"])
    assert len(calls) > 2
    results = [pickle.loads(zlib.decompress(reply["result"])) for reply in workers.replies]
    assert sum(isinstance(result, EvaluationError) for result in results) == 1
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_caller_is_told_when_jobs_end(is_divided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all rows in the end, and an error of the caller leaves nothing."""
    table = _table(tmp_path, "delta")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    table._row_tasks = Workers(monkeypatch, 2).tasks

    def stop(_: WriteProgress) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        table.compact(sort_by="id", target_file_size=4_000, progress=stop)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    told: list[WriteProgress] = []
    done = table.compact(sort_by="id", target_file_size=4_000, progress=told.append)
    # A task has told of each bin, or of each part of one.
    assert len(told) == (done.added_files if is_divided else 2)
    assert told == sorted(told)
    assert told[-1] == (_COUNT * 8 // 10, done.added_files)


def test_a_task_tries_again_where_the_store_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails while it is stored where rows came from: the files are deleted, and Spark hears of it."""
    table = _table(tmp_path, "delta")
    before = set(tmp_path.rglob("*.parquet"))
    table._row_tasks = Workers(monkeypatch, 2).tasks
    own = LocalStorage.open_output

    def refused(self: Any, path: str) -> Any:
        if path.endswith(".arrow"):
            raise StorageError("no answer")
        return own(self, path)

    monkeypatch.setattr(LocalStorage, "open_output", refused)
    with pytest.raises(StorageError, match="no answer"):
        table.compact()
    assert set(tmp_path.rglob("*.parquet")) == before


def test_tables_that_tasks_do_not_reach_or_need_are_compacted_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, memory = _table(tmp_path, "delta"), create_table("memory://compaction/rows", _ROWS)
    for first in (0, 10):
        memory.append(_rows(first, first + 10))
    workers = Workers(monkeypatch, 2)
    memory._row_tasks = small._row_tasks = workers.tasks
    assert memory.compact().commits[0].road == "local"
    monkeypatch.setattr(row_tasks, "_LEAST_BYTES", 1 << 30)
    assert small.compact().commits[0].road == "local"
    assert workers.jobs == []


class _Measured:
    """Measures what travels to tasks, and replies as if each of them had stored a bit of every part."""

    def __init__(self) -> None:
        #: The bytes of each function, and of all items and of the largest item of its job.
        self.sent: list[tuple[int, int, int]] = []
        #: How many places on the stage tasks were told that write parts.
        self.places = 0

    def takes(self, *_: Any) -> bool:
        """Take all work."""
        return True

    def run(self, work: Any, items: Any, _: Any = None) -> list[Any]:
        """Reply without doing anything, until files are to be written."""
        sizes = [len(pickle.dumps(item)) for item in items]
        pickler: Any = cloudpickle
        self.sent.append((len(pickler.dumps(work)), sum(sizes), max(sizes, default=0)))
        if isinstance(work, bin_tasks._SampleTask):
            return [self._sample(work) for _ in items]
        if isinstance(work, bin_tasks._StoreTask):
            return [self._stored(work, number) for number, _ in items]
        if isinstance(work, bin_tasks._PartTask):
            self.places = sum(len(stored) for *_, stored in items)
        if items:
            raise EvaluationError("enough was seen")
        return []

    @staticmethod
    def _stored(work: Any, number: int) -> list[StagedRows]:
        parts = len(work.parted[number].parts.cuts) + 1
        return [StagedRows(part, "0" * 70, 0, 1 << 20) for part in range(parts)]

    @staticmethod
    def _sample(work: Any) -> Any:
        sample = work.order.sample()
        sample.add(_rows(0, 1000).to_batches()[0])
        return sample


@pytest.mark.parametrize("order", ["packed", "sorted", "hilbert"])
def test_files_travel_to_their_own_task_alone(order: str, tmp_path: Path) -> None:
    """What all tasks need names no file, however many a table has."""
    files, partitions = 100_000, 100
    builder = DeltaBuilder(tmp_path)
    builder.create(_ROWS, partition_by=["part"])
    adds = (
        {"path": f"part={at % partitions}/{at:032}.parquet", "partitionValues": {"part": str(at % partitions)}}
        for at in range(files)
    )
    more = {"size": 1_000_000, "modificationTime": 0, "dataChange": True, "stats": json.dumps({"numRecords": 9})}
    builder.commit_text("\n".join(json.dumps({"add": add | more}) for add in adds))
    tasks: Any = _Measured()
    table = DeltaTable(tmp_path)
    table._row_tasks = tasks
    with pytest.raises(EvaluationError, match="enough"):
        table.compact(group_size=1 << 40, **_ORDERS[order])
    assert len(tasks.sent) == (1 if order == "packed" else 4)
    for function, together, largest in tasks.sent:
        # Where rows are cut into parts takes some bytes for each part of each partition.
        assert function < 100_000 + (0 if order == "packed" else 30_000 * partitions)
        assert largest < 40_000
        assert together < 100 * files


@pytest.mark.parametrize("terabytes", [1, 10])
def test_what_the_driver_knows_of_stored_rows_is_bounded(terabytes: int, tmp_path: Path) -> None:
    """A bin of any size is read by so many tasks, and written by so many: each pair of them is a place on the stage."""
    files = 10_000
    builder = DeltaBuilder(tmp_path)
    builder.create(_ROWS)
    more = {"partitionValues": {}, "modificationTime": 0, "dataChange": True, "stats": json.dumps({"numRecords": 9})}
    more["size"] = terabytes * 10**12 // files
    builder.commit_text("\n".join(json.dumps({"add": {"path": f"{at:032}.parquet"} | more}) for at in range(files)))
    tasks: Any = _Measured()
    table = DeltaTable(tmp_path)
    table._row_tasks = tasks
    with pytest.raises(EvaluationError, match="enough"):
        table.compact(sort_by="id")
    assert 1000 < tasks.places <= 1.1 * bin_tasks._MOST**2
    assert sum(together for _, together, _ in tasks.sent) < 64 << 20
