"""The metadata table of deletes by position: a row for each deleted row that a delete file or a vector names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltaberg.files.read.bitmaps import load_bitmap
from deltaberg.files.read.deletes import stored_deletes
from deltaberg.files.read.task import BitmapRef, DeleteFile
from deltaberg.iceberg.inspect.files import partition_columns
from deltaberg.iceberg.manifests.fields import POSITION_DELETES, ManifestPart
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.metadata.versions import VECTORS_SINCE
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.types import Struct
from deltaberg.table.change.positions import positions_of

__all__ = ["position_deletes_table"]

#: The bytes of a blob beside the bitmap and its magic number: a length and a checksum.
_BLOB_FRAME = 8


def position_deletes_table(source: IcebergSource) -> pa.Table:
    """Return what live position delete files and deletion vectors delete.

    Raises
    ------
    DataFileNotFoundError, CorruptDataFileError, CorruptDeletionVectorError
        A delete file is gone, or damaged.
    TooLargeError
        A delete file has more rows than are held at once.
    """
    none = source.reader.no_entries(source.metadata.default_spec_id, ManifestPart())
    deletes = [part for found in (none, *source.deletes.entries) for part in _of_entries(source, found)]
    return pa.concat_tables(deletes)


def _of_entries(source: IcebergSource, entries: Entries) -> Iterator[pa.Table]:
    """Yield a table for each delete file, after one without rows."""
    shared = partition_columns(entries, source)
    kept = arrow_type(source.schema)
    empty = {"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64()), "row": pa.array([], kept)}
    yield _columns(source, empty, shared, [], {})
    for number, entry in enumerate(entries.table.drop_columns(["partition"]).to_pylist()):
        if entry["content"] != POSITION_DELETES:
            continue
        place = str(source.resolver.resolve(entry["file_path"]))
        if entry["file_format"] == "puffin":
            size = entry["content_size_in_bytes"] - _BLOB_FRAME
            ref = BitmapRef(place, entry["content_offset"], size, "puffin", None, entry["record_count"])
            positions = positions_of(load_bitmap(ref, source.store, check_cardinality=True), file=place).cast(
                pa.int64()
            )
            rows = len(positions)
            paths = pa.repeat(pa.scalar(entry["referenced_data_file"], pa.string()), rows)
            columns = {"file_path": paths, "pos": positions, "row": pa.nulls(rows, kept)}
        else:
            file = DeleteFile(place, entry["file_format"], entry["file_size_in_bytes"], None)
            stored = stored_deletes(file, source.store, Struct(tuple(source.schema)))
            rows = len(stored)
            columns = {name: stored.column(name) for name in stored.column_names}
        yield _columns(source, columns, shared, [number] * rows, entry)


def _columns(
    source: IcebergSource, columns: dict[str, Any], shared: dict[str, pa.Array], rows: list[int], entry: dict[str, Any]
) -> pa.Table:
    """Return the columns of a delete file with those that are the same for all of its rows."""
    of_file = pa.array(rows, pa.int64())
    for name in ("partition", "spec_id"):
        if name in shared:
            columns[name] = shared[name].take(of_file)
    constants = {"delete_file_path": (entry.get("file_path"), pa.string())}
    if source.metadata.format_version >= VECTORS_SINCE:
        constants |= {name: (entry.get(name), pa.int64()) for name in ("content_offset", "content_size_in_bytes")}
    columns |= {name: pa.repeat(pa.scalar(value, kind), len(rows)) for name, (value, kind) in constants.items()}
    return pa.table(columns)
