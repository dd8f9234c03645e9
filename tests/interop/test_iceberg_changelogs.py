"""Our changelogs of tables that iceberg-spark changed are those of its `create_changelog_view`."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg import open_table
from tests.interop.judged import same
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(600)]

_WRITTEN = (
    (
        "CREATE TABLE {t} (id bigint, s string, x double, l array<int>) USING iceberg PARTITIONED BY (truncate(1, s)) "
        "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='copy-on-write', "
        "'write.update.mode'='copy-on-write', 'write.merge.mode'='copy-on-write')"
    ),
    (
        "INSERT INTO {t} SELECT id, substr('abc', cast(id % 3 AS int) + 1, 1), if(id = 4, double('NaN'), id / 2), "
        "if(id % 2 = 0, array(cast(id AS int), null), null) FROM range(12)"
    ),
    "INSERT INTO {t} VALUES (1, 'b', 0.5, null), (1, 'b', 0.5, null), (20, null, null, array())",
    "UPDATE {t} SET x = x + 1, s = if(id = 6, 'z', s) WHERE id IN (2, 4, 6)",
    "DELETE FROM {t} WHERE id IN (1, 7)",
    "UPDATE {t} SET x = x - 1 WHERE id IN (2)",
    (
        "MERGE INTO {t} USING (SELECT explode(array(3, 8, 30)) AS k) ON id = k WHEN MATCHED AND k = 3 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET l = array(9) WHEN NOT MATCHED THEN INSERT (id, s) VALUES (k, 'n')"
    ),
    "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id <> 5",
)
_META = "_change_type, _change_ordinal, _commit_snapshot_id"


@pytest.mark.judges
def test_changelogs(judge: Judge) -> None:
    spark = JudgedTable(judge, "changelogs")
    for text in _WRITTEN:
        judge.sql(text.replace("{t}", spark.name))
    table = open_table(spark.root, "iceberg")
    snapshots = [one.snapshot_id for one in table.snapshots]
    ways: list[tuple[str, int | None, int | None, dict[str, Any]]] = [
        ("", None, None, {}),
        ("", snapshots[0], None, {}),
        ("", snapshots[2], snapshots[4], {}),
        (", net_changes => true", None, None, {"net_changes": True}),
        (", net_changes => true", snapshots[0], None, {"net_changes": True}),
        # Further on, a snapshot deletes two rows with the id 1, which both refuse.
        (", identifier_columns => array('id')", snapshots[0], snapshots[2], {"identifier_columns": ["id"]}),
        (", identifier_columns => array('id')", snapshots[3], None, {"identifier_columns": ["id"]}),
    ]
    columns = ["id", "s", "x", "l", *_META.split(", ")]
    for number, (text, first, last, arguments) in enumerate(ways):
        ends = {"start-snapshot-id": first, "end-snapshot-id": last}
        options = ", ".join(f"'{name}', '{value}'" for name, value in ends.items() if value is not None)
        named = f"table => 'db.changelogs', changelog_view => 'log{number}', options => map({options})"
        judge.sql(f"CALL ice.system.create_changelog_view({named}{text})")
        theirs = judge.sql(f"SELECT id, s, x, l, {_META} FROM log{number}")
        assert len(theirs) > 2
        same(table.changes(first, last, columns=columns, **arguments).to_arrow(), theirs)
