"""The cases of bringing rows of DataFrames together by transforms: by Spark's expressions, and by the kernels.

Spark reads the rows of one file, all columns of them, and moves them between its tasks. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benches import data
from benches.measure import Case, Outcome, Side, repeated, session, warm

__all__ = ["SPARK_KEY_CASES"]

#: How often a side does its work; the first half is for warming up.
_TIMES = 4
#: One of each kind: those of other times and of integers take as long.
_TRANSFORMS = {"hour": "hour(ts)", "truncate": "truncate(4, s)", "bucket": "bucket(16, id)"}


def _file(scale: float) -> Path:
    return min(data.rows(scale, deleted=False).glob("*.parquet"))


def _side(transform: str, *, kernels: bool) -> Side:
    def run(scale: float) -> Outcome:
        from deltaberg import create_table
        from deltaberg.iceberg.partition.assign import partition_rows_by
        from deltaberg.schema.rows.conform import ConformOptions
        from deltaberg.spark.session import SessionFacts
        from deltaberg.spark.write import distribution
        from deltaberg.table.write.spec import WriteSpec

        warm()
        spark = session()
        table = create_table(
            "memory://keys/t", data.SCHEMA, format="iceberg", partition_by=transform, if_exists="replace"
        )
        parts = partition_rows_by(table.spec, table.schema)
        spec = WriteSpec(table.schema, parts, ConformOptions("UTC"), distribution="hash")
        names = data.SCHEMA.names
        frame = spark.read.parquet(str(_file(scale))).select(*names)
        terms = distribution.distribution_terms(spec, names)

        def moved() -> Any:
            return distribution.distributed(frame, names, terms, spec, SessionFacts.of(spark))

        def work() -> None:
            moved().write.format("noop").mode("overwrite").save()

        with patch("deltaberg.spark.write.distribution.spark_expression", _nothing) if kernels else nullcontext():
            return repeated(work, lambda _: None, _TIMES)._replace(found=moved().count())

    return run


def _nothing(*_: object) -> None:
    """Have the kernels compute every transform."""


def _case(transform: str) -> Case:
    sides: dict[str, Callable[[float], Outcome]] = {
        "deltaberg": _side(transform, kernels=False),
        "kernels": _side(transform, kernels=True),
    }
    return Case(f"bring 2M rows of 6 columns together by {transform}", _file, sides)


SPARK_KEY_CASES = {f"spark-keys-{name}": _case(transform) for name, transform in _TRANSFORMS.items()}
