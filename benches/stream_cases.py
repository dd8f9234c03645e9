"""Streams on Spark from table to table of the same format, compared with the connectors and their jars."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltaberg
from benches.measure import Case, Outcome, Side, session
from deltaberg.choices import Format

__all__ = ["STREAM_CASES"]

#: How often a side runs in its process; the first half is for warming up.
_TIMES = 6
_SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64())])
_COMMITS, _ROWS = 100, 4_000_000
#: Returns the seconds of one run, given the session, a new folder, the format, and whether this library streams.
_Work = Callable[[Any, Path, Format, bool, float], list[float]]


def _rows(count: int, first: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + count), "v": [0.5] * count}, _SCHEMA)


def _tables(at: Path, form: Format) -> Any:
    deltaberg.create_table(at / "target", _SCHEMA, format=form)
    return deltaberg.create_table(at / "source", _SCHEMA, format=form)


def _writer(frame: Any, at: Path, form: Format) -> Any:
    return frame.writeStream.format(form).option("checkpointLocation", f"{at}/checkpoint")


def _source(spark: Any, at: Path, form: Format) -> Any:
    return spark.readStream.format(form).load(f"{at}/source")


def _triggers(spark: Any, at: Path, form: Format, _is_ours: bool, _scale: float, *, is_empty: bool) -> list[float]:
    """Return the seconds of triggers of a query that runs, with a commit of ten rows before each, or none."""
    table = _tables(at, form)
    table.append(_rows(10))
    query = _writer(_source(spark, at, form), at, form).start(f"{at}/target")
    durations = []
    try:
        query.processAllAvailable()
        for number in range(1, 3 * _TIMES):
            if not is_empty:
                table.append(_rows(10, 10 * number))
            begun = time.perf_counter()
            query.processAllAvailable()
            durations.append(time.perf_counter() - begun)
    finally:
        query.stop()
    return durations[_TIMES:]


def _drained(frame: Any, at: Path, form: Format) -> list[float]:
    begun = time.perf_counter()
    _writer(frame, at, form).trigger(availableNow=True).start(f"{at}/target").awaitTermination()
    return [time.perf_counter() - begun]


def _backlog(spark: Any, at: Path, form: Format, _is_ours: bool, _scale: float) -> list[float]:
    """Return the seconds of a query that reads commits of ten rows to their end."""
    table = _tables(at, form)
    for number in range(_COMMITS):
        table.append(_rows(10, 10 * number))
    return _drained(_source(spark, at, form), at, form)


def _function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, batch.num_rows // 100)


def _mapped(spark: Any, at: Path, form: Format, is_ours: bool, scale: float) -> list[float]:
    """Return the seconds of a query that has a function keep some of many rows."""
    table = _tables(at, form)
    for number in range(4):
        table.append(_rows(int(_ROWS * scale) // 4, number))
    columns = "id bigint, v double"
    if is_ours:
        frame = deltaberg.spark.read_stream(table, spark).map_in_arrow(_function, columns)
    else:
        frame = _source(spark, at, form).mapInArrow(_function, columns)
    return _drained(frame, at, form)


def _side(work: _Work, form: Format, is_ours: bool, times: int) -> Side:
    def run(scale: float) -> Outcome:
        spark = session(engines=not is_ours)
        if is_ours:
            deltaberg.spark.register(spark)
        amounts: list[float] = []
        rows = 0
        for _ in range(times):
            at = Path(tempfile.mkdtemp(prefix="stream-"))
            try:
                amounts += work(spark, at, form, is_ours, scale)
                rows = deltaberg.open_table(at / "target").scan().count()
            finally:
                shutil.rmtree(at)
        # A query that runs warms up by itself.
        return Outcome(amounts if times == 1 else amounts[times // 2 :], rows)

    return run


def _case(title: str, work: _Work, form: Format, times: int) -> Case:
    sides = {"deltaberg": _side(work, form, True, times), f"{form}-spark": _side(work, form, False, times)}
    return Case(title.format(form.capitalize()), lambda _: None, sides)


_WORK: dict[str, tuple[str, _Work, int]] = {
    "empty": ("A look of a stream from {0} to {0} that finds nothing new", partial(_triggers, is_empty=True), 1),
    "small": ("A commit of ten rows by a stream from {0} to {0}", partial(_triggers, is_empty=False), 1),
    "backlog": (f"A new stream from {{0}} to {{0}} over {_COMMITS} commits", _backlog, 4),
    "mapped": ("A stream of 4M rows from {0} to {0}, of which a function keeps 1%", _mapped, 4),
}
_FORMATS: tuple[Format, ...] = ("delta", "iceberg")
STREAM_CASES = {
    f"stream-{form}-{name}": _case(title, work, form, times)
    for form in _FORMATS
    for name, (title, work, times) in _WORK.items()
}
