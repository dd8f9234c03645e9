"""Data Sources whose sinks kill the driver at each step of a stream's batches once.

Spark's Python processes load this module with the class of the source, which changes the sink for all of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from deltaberg.spark.source.datasource import DeltaDataSource, IcebergDataSource
from deltaberg.spark.source.streaming.stream_sink import StreamSink

__all__ = ["KILLING_SOURCES"]

_STEPS = ("write", "before commit", "after commit")


def _jvm(process: int) -> int:
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
        os.kill(_jvm(os.getppid()), signal.SIGKILL)


def _write(whole: Callable[..., Any]) -> Callable[..., Any]:
    def write(self: StreamSink, iterator: Any) -> Any:
        done = whole(self, iterator)
        context: Any = TaskContext.get()
        _kill_once("write", int(context.getLocalProperty("streaming.sql.batchId")))
        return done

    return write


def _commit(whole: Callable[..., Any]) -> Callable[..., Any]:
    def commit(self: StreamSink, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        _kill_once("before commit", batchId)
        whole(self, messages, batchId)
        _kill_once("after commit", batchId)

    return commit


setattr(StreamSink, "write", _write(StreamSink.write))  # noqa: B010
setattr(StreamSink, "commit", _commit(StreamSink.commit))  # noqa: B010


class KillingDelta(DeltaDataSource):
    """The source of Delta tables."""


class KillingIceberg(IcebergDataSource):
    """The source of Iceberg tables."""


KILLING_SOURCES = {"delta": KillingDelta, "iceberg": KillingIceberg}
