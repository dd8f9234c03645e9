"""The rows of a Spark DataFrame, written by Spark: the *native*, the *arrow* and the *fused* road.

*Native*: Spark's own Parquet writer writes them where that is exact; see `native_rows`.

*Arrow*: rows leave the JVM in `mapInArrow`, which writes them. *Fused*: the rows of a frame that `Scan.map_in_arrow`
returned are written in the very task that reads the files and runs the function, so that no row enters the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame

from deltaberg.errors import InvalidArgumentError
from deltaberg.schema.from_arrow import table_schema
from deltaberg.spark.jobs import run_job
from deltaberg.spark.read.fused_frames import FusedFrame, fused_frame
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import rows_schema
from deltaberg.spark.write.distribution import balanced, distributed, distribution_terms
from deltaberg.spark.write.native_rows import NativeWrite, why_not_native
from deltaberg.spark.write.staging import STAGED_SCHEMA, StageTask, staged_rows
from deltaberg.spark.write.write_tasks import REPLY_SCHEMA, FusedWriteTask, WriteTask, collected_files
from deltaberg.storage.location import Location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.maintain.bins.stage import Stage
from deltaberg.table.write.sources import WriteRoad
from deltaberg.table.write.spec import WriteSpec

__all__ = ["FrameRows"]


class FrameRows:
    """The rows of a Spark DataFrame.

    Raises
    ------
    InvalidArgumentError
        If the frame is a stream, whose rows have no end.
    UnsupportedFeatureError
        If a column has a type that cannot be written.
    """

    def __init__(self, frame: DataFrame) -> None:
        if frame.isStreaming:
            raise InvalidArgumentError(
                "the rows of a streaming DataFrame have no end, so that no commit can hold them",
                hint='write its batches: frame.writeStream.format("delta" or "iceberg").start(path), or '
                'frame.writeStream.foreachBatch(lambda rows, number: table.append(rows, txn="auto"))',
            )
        self._frame = frame
        self._facts = SessionFacts.of(frame.sparkSession)
        self._schema = rows_schema(frame.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, of which all may be null."""
        return self._schema

    def road(self, spec: WriteSpec, root: Location) -> WriteRoad:
        """Return ``native``, ``fused`` or ``arrow``."""
        if self._fused(spec) is not None:
            return WriteRoad("fused")
        why = why_not_native(self._frame, self._schema, spec, root, self._facts)
        return WriteRoad("native") if why is None else WriteRoad("arrow", why)

    def write(self, spec: WriteSpec, store: StoreSpec, root: Location) -> pa.Table:
        """Write the rows in Spark's tasks, and return a row for each file.

        By the other roads than the native one, rows are brought together first, as the table asks for it: by
        partition, or by ranges of partitions and of the order of rows. Otherwise, each task of the frame writes its own
        files, unless the table asks for few tasks.

        Raises
        ------
        InvalidArgumentError
            The table is in memory, where executors cannot write to it.
        SchemaError
            The rows do not fit the columns of the table.
        StorageError
            The store fails. Files of tasks that had succeeded may be left behind; no version names them.
        """
        _check_reachable(root)
        # What does not fit at all is known before Spark starts.
        spec.conformer(self._schema)
        task = WriteTask(spec, store, root, tuple(self._schema.names))
        terms = distribution_terms(spec, self._schema.names)
        frame = self._plain()
        if spec.balanced and not terms:
            frame = balanced(frame, self._facts)
        if self.road(spec, root).name == "native":
            return NativeWrite(frame, self._schema, spec).write(store, root)
        fused = self._fused(spec)
        if fused is None:
            if terms:
                frame = distributed(frame, self._schema.names, terms, spec, self._facts)
            replies = frame.mapInArrow(task, REPLY_SCHEMA)
        else:
            replies = fused.tasks.mapInArrow(FusedWriteTask(fused.function, task), REPLY_SCHEMA)
        found = [(row["files"], row["error"]) for row in run_job(self._facts, replies.collect)]
        return pa.concat_tables([spec.no_files(), *collected_files(found, store, root)])

    @contextmanager
    def staged(self, columns: AbstractSet[str], store: StoreSpec, root: Location) -> Iterator[pa.RecordBatchReader]:
        """Have Spark's tasks compute the rows once, and read them on the driver, one batch at a time.

        The rows are stored in the directory of the table, and deleted at the end of the block. Columns that are not
        needed are left out, so that Spark need not compute them.

        Raises
        ------
        InvalidArgumentError
            The table is in memory, where executors cannot write to it.
        StorageError
            The store fails.
        """
        _check_reachable(root)
        fused = fused_frame(self._frame)
        # Rows are counted by their columns, so that there is one at least.
        wanted = {name.lower() for name in columns} or {self._schema.names[0].lower()}
        kept = [number for number, name in enumerate(self._schema.names) if fused is not None or name.lower() in wanted]
        kept_columns = pa.schema([self._schema.field(number) for number in kept])
        stage = Stage.of(store, root)
        task = StageTask(stage, table_schema(kept_columns))
        try:
            if fused is None:
                frame = self._plain()
                replies = frame.select(*(frame.columns[number] for number in kept)).mapInArrow(task, STAGED_SCHEMA)
            else:
                replies = fused.tasks.mapInArrow(FusedWriteTask(fused.function, task), STAGED_SCHEMA)
            yield staged_rows(task, [(row["name"], row["error"]) for row in run_job(self._facts, replies.collect)])
        finally:
            stage.clear()

    def _fused(self, spec: WriteSpec) -> FusedFrame | None:
        """Return how the frame was made, unless its rows must come to other tasks first."""
        stays = not spec.balanced and not distribution_terms(spec, self._schema.names)
        return fused_frame(self._frame) if stays else None

    def _plain(self) -> DataFrame:
        """Rename the columns to names of our own, since `mapInArrow` fails at names with dots and backticks."""
        return self._frame.toDF(*(f"c{number}" for number in range(len(self._schema.names))))


def _check_reachable(root: Location) -> None:
    if root.scheme == "memory":
        raise InvalidArgumentError(
            "a table in memory exists only in this process",
            hint="create the table where the executors can write to it",
            table=str(root),
        )
