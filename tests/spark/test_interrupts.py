"""Ctrl-C in the middle of a job of Spark: `KeyboardInterrupt`, no job that goes on, and the table as it was."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.choices import Format
from deltaberg.spark import DeltaTable
from tests.spark.doors import needs_native_writes
from tests.support.spark_session import REMOTE

pytestmark = [
    pytest.mark.spark,
    pytest.mark.one_backend,
    pytest.mark.skipif(os.environ.get(REMOTE) == "1", reason="over Connect, PySpark interrupts its operations itself"),
]

_SCHEMA = "id bigint, part string"


class _Endless:
    """Says by a pipe that it runs, and goes on until its task is killed; a function for `mapInArrow`."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = str(pipe)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open(self._pipe, "w", encoding="utf-8") as pipe:
            pipe.write("running")
        yield from batches
        threading.Event().wait()


def _append(spark: Any, root: Path, rows: Any) -> None:
    deltaberg.open_table(root).append(rows)


def _merge(spark: Any, root: Path, rows: Any) -> None:
    DeltaTable.forPath(spark, str(root)).alias("t").merge(
        rows.alias("u"), "t.id = u.id"
    ).whenMatchedUpdateAll().execute()


def _upsert(spark: Any, root: Path, rows: Any) -> None:
    deltaberg.open_table(root).upsert(rows, "id")


@pytest.mark.parametrize(
    ("format", "partition_by", "call"),
    [
        pytest.param("delta", None, _append, id="native", marks=needs_native_writes),
        pytest.param("iceberg", ["part"], _append, id="arrow"),
        pytest.param("delta", None, _merge, id="merge", marks=pytest.mark.full),
        pytest.param("iceberg", None, _upsert, id="upsert", marks=pytest.mark.full),
    ],
)
def test_an_interrupted_job_is_cancelled(
    spark: Any, tmp_path: Path, format: Format, partition_by: Any, call: Callable[..., None]
) -> None:
    root, pipe = tmp_path / "table", tmp_path / "pipe"
    os.mkfifo(pipe)
    rows = pa.table({"id": [1, 2], "part": ["a", "b"]})
    deltaberg.write_table(root, rows, format=format, partition_by=partition_by)
    before = {str(path) for path in root.rglob("*")}
    endless = spark.createDataFrame([(3, "c")], _SCHEMA).coalesce(1).mapInArrow(_Endless(pipe), _SCHEMA)

    def interrupt() -> None:
        # It opens as soon as the task has opened its end.
        with open(pipe, encoding="utf-8") as opened:
            opened.read(1)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        call(spark, root, endless)
    interrupter.join()
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert deltaberg.open_table(root).scan().to_arrow().sort_by("id").select(["id", "part"]) == rows
    assert {str(path) for path in root.rglob("*")} == before
    # The session goes on.
    assert spark.range(3).count() == 3
