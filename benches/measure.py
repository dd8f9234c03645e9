"""What a case is, and how one side of it is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa

__all__ = ["Case", "Outcome", "best", "fresh", "names", "session", "timed", "warm"]


class Outcome(NamedTuple):
    """Seconds of the work, and what it found."""

    seconds: float
    found: Any


class Case(NamedTuple):
    """A case: a sentence, the data that it needs, and its sides, ours first."""

    title: str
    prepare: Callable[[float], Any]
    sides: dict[str, Callable[[float], Outcome]]


def timed(work: Callable[[], Any], describe: Callable[[Any], Any]) -> Outcome:
    start = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - start
    return Outcome(seconds, describe(found))


def best(work: Callable[[], Any], describe: Callable[[Any], Any], times: int) -> Outcome:
    """Take the best of several: for what is shorter than the noise, or runs on a warm engine."""
    outcomes = [timed(work, describe) for _ in range(times)]
    return min(outcomes, key=lambda outcome: outcome.seconds)


def names(paths: Iterable[str]) -> list[int]:
    """Describe file paths whatever is in front of them."""
    sums = [zlib.crc32(str(path).rsplit("/", 1)[-1].encode()) for path in paths]
    return [len(sums), sum(sums)]


def warm() -> Any:
    """Import what the first call would import: pyarrow loads pandas, where it is installed, for its first scalar."""
    import deltaberg

    pa.scalar(1)
    return deltaberg.open_table


def session(engines: bool = False) -> Any:
    """Start a Spark session of two cores; with the jars of delta-spark and iceberg-spark where they are measured."""
    from tests.support.engine_jars import ENGINES
    from tests.support.spark_session import start_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**ENGINES, "spark.sql.catalog.ice.warehouse": "/nowhere"} if engines else {}
    return start_session(**settings, **{"spark.driver.memory": "6g"})


def fresh(case: str, side: str, scale: float) -> dict[str, Any]:
    """Run one side in a process of its own: its seconds, what it found, and its peak of memory in bytes."""
    command = [sys.executable, "-m", "benches", "--side", case, side, "--scale", str(scale)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"{case}, {side}: {finished.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return found
