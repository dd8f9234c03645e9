"""What a case is, in what it is measured, and how one side of it runs."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tests.support.memory import peak_memory

__all__ = [
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
    """What the work took each time, in the unit of its case, what it found, and the bytes that the unit has beside it.

    No bytes stand for the peak of memory of the side's process and of those that it started and that still run.
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
    """What a case counts: how an amount is written, and what the bytes beside it are."""

    written: Callable[[float], str]
    bytes: str


SECONDS = Unit(lambda seconds: f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s", "peak")
REQUESTS = Unit(lambda count: f"{count:.0f} requests", "received")


class Case(NamedTuple):
    """A case: a sentence, the data that it needs, and its sides, ours first.

    Sides in ``counting`` tell only how many there are, the first of what ours tells.
    """

    title: str
    prepare: Callable[[float], Any]
    sides: dict[str, Side]
    unit: Unit = SECONDS
    counting: tuple[str, ...] = ()


class Subject(NamedTuple):
    """Cases that belong together, all of one unit."""

    title: str
    cases: dict[str, Case]


def take_turns() -> None:
    """Let the process that started this one say when it goes on."""
    global _in_turns  # noqa: PLW0603 - it is a property of the process
    _in_turns = True


def await_turn() -> None:
    """Wait for the turn of this side, where others are measured beside it."""
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
    """Time what is shorter than the noise, or runs on a warm engine, several times: the first half only warms up."""
    outcomes = [timed(work, describe) for _ in range(times)]
    whole = joined(outcomes)
    return whole._replace(amounts=whole.amounts[times // 2 :])


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Give the amounts of several outcomes of the same work as those of one, and the most bytes."""
    if any(outcome.found != outcomes[0].found for outcome in outcomes):
        raise ValueError(f"the same work found different things: {[outcome.found for outcome in outcomes]}")
    sizes = [outcome.bytes for outcome in outcomes if outcome.bytes is not None]
    amounts = [amount for outcome in outcomes for amount in outcome.amounts]
    return Outcome(amounts, outcomes[0].found, max(sizes, default=None))


def names(paths: Iterable[str]) -> list[int]:
    """Describe file paths whatever is in front of them."""
    sums = [zlib.crc32(str(path).rsplit("/", 1)[-1].encode()) for path in paths]
    return [len(sums), sum(sums)]


def contents(table: pa.Table) -> list[list[str]]:
    """Describe the values of each column, in whatever order the rows are."""
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


def peak_of_processes() -> int:
    """Give the sum of the peaks of this process and of all below it: the JVM of Spark, and its Python workers.

    Each had its peak at its own time, and pages that forked workers share count for each, so that it is a bound.
    """
    return peak_memory() + sum(peak_memory(child.pid) for child in psutil.Process().children(recursive=True))
