"""Planning on the executors: manifests are decoded and pruned there, and the rows are the same."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import open_table
from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.errors import CorruptCheckpointError, InvalidArgumentError
from deltaberg.files.read.reader import read_task
from deltaberg.files.read.task import tasks_of
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.table.read import sharing
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan import bound_scan
from deltaberg.table.read.sharing import file_tasks, planning_pieces, scan_part, share_planning
from tests.spark.doors import needs_native
from tests.support.delta_builder import DeltaBuilder
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.recorder import Recorder
from tests.support.roads import collect

pytestmark = [pytest.mark.spark, pytest.mark.both_backends]

_FILES = 50


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """A table of 50 manifests with one file each; every fifth file has a deleted row."""
    spec = [{"source-id": 2, "name": "p", "transform": "identity"}]
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "p": "int"}, specs=[spec])
    rows, deletes = [], []
    for number in range(_FILES):
        file = builder.data([{"id": 10 * number + n, "p": number} for n in range(10)], partition={"p": number})
        entry = {"status": 1, "snapshot_id": None, "sequence_number": None, "file": file}
        rows.append(builder.manifest([entry], snapshot_id=1000))
        if number % 5 == 0:
            deletes.append((file, 3))
    builder.commit(manifests=rows)
    for delete in deletes:
        builder.commit(builder.position_deletes([delete]), operation="delete")
    return open_table(builder.root)


def _plans_here(monkeypatch: pytest.MonkeyPatch, source: type[Any]) -> list[Any]:
    """Return a list that gets the condition of every scan that this process plans."""
    conditions: list[Any] = []
    original = source.select_files

    def select_files(self: Any, condition: Any) -> Any:
        conditions.append(condition)
        return original(self, condition)

    monkeypatch.setattr(source, "select_files", select_files)
    return conditions


_LEFT = [number for number in range(10 * _FILES) if number % 50 != 3]


@pytest.mark.req("ICE-GEN-06")
@pytest.mark.parametrize("planning", ["driver", "executors"])
def test_the_same_rows(planning: str, table: Any, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = _plans_here(monkeypatch, IcebergSource)
    scan = table.scan(planning=planning)
    assert sorted(collect(scan.to_spark(spark)).column("id").to_pylist()) == _LEFT
    few = table.scan("p IN (0, 1) AND id > 5", ["id", "_pos"], planning=planning)
    found = sorted(collect(few.to_spark(spark)).to_pylist(), key=repr)
    assert found == sorted(({"id": number, "_pos": number % 10} for number in range(6, 20)), key=repr)
    assert collect(table.scan("p = 99", planning=planning).to_spark(spark)).num_rows == 0
    # What executors do happens in other processes.
    assert bool(here) == (planning == "driver")


def _told(scan: BoundScan) -> list[Any]:
    """Return the data files, the files that delete their rows, and whether the filter remains."""
    return sorted((task.location, task.delete_files, task.filtered) for task in tasks_of(file_tasks(scan)))


@pytest.mark.req("ICE-GEN-06")
@pytest.mark.parametrize("condition", [None, "p < 30 AND id > 5", "p IN (0, 1, 5)"])
def test_the_same_tasks(table: Any, condition: str | None) -> None:
    scan = bound_scan(table.scan(condition, planning="executors"))
    pieces = planning_pieces(scan)
    assert pieces is not None
    parts = share_planning(pieces, 1)
    assert len(parts) > 1
    apart = sorted(told for part in parts for told in _told(scan_part(scan, part)))
    assert apart == _told(scan)
    assert any(deletes for _, deletes, _ in apart)
    assert {filtered for *_, filtered in apart} == {"id" in (condition or "")}


@pytest.mark.req("ICE-SCAN-19")
def test_delete_manifests_are_read_before_there_are_tasks(table: Any, spark: Any, recorder: Recorder) -> None:
    """Whoever plans has read them all: the driver when Spark gets the tasks, or each task that plans a part."""
    manifests = table.inspect("manifests").filter(pc.field("content") == 1)
    deletes = {Path(path).name for path in manifests.column("path").to_pylist()}
    assert len(deletes) == _FILES // 5
    recorder.clear()
    frame = table.scan(planning="driver").to_spark(spark, road="arrow")
    assert deletes <= set(recorder.read)
    assert not any(name.endswith(".parquet") for name in recorder.read)
    assert sorted(collect(frame).column("id").to_pylist()) == _LEFT

    scan = bound_scan(table.scan(planning="executors"))
    pieces = planning_pieces(scan)
    assert pieces is not None

    def plan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            with pytest.MonkeyPatch.context() as patch:
                here = Recorder(patch)
                tasks = file_tasks(scan_part(scan, pieces.slice(10 * number, 10)))
                yield pa.record_batch({"tasks": [tasks.num_rows], "read": [here.read]})

    found = spark.range(_FILES // 10).mapInArrow(plan, "tasks long, read array<string>").collect()
    assert [row.tasks for row in found] == [10] * (_FILES // 10)
    assert all(deletes <= set(row.read) for row in found)


def test_the_fused_road(table: Any, spark: Any) -> None:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [sum(batch.num_rows for batch in batches)]})

    frame = table.scan(planning="executors").map_in_arrow(spark, count, "n long")
    assert sum(row["n"] for row in frame.collect()) == len(_LEFT)


def test_a_function_is_not_called_without_tasks(table: Any, spark: Any) -> None:
    """The function is not called in empty partitions, so that it can take a first batch."""

    def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(batches).slice(0, 1).select(["id"])

    frame = table.scan("p < 3", planning="executors").map_in_arrow(spark, first, "id long")
    assert 1 <= len(frame.collect()) <= 3


def _ids(scan: BoundScan) -> list[int]:
    """Read the column ``id`` of the planned files on this machine."""
    tasks = tasks_of(file_tasks(scan))
    return [row["id"] for task in tasks for batch in read_task(scan.read_spec, task) for row in batch.to_pylist()]


def test_pieces_are_small_and_even(table: Any) -> None:
    """Each task plans some rows of the manifest list; the scan that all of them get is small."""
    scan = bound_scan(table.scan(planning="executors"))
    pieces = planning_pieces(scan)
    assert pieces is not None
    parts = share_planning(pieces, 3)
    assert [len(part) for part in parts] == [5] * 10
    assert len(pickle.dumps(scan)) < 10_000
    assert sorted(number for part in parts for number in _ids(scan_part(scan, part))) == _LEFT


_KINDS: list[dict[str, Any]] = [{"kind": "multipart", "parts": 4}, {"kind": "uuid-parquet", "sidecars": 5}]


def _delta(builder: DeltaBuilder, checkpoint: dict[str, Any]) -> list[int]:
    """Make a table with 20 files in a checkpoint; later commits remove and add files and delete rows of one."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    features = builder.features("v2Checkpoint", "deletionVectors")

    def add(number: int, **options: Any) -> Any:
        rows = pa.table({"id": [10 * number + n for n in range(10)]}, schema=pa.schema([("id", pa.int64())]))
        return builder.add(rows, partition={"p": str(number)}, **options)

    adds = [add(number) for number in range(20)]
    builder.create(schema, *adds, partition_by=["p"], protocol=features)
    builder.commit(builder.remove(adds[0]))
    builder.checkpoint(1, **checkpoint)
    builder.commit(builder.remove(adds[1]), add(20))
    marked = {"add": {**adds[2]["add"], "deletionVector": builder.vector([4], "i")}}
    builder.commit(builder.remove(adds[2]), marked)
    return [number for number in range(20, 210) if number != 24]


