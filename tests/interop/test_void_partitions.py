"""Tables of version 3 that are partitioned by a column without a type, as iceberg-spark reads and writes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.interop.judged_iceberg import JudgedTable
from tests.support.judge import Judge


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.judges
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:the column none has no type")
def test_in_iceberg_spark(judge: Judge) -> None:
    judged = JudgedTable(judge, "voids")
    columns = pa.schema([("id", pa.int64()), ("none", pa.null())])
    table = judged.create(columns, partition_by=["none"], properties={"format-version": "3"})
    table.append(pa.table({"id": [1, 2, 3]}))
    judged.check(by_pyiceberg=False)
    judged.sql("INSERT INTO {t} VALUES (9, NULL)")
    judged.check(by_pyiceberg=False).compact()
    assert sorted(judged.check(by_pyiceberg=False).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 9]
