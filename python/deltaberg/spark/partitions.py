"""DataFrames with a partition for each task, and of the size that Spark is to expect of what the tasks read.

Few and small tasks travel with the function that reads them, and the rows are numbers of tasks: that needs no shuffle.
Others travel as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from deltaberg.errors import MissingDependencyError
from deltaberg.spark.hashes import murmur3_int
from deltaberg.spark.session import takes_arrow_tables
from deltaberg.spark.tasks import NUMBER_COLUMN, SLOT_COLUMN, TASK_COLUMN
from deltaberg.spark.types import spark_width

__all__ = ["TASK_SCHEMA", "UNKNOWN_SIZE", "are_few", "expected", "numbered", "partition_keys", "slotted"]

TASK_SCHEMA = st.StructType(
    [st.StructField(SLOT_COLUMN, st.IntegerType(), False), st.StructField(TASK_COLUMN, st.BinaryType(), False)]
)
#: Bytes of tasks that may travel with the function: each task gets all of them.
_MOST_CARRIED = 128 << 10
#: Bytes to expect where the driver does not know: more than Spark would broadcast.
UNKNOWN_SIZE = 1 << 40
#: Bytes that Spark expects of an element of a range, of a row beside its columns, and of values.
_RANGE_BYTES, _ROW_BYTES, _BINARY_BYTES, _INT_BYTES = 8, 8, 100, 4
#: Elements of a range that stand for the rows of a scan, 3 nanoseconds each.
_MOST_STANDING = 1 << 25
#: Bytes that each of them may stand for.
_MOST_WIDE = 4000


def are_few(packed: Sequence[bytes]) -> bool:
    """Say whether tasks may travel with the function that reads them."""
    return sum(map(len, packed)) <= _MOST_CARRIED


def numbered(spark: SparkSession, count: int, size: int, schema: st.StructType) -> DataFrame:
    """Give the numbers of tasks, each in a partition of its own.

    Parameters
    ----------
    size
        Bytes that Spark is to expect of what the tasks read. It would else expect as many as go in, take any table for
        a small one, and broadcast it for a join.
    schema
        The columns of what is made of the tasks.
    """
    _require_pandas()
    rows, wide = _standing(size, schema)
    # One element of each partition is kept: Spark takes a filter that it cannot judge to keep everything.
    each = max(1, rows // count)
    numbers = spark.range(0, count * each, 1, count).where(f"id % {each}L = 0")
    return numbers.selectExpr(f"id div {each}L AS {NUMBER_COLUMN}", wide)


def slotted(spark: SparkSession, packed: Sequence[bytes], slots: Sequence[int]) -> DataFrame:
    """Give tasks as rows, each in the partition of its slot."""
    _require_pandas()
    rows: Any = list(zip(slots, packed, strict=True))
    if takes_arrow_tables(spark):
        # Of a list, a session without Connect makes a frame that it expects to be endless.
        rows = pa.table({SLOT_COLUMN: pa.array(slots, pa.int32()), TASK_COLUMN: pa.array(packed, pa.binary())})
    return spark.createDataFrame(rows, TASK_SCHEMA).repartition(len(packed), SLOT_COLUMN)


def expected(spark: SparkSession, tasks: DataFrame, size: int, schema: st.StructType) -> DataFrame:
    """Add a partition without tasks to tasks that are rows, so that Spark expects ``size`` bytes more of them at least.

    It expects of a union the sum of both sides, also when it plans again by the true bytes of a shuffle before.
    """
    rows, wide = _standing(size, schema)
    kinds = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in TASK_SCHEMA]
    none = spark.range(0, rows, 1, 1).where(f"shiftright(id, {_MOST_STANDING.bit_length()}) = 1")
    return tasks.selectExpr(*TASK_SCHEMA.names, wide).union(none.selectExpr(*kinds, wide))


def _standing(size: int, schema: st.StructType) -> tuple[int, str]:
    """Give how long a range stands for so many bytes, and a column of null, as wide as makes the bytes right.

    Spark expects the elements to go through as rows. Where it is told to plan by the number of rows, it multiplies that
    by the width of the columns that are left.
    """
    rows = min(size // (_ROW_BYTES + min(spark_width(schema), _MOST_WIDE // 2)), _MOST_STANDING)
    share = size * (_ROW_BYTES + _RANGE_BYTES) // (_RANGE_BYTES * rows) if rows else 0
    wide = min(max(share - _ROW_BYTES - _RANGE_BYTES, 0), _MOST_WIDE)
    kinds = ["BINARY"] * (wide // _BINARY_BYTES) + ["INT"] * (wide % _BINARY_BYTES // _INT_BYTES)
    fields = ", ".join(f"f{number}: {kind}" for number, kind in enumerate(kinds or ["BOOLEAN"]))
    return rows, f"CAST(NULL AS STRUCT<{fields}>) AS wide"


def partition_keys(count: int) -> list[int]:
    """Give an integer for each of ``count`` partitions that Spark's hash partitioning puts there.

    Spark deals rows out at random else, which leaves some tasks idle and gives others two shares. Nothing but the
    balance depends on it.
    """
    keys: dict[int, int] = {}
    candidate = 0
    while len(keys) < count:
        keys.setdefault(murmur3_int(candidate) % count, candidate)
        candidate += 1
    return [keys[partition] for partition in range(count)]


def _require_pandas() -> None:
    try:
        import pandas as pd  # noqa: F401 - Spark imports it, and a broken one counts as none
    except ImportError as error:
        raise MissingDependencyError(
            "Spark's mapInArrow needs pandas", hint="pip install 'deltaberg[spark]'"
        ) from error