@pytest.mark.req("DL-GEN-05")
@pytest.mark.parametrize("checkpoint", _KINDS, ids=["multipart", "sidecars"])
def test_checkpoints_in_parts(
    builder: DeltaBuilder, spark: Any, checkpoint: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = _plans_here(monkeypatch, SnapshotSource)
    left = _delta(builder, checkpoint)
    table = open_table(builder.root)
    scan = table.scan(planning="executors")
    assert sorted(collect(scan.to_spark(spark)).column("id").to_pylist()) == left
    few = table.scan("p IN (2, 3, 20) AND id >= 24", planning="executors")
    expected = [*range(25, 40), *range(200, 210)]
    assert sorted(collect(few.to_spark(spark)).column("id").to_pylist()) == expected
    assert not here
    assert planning_pieces(bound_scan(few)) is not None
    assert len(pickle.dumps(scan)) < 10_000
    assert planning_pieces(bound_scan(table.scan())) is None


def test_a_pickled_scan_reads_everything(builder: DeltaBuilder) -> None:
    """Without pieces it reads the whole version, even if the table has changed since."""
    left = _delta(builder, _KINDS[1])
    scan = open_table(builder.root).scan("id >= 0")
    builder.commit(builder.add(pa.table({"id": [999]}), partition={"p": "9"}))
    kept = pickle.loads(pickle.dumps(scan))
    assert sorted(kept.to_arrow().column("id").to_pylist()) == left
    assert kept.count() == len(left)
    source: Any = bound_scan(scan).source
    pieces = pa.concat_tables(source.divide(bound_scan(scan).plan.condition).slice(k, 2) for k in (0, 2, 4))
    assert sorted(_ids(scan_part(bound_scan(kept), pieces))) == left


def test_a_damaged_part_is_an_error(builder: DeltaBuilder) -> None:
    """The driver would use an older checkpoint instead."""
    left = _delta(builder, _KINDS[1])
    scan = bound_scan(open_table(builder.root).scan(planning="executors"))
    sidecar = min((builder.log / "_sidecars").iterdir())
    sidecar.write_bytes(sidecar.read_bytes()[:-9])
    pieces = planning_pieces(scan)
    assert pieces is not None
    parts = [scan_part(scan, part) for part in share_planning(pieces, 1)]
    with pytest.raises(CorruptCheckpointError, match="planning='driver'"):
        [_ids(part) for part in parts]
    assert sorted(open_table(builder.root).scan().to_arrow().column("id").to_pylist()) == left


@needs_native
def test_a_limit_and_both_roads(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the files that were chosen for it go by Arrow, however much metadata there is."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}]), builder.data([{"id": 2}], format="avro"))
    monkeypatch.setattr(sharing, "_MUCH_METADATA", 1)
    table = open_table(builder.root)
    assert planning_pieces(bound_scan(table.scan())) is not None
    scan = table.scan(limit=10)
    assert "native, 1 files; arrow, 1 files" in scan.explain(spark)
    assert sorted(collect(scan.to_spark(spark)).column("id").to_pylist()) == [1, 2]


def test_where_it_is_chosen(table: Any, builder: DeltaBuilder) -> None:
    """It is chosen only for much metadata, and never with a limit. If it is forced in vain, an error says why."""
    assert planning_pieces(bound_scan(table.scan())) is None
    assert planning_pieces(bound_scan(table.scan(limit=5))) is None
    with pytest.raises(InvalidArgumentError, match="it has a limit"):
        planning_pieces(bound_scan(table.scan(limit=5, planning="executors")))
    rows = pa.table({"id": [1]})
    builder.create(rows.schema, builder.add(rows))
    with pytest.raises(InvalidArgumentError, match="metadata is read as a whole"):
        planning_pieces(bound_scan(open_table(builder.root).scan(planning="executors")))
    with pytest.raises(InvalidArgumentError, match="planning must be 'auto', 'driver' or 'executors', not 'here'"):
        table.scan(planning="here")
