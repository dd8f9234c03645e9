"""The sinks of the Data Sources: the rows of each batch become one commit, once, whatever is sent again.

Spark makes a writer for the tasks of a batch, and another one, in a process of its own, for its commit. Nothing travels
between them but the replies of tasks, so that these carry the query and what was planned, but for what opens stores. A
table records the query and the number of the batch with the rows, where a batch that is sent again finds them.
"""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import Row, StructType

from deltaberg.errors import InvalidArgumentError, TableNotFoundError
from deltaberg.hints import shown_value
from deltaberg.spark.source.options import WriteOptions
from deltaberg.spark.source.raised import briefly
from deltaberg.spark.source.streaming.current_batch import query_of_checkpoint, query_of_task
from deltaberg.spark.source.writer import TableWriter, abort_tasks
from deltaberg.spark.types import rows_schema
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.whole_numbers import whole_number

__all__ = ["StreamSink", "stream_sink"]

#: Options of the query, which Spark passes on to its sink.
_CHECKPOINT, _NAME = "checkpointlocation", "queryname"
_APPLICATION, _VERSION = "txnappid", "txnversion"
#: How often small files are put together, in batches, and for how long, in seconds.
_EVERY, _SECONDS = "autoCompactBatches", "autoCompactSeconds"
_DEFAULTS = {_EVERY: 10, _SECONDS: 60}
#: Rows that are converted at a time.
_ROWS = 10_000

if TYPE_CHECKING:
    _Base = DataSourceStreamWriter
else:
    # PySpark 4.0 hands over rows.
    _Base = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


@dataclass
class _Reply(WriterCommitMessage):
    """The reply of a task.

    Parameters
    ----------
    written
        The reply of the writer of its files.
    query
        Its query.
    place
        The directory that the files are below.
    planned
        The planned write without what opens its stores, of the first task alone: it may be large.
    """

    written: WriterCommitMessage
    query: str | None
    place: Location
    planned: bytes | None


class _PlanWriter(pickle.Pickler):
    """Pickles a plan without what opens stores: that has secrets, and replies of tasks are kept in several places."""

    def persistent_id(self, found: object) -> str | None:
        """Return what stands for an object."""
        return "store" if isinstance(found, StoreSpec) else None


class _PlanReader(pickle.Unpickler):
    """Reads a plan, with what opens its stores here."""

    def __init__(self, planned: bytes, store: Callable[[], StoreSpec]) -> None:
        super().__init__(io.BytesIO(planned))
        self._store = store

    def persistent_load(self, _: object) -> StoreSpec:
        """Return the object that was left out."""
        return self._store()


