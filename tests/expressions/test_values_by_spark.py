"""Random expressions on random rows have the results of Spark, and fail where Spark fails."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.random_values import SCHEMA, Expressions, random_rows
from tests.support.spark_values import compare_with_spark

pytestmark = [pytest.mark.spark, pytest.mark.one_backend]


def _compare(spark: Any, rng: random.Random, count: int, depth: int, rows: int) -> None:
    batch = random_rows(rng, rows)
    expressions = Expressions(rng)
    texts = [expressions.any(depth) for _ in range(count)]
    found = compare_with_spark(spark, batch, SCHEMA, texts)
    assert not found.differences, "\n".join(sorted(found.differences, key=len))
    # Some expressions have types that neither side accepts, or are refused here.
    assert found.equal > count * 0.9
    assert found.failures or count < 500


def test_results_and_failures_are_those_of_spark(spark: Any, rng: random.Random) -> None:
    _compare(spark, rng, count=70, depth=2, rows=20)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_results_and_failures_are_those_of_spark(spark: Any, seed: int, part: int) -> None:
    _compare(spark, random.Random(f"{seed} {part}"), count=500, depth=1 + part % 3, rows=40)
