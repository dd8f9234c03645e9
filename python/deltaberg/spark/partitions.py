"""DataFrames with a partition for each task, and of the size that Spark is to expect of what the tasks read.

Few and small tasks travel with the function that reads them, and the rows are numbers of tasks: that needs no shuffle.
Others travel as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from deltaberg.errors import MissingDependencyError
from deltaberg.spark.hashes import murmur3_int
from deltaberg.spark.session import takes_arrow_tables
from deltaberg.spark.tasks import NUMBER_COLUMN, SLOT_COLUMN, TASK_COLUMN

__all__ = ["TASK_SCHEMA", "UNKNOWN_SIZE", "are_few", "numbered", "partition_keys", "slotted"]

TASK_SCHEMA = st.StructType(
    [st.StructField(SLOT_COLUMN, st.IntegerType(), False), st.StructField(TASK_COLUMN, st.BinaryType(), False)]
)
#: Bytes to expect where the driver does not know: more than Spark would broadcast.
UNKNOWN_SIZE = 1 << 40
#: Bytes of tasks that may travel with the function: each task gets all of them.
_MOST_CARRIED = 128 << 10
#: Bytes that Spark expects of a number, of a row of ``TASK_SCHEMA``, and of a row of which no column is used.
_NUMBER_BYTES = 8
_TASK_BYTES = 112
_BARE_BYTES = 4
#: Rows of a range that stands for a size: Spark counts through it in milliseconds.
_MOST_STANDING = 1 << 22
#: The same for each task that is a number.
_MOST_STANDING_EACH = 1 << 24


def are_few(packed: Sequence[bytes]) -> bool:
    """Say whether tasks may travel with the function that reads them."""
    return sum(map(len, packed)) <= _MOST_CARRIED


def numbered(spark: SparkSession, count: int, size: int) -> DataFrame:
    """Give the numbers of tasks, each in a partition of its own.

    Parameters
    ----------
    size
        Bytes that Spark is to expect of what the tasks read.
    """
    _require_pandas()
    each = max(1, min(size // (_NUMBER_BYTES * count), _MOST_STANDING_EACH))
    # One of each partition's rows is kept. The others are there to be expected: Spark takes a filter that it cannot
    # judge to keep everything.
    numbers = spark.range(0, count * each, 1, count).where(f"id = spark_partition_id() * {each}L")
    return numbers.selectExpr(f"CAST(spark_partition_id() AS BIGINT) AS {NUMBER_COLUMN}")


def slotted(spark: SparkSession, packed: Sequence[bytes], slots: Sequence[int], size: int) -> DataFrame:
    """Give tasks as rows, each in the partition of its slot; ``size`` as for `numbered`."""
    _require_pandas()
    rows: Any = list(zip(slots, packed, strict=True))
    if takes_arrow_tables(spark):
        # Of a list, a session without Connect makes a frame that it expects to be endless.
        rows = pa.table({SLOT_COLUMN: pa.array(slots, pa.int32()), TASK_COLUMN: pa.array(packed, pa.binary())})
    frame = spark.createDataFrame(rows, TASK_SCHEMA)
    return _expected(spark, frame.repartition(len(packed), SLOT_COLUMN), _TASK_BYTES * len(packed), size)


def _expected(spark: SparkSession, tasks: DataFrame, found: int, size: int) -> DataFrame:
    """Have Spark expect ``size`` bytes where it would expect ``found``.

    It judges a table that `mapInArrow` reads by the rows that go in, so that it would broadcast the largest table for
    a join. Of a cross join it expects the product of both sides; here the other side is one row out of a range,
    found by a hash, since Spark takes a filter that it cannot judge to keep everything.
    """
    rows = min(size // (_BARE_BYTES * found), _MOST_STANDING)
    if rows < 1:
        return tasks
    one = sf.xxhash64("id") == sf.xxhash64(sf.lit(0).cast("long"))
    stand_in = spark.range(0, rows, 1, 1).filter(one)
    return tasks.crossJoin(sf.broadcast(stand_in)).select(*tasks.columns)


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
