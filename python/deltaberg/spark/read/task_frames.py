"""DataFrames with a partition for each task, whose size Spark estimates as that of what the tasks read.

Few and small tasks travel with the function that reads them. The rows of the DataFrame are then their numbers, which
needs no shuffle. Other tasks travel as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from deltaberg.errors import MissingDependencyError
from deltaberg.spark.hashes import murmur3_int
from deltaberg.spark.read.read_tasks import NUMBER_COLUMN, SLOT_COLUMN, TASK_COLUMN
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import spark_width

__all__ = [
    "TASK_SCHEMA",
    "UNKNOWN_SIZE",
    "fit_in_function",
    "partition_keys",
    "task_numbers",
    "task_rows",
    "with_expected_size",
]

TASK_SCHEMA = st.StructType(
    [st.StructField(SLOT_COLUMN, st.IntegerType(), False), st.StructField(TASK_COLUMN, st.BinaryType(), False)]
)
#: Bytes of tasks that may travel with the function; each Spark task gets all of them.
_MOST_CARRIED = 128 << 10
#: The size to expect where the driver does not know it: more than Spark would broadcast.
UNKNOWN_SIZE = 1 << 40
#: Bytes that Spark assumes for an element of a range, for a row in addition to its columns, and for values.
_RANGE_BYTES, _ROW_BYTES, _BINARY_BYTES, _INT_BYTES = 8, 8, 100, 4
#: The longest range that stands for the rows of a scan; each element costs 3 nanoseconds.
_MOST_STANDING = 1 << 25
#: The most bytes that an element may stand for.
_MOST_WIDE = 4000


def fit_in_function(packed: Sequence[bytes]) -> bool:
    """Return whether tasks are small enough to travel with the function that reads them."""
    return sum(map(len, packed)) <= _MOST_CARRIED


def task_numbers(facts: SessionFacts, count: int, size: int, schema: st.StructType) -> DataFrame:
    """Return the numbers of tasks, each in a partition of its own.

    Parameters
    ----------
    size
        How many bytes Spark is to expect of what the tasks read. It would otherwise expect the size of their numbers,
        take any table for a small one, and broadcast it for a join.
    schema
        The columns that are made of the tasks.
    """
    _require_pandas()
    rows, wide = _standing(size, schema)
    # One element of each partition is kept. Spark assumes that a filter which it cannot evaluate keeps everything.
    each = max(1, rows // count)
    numbers = facts.session.range(0, count * each, 1, count).where(f"id % {each}L = 0")
    return numbers.selectExpr(f"id div {each}L AS {NUMBER_COLUMN}", wide)


def task_rows(facts: SessionFacts, packed: Sequence[bytes], slots: Sequence[int]) -> DataFrame:
    """Return packed tasks as rows, each in the partition to which Spark's hash sends its slot."""
    _require_pandas()
    rows: Any = list(zip(slots, packed, strict=True))
    if facts.takes_arrow_tables:
        # A classic session expects a DataFrame that is made of a list to be endless.
        rows = pa.table({SLOT_COLUMN: pa.array(slots, pa.int32()), TASK_COLUMN: pa.array(packed, pa.binary())})
    return facts.session.createDataFrame(rows, TASK_SCHEMA).repartition(len(packed), SLOT_COLUMN)


def with_expected_size(facts: SessionFacts, tasks: DataFrame, size: int, schema: st.StructType) -> DataFrame:
    """Add an empty partition to tasks that are rows, so that Spark expects at least ``size`` bytes of what they read.

    Spark expects of a union the sum of both sides, even when it plans again with the true size of a shuffle.
    """
    rows, wide = _standing(size, schema)
    kinds = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in TASK_SCHEMA]
    none = facts.session.range(0, rows, 1, 1).where(f"shiftright(id, {_MOST_STANDING.bit_length()}) = 1")
    return tasks.selectExpr(*TASK_SCHEMA.names, wide).union(none.selectExpr(*kinds, wide))


def _standing(size: int, schema: st.StructType) -> tuple[int, str]:
    """Return the length of a range that stands for so many bytes, and a column of nulls as wide as the estimate needs.

    Spark expects each element of the range to become a row. If the session lets it plan by the number of rows, it
    multiplies that number by the width of the columns.
    """
    rows = min(size // (_ROW_BYTES + min(spark_width(schema), _MOST_WIDE // 2)), _MOST_STANDING)
    share = size * (_ROW_BYTES + _RANGE_BYTES) // (_RANGE_BYTES * rows) if rows else 0
    wide = min(max(share - _ROW_BYTES - _RANGE_BYTES, 0), _MOST_WIDE)
    kinds = ["BINARY"] * (wide // _BINARY_BYTES) + ["INT"] * (wide % _BINARY_BYTES // _INT_BYTES)
    fields = ", ".join(f"f{number}: {kind}" for number, kind in enumerate(kinds or ["BOOLEAN"]))
    return rows, f"CAST(NULL AS STRUCT<{fields}>) AS wide"


def partition_keys(count: int) -> list[int]:
    """Return an integer for each of ``count`` partitions, which Spark's hash partitioning sends to that partition.

    Other keys would leave some partitions empty and give two shares to others. Only the balance depends on them.
    """
    keys: dict[int, int] = {}
    candidate = 0
    while len(keys) < count:
        keys.setdefault(murmur3_int(candidate) % count, candidate)
        candidate += 1
    return [keys[partition] for partition in range(count)]


def _require_pandas() -> None:
    try:
        import pandas as pd  # noqa: F401 - Spark imports it, and a broken installation counts as none
    except ImportError as error:
        raise MissingDependencyError(
            "Spark's mapInArrow needs pandas", hint="pip install 'deltaberg[spark]'"
        ) from error
