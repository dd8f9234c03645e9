"""The roads from a scan to a Spark DataFrame, and the choice among them.

*Fused*: a function runs in the `mapInArrow` task that decodes the files, so that it sees the rows before any of them
crosses into the JVM. *Native*: Spark's own reader decodes the files, where it gives exactly the rows that we give.
*Arrow*: our reader decodes the files in `mapInArrow`, and the rows cross into the JVM; this road is always exact.
"""

from __future__ import annotations

from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from deltaberg.choices import Road
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.spark.native.plan import NativePlan, plan_native
from deltaberg.spark.read.fused_frames import note_fused
from deltaberg.spark.read.planning import plan_tasks
from deltaberg.spark.read.read_tasks import MARK_COLUMN, BatchFunction, FusedTask, mark_rows
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import arrow_types, output_schema, spark_schema
from deltaberg.storage.location import parse_location
from deltaberg.table.arguments import checked_choice
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan import Scan, bound_scan
from deltaberg.table.read.sharing import planning_pieces

__all__ = ["explain_roads", "scan_map_in_arrow", "scan_to_spark"]

_MARKED = st.StructType([st.StructField(MARK_COLUMN, st.BooleanType())])


def scan_to_spark(scan: Scan, spark: object, road: Road = "auto") -> DataFrame:
    """Return the rows of a scan as a DataFrame; `Scan.to_spark` says what ``road`` means."""
    checked_choice("road", road, get_args(Road), "leave it out to let the scan choose")
    bound = bound_scan(scan)
    facts = _checked_session(bound, spark)
    pieces = None if road == "native" else planning_pieces(bound)
    if road == "arrow" or pieces is not None:
        return _by_arrow(bound, facts, pieces)
    native = plan_native(bound, facts, forced=road == "native")
    if road == "native" and native.reasons:
        raise InvalidArgumentError(
            f"Spark's own reader does not give exactly the rows of every file: {'; '.join(native.reasons)}",
            hint="pass road='auto', which reads such files by Arrow",
            table=bound.source.table,
        )
    if native.frame is None:
        return _by_arrow(bound, facts, None)
    rows = native.frame
    if native.reasons:
        # The remaining files are planned already; executors would plan the whole table again.
        rows = rows.union(_by_arrow(bound.of_files(pc.invert(native.files)), facts, None))
    return rows if bound.limit is None else rows.limit(bound.limit)


def explain_roads(scan: Scan, spark: object) -> str:
    """Return by which road `scan_to_spark` reads the files of a scan, and why, as text."""
    bound = bound_scan(scan)
    facts = _checked_session(bound, spark)
    if planning_pieces(bound) is not None:
        return "arrow, planned on the executors"
    return _described(plan_native(bound, facts)) or "no file is read"


def _described(native: NativePlan) -> str:
    count = pc.sum(native.files).as_py() or 0
    by_arrow = [f"arrow, {number} files: {why}" for why, number in native.reasons.items()]
    return "; ".join([f"native, {count} files", *by_arrow] if count else by_arrow)


def scan_map_in_arrow(scan: Scan, spark: object, function: BatchFunction, schema: Any) -> DataFrame:
    """Run a function over the rows of a scan by the fused road; `Scan.map_in_arrow` describes the arguments."""
    if not callable(function):
        raise InvalidArgumentError(
            f"{shown_value(function)} cannot be called", hint="pass a function of an iterator of batches"
        )
    bound = bound_scan(scan)
    facts = _checked_session(bound, spark)
    result_schema = output_schema(facts.session, schema)
    planned = plan_tasks(bound, facts, planning_pieces(bound), result_schema)
    if planned is None:
        return facts.session.createDataFrame([], result_schema)
    fused = FusedTask(planned.reading(bound), function, arrow_types(result_schema))
    return note_fused(planned.tasks.mapInArrow(fused, result_schema), planned.tasks, fused)


def _by_arrow(scan: BoundScan, facts: SessionFacts, pieces: pa.Table | None) -> DataFrame:
    schema = spark_schema(scan.output)
    # Spark takes a batch without columns for an empty one.
    result_schema = schema if scan.output else _MARKED
    planned = plan_tasks(scan, facts, pieces, result_schema)
    if planned is None:
        return facts.session.createDataFrame([], schema)
    function = planned.reading(scan)
    if not scan.output:
        return planned.tasks.mapInArrow(
            FusedTask(function, mark_rows, {MARK_COLUMN: pa.bool_()}), result_schema
        ).select()
    return planned.tasks.mapInArrow(function, result_schema)


def _checked_session(scan: BoundScan, spark: object) -> SessionFacts:
    """Refuse an object that is not a session, and a table that executors cannot read."""
    facts = SessionFacts.of(spark)
    if parse_location(scan.source.table).scheme == "memory":
        raise InvalidArgumentError(
            "a table in memory exists only in this process",
            hint="use scan.to_arrow(), or put the table where the executors can read it",
            table=scan.source.table,
        )
    return facts
