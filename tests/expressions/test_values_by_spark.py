"""Random expressions on random rows have the results of Spark, and fail where Spark fails."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.schema.types import Field, Primitive, Struct
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


#: Texts that patterns read, and those that nearly fit one.
_TEXTS = [
    *(
        "2020-02-29",
        "2021-02-29",
        "2020-2-9",
        "2020-13-01",
        "+12345-01-02",
        "12345-01-02",
        "-0044-03-15",
        "-0000-01-01",
    ),
    *("20200229", "120200229", "29/02/2020 13:45", "29/02/2020 24:00", "2020-03-08 02:30:00", "2020-11-01 01:30:00.5"),
    *(
        "2020-01-01T10:20:30.123456789",
        "2020-01-01t10:20:30.1",
        "1:2:3",
        "001:02:03",
        "-1:2:3",
        " 2020-02-29",
        "2020",
        "",
    ),
    *("12.75", "300", "99999999999", "true", "1e400", "NaN", "2020-01-01 00:00:60", "\uff12020-01-01"),
]
_READ = ["yyyy-MM-dd", "yyyy-M-d", "yyyyMMdd", "dd/MM/yyyy HH:mm", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm:ss.SSS"]
_READ += ["yyyy-MM-dd'T'HH:mm:ss.SSSSSS", "H:m:s", "yyyy", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSS", "HHmmssSSS", "MMdd"]
_WRITTEN = ["yyyy-MM-dd", "yy/M/d H:m:s", "EEEE, dd MMMM yyyy", "E MMM d", "hh:mm a", "h 'o''clock'", "HH:mm:ss.SSS"]
_WRITTEN += ["yyyyMMddHHmmssSSSSSSSSS", "'yyyy' yyyy S SS SSSSSSS", "EEE", "yyyy.MM.dd"]


def test_patterns_and_what_forgives_failures_are_those_of_spark(spark: Any) -> None:
    micros = [0, -1, 1_583_650_800_123_456, -62_135_596_800_000_000, 253_402_300_800_000_000, -70_000_000_000_000_000]
    columns = {
        "s": pa.array(_TEXTS, pa.string()),
        "t": pa.array((micros * len(_TEXTS))[: len(_TEXTS)], pa.timestamp("us", "UTC")),
        "n": pa.array(([0, 1, -128, 127, None] * len(_TEXTS))[: len(_TEXTS)], pa.int8()),
    }
    schema = Struct(
        (Field("s", Primitive("string")), Field("t", Primitive("timestamp")), Field("n", Primitive("byte")))
    )
    texts = [f'{name}(s, "{one}")' for one in _READ for name in ("to_date", "to_timestamp", "try_to_timestamp")]
    texts += [f'date_format(t, "{one}")' for one in _WRITTEN if "''" not in one]
    texts += [f"try_cast(s AS {kind})" for kind in ("INT", "BYTE", "DOUBLE", "DECIMAL(4,1)", "BOOLEAN", "DATE")]
    texts += [
        "try_cast(n * 2 AS BYTE)",
        "try_cast(1 / n AS INT)",
        "try_cast(concat('2020-01-0', n) AS TIMESTAMP)",
        "try_to_timestamp(replace(s, ':', '-'))",
        "unix_date(date(t))",
    ]
    texts += [
        f"try_{verb}(n, {one})" for verb in ("add", "subtract", "multiply", "divide", "mod") for one in ("n", "0", "2Y")
    ]
    texts += [
        "try_multiply(CAST(n AS DECIMAL(38,0)), 9999999999999999999999999999999999999BD)",
        "date_from_unix_date(n)",
    ]
    # A row that fails ends the query of Spark, so that each row is a query's only one where any fails.
    found = compare_with_spark(spark, pa.RecordBatch.from_pydict(columns), schema, texts)
    assert not found.differences, "\n".join(sorted(found.differences, key=len))
    assert found.equal > len(texts) * 0.8
    assert not found.unsupported


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_results_and_failures_are_those_of_spark(spark: Any, seed: int, part: int) -> None:
    _compare(spark, random.Random(f"{seed} {part}"), count=500, depth=1 + part % 3, rows=40)
