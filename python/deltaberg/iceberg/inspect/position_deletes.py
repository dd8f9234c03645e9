"""The metadata table of deletes by position: a row for each deleted row that a delete file or a vector names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.files.read.deletes import stored_deletes
from deltaberg.files.read.task import BitmapRef, DeleteFile
from deltaberg.iceberg.deletes.delete_files import bitmap_sizes
from deltaberg.iceberg.deletes.index import vector_files
from deltaberg.iceberg.inspect.files import partition_columns
from deltaberg.iceberg.manifests.fields import POSITION_DELETES, ManifestPart
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.metadata.versions import VECTORS_SINCE
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import arrow_type, as_array
from deltaberg.schema.types import Struct
from deltaberg.table.change.positions import positions_of

__all__ = ["position_deletes_table"]

#: Values that are the same for all rows of a delete file are held for so many rows or bytes, whichever are fewer.
_BLOCK_ROWS, _BLOCK_BYTES = 1 << 20, 16 << 20
_SIZE = "content_size_in_bytes"
_PART = ManifestPart(rest=("referenced_data_file", _SIZE))


def position_deletes_table(source: IcebergSource) -> pa.Table:
    """Return what live position delete files and deletion vectors delete.

    Raises
    ------
    DataFileNotFoundError, CorruptDataFileError, CorruptDeletionVectorError
        A delete file is gone, or damaged.
    CorruptMetadataError
        A deletion vector does not name its data file.
    TooLargeError
        A delete file has more rows than are held at once.
    """
    none = source.reader.no_entries(source.metadata.default_spec_id, _PART)
    deletes = [part for found in (none, *source.deletes.entries) for part in _of_entries(source, found)]
    return pa.concat_tables(deletes)


def _of_entries(source: IcebergSource, entries: Entries) -> Iterator[pa.Table]:
    """Yield a table for each delete file, after one without rows."""
    shared = partition_columns(entries, source)
    kept = arrow_type(source.schema)
    empty = {"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64()), "row": pa.array([], kept)}
    yield _columns(source, empty, shared, {})
    table = entries.table.append_column("bitmap_size", bitmap_sizes(as_array(entries.table.column(_SIZE))))
    vector_files(table.filter(pc.equal(table.column("file_format"), "puffin")))
    for number, entry in enumerate(table.drop_columns(["partition"]).to_pylist()):
        if entry["content"] != POSITION_DELETES:
            continue
        place = str(source.resolver.resolve(entry["file_path"]))
        if entry["file_format"] == "puffin":
            ref = BitmapRef(place, entry["content_offset"], entry["bitmap_size"], "puffin", None, entry["record_count"])
            positions = positions_of(load_bitmap(ref, source.store, check_cardinality=True), file=place)
            path = pa.array([entry["referenced_data_file"]], pa.string())
            columns = {
                "file_path": _repeated(path, len(positions)),
                "pos": positions.cast(pa.int64()),
                "row": _repeated(pa.nulls(1, kept), len(positions)),
            }
        else:
            file = DeleteFile(place, entry["file_format"], entry["file_size_in_bytes"], None)
            stored = stored_deletes(file, source.store, Struct(tuple(source.schema)))
            columns = {name: stored.column(name) for name in stored.column_names}
        yield _columns(source, columns, {name: values.take([number]) for name, values in shared.items()}, entry)


def _columns(
    source: IcebergSource, columns: dict[str, Any], shared: dict[str, pa.Array], entry: dict[str, Any]
) -> pa.Table:
    """Return the columns of a delete file with those that are the same for all of its rows."""
    rows = len(columns["pos"])
    constants: dict[str, pa.Array] = {name: shared[name] for name in ("partition", "spec_id") if name in shared}
    constants["delete_file_path"] = pa.array([entry.get("file_path")], pa.string())
    if source.metadata.format_version >= VECTORS_SINCE:
        constants |= {name: pa.array([entry.get(name)], pa.int64()) for name in ("content_offset", _SIZE)}
    return pa.table(columns | {name: _repeated(value, rows) for name, value in constants.items()})


def _repeated(value: pa.Array, rows: int) -> pa.ChunkedArray:
    """Return the only value of an array for each of some rows.

    All chunks are slices of one block, so that a long string neither takes much memory nor overflows a chunk.
    """
    size = max(min(rows, _BLOCK_ROWS, _BLOCK_BYTES // max(value.nbytes, 1)), 1)
    block = value.take(pa.repeat(0, min(rows, size)))
    return pa.chunked_array([block.slice(0, rows - start) for start in range(0, rows, size)], value.type)
