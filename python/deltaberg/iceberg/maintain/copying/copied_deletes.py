"""Position delete files and deletion vectors that name the data files of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.files.read.deletes import stored_positions
from deltaberg.files.read.task import DeleteFile
from deltaberg.iceberg.deletes.puffin import Blob, PuffinFile
from deltaberg.iceberg.deletes.write_positions import POSITION_DELETES_SCHEMA
from deltaberg.iceberg.deletes.write_puffin import DATA_FILE, copy_puffin
from deltaberg.iceberg.maintain.copying.path_prefix import PathPrefix
from deltaberg.iceberg.maintain.copying.staging import Staging
from deltaberg.iceberg.rows.file_options import file_options
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import arrow_schema, as_array
from deltaberg.table.rows.row_options import RowOptions
from deltaberg.table.write.spec import WriteSpec
from deltaberg.table.write.write import write_files

__all__ = ["CopiedDeletes", "copy_deletes"]

_ROWS = 131_072
#: The copy of a file is one file, however large.
_NO_LIMIT = 1 << 50


class CopiedDeletes(NamedTuple):
    """The copy of a delete file: its size, and for position deletes their number, and the ends of the paths in it."""

    size: int
    records: int | None = None
    first: str | None = None
    last: str | None = None


def copy_deletes(source: IcebergSource, staging: Staging, path: str, form: str) -> CopiedDeletes | None:
    """Stage a position delete file, or a file of deletion vectors, that names the copies of data files.

    Positions have the order of the file. The deprecated copies of deleted rows in it are left out, and so are rows
    that delete nothing.

    Parameters
    ----------
    source
        The table.
    path, form
        The recorded path and the format of the file.

    Returns
    -------
    CopiedDeletes or None
        None for a file that names no data file, which is copied as it is.

    Raises
    ------
    InvalidArgumentError
        It names a data file elsewhere than below the prefix.
    DataFileNotFoundError, CorruptTableError
        It is gone, or damaged.
    StorageError
        A store failed.
    """
    location = source.resolver.resolve(path)
    store, place = staging.output_of(path)
    if form == "puffin":
        puffin = PuffinFile(location, source.store)
        return CopiedDeletes(copy_puffin(puffin, [_moved(blob, staging.prefix) for blob in puffin.blobs], store, place))
    found = stored_positions(DeleteFile(str(location), form, 0, None), source.store)
    if not len(found):
        return None
    stored = as_array(found.column("file_path"))
    paths, positions = staging.prefix.moved_paths(stored.dictionary), as_array(found.column("pos"))
    folder, _, name = place.rpartition("/")
    spec = WriteSpec(
        POSITION_DELETES_SCHEMA,
        parquet=file_options(source.metadata, form, RowOptions()),
        format=form,
        target_size=_NO_LIMIT,
        required=True,
        place=lambda _values, _number: name,
    )
    schema = arrow_schema(POSITION_DELETES_SCHEMA)
    reader = pa.RecordBatchReader.from_batches(schema, _batches(stored.indices, paths, positions, schema))
    (size,) = write_files(reader, spec, store, folder).column("size").to_pylist()
    ends = pc.min_max(paths)
    return CopiedDeletes(size, len(positions), ends["min"].as_py(), ends["max"].as_py())


def _batches(
    codes: pa.Array, paths: pa.StringArray, positions: pa.Int64Array, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(codes), _ROWS):
        columns = [paths.take(codes.slice(start, _ROWS)), positions.slice(start, _ROWS)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _moved(blob: Blob, prefix: PathPrefix) -> Blob:
    """Return the entry of a blob; one of a deletion vector names the copy of its data file."""
    if DATA_FILE not in blob.properties:
        return blob
    return replace(blob, properties={**blob.properties, DATA_FILE: prefix.moved(blob.properties[DATA_FILE])})
