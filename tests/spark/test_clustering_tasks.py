"""Clustering by Spark's tasks marks and chooses files as this machine does. Most of the tasks run in this process."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from deltaberg import DeltaTable, MaintenancePolicy, create_table
from deltaberg.spark.write import row_tasks
from deltaberg.table.maintain.bins import bin_tasks
from tests.spark.worker_tasks import Workers
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]

#: Statistics are of the first 32 columns alone, unless rows are clustered by others.
_WIDE = pa.schema([(f"c{number}", pa.int64()) for number in range(40)])
_COUNT = 1500


def _wide(first: int, last: int) -> pa.Table:
    values = list(range(first, last))
    random.Random(first).shuffle(values)
    return pa.table([[value * (number + 7) % _COUNT for value in values] for number in range(40)], schema=_WIDE)


def _adds(table: DeltaTable) -> list[dict[str, Any]]:
    """Return the ``add`` actions of the newest commit."""
    log = Path(table.location) / "_delta_log" / f"{table.version:020}.json"
    return [line["add"] for line in map(json.loads, log.read_text().splitlines()) if "add" in line]


def _bounds(add: dict[str, Any]) -> list[Any]:
    """Return the bounds of the last two columns."""
    stats = json.loads(add["stats"])
    return [(stats["minValues"][name], stats["maxValues"][name]) for name in ("c38", "c39")]


def _clustered(root: Path) -> Any:
    table = create_table(root, _WIDE, cluster_by=["c38", "c39"])
    for first in range(0, _COUNT, 500):
        table.append(_wide(first, first + 500))
    return table


@pytest.mark.req("DL-CLU-04", half="writer")
@pytest.mark.req("DL-CLU-06", "DL-OPT-06", "DL-OPT-07")
@pytest.mark.parametrize("divided", [1 << 30, 1], ids=["whole", "divided"])
def test_files_of_tasks_are_marked_as_those_of_this_machine(
    divided: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bin_tasks, "_DIVIDED", divided)
    here, there = (_clustered(tmp_path / name) for name in ("here", "there"))
    workers = Workers(monkeypatch, 2, twins=True)
    there._row_tasks = workers.tasks
    size = sum(here.scan().files()["file_size_in_bytes"].to_pylist()) // 8
    for table in (here, there):
        done = table.compact(target_file_size=size)
        assert (done.removed_files, done.added_files >= 8) == (3, True)
    assert done.commits[0].road == "fused"
    assert len(workers.jobs) == (1 if divided > 1 else 3)
    wanted, distributed = _adds(here), _adds(there)
    assert sorted(map(_bounds, distributed)) == sorted(map(_bounds, wanted))
    for add in distributed:
        assert (add["clusteringProvider"], add["dataChange"]) == ("liquid", False)
        assert add["tags"]["ZCUBE_ZORDER_BY"] == '["c38","c39"]'
    assert len({add["tags"]["ZCUBE_ID"] for add in distributed}) == 1
    assert {"c38", "c39"} <= json.loads(distributed[0]["stats"])["nullCount"].keys()
    assert there.scan().to_arrow().sort_by("c0") == here.scan().to_arrow().sort_by("c0")
    # What is clustered stays, and so does a large cube beside what a day brings.
    assert there.compact(target_file_size=size).groups == ()
    there.append(_wide(0, 50))
    assert all("clusteringProvider" not in add for add in _adds(there))
    kept = set(there.live_files["path"].to_pylist()) - {add["path"] for add in _adds(there)}
    done = there.maintain(MaintenancePolicy(steps=["compact"], target_file_size=size), dry_run=False)["compact"].result
    assert (done.removed_files, done.commits[0].road) == (1, "fused")
    assert kept < set(there.live_files["path"].to_pylist())


@pytest.mark.req("DL-CLU-07", "DL-OPT-08")
def test_tasks_leave_the_files_of_other_implementations(builder: DeltaBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        name: builder.add(ids(number), path=f"{name}.parquet", clusteringProvider=name)
        for number, name in enumerate(("liquid", "other"))
    }
    columns = '{"clusteringColumns":[["id"]]}'
    builder.create(
        ID,
        *files.values(),
        builder.add(ids(2), path="plain.parquet"),
        {"domainMetadata": {"domain": "delta.clustering", "configuration": columns, "removed": False}},
        protocol=builder.features("clustering", "domainMetadata"),
    )
    table = DeltaTable(builder.root)
    table._row_tasks = Workers(monkeypatch, 2).tasks
    for cluster in (None, "full"):
        table.append(ids(3))
        done = table.compact(cluster=cluster)
        assert (done.removed_files >= 2, done.commits[0].road) == (True, "fused")
        paths = table.live_files["path"].to_pylist()
        assert "other.parquet" in paths
        assert {"liquid.parquet", "plain.parquet"}.isdisjoint(paths)
    assert ids_of(DeltaTable(builder.root)) == [0, 1, 2, 3, 3]


@pytest.mark.req("DL-CLU-06", "DL-CLU-07")
def test_a_session_clusters_a_table(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_tasks, "_LEAST_BYTES", 0)
    monkeypatch.setattr(bin_tasks, "_DIVIDED", 1)
    table = _clustered(tmp_path).on_spark(spark)
    before = table.scan().to_arrow().sort_by("c0")
    size = sum(table.scan().files()["file_size_in_bytes"].to_pylist()) // 8
    done = table.compact(target_file_size=size)
    assert (done.removed_files, done.commits[0].road) == (3, "fused")
    assert {add["clusteringProvider"] for add in _adds(table)} == {"liquid"}
    assert len({add["tags"]["ZCUBE_ID"] for add in _adds(table)}) == 1
    assert table.scan().to_arrow().sort_by("c0") == before
    for name in ("c38", "c39"):
        assert table.scan(f"{name} = 700").files().num_rows <= done.added_files / 2
    assert table.compact(target_file_size=size).groups == ()
