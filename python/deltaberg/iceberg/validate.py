"""Checking a snapshot's metadata for every violation of the specification that a reader can see (``validate=True``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import CorruptTableError, DataFileNotFoundError, SpecViolationError, UnsupportedFeatureError
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.read.deletes import count_nameless
from deltaberg.files.read.task import DeleteFile
from deltaberg.iceberg.deletes.puffin import PuffinFile
from deltaberg.iceberg.manifests.fields import ADDED, DELETED, EXISTING, POSITION_DELETES, ManifestPart
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.versions import highest_field_id, layout_sources
from deltaberg.iceberg.partition.structs import field_by_id
from deltaberg.iceberg.scan.source import IcebergSource
from deltaberg.iceberg.schema.evolution import forbidden_changes

__all__ = ["count_violations", "metadata_violations", "validate_table", "vector_violations"]

_MOST_SHOWN = 20
_COUNTS = {"added": ADDED, "existing": EXISTING, "deleted": DELETED}
#: The type of blobs that are deletion vectors.
_VECTOR = "deletion-vector-v1"


def validate_table(source: IcebergSource) -> None:
    """Check the metadata of a table, and the manifests of a snapshot.

    Raises
    ------
    SpecViolationError
        If there is any violation; ``context["violations"]`` lists all of them.
    """
    found = [*metadata_violations(source.metadata), *_manifest_violations(source)]
    if found:
        shown = "; ".join(found[:_MOST_SHOWN]) + ("; ..." if len(found) > _MOST_SHOWN else "")
        error = SpecViolationError(f"{len(found)} violations of the Iceberg specification: {shown}", table=source.table)
        error.context["violations"] = found
        raise error


def metadata_violations(metadata: TableMetadata) -> Iterator[str]:
    """Yield what the metadata of a table says that it may not say."""
    highest = max(highest_field_id(schema.struct) for schema in metadata.schemas.values())
    last = metadata.raw.get("last-column-id")
    if isinstance(last, int) and last < highest:
        yield f"last-column-id is {last}, but a column has the id {highest}"
    history = [metadata.schemas[number] for number in sorted(metadata.schemas)]
    yield from forbidden_changes(history, metadata.format_version)
    order = metadata.sort_orders.get(metadata.default_sort_order_id)
    for what, number in layout_sources(metadata.specs[metadata.default_spec_id], order):
        if field_by_id([metadata.current_schema.struct], number) is None:
            yield f"{what} of new files is made from the column {number}, which the current schema does not have"
    sequence = max((snapshot.sequence_number for snapshot in metadata.snapshots.values()), default=0)
    if metadata.last_sequence_number < sequence:
        yield f"last-sequence-number is {metadata.last_sequence_number}, but a snapshot has {sequence}"
    for name, ref in metadata.refs.items():
        if ref.snapshot_id not in metadata.snapshots:
            yield f"the reference {name} names the snapshot {ref.snapshot_id}, which the table does not have"
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    if times != sorted(times):
        yield "the times in snapshot-log are not in ascending order"
    if metadata.snapshot_log and metadata.snapshot_log[-1].snapshot_id != metadata.current_snapshot_id:
        yield "the last entry of snapshot-log is not the current snapshot"


def _manifest_violations(source: IcebergSource) -> Iterator[str]:
    part = ManifestPart(rest=("referenced_data_file", "content_offset", "content_size_in_bytes"), deleted=True)
    live, vectors, positions = [], [], []
    for row in source.manifests.to_pylist():
        (entries,) = source.reader.read([row], part)
        table = entries.table
        location = source.resolver.resolve(row["manifest_path"])
        size = source.store.open(location).head(location.path).size
        if row["manifest_length"] != size:
            yield f"manifest_length of {row['manifest_path']} is {row['manifest_length']}, but it has {size} bytes"
        yield from count_violations(row, table)
        kept = table.filter(pc.not_equal(table.column("status"), DELETED))
        if row["content"] == 0:
            live.append(kept.column("file_path"))
        else:
            by_position = kept.filter(pc.equal(kept.column("content"), POSITION_DELETES)).to_pylist()
            vectors += [entry for entry in by_position if entry["file_format"] == "puffin"]
            positions += [entry for entry in by_position if entry["file_format"] != "puffin"]
    paths = pa.chunked_array([chunk for column in live for chunk in column.chunks], pa.string())
    counted = pc.value_counts(paths)
    for twice in counted.filter(pc.greater(pc.struct_field(counted, "counts"), 1)).to_pylist():
        yield f"the data file {twice['values']} is live {twice['counts']} times"
    files = source.select_files(TRUE).files
    if pc.any(pc.less_equal(files.column("size"), 0), min_count=0).as_py():
        yield "a data file has no bytes"
    yield from _vectors_violations(vectors, source)
    for entry in positions:
        place = str(source.resolver.resolve(entry["file_path"]))
        file = DeleteFile(place, entry["file_format"], entry["file_size_in_bytes"], None)
        nameless = count_nameless(file, source.store)
        if nameless:
            yield f"{nameless} rows of the position delete file {entry['file_path']} have no path or no position"


def _vectors_violations(entries: list[dict[str, Any]], source: IcebergSource) -> Iterator[str]:
    """Compare what manifests say of deletion vectors with the footers of their Puffin files, and with the vectors."""
    puffins: dict[str, PuffinFile] = {}
    for entry in entries:
        path = entry["file_path"]
        try:
            if path not in puffins:
                location = source.resolver.resolve(path)
                puffins[path] = PuffinFile(location, source.store, entry["file_size_in_bytes"])
            yield from vector_violations(entry, puffins[path])
        except (CorruptTableError, DataFileNotFoundError, UnsupportedFeatureError) as error:
            yield f"{path}: {error.message}"


def vector_violations(entry: Mapping[str, Any], puffin: PuffinFile) -> Iterator[str]:
    """Yield the points on which an entry and the file of its deletion vector disagree."""
    place = f"offset {entry['content_offset']} of {entry['file_path']}"
    blob = next((found for found in puffin.blobs if found.offset == entry["content_offset"]), None)
    if blob is None or blob.type != _VECTOR or blob.compression_codec is not None:
        yield f"the footer lists no {_VECTOR} at {place}, or a compressed one"
        return
    if blob.length != entry["content_size_in_bytes"]:
        yield f"the deletion vector at {place} has {blob.length} bytes, but its manifest says otherwise"
    if blob.snapshot_id != -1 or blob.sequence_number != -1:
        yield f"the deletion vector at {place} has a snapshot id or a sequence number other than -1"
    _, rows = kernels.unframe_bitmap(puffin.read(blob), "puffin")
    told = {
        "referenced-data-file": entry["referenced_data_file"],
        "cardinality": str(entry["record_count"]),
    }
    for name, value in told.items():
        if blob.properties.get(name) != value:
            yield f"{name} of the blob at {place} is {blob.properties.get(name)}, but its manifest says {value}"
    if rows != entry["record_count"]:
        yield f"the deletion vector at {place} holds {rows} rows, but its manifest says {entry['record_count']}"


def count_violations(manifest: Mapping[str, Any], entries: pa.Table) -> Iterator[str]:
    """Yield the counts on which a manifest list and the entries of a manifest disagree."""
    for kind, status in _COUNTS.items():
        mine = entries.filter(pc.equal(entries.column("status"), status))
        counted = {"files": len(mine), "rows": pc.sum(mine.column("record_count")).as_py() or 0}
        for what, found in counted.items():
            told = manifest[name := f"{kind}_{what}_count"]
            if told is not None and told != found:
                yield f"{name} of {manifest['manifest_path']} is {told}, but the manifest has {found}"
