"""Appends of Spark DataFrames to Iceberg tables: tasks write data files, and the driver commits one snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

from deltaberg import create_table, open_table
from deltaberg.spark.write.write_tasks import WriteTask, written_of_replies
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.write.sources import WriteRoad
from deltaberg.table.write.spec import WriteSpec

_IDS = pa.schema([("id", pa.int64())])
_TASKS = 50


def _names(table: Any) -> set[str]:
    """Return the names of the data files that the current snapshot lists."""
    return {Path(unquote(path)).name for path in table.scan().files()["file_path"].to_pylist()}


class _Twins:
    """Rows of tasks, each of which runs twice; the driver hears of one attempt of each."""

    schema = _IDS

    def write(self, spec: WriteSpec, store: StoreSpec, root: Location) -> pa.Table:
        task = WriteTask(spec, store, root, ("id",))
        batches = [pa.record_batch({"id": [number]}) for number in range(3)]
        attempts = [[next(iter(task([batch]))).to_pylist()[0] for _ in range(2)] for batch in batches]
        tables, errors = written_of_replies([(pair[1]["files"], pair[1]["error"]) for pair in attempts])
        assert not errors
        return pa.concat_tables(tables)

    def road(self, spec: WriteSpec, root: Location) -> WriteRoad:
        return WriteRoad("arrow")


@pytest.mark.spark
@pytest.mark.req("ICE-COM-14", half="writer")
def test_an_append_of_many_tasks_is_one_snapshot(spark: Any, tmp_path: Path) -> None:
    """Files of a job that fails, and of second attempts of tasks, are in no snapshot."""
    for properties in ({}, {"write.format.default": "avro"}):
        root = tmp_path / str(len(properties))
        table = create_table(root, _IDS, format="iceberg", properties=properties)
        failing = spark.range(0, 5_000, 1, _TASKS).selectExpr("IF(id = 4321, raise_error('a task fails'), id) AS id")
        with pytest.raises(Exception, match="a task fails"):
            table.append(failing)
        assert open_table(root, "iceberg").snapshot_id is None

        result = table.append(spark.range(0, 5_000, 1, _TASKS))
        table = open_table(root, "iceberg")
        assert len(table.metadata.snapshots) == 1
        assert 1 <= len(_names(table)) == result.added_files <= _TASKS
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(5_000))

        before = _names(table)
        table.append(_Twins())
        assert len(_names(table) - before) == 3
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == sorted([*range(5_000), 0, 1, 2])
        assert len(table.metadata.snapshots) == 2
