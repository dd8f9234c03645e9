"""Writing position delete files (Iceberg spec, "Position Delete Files")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.files.read.deletes import POSITION_DELETE_COLUMNS
from deltaberg.files.write.write_parquet import ParquetOptions
from deltaberg.schema.arrow import arrow_schema, as_array
from deltaberg.schema.types import Field, Primitive, Struct
from deltaberg.storage.base import Storage
from deltaberg.table.write.spec import PartitionField, WriteSpec
from deltaberg.table.write.write import write_files

__all__ = ["POSITION_DELETES_SCHEMA", "DeletedRows", "write_position_deletes"]

#: The columns of position delete files.
POSITION_DELETES_SCHEMA = Struct(POSITION_DELETE_COLUMNS)
_PATH = POSITION_DELETE_COLUMNS[0].name
_GROUP = Field("group", Primitive("integer"))
_BATCH = 131_072


@dataclass(frozen=True)
class DeletedRows:
    """Rows of a data file that are deleted.

    Parameters
    ----------
    path
        The path of the data file, byte for byte as its manifest has it.
    group
        What files are divided by: rows of several groups are never in one delete file.
    positions
        Returns the physical positions of the rows, ascending. It is called when they are written.
    """

    path: str
    group: int
    positions: Callable[[], pa.UInt64Array]


def write_position_deletes(
    rows: Sequence[DeletedRows],
    store: Storage,
    root: str,
    place: Callable[[int, int], str],
    *,
    form: str,
    options: ParquetOptions,
    target_size: int,
    memory: int,
) -> tuple[pa.Table, list[int]]:
    """Write position delete files, and return a row for each, as `write_files` does, and the group of each.

    Rows are sorted by the path of the data file, and then by position.

    Parameters
    ----------
    rows
        The deleted rows of each data file.
    store, root
        Where the paths of files lead to.
    place
        Makes the path of a file from its group and its number in the write.
    form, options, target_size, memory
        The format of the files, how they are written, the bytes that one has approximately, and those of rows that wait
        to be written.

    Raises
    ------
    StorageError
        If the store fails.
    """
    order = sorted(rows, key=lambda found: (found.group, found.path.encode()))
    groups = _Groups(pa.array([found.path for found in order]), pa.array([found.group for found in order], pa.int32()))
    spec = WriteSpec(
        POSITION_DELETES_SCHEMA,
        (PartitionField(_GROUP, (_PATH,), groups),),
        parquet=options,
        format=form,
        target_size=target_size,
        memory=memory,
        stores_partition_columns=True,
        required=True,
        footers=True,
        place=lambda values, number: place(values[0].as_py(), number),
    )
    schema = arrow_schema(POSITION_DELETES_SCHEMA)
    reader = pa.RecordBatchReader.from_batches(schema, _batches(order, schema))
    files = write_files(reader, spec, store, root)
    return files, pc.struct_field(as_array(files.column("partition")), 0).to_pylist()


@dataclass(frozen=True)
class _Groups:
    """Makes the group of rows from the path of their data file."""

    paths: pa.StringArray
    groups: pa.Int32Array

    def __call__(self, paths: pa.Array) -> pa.Array:
        return self.groups.take(pc.index_in(paths, value_set=self.paths))


def _batches(rows: Iterable[DeletedRows], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for found in rows:
        positions = found.positions().cast(pa.int64())
        for start in range(0, len(positions), _BATCH):
            part = positions.slice(start, _BATCH)
            yield pa.RecordBatch.from_arrays([pa.repeat(found.path, len(part)), part], schema=schema)
