"""Planning on the executors: manifests are decoded and pruned there, and the rows are the same."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptCheckpointError, InvalidArgumentError
from deltaberg.table import scan as scans
from tests.spark.doors import needs_native
from tests.support.delta_builder import DeltaBuilder
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import collect

pytestmark = pytest.mark.spark

_FILES = 50


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Give a table of 50 manifests with a file each, of which every fifth has a row deleted."""
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


_LEFT = [number for number in range(10 * _FILES) if number % 50 != 3]


@pytest.mark.req("ICE-GEN-06")
@pytest.mark.parametrize("planning", ["driver", "executors"])
def test_the_same_rows(planning: str, table: Any, spark: Any) -> None:
    scan = table.scan(planning=planning)
    assert sorted(collect(scan.to_spark(spark)).column("id").to_pylist()) == _LEFT
    few = table.scan("p IN (0, 1) AND id > 5", ["id", "_pos"], planning=planning)
    found = sorted(collect(few.to_spark(spark)).to_pylist(), key=repr)
    assert found == sorted(({"id": number, "_pos": number % 10} for number in range(6, 20)), key=repr)
    assert collect(table.scan("p = 99", planning=planning).to_spark(spark)).num_rows == 0


def test_the_fused_road(table: Any, spark: Any) -> None:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [sum(batch.num_rows for batch in batches)]})

    frame = table.scan(planning="executors").map_in_arrow(spark, count, "n long")
    assert sum(row["n"] for row in frame.collect()) == len(_LEFT)


def test_a_function_is_not_called_without_tasks(table: Any, spark: Any) -> None:
    """Whoever takes the first batch finds one; how many partitions stand empty is our matter."""

    def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(batches).slice(0, 1).select(["id"])

    frame = table.scan("p < 3", planning="executors").map_in_arrow(spark, first, "id long")
    assert 1 <= len(frame.collect()) <= 3


def test_pieces_are_small_and_even(table: Any) -> None:
    """What a task gets to plan is some rows of the manifest list; what all of them get is the schema and the like."""
    scan = table.scan(planning="executors")
    parts = scan.planning_parts(3)
    assert [len(part) for part in parts] == [5] * 10
    assert len(pickle.dumps(scan)) < 10_000
    assert sorted(row["id"] for part in parts for row in scan.of_pieces(part).to_arrow().to_pylist()) == _LEFT


_KINDS: list[dict[str, Any]] = [{"kind": "multipart", "parts": 4}, {"kind": "uuid-parquet", "sidecars": 5}]


def _delta(builder: DeltaBuilder, checkpoint: dict[str, Any]) -> list[int]:
    """Make a table of 20 files in a checkpoint, of which some were removed, got a vector, or were added since."""
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


@pytest.mark.parametrize("checkpoint", _KINDS, ids=["multipart", "sidecars"])
def test_checkpoints_in_parts(builder: DeltaBuilder, spark: Any, checkpoint: dict[str, Any]) -> None:
    left = _delta(builder, checkpoint)
    table = open_table(builder.root)
    scan = table.scan(planning="executors")
    assert sorted(collect(scan.to_spark(spark)).column("id").to_pylist()) == left
    few = table.scan("p IN (2, 3, 20) AND id >= 24", planning="executors")
    expected = [*range(25, 40), *range(200, 210)]
    assert sorted(collect(few.to_spark(spark)).column("id").to_pylist()) == expected
    assert few.planning_parts(2) is not None
    assert len(pickle.dumps(scan)) < 10_000
    assert table.scan().planning_parts(2) is None


def test_a_pickled_scan_reads_everything(builder: DeltaBuilder) -> None:
    """Without pieces it is the whole version, also where the table moved on."""
    left = _delta(builder, _KINDS[1])
    scan = open_table(builder.root).scan("id >= 0")
    builder.commit(builder.add(pa.table({"id": [999]}), partition={"p": "9"}))
    kept = pickle.loads(pickle.dumps(scan))
    assert sorted(kept.to_arrow().column("id").to_pylist()) == left
    assert kept.count() == len(left)
    pieces = pa.concat_tables(scan.source.divide(scan.plan.condition).slice(k, 2) for k in (0, 2, 4))
    assert sorted(kept.of_pieces(pieces).to_arrow().column("id").to_pylist()) == left


def test_a_damaged_part_is_an_error(builder: DeltaBuilder) -> None:
    """On the driver an older checkpoint takes its place."""
    left = _delta(builder, _KINDS[1])
    scan = open_table(builder.root).scan(planning="executors")
    sidecar = min((builder.log / "_sidecars").iterdir())
    sidecar.write_bytes(sidecar.read_bytes()[:-9])
    parts = [scan.of_pieces(pieces) for pieces in scan.planning_parts(1)]
    with pytest.raises(CorruptCheckpointError, match="planning='driver'"):
        [part.to_arrow() for part in parts]
    assert sorted(open_table(builder.root).scan().to_arrow().column("id").to_pylist()) == left


@needs_native
def test_a_limit_and_both_roads(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that go by Arrow are those that were chosen for it, however much metadata there is."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    builder.commit(builder.data([{"id": 1}]), builder.data([{"id": 2}], format="avro"))
    monkeypatch.setattr(scans, "_MUCH_METADATA", 1)
    table = open_table(builder.root)
    assert table.scan().planning_parts(2) is not None
    scan = table.scan(limit=10)
    assert "native, 1 files; arrow, 1 files" in scan.explain(spark)
    assert sorted(collect(scan.to_spark(spark)).column("id").to_pylist()) == [1, 2]


def test_where_it_is_chosen(table: Any, builder: DeltaBuilder) -> None:
    """By itself only for much metadata; never with a limit, nor for Delta tables; and by force an error says why."""
    assert table.scan().planning_parts(2) is None
    assert table.scan(limit=5).planning_parts(2) is None
    with pytest.raises(InvalidArgumentError, match="it has a limit"):
        table.scan(limit=5, planning="executors").planning_parts(2)
    rows = pa.table({"id": [1]})
    builder.create(rows.schema, builder.add(rows))
    with pytest.raises(InvalidArgumentError, match="metadata is read as a whole"):
        open_table(builder.root).scan(planning="executors").planning_parts(2)
    with pytest.raises(InvalidArgumentError, match="planning is 'here'"):
        table.scan(planning="here")
