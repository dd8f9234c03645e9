"""Cases, their units, and how a side of a case runs."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tests.support.memory import peak_memory

__all__ = [
    "BYTES",
    "FILES",
    "REQUESTS",
    "SECONDS",
    "TURN",
    "Case",
    "Made",
    "Outcome",
    "Side",
    "Subject",
    "Unit",
    "await_turn",
    "contents",
    "joined",
    "names",
    "peak_of_processes",
    "repeated",
    "session",
    "take_turns",
    "timed",
    "warm",
]


class Outcome(NamedTuple):
    """What the work took each time in the unit of its case, what it found, and how many bytes.

    Without bytes, the peak memory of the side's process and of its running child processes is taken.
    """

    amounts: list[float]
    found: Any
    bytes: int | None = None


#: What a side says when it waits for its turn.
TURN = "@ turn"
_in_turns = False

#: What one side of a case does, at a scale of its data.
Side = Callable[[float], Outcome]
#: Gives a table, made at a scale where it is not there yet.
Made = Callable[[float], Path]


class Unit(NamedTuple):
    """What a case measures: how an amount is formatted, and what the bytes next to it are."""

    written: Callable[[float], str]
    bytes: str


SECONDS = Unit(lambda seconds: f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s", "peak")
BYTES = Unit(lambda count: f"{count / (1 << 20):.1f} MiB", "peak")
FILES = Unit(lambda percent: f"{percent:.1f} % of the files", "peak")
REQUESTS = Unit(lambda count: f"{count:.0f} requests", "received")


class Case(NamedTuple):
    """A case: a description, the data that it needs, and its sides, ours first.

    Sides in ``counting`` only find a number, which is compared with the first finding of ours.
    """

    title: str
    prepare: Callable[[float], Any]
    sides: dict[str, Side]
    unit: Unit = SECONDS
    counting: tuple[str, ...] = ()


class Subject(NamedTuple):
    """Cases that belong together, all with the same unit."""

    title: str
    cases: dict[str, Case]


def take_turns() -> None:
    """Let the process that started this one decide when it continues."""
    global _in_turns  # noqa: PLW0603 - it is a property of the process
    _in_turns = True


def await_turn() -> None:
    """Wait for the turn of this side, if it takes turns with others."""
    if _in_turns:
        print(f"\n{TURN}", flush=True)
        sys.stdin.readline()


def timed(work: Callable[[], Any], describe: Callable[[Any], Any]) -> Outcome:
    await_turn()
    start = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - start
    return Outcome([seconds], describe(found))


def repeated(work: Callable[[], Any], describe: Callable[[Any], Any], times: int) -> Outcome:
    """Time short work, or work on an engine that warms up, several times; the first half is for warming up."""
    outcomes = [timed(work, describe) for _ in range(times)]
    whole = joined(outcomes)
    return whole._replace(amounts=whole.amounts[times // 2 :])


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Merge several outcomes of the same work: all amounts and the peak bytes."""
    if any(outcome.found != outcomes[0].found for outcome in outcomes):
        raise ValueError(f"the same work found different things: {[outcome.found for outcome in outcomes]}")
    sizes = [outcome.bytes for outcome in outcomes if outcome.bytes is not None]
    amounts = [amount for outcome in outcomes for amount in outcome.amounts]
    return Outcome(amounts, outcomes[0].found, max(sizes, default=None))


def names(paths: Iterable[str]) -> list[int]:
    """Describe file paths by the names of the files."""
    sums = [zlib.crc32(str(path).rsplit("/", 1)[-1].encode()) for path in paths]
    return [len(sums), sum(sums)]


def contents(table: pa.Table) -> list[list[str]]:
    """Describe the values of each column, independently of the order of rows."""
    return [[name, *map(str, _values(table.column(name)))] for name in table.column_names]


def _values(column: pa.ChunkedArray) -> list[Any]:
    counts = [len(column), column.null_count]
    if pt.is_floating(column.type):
        # The order decides the last digits of a sum.
        return [*counts, *pc.min_max(column).as_py().values(), f"{pc.sum(column).as_py():.9g}"]
    if pt.is_integer(column.type) or pt.is_timestamp(column.type):
        return [*counts, pc.sum(column.cast(pa.int64())).as_py()]
    texts = column.cast(pa.string())
    ends = pc.min_max(texts).as_py().values()
    return [*counts, *ends, pc.count_distinct(texts).as_py(), pc.sum(pc.binary_length(texts)).as_py()]


def warm() -> Any:
    """Import what first calls would import, and return what opens a table."""
    _use_everything()
    import deltaberg

    return deltaberg.open_table


@cache
def _use_everything() -> None:
    """Write and read a table of each format: modules are imported where they are first used.

    For its first scalar, pyarrow loads pandas if it is installed.
    """
    import deltaberg

    rows = pa.table({"id": [1, 2], "part": ["a", "b"]})
    for table_format in ("delta", "iceberg"):
        with tempfile.TemporaryDirectory() as folder:
            deltaberg.write_table(folder, rows, format=table_format, partition_by="part")
            scan = deltaberg.open_table(folder, table_format).scan("part = 'a' AND id < 2")
            scan.files()
            scan.to_arrow()


def session(engines: bool = False) -> Any:
    """Start a Spark session with two cores, and with the jars of delta-spark or iceberg-spark if they are measured."""
    from tests.support.engine_jars import ENGINES
    from tests.support.spark_session import start_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**ENGINES, "spark.sql.catalog.ice.warehouse": "/nowhere"} if engines else {}
    return start_session(True, **settings, **{"spark.driver.memory": "6g"})


def peak_of_processes() -> int:
    """Return the sum of the peaks of this process and its descendants, such as the JVM of Spark and its workers.

    The sum is an upper bound: the peaks may not coincide, and pages shared by forked workers are counted repeatedly.
    """
    return peak_memory() + sum(peak_memory(child.pid) for child in psutil.Process().children(recursive=True))
