"""Streams of a table whose processes are killed at each step of a batch, while others put the table in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg import create_table
from deltaberg.choices import Format
from deltaberg.spark.source.datasource import DeltaDataSource, IcebergDataSource
from deltaberg.spark.source.streaming.stream_reader import StreamReader
from deltaberg.spark.source.streaming.stream_sink import StreamSink
from tests.spark.killing_sinks import jvm_of
from tests.support.spark_session import REMOTE

__all__ = ["STEPS", "ids_by_the_log", "ids_of_killed_query"]

#: The driver dies when it knows the end of a batch, which Spark has not logged; when the batch is planned; while a task
#: reads; and when the rows are committed, and Spark has not logged that. At last, only a task dies.
STEPS = ("latest offset", "partitions", "read", "batch", "task")
_STEP, _DONE = "DELTABERG_TEST_STEP", "DELTABERG_TEST_KILLED"
_QUERY = """
import sys
from tests.spark.killed_sources import KillingDelta, KillingIceberg
from tests.support.spark_session import start_session
import deltaberg.spark

place, table_format = sys.argv[1:]
spark = start_session(spark__master="local[2,2]")
deltaberg.spark.register(spark)
for source in (KillingDelta, KillingIceberg):
    spark.dataSource.register(source)
rows = spark.readStream.format(f"killing {table_format}").load(f"{place}/source")
query = rows.writeStream.format("killing delta").option("checkpointLocation", f"{place}/checkpoint")
query.trigger(availableNow=True).start(f"{place}/target").awaitTermination()
"""


def _die_once(step: str, process: int) -> None:
    if os.environ.get(_STEP) == step:
        try:
            (Path(os.environ[_DONE]) / step).touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(process, signal.SIGKILL)


class KillingReader(StreamReader):
    """Kills its driver, or its task, at one step."""

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Find the end of a batch, and die."""
        found = super().latestOffset(start, limit)
        _die_once("latest offset", jvm_of(os.getppid()))
        return found

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Any:
        """Plan a batch, and die."""
        found = super().partitions(start, end)
        if found:
            _die_once("partitions", jvm_of(os.getppid()))
        return found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read, and die after the first rows."""
        for batch in super().read(partition):
            yield batch
            _die_once("read", jvm_of(os.getppid()))
            _die_once("task", os.getpid())


class KillingSink(StreamSink):
    """Kills its driver when a batch is committed."""

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the files, and die."""
        super().commit(messages, batchId)
        _die_once("batch", jvm_of(os.getppid()))


class _Killing:
    @classmethod
    def name(cls) -> str:
        """Return the name of the source."""
        return f"killing {super().name()}"  # type: ignore[misc]

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - PySpark's name
        """Return the reader, as one that kills."""
        reader: Any = super().streamReader(schema)  # type: ignore[misc]
        reader.__class__ = KillingReader
        return reader

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - PySpark's name
        """Return the sink, as one that kills."""
        sink: Any = super().streamWriter(schema, overwrite)  # type: ignore[misc]
        sink.__class__ = KillingSink
        return sink


class KillingDelta(_Killing, DeltaDataSource):
    """The source of Delta tables."""


class KillingIceberg(_Killing, IcebergDataSource):
    """The source of Iceberg tables."""


def ids_by_the_log(root: Path) -> list[int]:
    """Read a Delta table by pyarrow and the JSON of its log alone: no row is ever removed here."""
    added = [
        action["add"]["path"]
        for entry in sorted((root / "_delta_log").glob("*.json"))
        for action in map(json.loads, entry.read_text().splitlines())
        if "add" in action
    ]
    return [one for path in added for one in pq.read_table(root / path)["id"].to_pylist()]


def ids_of_killed_query(folder: Path, table_format: Format, step: str, batches: int = 2) -> tuple[list[int], list[int]]:
    """Run a query into a Delta table until it ends, which is killed at a step of some batches, from the first one on.

    Returns
    -------
    tuple
        The ids that the table has, and those that the query has written.
    """
    create: Any = create_table
    table = create(folder / "source", {"id": pa.int64()}, format=table_format)
    environment = {name: value for name, value in os.environ.items() if name != REMOTE}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), *sys.path]))
    environment[_STEP] = step
    expected: list[int] = []
    for batch in range(batches):
        killed = folder / f"killed {batch}"
        killed.mkdir()
        for _ in range(3):
            expected += range(len(expected), len(expected) + 10)
            table.append(pa.table({"id": expected[-10:]}))
        command = [sys.executable, "-c", _QUERY, str(folder), table_format]
        ended: list[bool] = []
        while not ended or (not ended[-1] and len(ended) < 3):
            done = {**environment, _DONE: str(killed)}
            ran = subprocess.run(command, capture_output=True, text=True, check=False, env=done, timeout=300)
            ended.append(ran.returncode == 0)
            # Files that a batch has still to read move into others meanwhile.
            table.refresh().maintain(dry_run=False)
        deaths = [True] if step == "task" else [False, True]
        if ended != deaths or not (killed / step).exists():
            raise AssertionError(f"the runs ended with {ended}: {ran.stderr[-3000:]}")
    return expected, sorted(ids_by_the_log(folder / "target"))
