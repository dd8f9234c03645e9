"""The Spark session under test: two cores, no jar, no user interface."""

from __future__ import annotations

import os
import warnings
from typing import Any

__all__ = ["REMOTE", "SETTINGS", "start_session"]

#: Set to 1, this variable makes the session one of Spark Connect, whose server starts on this machine.
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


def start_session(**settings: str) -> Any:
    """Start a session; further settings replace the usual ones, ``__`` for a dot."""
    from pyspark.sql import SparkSession

    connect = os.environ.get(REMOTE) == "1"
    builder = SparkSession.builder.appName("deltaberg-tests")
    builder = builder.remote("local[2]") if connect else builder.master("local[2]")
    chosen = {**SETTINGS, **{name.replace("__", "."): value for name, value in settings.items()}}
    for name, value in chosen.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        if connect:
            # The server was started with the settings; the client offers them once more, and it refuses.
            warnings.simplefilter("ignore", UserWarning)
        session = builder.getOrCreate()
    if not connect:
        session.sparkContext.setLogLevel("OFF")
    return session
