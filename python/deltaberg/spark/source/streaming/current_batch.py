"""The batch of a stream that Spark runs at the moment, in its driver or in a task."""

from __future__ import annotations

import json
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark import SparkContext, TaskContext

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.storage.location import parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.whole_numbers import whole_number

__all__ = ["current_batch", "query_of_checkpoint", "query_of_task"]

#: Local properties that Spark sets on the thread that runs a batch, and passes on to its tasks.
_QUERY, _BATCH, _GROUP = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"


def current_batch() -> tuple[str, str, int]:
    """Return the query whose batch this thread runs, the run of the query, and the number of the batch.

    Raises
    ------
    InvalidArgumentError
        This thread runs none, or not in the driver of a classic session.
    """
    context = SparkContext._active_spark_context  # noqa: SLF001 - getOrCreate would start one
    property_of: Callable[[str], str | None] = (lambda _: None) if context is None else context.getLocalProperty
    query, number = property_of(_QUERY), whole_number(property_of(_BATCH) or "", 0)
    if context is None or query is None or number is None:
        raise InvalidArgumentError(
            Hint('⟪txn="auto"⟫ finds no batch of a stream'),
            hint="it works in a function that foreachBatch calls, in a classic session; elsewhere, such as over Spark "
            'Connect, pass ⟪txn=("a name of the query", batch_id)⟫',
        )
    return query, _run_of(context, query) or property_of(_GROUP) or "", number


def _run_of(context: SparkContext, query: str) -> str | None:
    """Return the id of the run of a query; None if this Spark does not tell."""
    jvm = context._jvm  # noqa: SLF001 - PySpark has no other way
    if jvm is None:
        return None
    try:
        session = jvm.org.apache.spark.sql.SparkSession.getDefaultSession().get()
        execution = session.sharedState().activeStreamingQueries().get(jvm.java.util.UUID.fromString(query))
        return None if execution is None else str(execution.runId().toString())
    except (Py4JError, TypeError):
        return None


def query_of_task() -> str | None:
    """Return the id of the query that a task is part of."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY)


def query_of_checkpoint(place: str | None) -> str | None:
    """Return the id of the query that a checkpoint is of; None where it cannot be read."""
    if place is None:
        return None
    try:
        root = parse_location(place)
        found = json.loads(StoreSpec({}).open(root).get(root.join("metadata").path))
    except Exception:  # noqa: BLE001 - such a store need not be one that we open
        return None
    query = found.get("id") if isinstance(found, dict) else None
    return query if isinstance(query, str) else None
