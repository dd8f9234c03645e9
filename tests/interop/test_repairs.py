"""Tables that we repair are read by delta-spark, which goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaberg import DeltaTable
from tests.support.judge import Judge
from tests.support.rows import ids_of


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.req("DL-OPS-12")
def test_in_delta_spark(tmp_path: Path, judge: Judge) -> None:
    """What it writes verifies clean. After a file and a vector are lost and repaired, it reads the rest."""
    path = tmp_path / "t"
    judge.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        "'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true', 'delta.checkpointPolicy' = 'v2')"
    )
    for first in (0, 10, 20):
        judge.sql(f"INSERT INTO delta.`{path}` SELECT id FROM range({first}, {first + 10}, 1, 1)")
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 15")
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    table = DeltaTable(path)
    assert table.verify(depth="footers").findings == ()
    (plain,) = [row["path"] for row in table.live_files.to_pylist() if row["deletionVector"] is None]
    (path / plain).unlink()
    # That of the first delete.
    min(path.glob("deletion_vector_*.bin"), key=lambda one: one.stat().st_mtime_ns).unlink()
    assert table.verify().counts == {"missing": 2}
    assert table.repair().rows == 10 + 9
    left = judge.sql(f"SELECT id FROM delta.`{path}` ORDER BY id")["id"].to_pylist()
    assert left == ids_of(table) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (100)")
    code = "[row.asDict() for row in spark.sql(query).select('operation', 'operationMetrics').collect()]"
    history = judge.run(code, query=f"DESCRIBE HISTORY delta.`{path}`")
    (ours,) = [entry for entry in history if entry["operation"] == "FSCK"]
    assert ours["operationMetrics"]["numRemovedFiles"] == "2"
    assert ids_of(table.refresh()) == [*left, 100]
    assert table.verify(depth="footers").findings == ()
