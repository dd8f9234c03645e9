"""Functions that Spark's tasks call with one item each, and whose results come to the driver."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import types as st

from deltaberg.errors import DeltabergError, StorageError
from deltaberg.spark.read.read_tasks import task_groups

__all__ = ["RESULT_SCHEMA", "ItemTask", "results_of"]

#: What a task replies: the number of its item, and what the function returned, or the error that it met.
RESULT_SCHEMA = st.StructType(
    [
        st.StructField("item", st.LongType()),
        st.StructField("result", st.BinaryType()),
        st.StructField("error", st.BinaryType()),
    ]
)
_REPLY = pa.schema([("item", pa.int64()), ("result", pa.binary()), ("error", pa.binary())])
#: What tasks reply about many files is alike, so that it becomes few bytes.
_COMPRESSION = 1

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
    """

    work: Callable[[Any], Any]
    carried: tuple[bytes, ...] | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reply with what the function returns.

        Errors that another attempt would meet again are part of the reply. If the store fails, Spark tries again.
        """
        for packed in task_groups(batches, self.carried):
            # Our own driver packed it.
            number, item = pickle.loads(packed)  # noqa: S301
            reply: dict[str, Any] = {"item": number}
            try:
                reply["result"] = zlib.compress(pickle.dumps(self.work(item)), _COMPRESSION)
            except StorageError:
                raise
            except DeltabergError as error:
                reply["error"] = pickle.dumps(error)
            yield pa.RecordBatch.from_pylist([reply], schema=_REPLY)


def results_of(replies: Iterable[Any], count: int, discard: Callable[[_Result], object]) -> list[_Result]:
    """Return the results of so many items, in their order. If a task met an error, discard them, and raise it."""
    found: dict[int, _Result] = {}
    errors: list[Exception] = []
    for reply in replies:
        # Our own workers sent it.
        if reply["error"] is not None:
            errors.append(pickle.loads(reply["error"]))  # noqa: S301
        else:
            found[reply["item"]] = pickle.loads(zlib.decompress(reply["result"]))  # noqa: S301
    if errors:
        for result in found.values():
            discard(result)
        raise errors[0]
    return [found[number] for number in range(count)]
