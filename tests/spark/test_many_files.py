"""What the driver collects of a write with 100,000 files: rows about files, and far fewer bytes than it may hold."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import types as st

from deltaberg import create_table
from deltaberg.spark import FrameRows
from deltaberg.table.write.write import write_files

pytestmark = [pytest.mark.spark, pytest.mark.one_backend, pytest.mark.slow]

_TASKS, _FILES = 1000, 100
#: The most bytes of results that Spark lets a driver collect by default (``spark.driver.maxResultSize``).
_SPARK_LIMIT = 1 << 30
_COLUMNS = [f"c{number}" for number in range(8)]

_Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Frame:
    """A DataFrame of many tasks, which run in this process."""

    isStreaming = False  # noqa: N815
    schema = st.StructType([st.StructField(name, st.StringType()) for name in _COLUMNS])

    def __init__(self) -> None:
        self.sparkSession = self
        self.collected = 0
        self._task: _Task = iter

    def createDataFrame(self, *_: object) -> None:  # noqa: N802
        """Exist, as sessions are known by it."""

    def toDF(self, *_: str) -> _Frame:  # noqa: N802
        return self

    def mapInArrow(self, task: _Task, _: str) -> _Frame:  # noqa: N802
        self._task = task
        return self

    def collect(self) -> list[dict[str, Any]]:
        rows = pa.record_batch({name: ["x"] for name in _COLUMNS})
        replies = [row for _ in range(_TASKS) for reply in self._task(iter([rows])) for row in reply.to_pylist()]
        self.collected = sum(len(reply["files"]) for reply in replies)
        return replies


def test_a_commit_of_100_000_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task writes 100 files; those of all but the first are described as if they were there."""
    generator = random.Random(7)
    written: list[pa.Table] = []
    numbers = itertools.count()

    def write(_: pa.RecordBatchReader, *arguments: Any, **options: Any) -> pa.Table:
        if not written:
            parts = []
            for _ in range(_FILES):
                row = pa.record_batch({name: [generator.randbytes(20).hex()] for name in _COLUMNS})
                parts.append(write_files(pa.RecordBatchReader.from_batches(row.schema, [row]), *arguments, **options))
            written.append(pa.concat_tables(parts).combine_chunks())
        names = pa.array([f"part-{next(numbers):06}.parquet" for _ in range(_FILES)])
        place = written[0].schema.get_field_index("path")
        return written[0].set_column(place, written[0].schema.field(place), names)

    monkeypatch.setattr("deltaberg.spark.write.write_tasks.write_files", write)
    monkeypatch.setattr("deltaberg.spark.write.frame_rows.why_not_native", lambda *_: "there is no JVM")
    monkeypatch.setattr("deltaberg.spark.write.frame_rows.run_job", lambda _, call: call())
    table = create_table(tmp_path, pa.schema([(name, pa.string()) for name in _COLUMNS]))
    frame: Any = _Frame()
    result = table.append(FrameRows(frame))
    assert (result.added_files, result.added_rows) == (_TASKS * _FILES, _TASKS * _FILES)
    assert frame.collected < _SPARK_LIMIT / 16
    paths = table.scan().files()["file_path"]
    assert pc.count_distinct(paths).as_py() == len(paths) == _TASKS * _FILES
