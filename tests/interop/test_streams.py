"""A query changes hands between the connectors and this library, in one checkpoint, and gives every row once.

Each run ends in the middle of a batch, whose end is in the checkpoint already: the next one has to read the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg
from deltaberg import create_table, open_table
from tests.interop.judged_iceberg import JudgedTable
from tests.spark.doors import register
from tests.support.judge import Judge

pytestmark = [
    pytest.mark.judges,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.timeout(1800),
]

#: Runs a query until a batch, in which it stops before anything is written. It sees its arguments by name.
_RUN = """
import os

def give(rows, number):
    if number >= stop:
        raise RuntimeError("stopped")
    rows.write.mode("overwrite").parquet(f"{out}/{number}")

reader = spark.readStream.format(format).options(**options)
query = reader.load(path).writeStream.foreachBatch(give).option("checkpointLocation", checkpoint)
query = query.trigger(availableNow=True).start()
try:
    query.awaitTermination()
    message = ""
except Exception as error:
    message = str(error)
assert not message or "stopped" in message, message
message[:1]
"""


class _Query:
    """A query with one checkpoint, of which a connector or this library runs a part."""

    def __init__(self, folder: Path, path: str, form: str, judge: Judge, spark: Any) -> None:
        self._folder = folder
        self._arguments = {"path": path, "format": form}
        self._judge = judge
        self._spark = register(spark)

    def run(self, by: str, options: Mapping[str, str] | None = None, stop: int = 1000) -> None:
        """Run the query by the connector (``theirs``) or this library (``ours``), up to a batch."""
        folder = {"out": str(self._folder / "out"), "checkpoint": str(self._folder / "checkpoint")}
        arguments = {**self._arguments, **folder, "stop": stop, "options": dict(options or {})}
        if by == "theirs":
            self._judge.run(_RUN, **arguments)
        else:
            exec(_RUN, {"spark": self._spark, **arguments})

    def ids(self) -> list[int]:
        """Return the rows that all batches gave."""
        return sorted(pq.ParquetDataset(self._folder / "out").read()["id"].to_pylist())


def _take_over(query: _Query, append: Callable[..., Any], limit: dict[str, str]) -> None:
    """Append to a table and stream it, in turns of both, and compare what was given."""
    limited = {**limit, "deltaberg.limitsWithoutAvailableNow": "true"}
    query.run("theirs", limit, 1)
    query.run("ours", limited, 2)
    append(100, 101, 102)
    query.run("ours", limited, 3)
    query.run("theirs", limit)
    append(200)
    query.run("ours")
    assert query.ids() == [*range(6), 100, 101, 102, 200]


@pytest.mark.req("DL-STR-04", half="writer")
def test_delta_queries_change_hands(tmp_path: Path, judge: Judge, spark: Any) -> None:
    path = str(tmp_path / "table")
    table = create_table(path, {"id": pa.int64()})
    for number in range(6):
        table.append(pa.table({"id": [number]}))

    def append(*ids: int) -> None:
        # Several files in one commit, as tasks write them.
        code = "spark.createDataFrame([(one,) for one in ids], 'id long').repartition(len(ids)).write.format('delta')"
        judge.run(code + ".mode('append').save(path)", ids=list(ids), path=path)
        judge.run("spark.sql(f'OPTIMIZE delta.`{path}`').count()", path=path)

    _take_over(_Query(tmp_path, path, "delta", judge, spark), append, {"maxFilesPerTrigger": "2"})
    assert open_table(path).scan().count() == 10


@pytest.mark.req("ICE-STR-03", half="writer")
def test_iceberg_queries_change_hands(tmp_path: Path, judge: Judge, spark: Any) -> None:
    judged = JudgedTable(judge, "queried")
    judge.sql(f"CREATE TABLE {judged.name} (id bigint) USING iceberg")
    path = str(judged.root)
    table = deltaberg.open_table(path)
    for number in range(6):
        table.append(pa.table({"id": [number]}))

    def append(*ids: int) -> None:
        code = "spark.createDataFrame([(one,) for one in ids], 'id long').repartition(len(ids)).writeTo(name).append()"
        judge.run(code, ids=list(ids), name=judged.name)

    query = _Query(tmp_path, path, "iceberg", judge, spark)
    _take_over(query, append, {"streaming-max-files-per-micro-batch": "2"})
