"""Tables that we purge, and whose features we drop, are those that delta-spark makes, and others go on with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import deltalake
import polars as pl
import pyarrow as pa
import pytest

from deltaberg import DeltaTable
from tests.interop.judged import same
from tests.support.judge import Judge, JudgeError

pytestmark = [
    pytest.mark.judges,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.timeout(600),
]

_KINDS = {
    "mapped": "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'",
    "tracked": "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true', "
    "'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true'",
}


def _rows(path: Path, kind: str, version: int | None = None) -> str:
    hidden = ", _metadata.row_id AS r, _metadata.row_commit_version AS c" if kind == "tracked" else ""
    return f"SELECT *{hidden} FROM delta.`{path}`" + ("" if version is None else f" VERSION AS OF {version}")


@pytest.mark.req("DL-OPS-08")
@pytest.mark.parametrize("kind", _KINDS)
def test_a_purge_is_that_of_delta_spark(tmp_path: Path, judge: Judge, kind: str) -> None:
    path, copy = tmp_path / "t", tmp_path / "copy"
    judge.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING, s STRUCT<a: BIGINT, b: STRING>, x BIGINT) USING delta "
        f"PARTITIONED BY (p) TBLPROPERTIES ({_KINDS[kind]})"
    )
    for first in (0, 10, 20):
        judge.sql(
            f"INSERT INTO delta.`{path}` SELECT id, IF(id % 2 = 0, 'a', 'b'), struct(id, 'z'), id "
            f"FROM range({first}, {first + 10}, 1, 1)"
        )
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    shutil.copytree(path, copy)
    table = DeltaTable(path)
    for dropped in (None, "x", "s.a"):
        if dropped is not None:
            judge.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN {dropped}")
            judge.sql(f"ALTER TABLE delta.`{copy}` DROP COLUMN {dropped}")
        before = table.refresh().version
        result = table.reorg()
        judge.run("spark.sql(query).count()", query=f"REORG TABLE delta.`{copy}` APPLY (PURGE)")
        theirs = DeltaTable(copy)
        ours, recorded = (one.history(1)[0].info for one in (table, theirs))
        assert ours["operation"] == recorded["operation"] == "REORG"
        # Ours are texts, as in all other operations.
        assert ours["operationParameters"] == {"predicate": "[]", "applyPurge": "true"}
        assert recorded["operationParameters"] == {"predicate": "[]", "applyPurge": True}
        for number in ("numRemovedFiles", "numAddedFiles", "numDeletionVectorsRemoved"):
            assert ours["operationMetrics"][number] == recorded["operationMetrics"][number]
        assert result.removed_files == int(recorded["operationMetrics"]["numRemovedFiles"])
        same(judge.sql(_rows(path, kind)), judge.sql(_rows(copy, kind)))
        same(judge.sql(_rows(path, kind)), judge.sql(_rows(path, kind, before)))
        if kind == "tracked" and dropped is None:
            feed = f"SELECT id FROM table_changes_by_path('{path}', {table.version}, {table.version})"
            assert len(judge.sql(feed)) == 0
    # Neither finds anything that the other has left.
    assert theirs.reorg(dry_run=True).groups == ()
    judge.run("spark.sql(query).count()", query=f"REORG TABLE delta.`{path}` APPLY (PURGE)")
    assert DeltaTable(path).version == table.version


_FEATURES = {
    "deletionVectors": ("id BIGINT", "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'"),
}


@pytest.mark.req("DL-OPS-10")
@pytest.mark.parametrize("name", _FEATURES)
def test_a_dropped_feature_is_that_of_delta_spark(tmp_path: Path, judge: Judge, name: str) -> None:
    path, copy = tmp_path / "t", tmp_path / "copy"
    column, properties = _FEATURES[name]
    judge.sql(f"CREATE TABLE delta.`{path}` ({column}) USING delta TBLPROPERTIES ({properties})")
    judge.sql(f"INSERT INTO delta.`{path}` SELECT id FROM range(0, 3000, 1, 1)")
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id % 2 = 1")
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (-1)")
    shutil.copytree(path, copy)
    table = DeltaTable(path)
    last = table.version
    old = [judge.sql(_rows(path, name, version)) for version in range(last + 1)]
    table.drop_feature(name)
    judge.sql(f"ALTER TABLE delta.`{copy}` DROP FEATURE {name}")
    theirs = DeltaTable(copy)
    assert table.features == theirs.features
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 7)
    assert theirs.protocol.min_reader_version == 1
    assert table.properties.keys() == theirs.properties.keys()
    assert table.properties["delta.requireCheckpointProtectionBeforeVersion"] == str(table.version)
    ours, wanted = (one.history(1)[0].info for one in (table, theirs))
    assert ours["operation"] == wanted["operation"] == "DROP FEATURE"
    assert {**ours["operationParameters"], "truncateHistory": False} == {
        **wanted["operationParameters"],
        "truncateHistory": False,
    }
    # delta-spark reads the newest version and every older one, writes on, and does not vacuum what these need.
    same(judge.sql(_rows(path, name)), old[last])
    same(judge.sql(_rows(path, name)), judge.sql(_rows(copy, name)))
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (-2)")
    judge.run("spark.sql(query).count()", query=f"VACUUM delta.`{path}`")
    for version, rows in enumerate(old):
        same(judge.sql(_rows(path, name, version)), rows)
    expected = table.refresh().scan().to_arrow()
    same(pa.table(deltalake.DeltaTable(path).to_pyarrow_table()), expected)
    same(pl.read_delta(str(path)).to_arrow(), expected)
    # What it refuses after its own drop, it refuses after ours.
    for one in (path, copy):
        with pytest.raises(JudgeError, match=r"(?i)truncat"):
            judge.sql(f"ALTER TABLE delta.`{one}` DROP FEATURE checkpointProtection")


def test_an_upgrade_for_iceberg_is_done_for_delta_spark(tmp_path: Path, judge: Judge) -> None:
    path = tmp_path / "t"
    on = _KINDS["tracked"].replace("'delta.columnMapping.mode' = 'name', ", "")
    judge.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING, l ARRAY<BIGINT>) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({on})"
    )
    for first in (0, 10):
        judge.sql(
            f"INSERT INTO delta.`{path}` SELECT id, IF(id % 2 = 0, 'a', 'b'), array(id) "
            f"FROM range({first}, {first + 10}, 1, 1)"
        )
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    table = DeltaTable(path)
    first = table.version
    result = table.reorg(upgrade_iceberg_compat=2)
    assert not result.conflicts
    same(judge.sql(_rows(path, "tracked")), judge.sql(_rows(path, "tracked", first)))
    feed = f"SELECT id FROM table_changes_by_path('{path}', {first + 1}, {table.version})"
    assert len(judge.sql(feed)) == 0
    # delta-spark goes on with the table, and would write none of its files anew for the same upgrade.
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (20, 'a', array(20))")
    judge.sql(f"UPDATE delta.`{path}` SET l = array(0) WHERE id = 2")
    table.refresh()
    tags = {dict(one)["ICEBERG_COMPAT_VERSION"] for one in table.live_files["tags"].to_pylist()}
    assert tags == {"2"}
    assert table.reorg(upgrade_iceberg_compat=2).groups == ()
    table.append(pa.table({"id": [21], "p": ["b"], "l": [[21]]}))
    assert len(judge.sql(_rows(path, "tracked"))) == 21
