"""The Spark session under test: two cores, no jar, no user interface."""

from __future__ import annotations

from typing import Any

__all__ = ["SETTINGS", "start_session"]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.showConsoleProgress": "false",
    # Results must not depend on the zone of the session.
    "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
}


def start_session(**settings: str) -> Any:
    """Start a session; further settings replace the usual ones, ``__`` for a dot."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("deltaberg-tests")
    chosen = {**SETTINGS, **{name.replace("__", "."): value for name, value in settings.items()}}
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
