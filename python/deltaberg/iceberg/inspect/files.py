"""Metadata tables of files and of the entries of manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.inspect.readable import readable_metrics
from deltaberg.iceberg.manifests.fields import DATA, METRICS, POSITION_DELETES, WHOLE_ENTRIES, ManifestPart
from deltaberg.iceberg.manifests.reader import Entries
from deltaberg.iceberg.partition.structs import union_values
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.schema.arrow import as_array, count_up, with_columns

__all__ = ["entries_of", "entries_table", "files_table", "partition_columns"]

_FILE_PART = replace(WHOLE_ENTRIES, deleted=False, as_stored=False)
_ENTRY_COLUMNS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
_READABLE = "readable_metrics"


def entries_of(
    source: IcebergSource, contents: Iterable[int], part: ManifestPart, *, of_all: bool = False
) -> list[Entries]:
    """Return the entries of the given contents, grouped by spec; may include others. Without any, there is a group.

    Parameters
    ----------
    of_all
        Whether they are those of all snapshots that the table has, and not of one.
    """
    wanted = pa.array(sorted({0 if content == DATA else 1 for content in contents}), pa.int32())
    manifests = _all_manifests(source) if of_all else source.manifests
    chosen = manifests.filter(pc.is_in(manifests.column("content"), value_set=wanted))
    found = source.reader.read(chosen.to_pylist(), part)
    return found or [source.reader.no_entries(source.metadata.default_spec_id, part)]


def _all_manifests(source: IcebergSource) -> pa.Table:
    """Return the manifests of all snapshots, each once, and as the newest list has it, which may know row ids."""
    snapshots = sorted(source.metadata.snapshots.values(), key=lambda one: (one.sequence_number, one.timestamp_ms))
    # Without snapshots there is nothing to list, but its columns.
    lists = [source.at(one).manifests for one in reversed(snapshots)] or [source.at(None).manifests]
    manifests = pa.concat_tables(lists).combine_chunks()
    paths = as_array(manifests.column("manifest_path"))
    found = manifests.take(pc.index_in(paths.unique(), value_set=paths))
    return with_columns(found, number=count_up(0, len(found)).cast(pa.int32()))


def files_table(contents: Sequence[int], *, of_all: bool = False) -> Callable[[IcebergSource], pa.Table]:
    """Return a function that makes the table of live files of some contents.

    Of all snapshots, a file has a row for each manifest that it is in.
    """

    def make(source: IcebergSource) -> pa.Table:
        parts = [_file_rows(found, source) for found in entries_of(source, contents, _FILE_PART, of_all=of_all)]
        table = pa.concat_tables([part.drop_columns(list(_ENTRY_COLUMNS)) for part in parts])
        return table.filter(pc.is_in(table.column("content"), value_set=pa.array(contents, pa.int32())))

    return make


def _file_rows(entries: Entries, source: IcebergSource) -> pa.Table:
    """Return entries with the partition struct of all specs, the id of their spec, and readable metrics."""
    table = entries.table
    columns = {name: table.column(name) for name in (*_ENTRY_COLUMNS, "content", "file_path")}
    columns["file_format"] = pc.utf8_upper(table.column("file_format"))
    columns |= partition_columns(entries, source)
    rest = ("record_count", "file_size_in_bytes", *METRICS, *_FILE_PART.rest)
    columns |= {name: table.column(name) for name in rest}
    columns[_READABLE] = readable_metrics(table, source.schema)
    return pa.table(columns)


def partition_columns(entries: Entries, source: IcebergSource) -> dict[str, pa.Array]:
    """Return the spec of entries, and their partition values in the struct of all specs, unless none has any."""
    own = as_array(entries.table.column("partition"))
    columns = {"spec_id": pa.repeat(pa.scalar(entries.spec.spec_id, pa.int32()), len(own))}
    if len(source.partition):
        columns["partition"] = union_values(own, entries.partition, source.partition)
    return columns


def entries_table(source: IcebergSource, *, of_all: bool = False) -> pa.Table:
    """Return the entries of all manifests, those of removed files among them."""
    part = replace(_FILE_PART, deleted=True)
    found = entries_of(source, (DATA, POSITION_DELETES), part, of_all=of_all)
    table = pa.concat_tables([_file_rows(entries, source) for entries in found]).combine_chunks()
    names = [name for name in table.column_names if name not in (*_ENTRY_COLUMNS, _READABLE)]
    arrays = [as_array(table.column(name)) for name in names]
    data_file = pa.StructArray.from_arrays(arrays, fields=[table.schema.field(name) for name in names])
    own = table.select(list(_ENTRY_COLUMNS)).append_column("data_file", data_file)
    return own.append_column(_READABLE, table.column(_READABLE))