class StreamSink(_Base):
    """Writes the rows of the tasks of a batch to data files, and commits them once.

    Parameters
    ----------
    plan
        Plans what writes and commits the rows of a batch.
    store
        Returns what opens the stores of the table.
    schema
        The columns of the rows.
    application
        What the table records in place of the query; None for the query.
    checkpoint
        Where the checkpoint of the query is, if an option says so.
    compaction
        Every how many batches small files are put together, where the table asks for it, and for how many seconds.
    """

    def __init__(
        self,
        plan: Callable[[], TableWriter],
        store: Callable[[], StoreSpec],
        schema: StructType,
        application: str | None,
        checkpoint: str | None,
        compaction: tuple[int, int],
    ) -> None:
        self._plan = plan
        self._store: Callable[[], StoreSpec] | None = store
        self._schema = schema
        self._application = application
        self._checkpoint = checkpoint
        self._compaction = compaction

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writer": self._writer, "_plan": None, "_store": None}

    @cached_property
    def _writer(self) -> TableWriter:
        """What writes and commits the rows of a batch, as it is planned for this sink."""
        return self._plan()

    @briefly
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        batches = iterator if _Base is not DataSourceStreamWriter else batches_of_rows(iterator, self._schema)
        written = self._writer.write(batches)
        context = TaskContext.get()
        is_first = context is None or context.partitionId() == 0
        planned = io.BytesIO()
        if is_first:
            _PlanWriter(planned).dump(self._writer)
        return _Reply(written, query_of_task(), self._writer.place[1], planned.getvalue() or None)

    @briefly
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the files of all tasks, unless the table has the batch already."""
        replies = _replies(messages)
        queries = (reply.query for reply in replies if reply.query is not None)
        name = self._application or next(queries, None) or query_of_checkpoint(self._checkpoint)
        txn = None if name is None else (name, batchId)
        every, seconds = self._compaction
        due = seconds if batchId % every == every - 1 else 0
        self._planned(replies).of_batch(txn, due).commit([reply.written for reply in replies])

    @briefly
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Delete the files of the tasks that succeeded, if another one failed.

        After a commit that failed, Spark sends the replies of all tasks. It may have landed: nothing is deleted then.
        """
        replies = _replies(messages)
        if replies:
            # Any of them tells where the files are: the first task may have failed, and the table may be gone.
            written = [getattr(message, "written", None) for message in messages]
            abort_tasks(written, lambda: (self._opener(), replies[0].place))

    def _planned(self, replies: Sequence[_Reply]) -> TableWriter:
        """Return the writer that the tasks had: the table may have changed since."""
        planned = next((reply.planned for reply in replies if reply.planned is not None), None)
        # Our own workers sent it.
        found: TableWriter = self._writer if planned is None else _PlanReader(planned, self._opener).load()
        return found

    def _opener(self) -> StoreSpec:
        """Return what opens the stores of the table: a sink that has travelled has its plan, and no options."""
        return self._writer.place[0] if self._store is None else self._store()


def _replies(messages: Iterable[WriterCommitMessage | None]) -> list[_Reply]:
    return [message for message in messages if isinstance(message, _Reply)]


def stream_sink(
    settings: type[WriteOptions], options: Mapping[str, str], schema: StructType, *, overwrite: bool, commits: bool
) -> StreamSink:
    """Return the sink of a query.

    Parameters
    ----------
    settings
        The options of writes that the format has.
    options
        The options of the caller.
    overwrite
        Whether each batch replaces all rows.
    commits
        Whether the sink commits a batch, and does not write it. It goes by the plan of the tasks, so that it needs none
        of its own, which a table could refuse that was changed or lost since; only a batch without tasks has no plan.

    Raises
    ------
    InvalidArgumentError
        An option is not valid.
    """
    own = {name.lower(): text for name, text in options.items()}
    if _VERSION in own:
        raise InvalidArgumentError(
            "the option txnVersion is for single writes: a stream records the numbers of its batches",
            hint="leave it out; txnAppId alone names the stream in place of its query",
        )
    of_query = {_CHECKPOINT, _NAME, _APPLICATION, *(name.lower() for name in _DEFAULTS)}
    written = settings({name: text for name, text in options.items() if name.lower() not in of_query})
    columns = rows_schema(schema)

    def plan() -> TableWriter:
        return TableWriter(written.stage(columns, overwrite=overwrite), tuple(columns.names))

    @cache
    def store() -> StoreSpec:
        try:
            return written.store()
        except TableNotFoundError:
            # A catalog that lends keys does so also for the table that the first batch will create.
            return plan().place[0]

    compaction = (_number(own, _EVERY), _number(own, _SECONDS))
    sink = StreamSink(plan, store, schema, own.get(_APPLICATION), own.get(_CHECKPOINT), compaction)
    if not commits:
        _ = sink._writer  # noqa: SLF001 - Spark shows an error here as it is, and not where it pickles the sink
    return sink


def _number(options: Mapping[str, str], name: str) -> int:
    text = options.get(name.lower(), str(_DEFAULTS[name]))
    number = whole_number(text.strip(), 1)
    if number is None or number >= 1 << 31:
        raise InvalidArgumentError(f"the option {name} must be a positive number, not {shown_value(text)}")
    return number


def batches_of_rows(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of the rows that PySpark 4.0 hands over."""
    from pyspark.sql.conversion import LocalDataToArrowConversion

    while part := list(itertools.islice(rows, _ROWS)):
        yield from LocalDataToArrowConversion.convert(part, schema, False).to_batches()
