"""Readers of streams: they plan batches in one process of the driver, and read in the workers of executors.

A worker imports this module alone. What opens and plans a table stays out of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.hints import shown_value
from deltaberg.spark.read.read_tasks import (
    NUMBER_COLUMN,
    BatchFunction,
    FusedTask,
    ReadTask,
    batch_for_spark,
    read_packed,
)
from deltaberg.spark.source.raised import briefly, briefly_yielded

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from deltaberg.files.read.reader import ReadSpec
    from deltaberg.spark.source.streaming.stream_settings import StreamSettings
    from deltaberg.table.streaming.limits import Limits
    from deltaberg.table.streaming.table_stream import TableStream

try:
    # Spark 4.2 and newer lets a source know its position.
    limits_of_spark: Any = import_module("pyspark.sql.streaming.datasource")
    _Bounded: Any = limits_of_spark.SupportsTriggerAvailableNow
except ModuleNotFoundError:
    limits_of_spark, _Bounded = None, object

__all__ = ["FusedStreamReader", "StreamReader"]

#: Spark does not tell a Data Source how many tasks it can run.
_PARALLELISM = 8


class StreamPartition(InputPartition):
    """What one Spark task of a batch reads: packed file tasks, and the pickled specification of the read."""

    def __init__(self, packed: bytes, spec: bytes) -> None:
        super().__init__((packed, spec))


# Before Spark 4.2 there is no such class, so that type checkers do not know the base.
class StreamReader(DataSourceStreamReader, _Bounded):  # type: ignore[misc]
    """Plans the batches of a stream.

    Spark keeps one of them for each run of a query. Before Spark 4.2 it does not say where a batch begins; the first
    batch that it asks for after a restart, and what was planned since, tell that.
    """

    def __init__(self, settings: StreamSettings, schema: StructType | None) -> None:
        self._settings: StreamSettings | None = settings
        #: The columns of the query; None where they are not those of the table.
        self._schema = schema
        self._opened: TableStream[Any] | None = None
        self._initial: Any = None
        self._position: Any = None
        self._target: Any = None
        self._has_planned = False

    def __getstate__(self) -> dict[str, Any]:
        # What reads needs nothing but the partition.
        return dict.fromkeys(self.__dict__)

    @property
    def _stream(self) -> TableStream[Any]:
        if self._opened is None:
            from deltaberg.spark.types import spark_schema

            assert self._settings is not None  # noqa: S101 - only the driver plans
            stream = self._settings.stream()
            found = spark_schema(self._settings.bound(stream.source).output)
            if self._schema is not None and found.simpleString() != self._schema.simpleString():
                raise SchemaError(
                    f"the columns of the table are {found.simpleString():.2000}, and those of the query "
                    f"{self._schema.simpleString():.2000}",
                    hint="start the query again; it takes its columns from the table, and a schema must not be given",
                    table=stream.source.table,
                )
            self._opened = stream
        return self._opened

    @briefly
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark calls it so
        """Return the offset before all that the stream reads."""
        return self._stream.record(self._begin())

    def _begin(self) -> Any:
        if self._initial is None:
            self._initial = self._stream.initial()
        return self._initial

    @briefly
    def latestOffset(  # noqa: N802 - PySpark calls it so
        self, start: Mapping[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """Return the offset at which the next batch ends.

        Parameters
        ----------
        start
            Where it begins; Spark says so since 4.2.
        limit
            The limit of the batch, since 4.2.
        """
        stream = self._stream
        is_first, self._has_planned = not self._has_planned and self._position is None, True
        at = (self._position or self._begin()) if start is None else self._read(start)
        if is_first and stream.begins_empty and at == self._begin():
            return stream.record(at)
        end = stream.latest(at, self._limits(limit), self._target)
        return stream.record(end)

    def _read(self, recorded: object) -> Any:
        """Return the position of an offset of a checkpoint, which may be that of another source."""
        if not isinstance(recorded, Mapping):
            raise InvalidArgumentError(
                f"{shown_value(recorded)} is no offset of a stream of a table",
                hint="the checkpoint is that of another query: choose a new one",
                table=self._stream.source.table,
            )
        return self._stream.read_position(recorded)

    def _limits(self, limit: object) -> Limits:
        from deltaberg.table.streaming.limits import ALL

        assert self._settings is not None  # noqa: S101 - only the driver plans
        if type(limit).__name__ == "ReadAllAvailable":
            return ALL
        return self._settings.limits(is_known=limits_of_spark is not None)

    @briefly
    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - PySpark calls it so
        """Return one of the limits of the options: Spark has no limit of several kinds, so that all are kept here."""
        assert self._settings is not None  # noqa: S101 - only the driver plans
        limits = self._settings.limits(is_known=True)
        if limits.files is not None:
            return limits_of_spark.ReadMaxFiles(limits.files)
        if limits.bytes is not None:
            return limits_of_spark.ReadMaxBytes(limits.bytes)
        if limits.rows is not None:
            return limits_of_spark.ReadMaxRows(limits.rows)
        return limits_of_spark.ReadAllAvailable()

    @briefly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - PySpark calls it so
        """Remember to end the query where the table ends now."""
        self._target = self._stream.newest()

    @briefly
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Plan the rows between two offsets."""
        from deltaberg.files.read.task import pack_tasks
        from deltaberg.table.read.sharing import grouped_tasks

        assert self._settings is not None  # noqa: S101 - only the driver plans
        stream = self._stream
        first, last = self._read(start), self._read(end)
        if not self._has_planned and first == self._initial and first != last:
            # The first batch of a query that was stopped in it: Spark logs ends of batches only.
            first = stream.first_before(last)
        self._position = last
        if first == last:
            return []
        bound = self._settings.bound(stream.batch(first, last))
        spec = pickle.dumps(replace(bound.read_spec, may_lose=self._settings.may_lose))
        return [StreamPartition(pack_tasks(group), spec) for group in grouped_tasks(bound, _PARALLELISM)]

    @briefly_yielded
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition."""
        packed, pickled = partition.value
        yield from self._rows(pickle.loads(pickled), packed)  # noqa: S301 - from the same query

    def _rows(self, spec: ReadSpec, packed: bytes) -> Iterator[pa.RecordBatch]:
        """Return what the query gets of packed file tasks."""
        for batch in read_packed(spec, packed, None):
            yield batch_for_spark(batch, spec.output)


class FusedStreamReader(StreamReader):
    """Runs a function of the user in the tasks that read, over their rows.

    Parameters
    ----------
    settings
        The options of the stream.
    function
        The function.
    types
        The columns that it yields; see `FusedTask`.
    """

    def __init__(
        self, settings: StreamSettings, function: BatchFunction, types: Mapping[str, pa.DataType | None]
    ) -> None:
        super().__init__(settings, None)
        self._fused = (function, types)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_fused": self._fused}

    def _rows(self, spec: ReadSpec, packed: bytes) -> Iterator[pa.RecordBatch]:
        task = FusedTask(ReadTask(spec, carried=(packed,)), *self._fused)
        return task([pa.record_batch({NUMBER_COLUMN: pa.array([0])})])
