"""Tables that we compact are read by delta-spark, deltalake and polars as before, and they go on from there."""

from __future__ import annotations

from pathlib import Path

import deltalake
import polars as pl
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, create_table
from tests.interop.judged import same
from tests.support.judge import Judge
from tests.support.rows import ids_of
from tests.support.typed_rows import HOSTILE_TEXTS, every_type

#: What the history says of each compaction alike.
_SAME = ("isolationLevel", "isBlindAppend", "operationParameters")


def test_in_deltalake_and_polars(tmp_path: Path) -> None:
    rows = every_type()
    texts = [HOSTILE_TEXTS[number % len(HOSTILE_TEXTS)] for number in range(len(rows))]
    rows = rows.append_column("p", pa.array(texts))
    table = create_table(tmp_path, rows.schema, partition_by="p")
    for number in range(len(rows)):
        table.append(rows)
        table.append(rows.slice(number, 1))
    before = table.scan().to_arrow()
    done = table.compact()
    assert done.added_files < done.removed_files
    same(table.scan().to_arrow(), before)
    same(pa.table(deltalake.DeltaTable(tmp_path).to_pyarrow_table()).select(before.schema.names), before)
    same(pl.read_delta(str(tmp_path)).to_arrow().select(before.schema.names).cast(before.schema), before)
    peer = deltalake.DeltaTable(tmp_path)
    assert peer.history(1)[0]["operation"] == "OPTIMIZE"
    peer.optimize.compact()
    deltalake.write_deltalake(tmp_path, before.slice(0, 1), mode="append")
    table.refresh().compact()
    same(table.scan().to_arrow(), pa.concat_tables([before, before.slice(0, 1)]))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.parametrize("mode", ["none", "id"])
def test_in_delta_spark(tmp_path: Path, judge: Judge, mode: str) -> None:
    """It reads the row ids that we keep, deletes rows of ours and compacts our files, and we go on from there."""
    path = tmp_path / "t"
    judge.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING, s STRUCT<x: INT>) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true', "
        f"'delta.columnMapping.mode' = '{mode}')"
    )
    for first in (0, 10, 20):
        judge.sql(
            f"INSERT INTO delta.`{path}` SELECT id, IF(id % 2 = 0, 'a', NULL), named_struct('x', CAST(id AS INT)) "
            f"FROM range({first}, {first + 10}, 1, 1)"
        )
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id % 5 = 0")
    query = f"SELECT *, _metadata.row_id AS r, _metadata.row_commit_version AS v FROM delta.`{path}`"
    before = judge.sql(query)
    table = DeltaTable(path)
    done = table.compact()
    assert (done.added_files, [commit.metrics["numDeletionVectorsRemoved"] for commit in done.commits]) == (2, [6])
    same(judge.sql(query), before)
    same(table.scan().to_arrow(), judge.sql(f"SELECT * FROM delta.`{path}`"))
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (100, 'a', NULL)")
    # Its result has a type that cannot be taken as Arrow.
    judge.run("spark.sql(query).count()", query=f"OPTIMIZE delta.`{path}`")
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (101, 'a', NULL)")
    before = judge.sql(query)
    assert table.refresh().compact().removed_files >= 2
    same(judge.sql(query), before)
    assert {100, 101} < set(ids_of(table))
    columns = ", ".join((*_SAME, "operation", "operationMetrics"))
    code = f"[row.asDict() for row in spark.sql(query).select(*'{columns}'.split(', ')).collect()]"
    history = judge.run(code, query=f"DESCRIBE HISTORY delta.`{path}`")
    last, theirs, first = (entry for entry in history if entry["operation"] == "OPTIMIZE")
    for ours in (last, first):
        assert {name: ours[name] for name in _SAME} == {name: theirs[name] for name in _SAME}
        assert ours["operationMetrics"].keys() == theirs["operationMetrics"].keys()
