"""What runs inside Spark's Python workers: tasks arrive as rows, rows of the table leave as Arrow batches.

Everything here is found by import on the worker; what travels is a `ReadSpec`, once, and packed tasks.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyspark

from deltaberg.errors import InvalidArgumentError
from deltaberg.files import ReadSpec, pack_tasks, read_task, task_schema, tasks_of, unpack_tasks
from deltaberg.schema import Struct, arrow_schema
from deltaberg.spark.types import fitted, for_spark
from deltaberg.table import Scan

__all__ = [
    "MARK_COLUMN",
    "NUMBER_COLUMN",
    "SLOT_COLUMN",
    "TASK_COLUMN",
    "BatchFunction",
    "FusedTask",
    "PlanTask",
    "ReadTask",
    "mark_rows",
    "read_packed",
    "to_spark",
]

#: The column of the key by which Spark partitions tasks.
SLOT_COLUMN = "slot"
#: The column of packed tasks.
TASK_COLUMN = "task"
#: The column of the numbers of tasks that travel with the function.
NUMBER_COLUMN = "number"
#: The column that `mark_rows` yields, of booleans.
MARK_COLUMN = "row"

#: How far from each other the groups of neighbouring pieces begin to be dealt out.
_STRIDE = 7919

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def read_packed(spec: ReadSpec, packed: bytes, limit: int | None) -> Iterator[pa.RecordBatch]:
    """Read the tasks of one packed group, at most ``limit`` rows of them together."""
    tasks = unpack_tasks(packed, task_schema(arrow_schema(spec.constants)))
    for task in tasks_of(tasks):
        for batch in read_task(spec, task):
            if limit is None:
                yield batch
                continue
            yield batch.slice(0, limit)
            limit -= min(limit, batch.num_rows)
            if limit == 0:
                return


@dataclass(frozen=True)
class PlanTask:
    """Plans parts of a scan for `mapInArrow`: pieces of metadata come in, packed groups of tasks go out.

    ``slots`` are the keys that Spark's partitioning sends to a partition each.
    """

    scan: Scan
    slots: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Plan the pieces in batches of packed ones."""
        for batch in batches:
            for number, packed in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                groups = self.scan.of_pieces(pa.ipc.open_stream(packed).read_all()).spark_tasks(1)
                for place, group in enumerate(groups, start=number * _STRIDE):
                    slot = self.slots[place % len(self.slots)]
                    yield pa.record_batch(
                        {SLOT_COLUMN: pa.array([slot], pa.int32()), TASK_COLUMN: pa.array([pack_tasks(group)])}
                    )


@dataclass(frozen=True)
class ReadTask:
    """Reads tasks for `mapInArrow`: the rows go on to the JVM.

    The tasks come as rows, or are ``carried`` and the rows hold their numbers.
    """

    spec: ReadSpec
    limit: int | None = None
    carried: tuple[bytes, ...] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks, for Spark."""
        for batch in self.rows(batches):
            yield to_spark(batch, self.spec.output)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """Read the tasks that batches hold or name."""
        _forget_archives_of_spark()
        for batch in batches:
            for packed in self._packed(batch):
                yield from read_packed(self.spec, packed, self.limit)

    def _packed(self, batch: pa.RecordBatch) -> list[bytes]:
        if self.carried is None:
            found: list[bytes] = batch.column(TASK_COLUMN).to_pylist()
            return found
        return [self.carried[number] for number in batch.column(NUMBER_COLUMN).to_pylist()]


@dataclass(frozen=True)
class FusedTask:
    """Reads tasks and runs a user's function over their rows, in one go.

    ``types`` are the columns to yield, with the Arrow types that Spark expects where we know them.
    """

    read: ReadTask
    function: BatchFunction
    types: Mapping[str, pa.DataType | None]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks and give what the function makes of their rows; without tasks it is not called."""
        tasks = iter(batches)
        first = next(tasks, None)
        if first is None:
            return
        with contextlib.closing(self.read.rows(itertools.chain([first], tasks))) as rows:
            made = self.function(rows)
            if not isinstance(made, Iterable):
                raise InvalidArgumentError(
                    f"the function gave {type(made).__name__}", hint="give an iterator of pyarrow record batches"
                )
            for batch in made:
                if not isinstance(batch, pa.RecordBatch):
                    raise InvalidArgumentError(
                        f"the function yielded {type(batch).__name__}", hint="yield pyarrow record batches"
                    )
                yield self._checked(batch)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Bring a batch to the schema: Spark takes columns by place, and would swap them in silence."""
        found = batch.schema.names
        if sorted(found) != sorted(self.types):
            raise InvalidArgumentError(
                f"the function yielded the columns {', '.join(found)}",
                hint=f"the schema has {', '.join(self.types)}",
            )
        columns = [fitted(batch.column(name), wanted, name) for name, wanted in self.types.items()]
        return _batch(columns, list(self.types), batch)


def _forget_archives_of_spark() -> None:
    """Drop the importers of Spark's own archives, which are made again where they are needed.

    A worker has CPython look again at all importers before each task. For one of an archive, CPython before 3.13 reads
    the archive's whole index: a tenth of a second for the many that import from ``pyspark.zip``, and for the two of the
    jar that Spark puts on the path.
    """
    zipped = "".join((pyspark.__file__ or "").rpartition(".zip")[:2])
    for path, importer in list(sys.path_importer_cache.items()):
        archive = getattr(importer, "archive", "")
        if archive and (archive == zipped or archive.endswith(".jar")):
            del sys.path_importer_cache[path]


def _batch(columns: list[pa.Array], names: list[str], like: pa.RecordBatch) -> pa.RecordBatch:
    # Made of no columns, a batch would have no rows.
    return pa.RecordBatch.from_arrays(columns, names=names) if columns else like


def to_spark(batch: pa.RecordBatch, schema: Struct) -> pa.RecordBatch:
    """Bring a batch of these columns to the layout that Spark takes."""
    columns = [for_spark(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return _batch(columns, batch.schema.names, batch)


def mark_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give a null for each row, for scans that want rows and no column of them."""
    for batch in batches:
        yield pa.record_batch({MARK_COLUMN: pa.nulls(batch.num_rows, pa.bool_())})
