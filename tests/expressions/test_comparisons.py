"""Comparisons mean what they mean to Spark, alone and beside a function, and metadata says nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import ExpressionError
from deltaberg.expressions.build.filters import as_filter
from deltaberg.expressions.derive.derive import bind
from deltaberg.pruning.evaluate import may_match, must_match
from deltaberg.pruning.stats import ColumnStats, FileStats
from tests.support.comparisons import ROWS, SCHEMA, comparisons, here, in_spark
from tests.support.spark_values import ZONE

pytestmark = pytest.mark.one_backend

#: The conditions by the rows that Spark keeps, which are rows of `ROWS`; "!" for what it fails at, or refuses.
_RECORDED: dict[str, str] = {
    text: kept
    for kept, texts in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items()
    for text in texts
}
#: To Spark, null is less than a decimal beyond all whole numbers of the type of a column. To SQL, that is unknown.
_MEANT = {
    text: kept if "99999999999999999999" not in text else kept.replace("0123", "012")
    for text, kept in _RECORDED.items()
}


def test_comparisons_mean_what_they_mean_to_spark() -> None:
    """As Spark 4.1 said in its ANSI mode; another test asks it again."""
    assert _RECORDED.keys() == set(comparisons())
    assert {text: here(text) for text in _RECORDED} == _MEANT


def test_they_mean_the_same_beside_a_function() -> None:
    for text, kept in _MEANT.items():
        assert here(f"{text} AND length(s) >= 0") == (kept if kept == "!" else kept.replace("3", "")), text


def test_metadata_hides_no_row_and_proves_no_other() -> None:
    """Of a file for each row, by its bounds."""
    ones = pa.array([1] * ROWS.num_rows, pa.int64())
    columns: dict[tuple[str, ...], ColumnStats] = {}
    for child, values in zip(SCHEMA, ROWS.columns, strict=True):
        nan = pa.compute.is_nan(values).fill_null(False) if pa.types.is_floating(values.type) else None
        bounds = values if nan is None else pa.compute.if_else(nan, pa.scalar(None, values.type), values)
        known = None if values.type == pa.bool_() else bounds
        nans = None if nan is None else nan.cast(pa.int64())
        columns[(child.name,)] = ColumnStats(known, known, values.is_null().cast(pa.int64()), nan_count=nans)
    stats = FileStats(ROWS.num_rows, ones, columns)
    for text, kept in _MEANT.items():
        try:
            bound = bind(as_filter(text), SCHEMA, ZONE)
        except ExpressionError:
            continue
        if kept == "!":
            continue
        may, must = may_match(bound, stats).to_pylist(), must_match(bound, stats).to_pylist()
        for row in range(ROWS.num_rows):
            assert may[row] or str(row) not in kept, (text, row)
            assert not must[row] or str(row) in kept, (text, row)


@pytest.mark.spark
@pytest.mark.full
def test_spark_still_says_so(spark: Any) -> None:
    assert in_spark(spark, comparisons()) == _RECORDED
