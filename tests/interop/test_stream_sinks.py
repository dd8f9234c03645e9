"""Streams into tables that a connector has begun go on by us with the same checkpoint, and by it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import open_table
from tests.interop.judged_iceberg import JudgedTable
from tests.spark.doors import register
from tests.support.judge import Judge

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.one_backend, pytest.mark.timeout(900)]

_QUERY = (
    "rows = spark.readStream.schema('id long').option('maxFilesPerTrigger', '1').json(folder)\n"
    "writer = rows.writeStream.format(format).option('checkpointLocation', checkpoint).trigger(availableNow=True)\n"
    # iceberg-spark looks for its catalogs in the session of the thread, which a thread of Python has none of.
    "if named: spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)\n"
    "query = writer.toTable(path) if named else writer.start(path)\n"
    "query.awaitTermination()\n"
    "str(query.id)"
)


class _Stream:
    """A query that either side runs, over a folder in which every file is a batch."""

    def __init__(self, judge: Judge, spark: Any, folder: Path, table_format: str, ours: str, theirs: str) -> None:
        self.judge, self.spark, self.format = judge, spark, table_format
        self.arrivals, self.checkpoint = folder / "arrivals", folder / "checkpoint"
        self.arrivals.mkdir(parents=True)
        self.ours, self.theirs = ours, theirs
        self.number = 0
        register(spark)

    def run(self, by_us: bool, *, sent_again: bool) -> str:
        """Let a batch arrive, and run the query; before that the checkpoint forgets that the last batch was committed.

        So a driver leaves it that is killed between the commit of the table and that of the query.
        """
        if sent_again:
            for path in (self.checkpoint / "commits").glob(f"*{self.number - 1}*"):
                path.unlink()
        (self.arrivals / f"{self.number}.json").write_text(json.dumps({"id": self.number}))
        self.number += 1
        arguments: dict[str, Any] = {
            "folder": str(self.arrivals),
            "format": self.format,
            "checkpoint": str(self.checkpoint),
            "path": self.ours if by_us else self.theirs,
            "named": not by_us and self.ours != self.theirs,
        }
        if not by_us:
            return str(self.judge.run(_QUERY, **arguments))
        names: dict[str, Any] = {"spark": self.spark, **arguments}
        body, last = _QUERY.rsplit("\n", 1)
        exec(body, names)
        return str(eval(last, names))

    def check(self, ids: list[Any]) -> None:
        """Compare the rows of a reader with what has arrived."""
        assert sorted(ids) == list(range(self.number))


#: Who runs the query, and whether the batch before is sent again.
_TURNS = [(False, False), (True, True), (True, True), (False, True), (True, False), (False, True)]


@pytest.mark.req("DL-STR-07", half="writer")
def test_a_stream_moves_between_delta_spark_and_us(tmp_path: Path, judge: Judge, spark: Any) -> None:
    path = tmp_path / "t"
    stream = _Stream(judge, spark, tmp_path, "delta", str(path), str(path))
    names = set()
    for by_us, sent_again in _TURNS:
        names.add(stream.run(by_us, sent_again=sent_again))
        stream.check(judge.sql(f"SELECT id FROM delta.`{path}`")["id"].to_pylist())
        stream.check(open_table(path).scan().to_arrow()["id"].to_pylist())
    assert len(names) == 1


@pytest.mark.req("ICE-STR-04", half="writer")
def test_a_stream_moves_between_iceberg_spark_and_us(tmp_path: Path, judge: Judge, spark: Any) -> None:
    judged = JudgedTable(judge, "streamed")
    judged.create({"id": pa.int64()})
    stream = _Stream(judge, spark, tmp_path, "iceberg", str(judged.root), judged.name)
    for by_us, sent_again in _TURNS:
        stream.run(by_us, sent_again=sent_again)
        stream.check(judged.sql("SELECT id FROM {t}")["id"].to_pylist())
        stream.check(judged.open().scan().to_arrow()["id"].to_pylist())


@pytest.mark.req("ICE-STR-04", half="writer")
def test_a_batch_is_known_after_iceberg_spark_has_expired_its_snapshot(
    tmp_path: Path, judge: Judge, spark: Any
) -> None:
    judged = JudgedTable(judge, "streamed_and_expired")
    judged.create({"id": pa.int64()})
    stream = _Stream(judge, spark, tmp_path, "iceberg", str(judged.root), judged.name)
    stream.run(True, sent_again=False)
    judged.sql("INSERT INTO {t} VALUES (-1)")
    judged.call("expire_snapshots", "timestamp '2100-01-01 00:00:00'", "1")
    assert len(judged.open().snapshots) == 1
    stream.run(True, sent_again=True)
    assert sorted(judged.sql("SELECT id FROM {t}")["id"].to_pylist()) == [-1, 0, 1]
