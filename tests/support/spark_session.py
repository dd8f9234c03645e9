"""The Spark session under test: two cores, no jars, no user interface."""

from __future__ import annotations

import os
import socket
import warnings
from typing import Any

__all__ = ["REMOTE", "SETTINGS", "start_session"]

#: If this variable is 1, the session is one of Spark Connect, whose server starts on this machine.
REMOTE = "DELTABERG_TEST_CONNECT"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.showConsoleProgress": "false",
    # Results must not depend on the zone of the session.
    "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
}
#: What makes tests quicker, and would falsify measurements.
_SHORT_LIVED = {
    # The JVM is short-lived: its optimizing compiler would take more of two cores than its code gives back. Without
    # that compiler, the default cache for compiled code is so small that it is full within a minute.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC",
    # PySpark otherwise looks at the stack of Python calls for each column that is made.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.python.daemon.module": "tests.support.spark_workers",
}


def _own_port() -> int:
    """Have sessions that are remote use a port that is free: the usual one may be that of another server."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    setattr(DefaultChannelBuilder, "default_port", staticmethod(lambda: port))  # noqa: B010 - of PySpark, not ours
    return port


def start_session(measured: bool = False, /, **settings: str) -> Any:
    """Start a session.

    Parameters
    ----------
    measured
        Leave the JVM and PySpark as they are by default, as measurements need.
    settings
        Settings that replace the usual ones, with ``__`` for each dot.
    """
    from pyspark.sql import SparkSession

    connect = os.environ.get(REMOTE) == "1"
    builder = SparkSession.builder.appName("deltaberg-tests")
    builder = builder.remote("local[2]") if connect else builder.master("local[2]")
    usual = SETTINGS if measured else {**SETTINGS, **_SHORT_LIVED}
    chosen = {**usual, **{name.replace("__", "."): value for name, value in settings.items()}}
    if connect:
        chosen["spark.connect.grpc.binding.port"] = str(_own_port())
    for name, value in chosen.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        if connect:
            # The server was started with the settings; the client sends them again, which causes a warning.
            warnings.simplefilter("ignore", UserWarning)
        session = builder.getOrCreate()
    if not connect:
        session.sparkContext.setLogLevel("OFF")
    return session
