"""Reading by the native road in tests: the same rows as by the arrow road, or the reason against it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import Scan
from deltaberg.errors import InvalidArgumentError
from tests.support.roads import collect, native_plan, rows_of

__all__ = ["ids", "same", "setting", "shown_plan", "why_not"]


def same(scan: Scan, spark: Any) -> pa.Table:
    """Read all files by the native road and by the arrow road; return the rows, which must be the same."""
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
    """Return the only reason why no file takes the native road; the arrow road must give the rows."""
    found = native_plan(scan, spark, forced=True)
    assert found.frame is None
    (why,) = found.reasons
    with pytest.raises(InvalidArgumentError, match="does not give exactly the rows"):
        scan.to_spark(spark, road="native")
    assert rows_of(collect(scan.to_spark(spark))) == rows_of(collect(scan.to_spark(spark, road="arrow")))
    return why
