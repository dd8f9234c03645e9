"""Tables that we compact are read by other engines as before, and these go on from there.

Rows that they delete while we write are gone afterwards, too.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaberg import DeltaTable, create_table
from tests.interop.judged import same
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge
from tests.support.meanwhile import while_files_are_written
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


@pytest.mark.req("DL-OPT-04")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
def test_rows_that_delta_spark_deletes_meanwhile(tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the rows, their ids and the feed right after, and deletes and compacts further."""
    path = tmp_path / "t"
    judge.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, x STRING) USING delta TBLPROPERTIES ("
        "'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true', "
        "'delta.enableChangeDataFeed' = 'true')"
    )
    for first in (0, 1000, 2000):
        judge.sql(
            f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ id, string(id) "
            f"FROM range({first}, {first + 1000}, 1, 1)"
        )
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")
    query = f"SELECT *, _metadata.row_id AS r, _metadata.row_commit_version AS v FROM delta.`{path}`"
    before = judge.sql(f"{query} WHERE id % 7 <> 0")
    table = DeltaTable(path)
    while_files_are_written(monkeypatch, lambda: judge.sql(f"DELETE FROM delta.`{path}` WHERE id % 7 = 0"))
    done = table.compact()
    (commit,) = done.commits
    assert (done.removed_files, done.added_files) == (3, 1)
    same(judge.sql(query), before)
    same(table.scan().to_arrow(), judge.sql(f"SELECT * FROM delta.`{path}`"))
    feed = judge.sql(f"SELECT id, _change_type AS c FROM table_changes_by_path('{path}', {commit.version - 1})")
    gone = [number for number in range(3000) if number % 7 == 0 and number % 10 != 3]
    assert sorted(feed["id"].to_pylist()) == gone
    assert set(feed["c"].to_pylist()) == {"delete"}
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id < 100")
    judge.run("spark.sql(query).count()", query=f"OPTIMIZE delta.`{path}`")
    kept = judge.sql(query)
    same(kept, before.filter(pc.greater_equal(before["id"], 100)))
    assert not table.refresh().verify().findings


