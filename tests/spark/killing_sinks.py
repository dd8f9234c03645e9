"""Data Sources whose sinks kill the driver at each step of a stream's batches once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource

from deltaberg.spark.source.datasource import DeltaDataSource, IcebergDataSource
from deltaberg.spark.source.streaming.stream_sink import StreamSink

__all__ = ["KILLING_SOURCES", "jvm_of"]

_STEPS = ("write", "before commit", "after commit")


def jvm_of(process: int) -> int:
    """Return the JVM among a process and those that have started it."""
    while Path(f"/proc/{process}/comm").read_text().strip() != "java":
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def _kill_once(step: str, batch: int) -> None:
    # Every batch dies at one of the steps.
    if batch % len(_STEPS) == _STEPS.index(step):
        try:
            (Path(os.environ["DELTABERG_TEST_KILLED"]) / f"{step} {batch}").touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(jvm_of(os.getppid()), signal.SIGKILL)


class KillingSink(StreamSink):
    """A sink that kills its driver at each step."""

    def write(self, iterator: Any) -> Any:
        """Write the rows of a task, and die."""
        done = super().write(iterator)
        context: Any = TaskContext.get()
        _kill_once("write", int(context.getLocalProperty("streaming.sql.batchId")))
        return done

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Die, commit the files, or die after it."""
        _kill_once("before commit", batchId)
        super().commit(messages, batchId)
        _kill_once("after commit", batchId)


class _Killing(DataSource):
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - PySpark's name
        """Return the sink, as one that kills."""
        sink: Any = super().streamWriter(schema, overwrite)
        sink.__class__ = KillingSink
        return sink


class KillingDelta(_Killing, DeltaDataSource):
    """The source of Delta tables."""


class KillingIceberg(_Killing, IcebergDataSource):
    """The source of Iceberg tables."""


KILLING_SOURCES = {"delta": KillingDelta, "iceberg": KillingIceberg}
