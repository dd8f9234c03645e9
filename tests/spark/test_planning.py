"""Planning on the executors: manifests are decoded and pruned there, and the rows are the same."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import InvalidArgumentError
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


def test_pieces_are_small_and_even(table: Any) -> None:
    """What a task gets to plan is some rows of the manifest list; what all of them get is the schema and the like."""
    scan = table.scan(planning="executors")
    parts = scan.planning_parts(3)
    assert [len(part) for part in parts] == [5] * 10
    assert len(pickle.dumps(scan)) < 10_000
    assert sorted(row["id"] for part in parts for row in scan.of_pieces(part).to_arrow().to_pylist()) == _LEFT


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
