"""Reading by the native road in tests: beside the arrow road, or why not."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import Scan
from deltaberg.errors import InvalidArgumentError
from deltaberg.spark import choice
from tests.support.roads import collect, rows_of

__all__ = ["ids", "same", "setting", "shown_plan", "why_not"]


def same(scan: Scan, spark: Any) -> pa.Table:
    """Read by the native road, all of it, and by the arrow road; give the rows, which must be the same."""
    frame = scan.to_spark(spark, road="native")
    other = scan.to_spark(spark, road="arrow")
    assert frame.schema == other.schema
    found = collect(frame)
    assert rows_of(found) == rows_of(collect(other))
    return found


def ids(table: pa.Table) -> list[int]:
    return sorted(table.column("id").to_pylist())


def shown_plan(frame: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        frame.explain()
    return text.getvalue()


@contextlib.contextmanager
def setting(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def why_not(scan: Scan, spark: Any) -> str:
    """Give the one reason for which no file goes by the native road; the rows come by the other one all the same."""
    found = choice.choose(scan, spark, forced=True)
    assert found.frame is None
    (why,) = found.reasons
    with pytest.raises(InvalidArgumentError, match="does not give the very rows"):
        scan.to_spark(spark, road="native")
    assert rows_of(collect(scan.to_spark(spark))) == rows_of(collect(scan.to_spark(spark, road="arrow")))
    return why
