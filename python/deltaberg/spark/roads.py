"""The roads from a scan to a Spark DataFrame.

*Fused*: a function runs in the `mapInArrow` task that decodes the files, so that no row crosses into the JVM before
the function has seen it. *Native*: Spark's own reader decodes the files, where it gives the very rows. *Arrow*: the
rows themselves are yielded to the JVM; always exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from deltaberg.errors import InvalidArgumentError
from deltaberg.files import pack_tasks
from deltaberg.spark.choice import choose
from deltaberg.spark.partitions import (
    TASK_SCHEMA,
    UNKNOWN_SIZE,
    are_few,
    expected,
    numbered,
    partition_keys,
    slotted,
)
from deltaberg.spark.session import parallelism
from deltaberg.spark.tasks import (
    MARK_COLUMN,
    SLOT_COLUMN,
    BatchFunction,
    FusedTask,
    PlanTask,
    ReadTask,
    mark_rows,
)
from deltaberg.spark.types import arrow_types, output_schema, spark_schema
from deltaberg.storage import parse_location
from deltaberg.table import Scan

__all__ = ["explain_roads", "scan_map_in_arrow", "scan_to_spark"]

#: Partitions of reading where executors plan, by the bytes of what they plan, and for each task that runs at a time:
#: a session may not tell how many do.
_METADATA_SHARE = 64 << 10
_LEAST_SHARES, _MOST_SHARES = 4, 64
_ROADS = ("auto", "native", "arrow")
_MARKED = st.StructType([st.StructField(MARK_COLUMN, st.BooleanType())])


def scan_to_spark(scan: Scan, spark: SparkSession, road: str = "auto") -> DataFrame:
    """Give the rows of a scan as a DataFrame: by the native road where that is exact and worth it, else as Arrow."""
    if road not in _ROADS:
        raise InvalidArgumentError(f"road is {road!r:.200}", hint=f"known are {', '.join(_ROADS)}")
    _check(scan, spark)
    parts = None if road == "native" else _parts(scan, spark)
    if road == "arrow" or parts is not None:
        return _by_arrow(scan, spark, parts)
    choice = choose(scan, spark, forced=road == "native")
    if road == "native" and choice.reasons:
        raise InvalidArgumentError(
            f"Spark's own reader does not give the very rows of every file: {'; '.join(choice.reasons)}",
            hint="pass road='auto', which reads such files by Arrow",
            table=scan.source.table,
        )
    if choice.frame is None:
        return _by_arrow(scan, spark, None)
    rows = choice.frame
    if choice.reasons:
        # These files are planned: executors would plan those of the whole table.
        rows = rows.union(_by_arrow(scan.of_files(pc.invert(choice.native)), spark, None))
    return rows if scan.limit is None else rows.limit(scan.limit)


def explain_roads(scan: Scan, spark: SparkSession) -> str:
    """Say by which road the files of a scan are read, and why; the roads of `scan_to_spark` without a choice."""
    _check(scan, spark)
    if _parts(scan, spark) is not None:
        return "arrow, planned on the executors"
    return str(choose(scan, spark)) or "no file is read"


def _by_arrow(scan: Scan, spark: SparkSession, parts: Sequence[pa.Table] | None) -> DataFrame:
    schema = spark_schema(scan.output)
    # Spark takes a batch without columns for an empty one.
    made = schema if scan.output else _MARKED
    planned = _plan(scan, spark, parts, made)
    if planned is None:
        return spark.createDataFrame([], schema)
    function = planned.reading(scan)
    if not scan.output:
        return planned.tasks.mapInArrow(FusedTask(function, mark_rows, {MARK_COLUMN: pa.bool_()}), made).select()
    return planned.tasks.mapInArrow(function, made)


def scan_map_in_arrow(scan: Scan, spark: SparkSession, function: BatchFunction, schema: Any) -> DataFrame:
    """Run a function over the rows of a scan by the fused road."""
    if not callable(function):
        raise InvalidArgumentError(f"{function!r} cannot be called", hint="pass a function of an iterator of batches")
    _check(scan, spark)
    wanted = output_schema(spark, schema)
    planned = _plan(scan, spark, _parts(scan, spark), wanted)
    if planned is None:
        return spark.createDataFrame([], wanted)
    fused = FusedTask(planned.reading(scan), function, arrow_types(wanted))
    return planned.tasks.mapInArrow(fused, wanted)


class _Planned(NamedTuple):
    """A DataFrame of packed tasks, or of the numbers of those that go with the function.

    ``limit`` is what the only task must keep.
    """

    tasks: DataFrame
    limit: int | None = None
    carried: tuple[bytes, ...] | None = None

    def reading(self, scan: Scan) -> ReadTask:
        """Give the function that reads the tasks."""
        return ReadTask(scan.read_spec, self.limit, self.carried)


def _check(scan: Scan, spark: object) -> None:
    """Refuse what is no session, and a table that no executor can read."""
    # Sessions of Spark Connect are of another class.
    if not callable(getattr(spark, "createDataFrame", None)):
        raise InvalidArgumentError(f"{spark!r} is no Spark session", hint="pass SparkSession.builder.getOrCreate()")
    if parse_location(scan.source.table).scheme == "memory":
        raise InvalidArgumentError(
            "a table in memory is known to this process alone",
            hint="use scan.to_arrow(), or put the table where the executors can read it",
            table=scan.source.table,
        )


def _parts(scan: Scan, spark: SparkSession) -> list[pa.Table] | None:
    """Give what executors are to plan; None where the driver plans."""
    return scan.planning_parts(parallelism(spark))


def _plan(scan: Scan, spark: SparkSession, parts: Sequence[pa.Table] | None, made: st.StructType) -> _Planned | None:
    """Plan a scan here, or let the executors plan its parts; None where nothing is to be read.

    ``made`` are the columns of what is made of the tasks.
    """
    slots = parallelism(spark)
    if parts is None:
        tasks = scan.spark_tasks(slots)
        return _planned_here(scan, spark, tasks, made) if tasks else None
    if not parts:
        return None
    metadata = sum(pc.sum(part.column("length")).as_py() or 0 for part in parts)
    count = min(max(metadata // _METADATA_SHARE, _LEAST_SHARES * slots), _MOST_SHARES * slots)
    packed = [_packed(part) for part in parts]
    # The key of each part is where its groups begin to be dealt out.
    pieces = slotted(spark, packed, partition_keys(len(packed)))
    groups = pieces.mapInArrow(PlanTask(scan, tuple(partition_keys(count))), TASK_SCHEMA)
    return _Planned(expected(spark, groups.repartition(count, SLOT_COLUMN), UNKNOWN_SIZE, made))


def _planned_here(scan: Scan, spark: SparkSession, tasks: Sequence[pa.RecordBatch], made: st.StructType) -> _Planned:
    packed = tuple(pack_tasks(group) for group in tasks)
    size = scan.bytes_read(tasks)
    limit = _open_limit(scan, tasks)
    if are_few(packed):
        return _Planned(numbered(spark, len(packed), size, made), limit, packed)
    return _Planned(expected(spark, slotted(spark, packed, partition_keys(len(packed))), size, made), limit)


def _packed(pieces: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pieces.schema) as writer:
        writer.write_table(pieces)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _open_limit(scan: Scan, tasks: Sequence[pa.RecordBatch]) -> int | None:
    """Give the limit that one task alone must keep; else it was shared out among files."""
    shared = all(batch.column("limit").null_count == 0 for batch in tasks)
    return None if shared else scan.limit