@pytest.mark.req("ICE-MNT-15", "ICE-MNT-13")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_iceberg_spark_deletes_meanwhile(judge: Judge, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    judged = JudgedTable(judge, f"compacted_beside_{version}")
    properties = {"format-version": str(version), "write.delete.mode": "merge-on-read"}
    table = judged.create(pa.schema([("id", pa.int64()), ("x", pa.string())]), properties=properties)
    for first in (0, 1000, 2000):
        numbers = range(first, first + 1000)
        table.append(pa.table({"id": numbers, "x": [str(number) for number in numbers]}))
    table.delete("id % 10 = 3")
    lineage = ["_row_id", "_last_updated_sequence_number"] if version == 3 else []
    before = table.scan("id % 7 <> 0", columns=["id", "x", *lineage]).to_arrow()
    while_files_are_written(monkeypatch, lambda: judged.sql("DELETE FROM {t} WHERE id % 7 = 0"))
    done = table.compact()
    assert (done.conflicts, done.removed_files, done.added_files) == ([], 3, 1)
    judged.check()
    same(table.scan(columns=["id", "x", *lineage]).to_arrow(), before)
    judged.sql("DELETE FROM {t} WHERE id < 100")
    judged.check()
    judged.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    same(
        judged.check().scan("id >= 100").to_arrow(),
        before.select(["id", "x"]).filter(pc.greater_equal(before["id"], 100)),
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.req("DL-OPT-05")
def test_curves_beside_delta_spark(tmp_path: Path, judge: Judge) -> None:
    """It reads rows that we ordered, says by what, and its own Z-order of the same rows skips no more files."""
    count, parts = 200_000, 24
    shuffled = [pa.array(random.Random(seed).sample(range(count), count)) for seed in (1, 2)]
    rows = pa.table({"x": shuffled[0], "y": shuffled[1].cast(pa.string()), "z": shuffled[1]})
    tables: dict[str, Any] = {
        name: create_table(tmp_path / name, rows.schema) for name in ("theirs", "z_order_by", "hilbert_by")
    }
    for table in tables.values():
        table.append(rows)
    size = sum(tables["theirs"].scan().files()["file_size_in_bytes"].to_pylist())
    judge.run("spark.conf.set('spark.databricks.delta.optimize.maxFileSize', size)", size=str(size // parts))
    judge.run("spark.sql(query).count()", query=f"OPTIMIZE delta.`{tmp_path / 'theirs'}` ZORDER BY (x, z)")
    for name in ("z_order_by", "hilbert_by"):
        tables[name].compact(target_file_size=size // parts, **{name: ["x", "z"]})
        same(judge.sql(f"SELECT * FROM delta.`{tmp_path / name}` ORDER BY x"), rows.sort_by("x"))
    found = {name: _files_found(table.refresh(), count) for name, table in tables.items()}
    # The share of all files that a value of a column is found in.
    assert found["z_order_by"] <= found["theirs"]
    assert found["hilbert_by"] <= found["theirs"]
    told = [tables[name].history()[0].info for name in ("theirs", "z_order_by")]
    assert [info["operation"] for info in told] == ["OPTIMIZE", "OPTIMIZE"]
    theirs, ours = ({**info["operationParameters"], "auto": None} for info in told)
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.req("DL-OPT-09")
def test_auto_compaction_beside_that_of_delta_spark(tmp_path: Path, judge: Judge) -> None:
    """Either finds nothing more to do after the other, and both say in the same words what they did.

    In a new session, the hook of delta-spark puts any two small files together after its first commit.
    """
    path = tmp_path / "t"
    table = create_table(path, pa.schema([("id", pa.int64())]), properties={"delta.autoOptimize.autoCompact": "true"})
    for number in range(50):
        table.append(pa.table({"id": [number]}))
    ours = table.history(1)[0]
    assert (ours.version, ours.operation, len(table.live_files)) == (51, "OPTIMIZE", 1)
    rows = f"SELECT id FROM delta.`{path}`"
    same(judge.sql(rows), table.scan().to_arrow())
    judge.run("spark.sql(query).count()", query=f"OPTIMIZE delta.`{path}`")
    assert table.refresh().version == 51
    for number in range(50, 98):
        table.append(pa.table({"id": [number]}))
    assert len(table.live_files) == 49
    judge.sql(f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ 98L AS id")
    assert [one.operation for one in table.refresh().history(2)] == ["OPTIMIZE", "WRITE"]
    theirs = table.history(1)[0]
    table.append(pa.table({"id": [99]}))
    assert (table.version, len(table.live_files)) == (theirs.version + 1, 2)
    same(judge.sql(rows), pa.table({"id": range(100)}))
    told = [one.info["operationParameters"] for one in (ours, theirs)]
    assert {**told[0], "auto": True} == told[1]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
def test_optimize_of_delta_spark_after_maintenance(tmp_path: Path, judge: Judge) -> None:
    """It finds nothing left to do, and the rows are the same."""
    path = tmp_path / "t"
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    properties = {"delta.enableDeletionVectors": "true"}
    table = create_table(path, columns, partition_by="p", properties=properties)
    for number in range(12):
        table.append(pa.table({"id": [number, number + 20], "p": ["a", "b"]}, columns))
    table.delete("id IN (3, 24)", strategy="merge-on-read")
    assert table.maintain(dry_run=False)["compact"].is_due
    version = table.refresh().version
    judge.run("spark.sql(query).count()", query=f"OPTIMIZE delta.`{path}`")
    assert table.refresh().version == version
    same(judge.sql(f"SELECT * FROM delta.`{path}` ORDER BY id"), table.scan().to_arrow().sort_by("id"))


def _files_found(table: Any, count: int) -> float:
    """Return the mean share of the files of a table in which a value of either column may be."""
    values = range(0, count, count // 40)
    found: list[int] = [table.scan(f"{name} = {value}").files().num_rows for name in ("x", "z") for value in values]
    whole: int = table.scan().files().num_rows
    return sum(found) / (len(found) * whole)
