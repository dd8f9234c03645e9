"""Sketches of the values of columns, which tell how many distinct ones there are (Puffin spec, "Blob types")."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import InvalidArgumentError
from deltaberg.files.read.reader import ReadSpec, read_task
from deltaberg.files.read.task import pack_tasks, task_schema, tasks_of, unpack_tasks
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.schema.value_bytes import encode_values, has_value_bytes
from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.columns import ColumnNames, column_names, find_column, join_name
from deltaberg.schema.types import Field
from deltaberg.table.change.changed_rows import RowTasks
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan_options import ScanOptions
from deltaberg.table.read.sharing import estimated_bytes, grouped_tasks
from deltaberg.table.rows.progress import untold

__all__ = ["chosen_columns", "estimate", "sketch_columns"]

#: Bytes of rows that a task reads ahead: several run on a machine.
_READING = 256 << 20
#: How tasks read, of which each reads a group of files.
_TASK_OPTIONS = ScanOptions(threads=1, memory=_READING)
#: Theta of a sketch that holds the hashes of all values.
_EXACT = float(1 << 63)

Path = tuple[Field, ...]


def chosen_columns(source: IcebergSource, columns: ColumnNames | None) -> dict[int, Path]:
    """Return the columns that sketches are made of, by their ids: the fields that lead to each.

    Parameters
    ----------
    source
        The snapshot.
    columns
        Their names; None for all columns outside of structs whose values have a single-value form.

    Raises
    ------
    ColumnNotFoundError
        The table has no such column.
    InvalidArgumentError
        Values of a column have no single-value form, or there is no column.
    """
    schema = source.schema
    paths: list[Path] = [(child,) for child in schema if has_value_bytes(child.type)]
    if columns is not None:
        paths = [find_column(schema, name) for name in column_names(columns, ordered=False)]
    if not paths:
        raise InvalidArgumentError("there is no column of which there could be statistics", hint="name one")
    for path in paths:
        if not has_value_bytes(path[-1].type):
            raise InvalidArgumentError(
                f"values of the type {path[-1].type} cannot be counted by a sketch",
                hint="leave the column out, or name a field of it",
                column=join_name([child.name for child in path]),
            )
    return {path[-1].id or 0: path for path in paths}


def sketch_columns(
    source: IcebergSource, paths: Mapping[int, Path], tasks: RowTasks | None, told: Callable[[int], object] = untold
) -> dict[int, bytes]:
    """Return the sketch of each column, by its id.

    On this machine, one sketch sees all rows in the order of their files. Each task makes a sketch of its own rows, and
    the sketches are united here. As in Java's library, which iceberg-spark unites them by, a united sketch that
    estimates keeps fewer hashes than one that has seen all rows.

    Parameters
    ----------
    source
        The snapshot.
    paths
        The columns.
    tasks
        What reads large tables; None for this machine.
    told
        What is told how many rows were read: by this process as it reads them, and by tasks when they end.
    """
    columns = [tuple(child.name for child in path) for path in paths.values()]
    bound = BoundScan.of(source, columns=columns)
    if tasks is not None:
        divided = BoundScan.of(source, columns=columns, options=_TASK_OPTIONS)
        groups = grouped_tasks(divided, 1)
        if tasks.takes(source.table, estimated_bytes(divided, groups)):
            work = _SketchTask(divided.read_spec, list(paths.values()))
            parts = tasks.run(work, [pack_tasks(group) for group in groups])
            told(pc.sum(divided.plan.row_counts()).as_py() or 0)
            united = [kernels.unite_sketches(list(found)) for found in zip(*parts, strict=True)]
            return dict(zip(paths, united, strict=True))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in bound.batches():
            yield batch
            told(batch.num_rows)

    return dict(zip(paths, _sketches(batches(), list(paths.values())), strict=True))


def estimate(sketch: bytes) -> int:
    """Return how many distinct values a sketch has seen, approximately (``ndv``).

    Examples
    --------
    >>> estimate(kernels.update_sketch(b"", pa.array(["a", "b", "a"])))
    2
    """
    longs, flags = sketch[0], sketch[5]
    if longs == 1:
        return int(not flags & 0b100)
    (count,) = struct.unpack_from("<I", sketch, 8)
    theta = struct.unpack_from("<Q", sketch, 16)[0] if longs > 2 else _EXACT
    return int(count * (_EXACT / theta))


@dataclass(frozen=True)
class _SketchTask:
    """Reads the rows of a packed group of tasks, and returns their sketches."""

    spec: ReadSpec
    paths: Sequence[Path]

    def __call__(self, packed: bytes) -> list[bytes]:
        tasks = unpack_tasks(packed, task_schema(arrow_schema(self.spec.constants)))
        rows = (batch for task in tasks_of(tasks) for batch in read_task(self.spec, task))
        return _sketches(rows, self.paths)


def _sketches(batches: Iterable[pa.RecordBatch], paths: Sequence[Path]) -> list[bytes]:
    sketches = [kernels.unite_sketches([])] * len(paths)
    for batch in batches:
        for place, (top, *inner) in enumerate(paths):
            values = batch.column(top.name)
            for child in inner:
                values = pc.struct_field(values, [values.type.get_field_index(child.name)])
            kind = inner[-1].type if inner else top.type
            sketches[place] = kernels.update_sketch(sketches[place], encode_values(values, kind))
    return sketches
