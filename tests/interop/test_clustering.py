"""delta-spark and we go on with what the other has clustered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltaberg import DeltaTable
from tests.interop.judged import same
from tests.support.judge import Judge

_TAGS = ("ZCUBE_ID", "ZCUBE_ZORDER_BY")


def _marks(path: Path) -> set[tuple[Any, ...]]:
    live = DeltaTable(path).live_files
    tags = [dict(one or ()) for one in live.column("tags").to_pylist()]
    providers = live.column("clusteringProvider").to_pylist()
    return {(provider, *map(one.get, _TAGS)) for provider, one in zip(providers, tags, strict=True)}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.req("DL-OPT-06")
@pytest.mark.req("DL-OPT-07")
@pytest.mark.parametrize("mode", ["none", "name"])
def test_either_goes_on_with_what_the_other_has_clustered(tmp_path: Path, judge: Judge, mode: str) -> None:
    path = tmp_path / "t"
    judge.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, `a.b` BIGINT, s STRUCT<x: BIGINT>) USING delta CLUSTER BY (id, s.x) "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = '{mode}')"
        if mode == "name"
        else f"CREATE TABLE delta.`{path}` (id BIGINT, b BIGINT, s STRUCT<x: BIGINT>) USING delta CLUSTER BY (id, s.x)"
    )

    def insert(first: int) -> None:
        judge.sql(
            f"INSERT INTO delta.`{path}` SELECT id, id % 7, named_struct('x', id % 5) "
            f"FROM range({first}, {first + 100}, 1, 1)"
        )

    def optimize(more: str = "") -> None:
        judge.run("spark.sql(query).count()", query=f"OPTIMIZE delta.`{path}` {more}")

    insert(0)
    insert(100)
    optimize()
    theirs = _marks(path)
    table = DeltaTable(path)
    assert table.compact().groups == ()
    insert(200)
    before = judge.sql(f"SELECT * FROM delta.`{path}`")
    assert table.refresh().compact().removed_files >= 2
    ours = _marks(path)
    assert {mark[0] for mark in ours} == {mark[0] for mark in theirs} == {"liquid"}
    assert {mark[2] for mark in ours} == {mark[2] for mark in theirs}
    tags = DeltaTable(path).live_files.column("tags").to_pylist()
    assert all(len(one) == len(_TAGS) for one in tags)
    assert {mark[1] for mark in ours}.isdisjoint({mark[1] for mark in theirs})
    version = table.version
    optimize()
    assert table.refresh().version == version
    same(judge.sql(f"SELECT * FROM delta.`{path}`"), before)
    insert(300)
    optimize()
    assert table.refresh().version > version + 1
    assert len(_marks(path)) == 1
    assert table.compact().groups == ()
    wanted = "'operation', 'operationParameters'"
    newest = next(
        row
        for row in judge.run(
            f"[row.asDict() for row in spark.sql(query).select({wanted}).collect()]",
            query=f"DESCRIBE HISTORY delta.`{path}`",
        )
        if row["operation"] == "OPTIMIZE"
    )
    mine = next(one for one in table.history() if one.version == version).info["operationParameters"]
    assert mine == {**newest["operationParameters"], "predicate": mine["predicate"]}
    judge.sql(f"ALTER TABLE delta.`{path}` CLUSTER BY (s.x)")
    assert table.refresh().compact().groups == ()
    assert table.compact(cluster="full").removed_files >= 1
    optimize("FULL")
    assert {mark[2] for mark in _marks(path)} == {'["s.x"]'}
