"""Functions that Spark's tasks call with one item each. Items and results pass the JVM as packed bytes."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.spark.jobs import run_job
from deltaberg.spark.read.planning import planned_tasks
from deltaberg.spark.read.read_tasks import task_groups
from deltaberg.spark.session import SessionFacts

__all__ = ["ItemTask", "run_items"]

#: What a task replies: the number of its item, and what the function returned, or the error that it raised.
_REPLY = pa.schema([("item", pa.int64()), ("result", pa.binary())])
_REPLY_SCHEMA = from_arrow_schema(_REPLY)
#: What tasks reply about many files is alike, so that it becomes few bytes.
_COMPRESSION = 1

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ItemTask:
    """Calls a function inside `mapInArrow`.

    Parameters
    ----------
    work
        The function.
    carried
        The packed items, if they do not arrive as rows.
    is_repeated
        Whether Spark tries again where the store fails.
    """

    work: Callable[[Any], Any]
    carried: tuple[bytes, ...] | None
    is_repeated: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reply with what the function returns, or with an error that another attempt would meet again."""
        for packed in task_groups(batches, self.carried):
            # Our own driver packed it.
            number, item = pickle.loads(packed)  # noqa: S301
            try:
                result = self.work(item)
            except DeltabergError as error:
                if self.is_repeated and isinstance(error, StorageError):
                    raise
                result = error
            reply = zlib.compress(pickle.dumps(result), _COMPRESSION)
            yield pa.record_batch([[number], [reply]], _REPLY)


def run_items(
    facts: SessionFacts, work: Callable[[_Item], _Result], items: Sequence[_Item], *, is_repeated: bool
) -> list[_Result | DeltabergError]:
    """Return what a function makes of each item in a task of its own, or the error of this library that it raised.

    Parameters
    ----------
    is_repeated
        Whether Spark tries again where the store fails.
    """
    if not items:
        return []
    planned = planned_tasks(facts, tuple(map(pickle.dumps, enumerate(items))), 0, _REPLY_SCHEMA)
    task = ItemTask(work, planned.carried, is_repeated)
    replies = run_job(facts, planned.tasks.mapInArrow(task, _REPLY_SCHEMA).collect)
    # Our own workers sent them.
    found = {reply["item"]: pickle.loads(zlib.decompress(reply["result"])) for reply in replies}  # noqa: S301
    return [found[number] for number in range(len(items))]
