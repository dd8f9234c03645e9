"""Delete files of Iceberg tables that we rewrote, as iceberg-spark reads them, and its procedures beside ours."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.location.directory_commit import DirectoryAttempt
from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.judges,
    pytest.mark.timeout(600),
]

_COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string())])


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "part": ["ab"[one % 2] for one in ids]}, _COLUMNS)


def _table(judged: JudgedTable, version: int) -> Any:
    """Make a table of which rows were deleted by both kinds of delete files, by us and by iceberg-spark."""
    properties = {
        "format-version": "2",
        "write.delete.mode": "merge-on-read",
        "write.delete.granularity": "partition",
    }
    table = judged.create(_COLUMNS, partition_by="part", properties=properties)
    for first in (0, 50):
        table.append(_rows(*range(first, first + 50)))
    for one in (0, 2, 4, 51, 53):
        table.delete(f"id = {one}")
    judged.sql("DELETE FROM {t} WHERE id IN (6, 55)")
    if version == 3:
        table.refresh().alter().set({"format-version": "3"}).commit()
    table.refresh().delete_by_keys(pa.table({"id": [8, 9, 60, 61, 999]}))
    return table


_GONE = {0, 2, 4, 51, 53, 6, 55, 8, 9, 60, 61}


@pytest.mark.req("ICE-MNT-17", "ICE-MNT-18")
@pytest.mark.parametrize("version", [2, 3])
def test_rewritten_deletes_in_iceberg_spark(judge: Judge, version: int) -> None:
    judged = JudgedTable(judge, f"rewritten_deletes_{version}")
    table = _table(judged, version)
    assert table.convert_equality_deletes().removed_files > 0
    assert sorted(judged.check().scan().to_arrow()["id"].to_pylist()) == [n for n in range(100) if n not in _GONE]
    table.rewrite_position_delete_files(min_files=2)
    judged.check()
    namespace, name = judged.name.split(".", 1)
    call = f"CALL {namespace}.system.rewrite_position_delete_files(table => '{name}')"
    (counted,) = judged.sql(call).to_pylist()
    assert (counted["rewritten_delete_files_count"], counted["added_delete_files_count"]) == (0, 0)
    judged.sql("DELETE FROM {t} WHERE id = 10")
    assert sorted(judged.check().scan().to_arrow()["id"].to_pylist()) == [
        n for n in range(100) if n not in {*_GONE, 10}
    ]


@pytest.mark.req("ICE-MNT-23")
@pytest.mark.parametrize("version", [2, 3])
def test_iceberg_spark_rewrites_files_meanwhile(judge: Judge, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    judged = JudgedTable(judge, f"rewritten_meanwhile_{version}")
    table = _table(judged, version)
    send, left = DirectoryAttempt.send, [True]

    def sent(attempt: DirectoryAttempt) -> Any:
        if left and b'"operation":"replace"' in attempt.data.replace(b" ", b""):
            left.clear()
            judged.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
        return send(attempt)

    monkeypatch.setattr(DirectoryAttempt, "send", sent)
    table.convert_equality_deletes()
    assert not left
    assert sorted(judged.check().scan().to_arrow()["id"].to_pylist()) == [n for n in range(100) if n not in _GONE]
    assert 2 not in table.refresh().inspect("delete_files")["content"].to_pylist()
